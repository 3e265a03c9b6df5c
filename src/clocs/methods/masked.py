"""Base class of masked models, and the small transformer that predicts the masked part."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders.patch_transformer import MAX_WAVELENGTH, Block
from clocs.methods.method import Batch, Method

MLP_RATIO = 4
"""Width of the hidden layer of a block, as a multiple of the block's width."""


class MaskedMethod(Method):
    """Base class of methods that encode some patches of a frame and predict others from them.

    A subclass draws positions of patches in ``draw_masks``: ``keep`` (B, K), those that the encoder computes, and the
    positions to predict. All sizes follow from the number of tokens, so batches of all ranks can be joined.

    Only tokens are trained. The layers that only the encoder's ``forward`` uses are frozen. Build the encoder without
    them (``PatchTransformer(head="none")``), so that an embedding is the mean of the trained tokens.

    Args:
        encoder: The encoder of patches to train.
        augmentations: Applied to each frame.

    Example:
        >>> import torch
        >>> from clocs.encoders import PatchTransformer
        >>> class FirstHalf(MaskedMethod):
        ...     def draw_masks(self, views, generator):
        ...         num_tokens = self.encoder.num_tokens(views.shape[-1])
        ...         return {"keep": torch.arange(num_tokens // 2).expand(len(views), -1)}
        ...
        ...     def forward(self, batch):
        ...         return self.context(batch)
        ...
        ...     def loss(self, outputs, batch):
        ...         return outputs.square().mean()
        >>> method = FirstHalf(PatchTransformer(embedding_dim=96, head="none"))
        >>> views = method.views(torch.randn(4, 1, 1, 500), torch.Generator())
        >>> method({"views": views, **method.draw_masks(views, torch.Generator())}).shape
        torch.Size([4, 10, 96])
    """

    needs_tokens: ClassVar[bool] = True
    needs_patches: ClassVar[bool] = True

    @property
    def is_stochastic(self) -> bool:
        """Return True, because masks are random."""
        return True

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Augment frames.

        Args:
            signals: Frames (B, 1, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, 1, C, S).
        """
        return self.augment(signals, generator)

    def context(self, batch: Batch) -> Tensor:
        """Encode the visible patches.

        Args:
            batch: The batch, see :data:`clocs.methods.Batch`.

        Returns:
            Tokens (B, K, D) of the patches at ``batch["keep"]``.
        """
        return self.encoder.tokens(*frames(batch), batch["keep"])

    @property
    def token_dim(self) -> int:
        """Return the dimension D of the encoder's tokens."""
        assert self.encoder.token_dim is not None
        return self.encoder.token_dim


def frames(batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Return the single view of each instance (B, C, S) and its lead mask (B, C), or None."""
    return batch["views"][:, 0], batch["lead_mask"][:, 0] if "lead_mask" in batch else None


def gather_tokens(tokens: Tensor, positions: Tensor) -> Tensor:
    """Return the tokens at some positions: (N, T, D) and (N, Q) -> (N, Q, D)."""
    return tokens.gather(1, positions.unsqueeze(2).expand(-1, -1, tokens.shape[2]))


def sinusoids(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Return sines and cosines of positions (Vaswani et al., 2017): (N, Q) -> (N, Q, width).

    Element 2 i of position t is sin(t / 10000^(2 i / width)), element 2 i + 1 the cosine.
    """
    power = torch.arange(0, width, 2, dtype=dtype, device=positions.device) / width
    angle = positions.to(dtype).unsqueeze(2) * torch.exp(-math.log(MAX_WAVELENGTH) * power)
    return torch.stack([angle.sin(), angle.cos()], dim=3).flatten(2)


class TokenPredictor(nn.Module):
    """A small transformer that predicts vectors at some positions from tokens at others.

    Tokens are projected to ``width``. Each position to predict is the same learned vector, the mask token. Positions
    are added to both, and the blocks attend over all of them. It is the decoder of He et al. (2022) and the predictor
    of Assran et al. (2023). The last layer starts with small weights, so the first predictions are near zero.

    Args:
        in_dim: Dimension D of a token.
        out_dim: Dimension O of a prediction.
        width: Dimension of the blocks; even, and divisible by ``num_heads``.
        depth: Number of blocks.
        num_heads: Heads of the attention.

    Raises:
        ConfigError: ``width`` is odd or not divisible by ``num_heads``.

    Example:
        >>> import torch
        >>> predictor = TokenPredictor(in_dim=96, out_dim=300, width=64, depth=1, num_heads=4)
        >>> keep, masked = torch.tensor([[0, 3, 4]]), torch.tensor([[1, 2]])
        >>> predictor(torch.randn(1, 3, 96), keep, masked).shape
        torch.Size([1, 2, 300])
    """

    def __init__(self, in_dim: int, out_dim: int, width: int, depth: int, num_heads: int) -> None:
        if width % 2 or width % num_heads:
            raise ConfigError(f"A width of {width} must be even and divisible by num_heads={num_heads}")
        super().__init__()
        self.width = width
        self.embed_tokens = nn.Linear(in_dim, width)
        self.mask_token = nn.Parameter(torch.zeros(width))
        nn.init.trunc_normal_(self.mask_token, std=0.02)
        blocks = (Block(width, num_heads, MLP_RATIO * width, dropout=0.0) for _ in range(depth))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, out_dim)
        nn.init.trunc_normal_(self.linear.weight, std=0.02)
        nn.init.zeros_(self.linear.bias)

    def forward(self, tokens: Tensor, keep: Tensor, masked: Tensor) -> Tensor:
        """Predict one vector for each masked position.

        Args:
            tokens: Visible tokens (N, K, D).
            keep: Their positions (N, K), int64.
            masked: Positions to predict (N, Q), int64.

        Returns:
            Predictions (N, Q, O).
        """
        dtype = torch.promote_types(tokens.dtype, torch.float32)
        visible = self.embed_tokens(tokens) + sinusoids(keep, self.width, dtype)
        hidden = self.mask_token + sinusoids(masked, self.width, dtype)
        outputs: Tensor = self.blocks(torch.cat([visible, hidden], dim=1))
        predictions: Tensor = self.linear(self.norm(outputs[:, keep.shape[1] :]))
        return predictions
