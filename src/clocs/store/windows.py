"""Windows of fixed length, copied from many memory maps by one indexing call.

All maps of a process share one address space, so one array that starts at the lowest map reaches every sample of
every shard. A batch of 256 frames from 21 shards is then one gather at the speed of a single memory map. A copy per
shard or per row takes twice as long. Each window is checked against its own map first, so that no other memory is read.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Digital

Ints = npt.NDArray[np.int64]
ROWS_PER_PASS = 48
"""Rows that are copied and scaled at a time, so that they stay in the processor's cache."""


@dataclass(frozen=True)
class LeadPlan:
    """Plan to compute the channels of a frame from the stored leads."""

    width: int
    """Number of leads of a frame."""
    channels: int
    """Number of channels C, including stored leads that only serve to derive others."""
    stored: Ints
    """Index of each stored lead that is read, (D,)."""
    runs: tuple[tuple[slice, slice], ...]
    """Slices of the D leads and of their channels, one pair for each run of adjacent channels."""
    pair: slice
    """Channels of I and II; empty if no channel is derived from them."""
    weights: npt.NDArray[np.float32]
    """Weights of the pair in each of K derived channels, (K, 2)."""
    sums: slice | Ints
    """Indices of the K derived channels."""
    missing: tuple[int, ...]
    """Channels that are zero."""

    def combine(self, frames: npt.NDArray[np.float32]) -> None:
        """Compute the derived channels of frames, (N, C, window), in place."""
        if len(self.weights):
            # One matrix product is twice as fast as sums, and exact because all weights are 1 or 1/2.
            frames[:, self.sums] = self.weights @ frames[:, self.pair]
        for channel in self.missing:
            frames[:, channel] = 0


class Windows:
    """Integer buffers of one type, by number. They are kept alive until they are removed.

    Args:
        num_buffers: Number of buffers.
        dtype: Type of the samples.
    """

    def __init__(self, num_buffers: int, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._buffers: dict[int, Digital] = {}
        self._address = np.zeros(num_buffers, np.int64)
        self._length = np.zeros(num_buffers, np.int64)
        self._low = self._high = 0
        self._memory: Digital = np.empty(0, self._dtype)
        self._window_views: dict[int, Digital] = {}

    @property
    def itemsize(self) -> int:
        """Size of a sample in bytes."""
        return self._dtype.itemsize

    def has(self, numbers: Ints) -> npt.NDArray[np.bool_]:
        """Return which buffers were added, (N,) bool."""
        return self._length[numbers] > 0

    def add(self, number: int, values: Digital) -> None:
        """Add a buffer."""
        if values.dtype != self._dtype or not values.flags.c_contiguous:
            raise ValueError(f"expected a contiguous buffer of {self._dtype}, got {values.dtype}")
        self._buffers[number] = values
        self._address[number] = values.__array_interface__["data"][0]
        self._length[number] = len(values)
        begin = int(self._address[number])
        self._low = min(self._low or begin, begin)
        self._high = max(self._high, begin + values.nbytes)
        num_bytes = self._high - self._low
        span = memoryview((ctypes.c_char * num_bytes).from_address(self._low)).cast("B")
        self._window_views.clear()
        self._memory = np.frombuffer(span, self._dtype, num_bytes // self._dtype.itemsize)

    def remove(self, number: int) -> None:
        """Drop a buffer if it was added. Its memory must not be read any more."""
        if self._buffers.pop(number, None) is not None:
            self._length[number] = 0

    def take(
        self, numbers: Ints, starts: Ints, window: int, baseline: Ints, factor: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        """Return ``(samples - baseline[i]) * factor[i]`` from ``starts[i]`` of buffer ``numbers[i]``, (N, window)."""
        out = np.empty((len(starts), window), np.float32)
        if not len(starts):
            return out
        rolling, at = self._windows_of(window), self._positions(numbers, starts, window)
        common_factor = factor[0] if (factor == factor[0]).all() else None  # twice as fast as a factor per row
        shifted = bool(baseline.any())
        for begin in range(0, len(at), ROWS_PER_PASS):
            piece = slice(begin, begin + ROWS_PER_PASS)
            rows = out[piece]
            rows[...] = rolling[at[piece]] - baseline[piece, None] if shifted else rolling[at[piece]]
            rows *= factor[piece, None] if common_factor is None else common_factor
        return out

    def take_leads(
        self, numbers: Ints, starts: Ints, window: int, baseline: Ints, factor: npt.NDArray[np.float32], plan: LeadPlan
    ) -> npt.NDArray[np.float32]:
        """Return windows of several leads of each item, with derived leads.

        Args:
            numbers: Buffer of each item, (N,).
            starts: First sample of each stored lead's window, (N, D).
            window: Number of samples of a window.
            baseline: Baseline of each stored lead, (N, D).
            factor: Factor of each stored lead, (N, D).
            plan: Channels of the stored leads, and how the others are derived.

        Returns:
            Frames, (N, C, window).
        """
        out = np.empty((len(starts), plan.channels, window), np.float32)
        if not starts.size:
            out[...] = 0
            return out
        rolling, at = self._windows_of(window), self._positions(numbers[:, None], starts, window)
        common_factor = factor[0, 0] if (factor == factor[0, 0]).all() else None
        shifted = bool(baseline.any())
        step = max(1, ROWS_PER_PASS // plan.channels)
        for begin in range(0, len(at), step):
            items = slice(begin, begin + step)
            piece = out[items]
            for stored, channels in plan.runs:
                rows, taken = piece[:, channels], rolling[at[items, stored]]
                rows[...] = taken - baseline[items, stored, None] if shifted else taken
                rows *= factor[items, stored, None] if common_factor is None else common_factor
            plan.combine(piece)
        return out

    def _positions(self, numbers: Ints, starts: Ints, window: int) -> Ints:
        """Return the first sample of each window in the array that spans all buffers."""
        if ((starts < 0) | (starts + window > self._length[numbers])).any():
            raise IndexError("a window extends beyond its buffer")
        return (self._address[numbers] - self._low) // self._dtype.itemsize + starts

    def _windows_of(self, window: int) -> Digital:
        """Return a view of all windows of this length, one per sample."""
        if window not in self._window_views:
            step, shape = self._dtype.itemsize, (len(self._memory) - window + 1, window)
            self._window_views = {
                window: np.lib.stride_tricks.as_strided(self._memory, shape, (step, step), writeable=False)
            }
        return self._window_views[window]
