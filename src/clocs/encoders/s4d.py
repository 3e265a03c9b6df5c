"""Structured state-space encoder: diagonal state spaces, computed as long convolutions."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

import torch
from pydantic import Field
from scipy.fft import next_fast_len
from torch import Tensor, nn
from torch.nn.functional import conv1d, gelu, glu, pad

from clocs.core.errors import ConfigError
from clocs.encoders.convolution import convolve
from clocs.encoders.encoder import ENCODERS, Encoder
from clocs.encoders.pooling import mean_and_max, refuse_keep

Positive = Annotated[int, Field(gt=0)]
STEP_SIZES = (0.001, 0.1)
"""Smallest and largest initial step size. The memory of a channel is about 2 / step positions."""


class StateSpace(nn.Module):
    """A diagonal state space of each channel: x_t = exp(step A) x_{t-1} + B' u_t, y_t = 2 Re(C x_t) + skip u_t.

    Half of the ``state_dim`` states are computed; the others are their complex conjugates, hence 2 Re. Zero-order hold
    gives B' = (exp(step A) - 1) / A. B itself is 1, since only the product of B and C matters. A starts as
    -1/2 + i pi n (S4D-Lin), and its real part stays negative as -exp(log_decay). In two directions, a second C reads a
    state that runs from the end of the frame to its beginning, and both outputs are added.

    Unrolled, this is a convolution with a kernel as long as the frame. Training applies it by FFT, in O(L log L). In
    eval mode it is a plain convolution of real numbers, which ONNX has.
    """

    prepared: Tensor | None

    def __init__(self, width: int, state_dim: int, bidirectional: bool) -> None:
        super().__init__()
        pairs, directions = state_dim // 2, 2 if bidirectional else 1
        shortest, longest = map(math.log, STEP_SIZES)
        self.log_step = nn.Parameter(torch.rand(width) * (longest - shortest) + shortest)
        self.log_decay = nn.Parameter(torch.full((width, pairs), math.log(0.5)))
        self.frequency = nn.Parameter((math.pi * torch.arange(pairs)).repeat(width, 1))
        self.output = nn.Parameter(torch.randn(2, width, directions, pairs) * math.sqrt(0.5))  # C: real, imaginary
        self.skip = nn.Parameter(torch.randn(width))
        self.register_buffer("prepared", None, persistent=False)
        self.prepared_length = 0

    def kernel(self, length: int) -> Tensor:
        """Return the kernel for frames of L positions, in real arithmetic.

        Returns:
            Weights (H, L) of the positions L - 1, ..., 0 steps ago; (H, 2 L - 1) with those ahead, in two directions.
        """
        step = self.log_step.exp().unsqueeze(1)
        decay, frequency = -self.log_decay.exp(), self.frequency  # A
        real, imaginary = step * decay, step * frequency
        # exp(step A) - 1, without cancellation for small steps
        growth, turn = real.expm1() * imaginary.cos() - 2 * (imaginary / 2).sin().square(), real.exp() * imaginary.sin()
        square = decay.square() + frequency.square()
        input_real = ((growth * decay + turn * frequency) / square).unsqueeze(1)  # B', (H, 1, states)
        input_imaginary = ((turn * decay - growth * frequency) / square).unsqueeze(1)
        c_real, c_imaginary = self.output
        weight_real = c_real * input_real - c_imaginary * input_imaginary  # C B', (H, directions, states)
        weight_imaginary = c_real * input_imaginary + c_imaginary * input_real
        time = torch.arange(length, dtype=step.dtype, device=step.device)
        size, angle = (real.unsqueeze(2) * time).exp(), imaginary.unsqueeze(2) * time  # exp(t step A), (H, states, L)
        powers = torch.cat([size * angle.cos(), size * angle.sin()], dim=1)
        response = 2 * torch.cat([weight_real, -weight_imaginary], dim=2) @ powers  # (H, directions, L)
        now = response[:, :, :1].sum(1) + self.skip.unsqueeze(1)
        return torch.cat([response[:, 0, 1:].flip(1), now, *response[:, 1:, 1:].unbind(1)], dim=1)

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the state space: (N, H, L) -> (N, H, L). Autocast does not change its precision."""
        with torch.autocast(hidden.device.type, enabled=False):
            hidden, length = hidden.to(self.skip.dtype), hidden.shape[2]
            if self.training:
                filtered: Tensor = _ByFFT.apply(hidden, self.kernel(length))  # type: ignore[no-untyped-call]
                return filtered
            prepared = self.prepared if length == self.prepared_length else None
            return _by_convolution(hidden, self.kernel(length) if prepared is None else prepared)

    def prepare(self, length: int) -> None:
        """Store the kernel for frames of L positions until the next training or other weights."""
        self.prepared, self.prepared_length = self.kernel(length).detach(), length

    def train(self, mode: bool = True) -> Self:
        """Set the mode. Training changes the weights, so it discards a stored kernel."""
        if mode:
            self.prepared = None
        return super().train(mode)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.prepared = None
        super()._load_from_state_dict(*args, **kwargs)


class _ByFFT(torch.autograd.Function):
    """Convolution of (N, H, L) with (H, K) by FFT, where K is L or 2 L - 1. Values that wrap around are cut off.

    Torch's gradient of a real FFT is a complex FFT, and it transforms the kernel's gradient frame by frame. Here both
    gradients are correlations by real FFTs, and the kernel's is summed over frames first. A step takes 20 % less time.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, kernel: Tensor) -> Tensor:
        length, taps = hidden.shape[2], kernel.shape[1]
        size = next_fast_len(2 * length - 1, real=True)
        signal, response = torch.fft.rfft(hidden, size), torch.fft.rfft(kernel.flip(1), size)
        ctx.save_for_backward(signal, response)
        ctx.sizes = length, taps, size
        convolved: Tensor = torch.fft.irfft(signal * response, size)
        return convolved[..., taps - length : taps]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        signal, response = ctx.saved_tensors
        length, taps, size = ctx.sizes
        spectrum = torch.fft.rfft(pad(gradient, (taps - length, size - taps)))
        hidden_gradient = torch.fft.irfft(spectrum * response.conj(), size)[..., :length]
        kernel_gradient = torch.fft.irfft((spectrum * signal.conj()).sum(0), size)[..., :taps].flip(1)
        return hidden_gradient, kernel_gradient


def _by_convolution(hidden: Tensor, kernel: Tensor) -> Tensor:
    """Convolve (N, H, L) with (H, K) directly; K is L or 2 L - 1."""
    padded = pad(hidden, (hidden.shape[2] - 1, kernel.shape[1] - hidden.shape[2]))
    return conv1d(padded, kernel.unsqueeze(1), groups=len(kernel))


class Block(nn.Module):
    """LayerNorm, state space, GELU, dropout, a linear layer with GLU, and dropout; added to the input."""

    def __init__(self, width: int, state_dim: int, dropout: float, bidirectional: bool) -> None:
        super().__init__()
        self.norm, self.state_space = nn.LayerNorm(width), StateSpace(width, state_dim, bidirectional)
        self.mix, self.dropout = nn.Linear(width, 2 * width), nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        """Apply the block: (N, L, H) -> (N, L, H)."""
        filtered = gelu(self.state_space(self.norm(hidden).transpose(1, 2)).transpose(1, 2).contiguous())
        result: Tensor = hidden + self.dropout(glu(self.mix(self.dropout(filtered)), dim=2))
        return result


@ENCODERS.register("s4d")
class S4D(Encoder):
    """A diagonal structured state-space network, S4D (Gu, Gupta, Goel, Ré, 2022), after S4 (Gu, Goel, Ré, 2022).

    The layers are a stem, residual blocks, LayerNorm, mean and maximum over time, and a linear layer. Every block sees
    the whole frame: its convolution is as long as the frame and is computed from a few parameters of a linear state
    space. Frames may have any length. Differences from the paper: the stem reduces the sampling rate, and all
    parameters have the same learning rate. With all defaults there are 101,120 parameters.

    In eval mode the convolutions are computed directly rather than by FFT, so that ONNX can hold them. Their time grows
    with the square of the number of positions after the stem; a larger ``stem_stride`` keeps it small.

    Args:
        in_channels: Number of leads C.
        embedding_dim: Dimension E of an embedding.
        width: Channels H of the stem and of all blocks.
        depth: Number of blocks.
        state_dim: States of a channel, even: complex numbers in conjugate pairs.
        stem_kernel_size: Samples of the stem's convolution.
        stem_stride: Stride of the stem; at 500 Hz, 5 makes the blocks run at 100 Hz. Use 1 or 2 for frames of 100 Hz.
        dropout: Probability with which an activation of a block is dropped.
        bidirectional: Whether blocks look at both past and future. Without it they look at the past only, and a token
            depends on samples up to half a stem's kernel ahead, as predictive methods need.

    Example:
        >>> import torch
        >>> encoder = S4D(in_channels=12, embedding_dim=256)
        >>> encoder(torch.randn(2, 12, 500)).shape
        torch.Size([2, 256])
        >>> encoder.tokens(torch.randn(2, 12, 500)).shape
        torch.Size([2, 100, 64])
    """

    def __init__(
        self,
        in_channels: Positive = 1,
        embedding_dim: Positive = 128,
        width: Positive = 64,
        depth: Positive = 4,
        state_dim: Annotated[int, Field(gt=0, multiple_of=2)] = 64,
        stem_kernel_size: Positive = 15,
        stem_stride: Positive = 5,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
        bidirectional: bool = True,
    ) -> None:
        super().__init__(in_channels, embedding_dim)
        self.token_dim, self.num_features = width, 2 * depth * width
        self.stem = nn.Conv1d(in_channels, width, stem_kernel_size, stem_stride, bias=False)
        self.stem_bias = nn.Parameter(torch.zeros(width))
        self.blocks = nn.ModuleList(Block(width, state_dim, dropout, bidirectional) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.linear: nn.Module = nn.Linear(2 * width, embedding_dim)
        self.margin = stem_kernel_size // 2

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Embeddings (N, E).
        """
        embeddings: Tensor = self.linear(mean_and_max(self.tokens(signals, lead_mask).transpose(1, 2)))
        return embeddings

    def tokens(self, signals: Tensor, lead_mask: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """Return the activations over time after the last LayerNorm.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.
            keep: Must be None: this encoder computes all tokens.

        Returns:
            Tokens (N, T, D).
        """
        refuse_keep(self, keep)
        *_, last = self._outputs(signals, lead_mask)
        return last

    def features(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return mean and maximum over time of every block, the last after the last LayerNorm.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Features (N, P).
        """
        outputs = self._outputs(signals, lead_mask)
        return torch.cat([mean_and_max(hidden.transpose(1, 2)) for hidden in outputs], dim=1)

    def embed_features(self, features: Tensor) -> Tensor:
        """Return the embeddings of frames from their features.

        Args:
            features: Features (N, P).

        Returns:
            Embeddings (N, E).
        """
        embeddings: Tensor = self.linear(features[:, -2 * self.norm.normalized_shape[0] :])
        return embeddings

    def num_tokens(self, num_samples: int) -> int:
        """Return the length of the stem's output.

        Args:
            num_samples: Samples S of a frame.

        Returns:
            Number T of tokens.

        Raises:
            ConfigError: The frame is too short.
        """
        length = (num_samples + 2 * self.margin - self.stem.kernel_size[0]) // self.stem.stride[0] + 1
        if num_samples < 1 or length < 1:
            raise ConfigError(f"Frames of {num_samples} samples are too short for this network. Use longer frames.")
        return length

    def remove_head(self) -> None:
        """Remove the linear layer."""
        self.linear = nn.Identity()

    def prepare_export(self, num_samples: int) -> None:
        """Compute the kernels, which become constants of the exported graph.

        Args:
            num_samples: Samples S of the frames that the exported network will take.
        """
        for module in self.modules():
            if isinstance(module, StateSpace):
                module.prepare(self.num_tokens(num_samples))

    def _outputs(self, signals: Tensor, lead_mask: Tensor | None) -> list[Tensor]:
        """Return the activations (N, L, H) after every block, the last after the last LayerNorm."""
        self.num_tokens(signals.shape[-1])
        padded = pad(self.masked(signals, lead_mask), (self.margin, self.margin))
        hidden, outputs = convolve(padded, self.stem) + self.stem_bias, []
        for block in self.blocks:
            hidden = block(hidden)
            outputs.append(hidden)
        return [*outputs[:-1], self.norm(outputs[-1])]
