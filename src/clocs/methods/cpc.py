"""CPC: predict later tokens from earlier ones, and find them among others."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders import Encoder
from clocs.losses import CPCLoss
from clocs.losses.cpc import Negatives
from clocs.methods.method import METHODS, Augmentations, Batch, Method, Outputs

Positive = Annotated[int, Field(gt=0)]


@METHODS.register("cpc")
class CPC(Method):
    """Contrastive predictive coding on tokens (van den Oord, Li and Vinyals, 2018).

    The encoder turns a frame into tokens z_1 ... z_T. A GRU, which looks back only, computes the context
    c_t from the tokens up to t. For each step k a linear layer predicts z_{t+k} as W_k c_t, and the loss finds z_{t+k}
    among other tokens. GRU and linear layers are not saved. Patients are not used.

    Neighboring tokens of a convolutional encoder share samples, which makes near steps easy to predict. With all
    defaults, a token of :class:`clocs.encoders.ResNet` sees 1,065 samples and is 80 samples from the next one, so that
    a tenth is shared at step 12. A token of :class:`clocs.encoders.CNN` sees 388 samples and is 216 from the next one,
    so that only step 1 shares samples. Raise ``first_step`` to leave near steps out. If tokens see the whole frame, as
    in a transformer, they contain the future, and the encoder learns little. Tokens of ``S4D(bidirectional=False)`` see
    the past only.

    The layers of the encoder after its tokens are not trained. Build it without them, as the ready configs do:
    ``ResNet(head="none", embedding_dim=192)`` embeds a frame as mean and maximum of its trained tokens. Otherwise its
    embedding is a fixed random function of them.

    Args:
        encoder: An encoder with tokens.
        augmentations: Applied to each frame.
        steps: Number K of steps that are predicted; 12 in the paper. A frame needs ``first_step + steps`` tokens.
        first_step: Distance of the first predicted token; 1 in the paper.
        context_dim: Dimension of the context; 256 in the paper, for tokens of dimension 512.
        positions: Number of times t of a frame to predict from, drawn at random. None, as in the paper: every t
            with all steps inside the frame. Set it if a frame has hundreds of tokens, because time and memory grow with
            the number of positions.
        negatives: Tokens among which the predicted one must be found, see :class:`clocs.losses.CPCLoss`.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> method = CPC(ResNet(in_channels=12, depth=2, head="none", embedding_dim=96), steps=4)
        >>> views = method.views(torch.randn(8, 1, 12, 500), torch.Generator())
        >>> batch = {"views": views, **method.draw_masks(views, torch.Generator())}
        >>> method(batch)["predictions"].shape
        torch.Size([8, 21, 4, 48])
        >>> method.training_step(batch, 0).shape
        torch.Size([])
    """

    needs_global_batch: ClassVar[bool] = True
    needs_tokens: ClassVar[bool] = True

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        steps: Positive = 12,
        first_step: Positive = 1,
        context_dim: Positive = 128,
        positions: Positive | None = None,
        negatives: Negatives = "all",
    ) -> None:
        super().__init__(encoder, augmentations)
        assert encoder.token_dim is not None
        self.steps, self.first_step, self.context_dim = steps, first_step, context_dim
        self.positions, self.negatives = positions, negatives
        self.context = nn.GRU(encoder.token_dim, context_dim, batch_first=True)
        self.predictors = nn.Linear(context_dim, steps * encoder.token_dim, bias=False)
        self.contrast = CPCLoss(negatives)

    @property
    def is_stochastic(self) -> bool:
        """Return whether views or the times to predict from are random."""
        return bool(self.augmentations) or self.positions is not None

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Augment frames.

        Args:
            signals: Frames (B, 1, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, 1, C, S).
        """
        return self.augment(signals, generator)

    def draw_masks(self, views: Tensor, generator: torch.Generator) -> Batch:
        """Draw the tokens to predict from.

        Args:
            views: Views (B, V, C, S).
            generator: Source of all randomness.

        Returns:
            ``positions`` (B, P), the indices of the tokens.

        Raises:
            ConfigError: Frames have too few tokens.
        """
        tokens = self.encoder.num_tokens(views.shape[-1])
        last = tokens - self.first_step - self.steps + 1
        if last < 1:
            raise ConfigError(
                f"CPC predicts up to {self.first_step + self.steps - 1} tokens ahead, but frames of {views.shape[-1]} "
                f"samples have {tokens} tokens. Lower method.steps or method.first_step, or use an encoder with a "
                "smaller stride or longer frames."
            )
        if self.positions is None:
            return {"positions": torch.arange(last).expand(len(views), -1)}
        drawn = torch.rand((len(views), last), generator=generator)
        return {"positions": drawn.argsort(1)[:, : self.positions]}

    def forward(self, batch: Batch) -> Outputs:
        """Return predictions and tokens.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            ``predictions`` (B, P, K, D), ``tokens`` (B, T, D), and ``targets`` (B, P, K), the indices of the predicted
            tokens.
        """
        lead_mask = batch["lead_mask"][:, 0] if "lead_mask" in batch else None
        tokens = self.encoder.tokens(batch["views"][:, 0], lead_mask)
        contexts, _ = self.context(tokens)
        positions = batch["positions"].unsqueeze(2)
        chosen = contexts.gather(1, positions.expand(-1, -1, self.context_dim))
        predictions = self.predictors(chosen).unflatten(2, (self.steps, -1))
        ahead = torch.arange(self.first_step, self.first_step + self.steps, device=positions.device)
        return {"predictions": predictions, "tokens": tokens, "targets": positions + ahead}

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return InfoNCE, averaged over instances, times and steps.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        assert isinstance(outputs, dict)
        loss: Tensor = self.contrast(outputs["predictions"], outputs["tokens"], outputs["targets"])
        return loss
