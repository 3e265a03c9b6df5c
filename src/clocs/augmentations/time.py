"""Augmentations of time. All leads of a frame are read in the same new order or at the same new times."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Generator, Tensor

from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation, Probability, uniform

Pieces = Annotated[int, Field(ge=1)]


@AUGMENTATIONS.register("flip_time")
class FlipTime(Augmentation):
    """Reverse frames in time: the paper's Flip_Y, MT-SSL's temporal inversion.

    Args:
        probability: Probability that a frame is reversed. At 1, both views of a frame would be equal.

    Example:
        >>> import torch
        >>> FlipTime(probability=1)(torch.tensor([[[1.0, 2.0]]]))
        tensor([[[2., 1.]]])
    """

    def __init__(self, probability: Probability = 0.5) -> None:
        super().__init__(probability)
        self.check_options()

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Reverse the samples."""
        return signals.flip(-1)


@AUGMENTATIONS.register("permutation")
class Permutation(Augmentation):
    """Cut frames into pieces whose lengths differ by at most one sample, and join them in a random order.

    The paper does not state the number of pieces. The default makes pieces of 0.25 s in a frame of 5 s.

    Args:
        num_pieces: Number of pieces.
        probability: Probability that a frame is permuted.

    Example:
        >>> import torch
        >>> Permutation(num_pieces=4)(torch.arange(8.0).view(1, 1, 8)).sort().values
        tensor([[[0., 1., 2., 3., 4., 5., 6., 7.]]])
    """

    def __init__(self, num_pieces: Pieces = 20, probability: Probability = 1.0) -> None:
        super().__init__(probability)
        self.num_pieces = num_pieces
        self.check_options()

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Read each frame in the order of its pieces."""
        frames, _, num_samples = signals.shape
        order = uniform(signals, (frames, self.num_pieces), generator).argsort(dim=-1)
        edges = torch.arange(self.num_pieces + 1, device=signals.device) * num_samples // self.num_pieces
        lengths = edges.diff()[order]
        shifts = edges[order] - (lengths.cumsum(dim=-1) - lengths)  # from a piece's new position to its old
        here = torch.arange(num_samples, device=signals.device)
        read = _spread(shifts, lengths, num_samples) + here
        return signals.gather(-1, read.unsqueeze(1).expand_as(signals))


@AUGMENTATIONS.register("time_warping")
class TimeWarping(Augmentation):
    """Cut frames into equal pieces, stretch a random half of the pieces in time and compress the others.

    Linear interpolation brings the result back to S samples, and keeps the first and the last one. The paper states no
    numbers. The defaults keep the shape of a beat.

    Args:
        num_pieces: Number of pieces.
        factor: Stretched pieces last this many times longer. The others are shortened by the same factor.
        probability: Probability that a frame is warped.

    Example:
        >>> import torch
        >>> TimeWarping(factor=1.2)(torch.randn(2, 12, 500)).shape
        torch.Size([2, 12, 500])
    """

    def __init__(
        self, num_pieces: Pieces = 9, factor: Annotated[float, Field(ge=1)] = 1.05, probability: Probability = 1.0
    ) -> None:
        super().__init__(probability)
        self.num_pieces, self.factor = num_pieces, factor
        self.check_options()

    def positions(self, signals: Tensor, generator: Generator) -> Tensor:
        """Draw the positions at which new samples are read.

        Args:
            signals: (N, C, S) floats.
            generator: Source of all randomness.

        Returns:
            Positions (N, S) float64, rising from 0 to S - 1.
        """
        frames, _, num_samples = signals.shape
        last = num_samples - 1
        squeezed = uniform(signals, (frames, self.num_pieces), generator).argsort(dim=-1) % 2
        lengths = self.factor ** (1 - 2 * squeezed.to(torch.float64))
        speeds = lengths.mean(dim=-1, keepdim=True) / lengths
        old_ends = torch.arange(1, self.num_pieces + 1, dtype=torch.float64, device=signals.device) * (
            last / self.num_pieces
        )
        ends = lengths.cumsum(dim=-1) * (last / lengths.sum(dim=-1, keepdim=True))
        ends[:, -1] = last
        counts = torch.nn.functional.pad(ends.floor() + 1, (1, 0)).diff().long()
        speed, shift = _spread(speeds, counts, num_samples), _spread(old_ends - ends * speeds, counts, num_samples)
        here = torch.arange(num_samples, dtype=torch.float64, device=signals.device)
        return shift.addcmul_(speed, here).clamp_(0, last)

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Interpolate between the samples at these positions."""
        read = self.positions(signals, generator).unsqueeze(1)
        left = read.long()
        right = (left + 1).clamp_(max=signals.shape[-1] - 1)
        share = (read - left).to(signals.dtype)
        before, after = (signals.gather(-1, index.expand_as(signals)) for index in (left, right))
        return torch.lerp(before, after, share)


def _spread(values: Tensor, counts: Tensor, num_samples: int) -> Tensor:
    """Repeat each piece's value for its number of samples: (N, pieces) -> (N, S)."""
    size = len(values) * num_samples
    return values.flatten().repeat_interleave(counts.flatten(), output_size=size).view(len(values), num_samples)
