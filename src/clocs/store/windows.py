"""Rows of fixed length copied out of many memory maps by one indexing call.

All maps of a process lie in one address space, so one array that starts at the lowest of them reaches
every sample of every shard. A batch of 256 frames from 21 shards is then one gather, as from a single
file: measured at the speed of a plain memory map, where a copy per shard or per row took twice as long.
Nothing outside the maps is ever touched: each start is checked against its own map first.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Digital

Ints = npt.NDArray[np.int64]
PIECE = 48
"""Rows copied and scaled at a time: they stay in the processor's cache between the two."""


@dataclass(frozen=True)
class LeadPlan:
    """How the channels of a frame follow from the leads that are stored."""

    width: int
    """How many channels are wanted."""
    channels: int
    """How many there are, C: further ones hold leads that others are made of."""
    stored: Ints
    """(D,) position of each lead that is read among the stored ones."""
    runs: tuple[tuple[slice, slice], ...]
    """Which of the D leads become which channels, neighbours at once."""
    pair: slice
    """Channels of I and II, in this order of channels; empty: no channel follows from them."""
    weights: npt.NDArray[np.float32]
    """(K, 2): each of K channels as a weighted sum of the pair."""
    sums: slice | Ints
    """The K channels."""
    missing: tuple[int, ...]
    """Channels that stay zero."""

    def combine(self, frames: npt.NDArray[np.float32]) -> None:
        """Fill the channels of (N, C, window) that are not read."""
        if len(self.weights):
            # One product is more than twice as quick as sums, and exact: all weights are 1 or 1/2.
            frames[:, self.sums] = self.weights @ frames[:, self.pair]
        for channel in self.missing:
            frames[:, channel] = 0


class Windows:
    """Integer buffers of one type, known by number; they are kept alive as long as this is."""

    def __init__(self, buffers: int, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._held: dict[int, Digital] = {}
        self._address = np.zeros(buffers, np.int64)
        self._length = np.zeros(buffers, np.int64)
        self._low = 0
        self._whole: Digital = np.empty(0, self._dtype)
        self._rolling: dict[int, Digital] = {}

    @property
    def itemsize(self) -> int:
        """Bytes of a sample."""
        return self._dtype.itemsize

    def holds(self, numbers: Ints) -> npt.NDArray[np.bool_]:
        """Which buffers are known."""
        return self._length[numbers] > 0

    def add(self, number: int, values: Digital) -> None:
        """Make a buffer known."""
        if values.dtype != self._dtype or not values.flags.c_contiguous:
            raise ValueError(f"buffers here are contiguous {self._dtype}, not {values.dtype}")
        self._held[number] = values
        self._address[number] = values.__array_interface__["data"][0]
        self._length[number] = len(values)
        known = sorted(self._held)
        low = int(self._address[known].min())
        high = int((self._address[known] + self._length[known] * self._dtype.itemsize).max())
        span = memoryview((ctypes.c_char * (high - low)).from_address(low)).cast("B")
        self._low = low
        self._rolling.clear()
        self._whole = np.frombuffer(span, self._dtype, (high - low) // self._dtype.itemsize)

    def take(
        self, numbers: Ints, starts: Ints, window: int, zero: Ints, factor: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """(items, window): from ``starts[i]`` of buffer ``numbers[i]``, less ``zero[i]``, times ``factor[i]``."""
        out = np.empty((len(starts), window), np.float32)
        if not len(starts):
            return out
        rolling, at = self._windows_of(window), self._positions(numbers, starts, window)
        one = factor[0] if (factor == factor[0]).all() else None  # twice as quick as one a row
        shifted = bool(zero.any())
        for begin in range(0, len(at), PIECE):
            piece = slice(begin, begin + PIECE)
            rows = out[piece]
            rows[...] = rolling[at[piece]] - zero[piece, None] if shifted else rolling[at[piece]]
            rows *= factor[piece, None] if one is None else one
        return out

    def take_leads(
        self, numbers: Ints, starts: Ints, window: int, zero: Ints, factor: npt.NDArray[np.float32], plan: LeadPlan
    ) -> npt.NDArray[np.float32]:
        """Take several leads of each item at once, and combine them to those that follow from two.

        Args:
            numbers: Buffer of each item, (N,).
            starts: First sample of each stored lead's window, (N, D).
            window: Samples of a window.
            zero: Baseline of each stored lead, (N, D).
            factor: What each stored lead is multiplied by, (N, D).
            plan: Which channel a stored lead becomes, and how the others are made.

        Returns:
            (N, C, window).
        """
        out = np.empty((len(starts), plan.channels, window), np.float32)
        if not starts.size:
            out[...] = 0
            return out
        rolling, at = self._windows_of(window), self._positions(numbers[:, None], starts, window)
        one = factor[0, 0] if (factor == factor[0, 0]).all() else None
        shifted = bool(zero.any())
        step = max(1, PIECE // plan.channels)
        for begin in range(0, len(at), step):
            items = slice(begin, begin + step)
            piece = out[items]
            for stored, channels in plan.runs:
                rows, taken = piece[:, channels], rolling[at[items, stored]]
                rows[...] = taken - zero[items, stored, None] if shifted else taken
                rows *= factor[items, stored, None] if one is None else one
            plan.combine(piece)
        return out

    def _positions(self, numbers: Ints, starts: Ints, window: int) -> Ints:
        """Return where windows begin in the one array that reaches all buffers."""
        if ((starts < 0) | (starts + window > self._length[numbers])).any():
            raise IndexError("a window reaches beyond its buffer")
        return (self._address[numbers] - self._low) // self._dtype.itemsize + starts

    def _windows_of(self, window: int) -> Digital:
        """Every window of that length, one from each sample on, as a view."""
        if window not in self._rolling:
            step, shape = self._dtype.itemsize, (len(self._whole) - window + 1, window)
            self._rolling = {window: np.lib.stride_tricks.as_strided(self._whole, shape, (step, step), writeable=False)}
        return self._rolling[window]
