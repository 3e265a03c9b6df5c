"""Small vision transformer over patches of time. It can leave patches out, as masked models need."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from clocs.core.errors import ConfigError
from clocs.encoders.encoder import ENCODERS, Encoder
from clocs.signals.framing import TYPICAL_STD

Positive = Annotated[int, Field(gt=0)]
MAX_WAVELENGTH = 10_000
"""Longest wavelength of the positions, in patches and divided by 2 pi."""
INITIAL_GAIN = 3
"""Factor by which queries and keys start with larger weights than PyTorch's linear layer."""


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return softmax(Q K' / sqrt(d)) V for every head.

    With bfloat16 on a CPU, the gradient of torch's fused attention takes several times as long as that of the three
    single steps, so these are used for training.

    Args:
        query: Queries (N, heads, T, d).
        key: Keys, likewise.
        value: Values, likewise.
    """
    if query.requires_grad and query.dtype == torch.bfloat16 and query.device.type == "cpu":
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        attended: Tensor = scores.softmax(-1) @ value
        return attended
    return scaled_dot_product_attention(query, key, value)


class Attention(nn.Module):
    """Self-attention with several heads: softmax(Q K' / sqrt(d)) V of each, joined by a linear layer.

    Queries and keys start with the same weights, so a token first attends to tokens like itself, such as those nearby
    in time. With independent weights attention starts almost uniform, and a masked model predicts the mean for hundreds
    of steps.
    """

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        with torch.no_grad():
            query, key, _ = self.query_key_value.weight.chunk(3)
            key.copy_(query.mul_(INITIAL_GAIN))

    def forward(self, tokens: Tensor) -> Tensor:
        """Apply the layer: (N, T, D) -> (N, T, D)."""
        parts = self.query_key_value(tokens).unflatten(2, (3, self.num_heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (N, heads, T, D / heads)
        attended = attend(query, key, value)
        joined: Tensor = self.joined(attended.transpose(1, 2).flatten(2))
        return joined


class Block(nn.Module):
    """LayerNorm and attention, then LayerNorm and a network of two layers; each is added to its input."""

    def __init__(self, width: int, num_heads: int, mlp_width: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm, self.attention = nn.LayerNorm(width), Attention(width, num_heads)
        self.mlp_norm = nn.LayerNorm(width)
        self.first, self.second = nn.Linear(width, mlp_width), nn.Linear(mlp_width, width)
        self.gelu, self.dropout = nn.GELU(), nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Apply the layer: (N, T, D) -> (N, T, D)."""
        tokens = tokens + self.dropout(self.attention(self.attention_norm(tokens)))
        hidden = self.dropout(self.gelu(self.first(self.mlp_norm(tokens))))
        result: Tensor = tokens + self.dropout(self.second(hidden))
        return result


@ENCODERS.register("patch_transformer")
class PatchTransformer(Encoder):
    """A pre-norm vision transformer over patches of time (Dosovitskiy et al., 2021), for any number of leads.

    A patch holds ``patch_size`` samples of all leads, and a linear layer makes one token of it. Samples after the last
    whole patch are left out. Positions are sines and cosines (Vaswani et al., 2017) and not learned, so that one
    network takes frames of any length. There is no class token: the embedding is a linear function of the mean of all
    tokens after the last LayerNorm, or that mean itself. With all defaults there are 462,464 parameters.

    The first layer starts with weights that make patches of an ordinary ECG in millivolt, whose leads have a standard
    deviation of 0.15 mV, as large as the positions. With PyTorch's weights, positions would be eight times as large,
    and masked models would learn to predict positions rather than signals.

    A token is a sum over leads, so an absent lead, which is zero, adds nothing to it. As in all encoders, a zero lead
    has the same effect with and without a mask.

    Args:
        in_channels: Number of leads C.
        embedding_dim: Dimension E of an embedding.
        patch_size: Samples of a patch; 25 are 50 ms at 500 Hz and 250 ms at 100 Hz.
        width: Dimension D of a token; even, and divisible by ``num_heads``.
        depth: Number of blocks.
        num_heads: Heads of the attention.
        mlp_ratio: Width of the hidden layer of a block, as a multiple of ``width``.
        dropout: Probability with which an element is dropped, after the positions are added and after every linear
            layer of a block except those of queries, keys and values.
        head: ``linear``: the embedding is a linear function of the mean of all tokens. ``none``: it is the mean, and
            ``embedding_dim`` is ``width``; for methods that train tokens only, such as masked models.

    Raises:
        ConfigError: ``width`` is odd or not divisible by ``num_heads``; or it is not ``embedding_dim``, without a head.

    Example:
        >>> import torch
        >>> encoder = PatchTransformer(in_channels=12, embedding_dim=256)
        >>> signals = torch.randn(2, 12, 500)
        >>> encoder(signals).shape
        torch.Size([2, 256])
        >>> encoder.tokens(signals).shape
        torch.Size([2, 20, 96])
        >>> encoder.tokens(signals, keep=torch.tensor([[0, 3, 7], [2, 5, 19]])).shape
        torch.Size([2, 3, 96])
    """

    token_dim: int
    patch_size: int

    def __init__(
        self,
        in_channels: Positive = 1,
        embedding_dim: Positive = 128,
        patch_size: Positive = 25,
        width: Positive = 96,
        depth: Positive = 4,
        num_heads: Positive = 4,
        mlp_ratio: Annotated[float, Field(ge=1)] = 4.0,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        head: Literal["linear", "none"] = "linear",
    ) -> None:
        if head == "none" and embedding_dim != width:
            raise ConfigError(f"embedding_dim={embedding_dim}: without a head it is the width of a token, {width}")
        if width % 2 or width % num_heads:
            raise ConfigError(f"width={width}: must be even and divisible by num_heads={num_heads}")
        super().__init__(in_channels, embedding_dim)
        self.patch_size, self.token_dim, self.num_features = patch_size, width, depth * width
        self.embed_patches = nn.Linear(in_channels * patch_size, width)
        nn.init.normal_(self.embed_patches.weight, std=1 / (float(TYPICAL_STD) * math.sqrt(in_channels * patch_size)))
        self.dropout = nn.Dropout(dropout)
        mlp_width = round(width * mlp_ratio)
        self.blocks = nn.ModuleList(Block(width, num_heads, mlp_width, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.linear: nn.Module = nn.Linear(width, embedding_dim) if head == "linear" else nn.Identity()

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Embeddings (N, E).
        """
        embeddings: Tensor = self.linear(self.tokens(signals, lead_mask).mean(1))
        return embeddings

    def tokens(self, signals: Tensor, lead_mask: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """Return one vector per patch, after the last LayerNorm.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.
            keep: Patches to encode (N, K), int64, in the order of the result; None for all. The others are left out
                before the first block, so nothing of them reaches the result.

        Returns:
            Tokens (N, T, D), or (N, K, D) with ``keep``.

        Raises:
            ConfigError: The frames or ``keep`` have the wrong shape.
        """
        *_, last = self._outputs(signals, lead_mask, keep)
        return last

    def features(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the mean over tokens of every block, the last after the last LayerNorm.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Features (N, P).
        """
        return torch.cat([tokens.mean(1) for tokens in self._outputs(signals, lead_mask, None)], dim=1)

    def embed_features(self, features: Tensor) -> Tensor:
        """Return the embeddings of frames from their features.

        Args:
            features: Features (N, P).

        Returns:
            Embeddings (N, E).
        """
        embeddings: Tensor = self.linear(features[:, -self.norm.normalized_shape[0] :])
        return embeddings

    def num_tokens(self, num_samples: int) -> int:
        """Return the number of whole patches.

        Args:
            num_samples: Samples S of a frame.

        Returns:
            Number T of tokens.

        Raises:
            ConfigError: The frame is too short.
        """
        count = num_samples // self.patch_size
        if count < 1:
            raise ConfigError(f"Frames of {num_samples} samples are shorter than a patch of {self.patch_size}")
        return count

    def patches(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Cut frames into patches.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are. Absent leads are zero.

        Returns:
            Patches (N, T, C * patch_size), lead after lead. Samples after the last whole patch are left out.
        """
        count = self.num_tokens(signals.shape[-1])
        whole = self.masked(signals, lead_mask)[:, :, : count * self.patch_size]
        return whole.reshape(-1, self.in_channels, count, self.patch_size).transpose(1, 2).flatten(2)

    def positions(self, num_tokens: int) -> Tensor:
        """Return the position vectors that are added to the patches. A decoder can use the same.

        Element 2 i of position t is sin(t / 10000^(2 i / D)), element 2 i + 1 the cosine.

        Args:
            num_tokens: Number T of patches.

        Returns:
            Positions (T, D), in the dtype and on the device of the weights.
        """
        weight = self.norm.weight
        dtype = torch.promote_types(weight.dtype, torch.float32)
        even = torch.arange(0, self.token_dim, 2, dtype=dtype, device=weight.device)
        order = torch.arange(num_tokens, dtype=dtype, device=weight.device)
        angle = order.unsqueeze(1) * torch.exp(-math.log(MAX_WAVELENGTH) / self.token_dim * even)
        return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1).to(weight.dtype)

    def remove_head(self) -> None:
        """Remove the linear layer."""
        self.linear = nn.Identity()

    def _outputs(self, signals: Tensor, lead_mask: Tensor | None, keep: Tensor | None) -> list[Tensor]:
        """Return the tokens after every block, the last after the last LayerNorm."""
        patches = self.patches(signals, lead_mask)
        positions = self.positions(patches.shape[1])
        if keep is not None:
            if keep.ndim != 2 or len(keep) != len(signals):
                raise ConfigError(f"Expected keep of shape ({len(signals)}, K), got {tuple(keep.shape)}")
            patches = patches.gather(1, keep.unsqueeze(2).expand(-1, -1, patches.shape[2]))
            positions = positions[keep]
        tokens = self.dropout(self.embed_patches(patches) + positions)
        outputs = []
        for block in self.blocks:
            tokens = block(tokens)
            outputs.append(tokens)
        return [*outputs[:-1], self.norm(outputs[-1])]
