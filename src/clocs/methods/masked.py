"""Base class of masked models, and the small transformer that predicts what is masked."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders.patch_transformer import LONGEST_WAVE, Block
from clocs.methods.method import Batch, Method

MLP_RATIO = 4
"""Width of the hidden layer of a block, as a multiple of the block's width."""


class MaskedMethod(Method):
    """A method that encodes some patches of a frame and predicts others from them.

    A subclass draws positions of patches in ``draw_masks``: ``keep`` (B, K), those that the encoder computes, and the
    positions to predict. All sizes follow from the number of tokens, so batches of all ranks can be joined.

    Training reaches tokens only. The layers that only the encoder's ``forward`` uses are frozen as they are: build the
    encoder without them (``PatchTransformer(head="none")``), and an embedding is the mean of the trained tokens.

    Args:
        encoder: An encoder of patches, which is trained.
        augmentations: Applied to each frame.
    """

    needs_tokens: ClassVar[bool] = True
    needs_patches: ClassVar[bool] = True

    @property
    def is_stochastic(self) -> bool:
        """Return True: masks are random."""
        return True

    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Return the frames, augmented: (B, 1, C, S)."""
        return self.augment(signals, generator)

    def context(self, batch: Batch) -> Tensor:
        """Encode the patches at ``keep``: (B, K, D)."""
        return self.encoder.tokens(*frames(batch), batch["keep"])

    @property
    def token_dim(self) -> int:
        """Return the dimension D of the encoder's tokens."""
        assert self.encoder.token_dim is not None
        return self.encoder.token_dim


def frames(batch: Batch) -> tuple[Tensor, Tensor | None]:
    """Return the only view of each instance (B, C, S) and its lead mask (B, C), None without one."""
    return batch["views"][:, 0], batch["lead_mask"][:, 0] if "lead_mask" in batch else None


def gather_tokens(tokens: Tensor, positions: Tensor) -> Tensor:
    """Return the tokens at some positions: (N, T, D) and (N, Q) -> (N, Q, D)."""
    return tokens.gather(1, positions.unsqueeze(2).expand(-1, -1, tokens.shape[2]))


def sinusoids(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Return sines and cosines of positions (Vaswani et al., 2017): (N, Q) -> (N, Q, width).

    Element 2 i of position t is sin(t / 10000^(2 i / width)), element 2 i + 1 the cosine.
    """
    power = torch.arange(0, width, 2, dtype=dtype, device=positions.device) / width
    angle = positions.to(dtype).unsqueeze(2) * torch.exp(-math.log(LONGEST_WAVE) * power)
    return torch.stack([angle.sin(), angle.cos()], dim=3).flatten(2)


class TokenPredictor(nn.Module):
    """A small transformer that predicts vectors at some positions from tokens at others.

    Tokens are projected to ``width``. Each position to predict is the same learned vector, the mask token. Positions
    are added to both, and the blocks attend over all of them. It is the decoder of He et al. (2022) and the predictor
    of Assran et al. (2023).

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
        >>> keep, wanted = torch.tensor([[0, 3, 4]]), torch.tensor([[1, 2]])
        >>> predictor(torch.randn(1, 3, 96), keep, wanted).shape
        torch.Size([1, 2, 300])
    """

    def __init__(self, in_dim: int, out_dim: int, width: int, depth: int, num_heads: int) -> None:
        if width % 2 or width % num_heads:
            raise ConfigError(f"a width of {width} must be even and divisible by num_heads={num_heads}")
        super().__init__()
        self.width = width
        self.embed_tokens = nn.Linear(in_dim, width)
        self.mask_token = nn.Parameter(torch.zeros(width))
        nn.init.trunc_normal_(self.mask_token, std=0.02)
        blocks = (Block(width, num_heads, MLP_RATIO * width, dropout=0.0) for _ in range(depth))
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, out_dim)

    def forward(self, tokens: Tensor, keep: Tensor, wanted: Tensor) -> Tensor:
        """Predict one vector for each wanted position.

        Args:
            tokens: Known tokens (N, K, D).
            keep: Their positions (N, K), int64.
            wanted: Positions to predict (N, Q), int64.

        Returns:
            Predictions (N, Q, O).
        """
        dtype = torch.promote_types(tokens.dtype, torch.float32)
        known = self.embed_tokens(tokens) + sinusoids(keep, self.width, dtype)
        masked = self.mask_token + sinusoids(wanted, self.width, dtype)
        hidden: Tensor = self.blocks(torch.cat([known, masked], dim=1))
        predictions: Tensor = self.linear(self.norm(hidden[:, keep.shape[1] :]))
        return predictions
