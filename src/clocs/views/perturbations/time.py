"""Perturbations of time: what is read, and when; values stay what they are."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Generator, Tensor

from clocs.views.perturbations.perturbation import Perturbation, uniform


class FlipTime(Perturbation):
    """Read backwards: the paper's Flip_Y, MT-SSL's temporal inversion."""

    name: Literal["flip_time"] = "flip_time"
    probability: float = Field(default=0.5, ge=0, le=1)  # at 1, both views of a frame would be equal

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        return signals.flip(-1)


class Permutation(Perturbation):
    """Cut into ``pieces`` of equal length (to a sample) and put together in a random order.

    The paper gives no number; 20 pieces are our choice, a quarter of a second each in a frame of 5 s.
    """

    name: Literal["permutation"] = "permutation"
    pieces: int = Field(default=20, ge=1)

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        order = uniform(signals, self.pieces, generator).argsort(dim=-1)
        edges = torch.arange(self.pieces + 1, device=signals.device) * signals.shape[-1] // self.pieces
        lengths = edges.diff()[order]
        shifts = edges[order] - (lengths.cumsum(dim=-1) - lengths)  # from a piece's new place to its old
        here = torch.arange(signals.shape[-1], device=signals.device)
        return signals.gather(-1, _spread(shifts, lengths, signals) + here)


class TimeWarping(Perturbation):
    """A random half of ``pieces`` equal pieces lasts ``factor`` times longer, the others as much shorter.

    The whole is fitted to S samples again, by linear interpolation; the first and the last sample stay. The
    paper gives no numbers; ours are mild enough to keep a beat's shape.
    """

    name: Literal["time_warping"] = "time_warping"
    pieces: int = Field(default=9, ge=1)
    factor: float = Field(default=1.05, ge=1)

    def positions(self, signals: Tensor, generator: Generator) -> Tensor:
        """(N, S) float64: where in its row each new sample is read; rises from 0 to S - 1."""
        last = signals.shape[-1] - 1
        squeezed = uniform(signals, self.pieces, generator).argsort(dim=-1) % 2
        lengths = self.factor ** (1 - 2 * squeezed.to(torch.float64))
        speeds = lengths.mean(dim=-1, keepdim=True) / lengths
        old_ends = torch.arange(1, self.pieces + 1, dtype=torch.float64, device=signals.device) * (last / self.pieces)
        ends = lengths.cumsum(dim=-1) * (last / lengths.sum(dim=-1, keepdim=True))
        ends[:, -1] = last
        counts = torch.nn.functional.pad(ends.floor() + 1, (1, 0)).diff().long()
        speed, shift = _spread(speeds, counts, signals), _spread(old_ends - ends * speeds, counts, signals)
        here = torch.arange(last + 1, dtype=torch.float64, device=signals.device)
        return shift.addcmul_(speed, here).clamp_(0, last)

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        read = self.positions(signals, generator)
        left = read.long()
        right = (left + 1).clamp_(max=signals.shape[-1] - 1)
        share = (read - left).to(signals.dtype)
        return torch.lerp(signals.gather(-1, left), signals.gather(-1, right), share)


def _spread(values: Tensor, counts: Tensor, signals: Tensor) -> Tensor:
    """(N, pieces) -> (N, S): each piece's value at as many samples as it counts."""
    return values.flatten().repeat_interleave(counts.flatten(), output_size=signals.numel()).view(signals.shape)
