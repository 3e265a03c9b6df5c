"""JEPA: predict the tokens that a moving average of the encoder computes for hidden blocks of a frame."""

from __future__ import annotations

import copy
from typing import Annotated, Literal, Self

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import layer_norm, mse_loss, smooth_l1_loss

from clocs.core.errors import ConfigError
from clocs.encoders import Encoder
from clocs.losses.full_precision import full_precision
from clocs.methods.masked import MaskedMethod, TokenPredictor, frames, gather_tokens
from clocs.methods.method import METHODS, Augmentations, Batch, Outputs

Decay = Annotated[float, Field(ge=0, le=1)]
Fraction = Annotated[float, Field(gt=0, lt=1)]


@METHODS.register("jepa")
class JEPA(MaskedMethod):
    """Joint-embedding predictive architecture (I-JEPA, Assran et al., 2023), over patches of time.

    The target encoder, a moving average of the encoder, computes the tokens of the whole frame. Blocks of adjacent
    tokens are the targets. The encoder computes the context, tokens outside all targets, and a narrow transformer
    predicts each target block from the context and the block's positions. No samples are reconstructed.

    Two choices differ from the paper's images. Target blocks do not overlap, and their length is fixed, so the
    context of every frame has the same size. The context is a window over the tokens outside the targets.

    Args:
        encoder: An encoder of patches, such as ``PatchTransformer(head="none")``.
        augmentations: Applied to each frame.
        num_targets: Number M of target blocks; 4 in the paper.
        target_length: Length of a target block, as a fraction of the frame's tokens; 0.15 to 0.2 in the paper.
        context_ratio: Fraction of the tokens outside the targets that the context keeps. In the paper, the context
            is drawn as 0.85 to 1 of the image, without the part that the targets cover.
        predictor_width: Dimension of the predictor's blocks.
        predictor_depth: Number of the predictor's blocks.
        num_heads: Heads of the predictor's attention.
        decay: Decay of the moving average at the first step; 0.996 in the paper.
        final_decay: Decay from step ``decay_steps`` on; it rises linearly until then.
        decay_steps: Steps over which the decay rises. In the paper these are all steps of the training.
        normalize_targets: Whether each target token has mean 0 and variance 1. The paper does not mention it.
        distance: ``squared``, the paper's squared distance; ``smooth_l1`` is less sensitive to outliers.
        saved_encoder: Encoder that a run saves: ``target``, the moving average, as the paper evaluates it, or
            ``online``, the one that is trained.

    Raises:
        ConfigError: The encoder has no patches, the targets leave no context, or ``predictor_width`` is not
            divisible by ``num_heads``.

    Example:
        >>> import torch
        >>> from clocs.encoders import PatchTransformer
        >>> method = JEPA(PatchTransformer(in_channels=12, embedding_dim=96, head="none"))
        >>> draws = torch.Generator().manual_seed(0)
        >>> views = method.views(torch.randn(4, 1, 12, 500), draws)
        >>> batch = {"views": views, **method.draw_masks(views, draws)}
        >>> batch["keep"].shape, batch["blocks"].shape, method(batch)["prediction"].shape
        (torch.Size([4, 7]), torch.Size([4, 4, 3]), torch.Size([4, 4, 3, 96]))
    """

    def __init__(
        self,
        encoder: Encoder,
        augmentations: Augmentations = (),
        num_targets: Annotated[int, Field(gt=0)] = 4,
        target_length: Fraction = 0.15,
        context_ratio: Annotated[float, Field(gt=0, le=1)] = 0.85,
        predictor_width: Annotated[int, Field(gt=0)] = 48,
        predictor_depth: Annotated[int, Field(gt=0)] = 2,
        num_heads: Annotated[int, Field(gt=0)] = 4,
        decay: Decay = 0.996,
        final_decay: Decay = 1.0,
        decay_steps: Annotated[int, Field(gt=0)] = 10_000,
        normalize_targets: bool = True,
        distance: Literal["squared", "smooth_l1"] = "squared",
        saved_encoder: Literal["target", "online"] = "target",
    ) -> None:
        super().__init__(encoder, augmentations)
        if num_targets * target_length >= 1:
            raise ConfigError(f"{num_targets} targets of length {target_length} leave no context. Lower one of them.")
        self.num_targets, self.target_length, self.context_ratio = num_targets, target_length, context_ratio
        self.predictor_width, self.predictor_depth, self.num_heads = predictor_width, predictor_depth, num_heads
        self.decay, self.final_decay, self.decay_steps = decay, final_decay, decay_steps
        self.normalize_targets, self.distance, self.saved_encoder = normalize_targets, distance, saved_encoder
        self.predictor = TokenPredictor(self.token_dim, self.token_dim, predictor_width, predictor_depth, num_heads)
        self.target = copy.deepcopy(encoder).requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Self:
        """Set the mode of all modules but the target encoder, which stays in eval mode.

        Args:
            mode: Whether to train.

        Returns:
            This method.
        """
        super().train(mode)
        self.target.eval()
        return self

    def draw_masks(self, views: Tensor, generator: torch.Generator) -> Batch:
        """Draw the context and the target blocks.

        Every arrangement of M blocks that do not overlap is equally likely, and so is every window of the context.

        Args:
            views: Views (B, V, C, S).
            generator: Source of all randomness.

        Returns:
            ``keep`` (B, K), positions of the context, and ``blocks`` (B, M, L), positions of the target blocks.

        Raises:
            ConfigError: The targets leave no context in a frame of so few patches.
        """
        size, count = len(views), self.encoder.num_tokens(views.shape[-1])
        length = max(round(self.target_length * count), 1)
        free = count - self.num_targets * length
        if free < 1:
            raise ConfigError(
                f"{self.num_targets} targets of {length} patches leave no context in a frame of {count}. Use smaller "
                "patches, or lower num_targets or target_length."
            )
        # With each block as one slot, M of free + M slots are blocks. Each block is L - 1 tokens longer than its slot.
        slots = torch.rand((size, free + self.num_targets), generator=generator).argsort(dim=1, stable=True)
        starts = slots[:, : self.num_targets].sort(dim=1).values + (length - 1) * torch.arange(self.num_targets)
        blocks = starts.unsqueeze(2) + torch.arange(length)
        outside = torch.ones(size, count, dtype=torch.bool).scatter_(1, blocks.flatten(1), False)
        others = outside.nonzero()[:, 1].view(size, free)
        kept = max(round(self.context_ratio * free), 1)
        begin = (torch.rand((size, 1), generator=generator) * (free - kept + 1)).long().clamp_max(free - kept)
        return {"keep": others.gather(1, begin + torch.arange(kept)), "blocks": blocks}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the predicted and the actual tokens of the target blocks.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            ``prediction`` and ``target``, each (B, M, L, D).
        """
        blocks = batch["blocks"]
        with torch.no_grad():
            tokens = full_precision(self.target.tokens(*frames(batch)))
            if self.normalize_targets:
                tokens = layer_norm(tokens, tokens.shape[-1:])
            targets = gather_tokens(tokens, blocks.flatten(1))
        num_blocks = blocks.shape[1]
        context = self.context(batch).repeat_interleave(num_blocks, 0)
        keep = batch["keep"].repeat_interleave(num_blocks, 0)
        prediction = self.predictor(context, keep, blocks.flatten(0, 1))
        size = (*blocks.shape, self.token_dim)
        return {"prediction": prediction.reshape(size), "target": targets.reshape(size)}

    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the mean distance over frames, target blocks, tokens and dimensions.

        Args:
            outputs: Outputs of :meth:`forward`.
            batch: The batch.

        Returns:
            A scalar.
        """
        assert isinstance(outputs, dict)
        distance = mse_loss if self.distance == "squared" else smooth_l1_loss
        return distance(full_precision(outputs["prediction"]), outputs["target"])

    def decay_at(self, step: int) -> float:
        """Return the decay of the moving average at a step.

        Args:
            step: Number of steps done before this one.

        Returns:
            The decay.
        """
        return self.decay + (self.final_decay - self.decay) * min(step / self.decay_steps, 1.0)

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Move the target encoder towards the encoder, and copy its buffers.

        Args:
            step: Number of steps done before this one.
        """
        for average, current in zip(self.target.parameters(), self.encoder.parameters(), strict=True):
            average.lerp_(current, 1 - self.decay_at(step))
        for buffer, latest in zip(self.target.buffers(), self.encoder.buffers(), strict=True):
            buffer.copy_(latest)

    def trained_encoder(self) -> Encoder:
        """Return the encoder that ``saved_encoder`` selects."""
        return self.target if self.saved_encoder == "target" else self.encoder
