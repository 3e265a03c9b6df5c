"""How a recording becomes frames: a policy that belongs to a dataset and a purpose. Data, not code."""

from __future__ import annotations

from typing import Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from clocs.signals.resampling import Floats, resampled_length, stretch

Normalisation = Literal["none", "unit", "typical"]
TYPICAL: Final = np.float32(0.15)
"""mV: the median standard deviation of a lead of 200 recordings each of PhysioNet 2020, Chapman and PhysioNet 2017 is
0.13, 0.14 and 0.17."""


class FramePolicy(BaseModel):
    """Non-overlapping frames of ``segments`` adjacent segments of ``samples`` each.

    Either ``rate`` is enforced (recordings at another rate are resampled), or ``source_samples`` of a
    recording, at whatever rate it has, are stretched to a frame, as the paper does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    samples: int = Field(gt=0)
    """Samples of one segment, as an encoder takes them."""
    segments: int = Field(default=1, gt=0)
    """Adjacent segments per frame (CMSC's views in time)."""
    rate: float | None = Field(default=None, gt=0)
    """Hz that every frame has."""
    source_samples: int | Literal["recording"] | None = None
    """Samples cut from the recording per frame; ``recording``: all of it becomes one frame."""
    normalisation: Normalisation = "none"
    """``unit``: each segment is scaled to 0..1. ``typical``: to mean 0 and the standard deviation of an ordinary lead
    in millivolt, for raw steps whose gain nobody knows."""
    leads: tuple[str, ...] = ()
    """Leads that become instances; empty: every lead a recording has."""
    label_at: Literal["recording", "start"] = "recording"
    """``start``: a frame has the label of the episode its first sample lies in."""
    excluded: tuple[tuple[str, str], ...] = ()
    """(record id, lead) pairs that are never instances."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.rate is None) == (self.source_samples is None):
            raise ValueError("give either rate or source_samples")
        return self

    def window(self, rate: float) -> int | None:
        """Samples of a recording at ``rate`` that make one frame; None: all of them."""
        if self.rate is not None:
            return round(self.segments * self.samples * rate / self.rate)
        return None if self.source_samples == "recording" else self.source_samples

    def count(self, samples: npt.NDArray[np.int64], rate: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Frames in recordings of these lengths and rates, element by element."""
        if self.rate is not None:
            whole = np.array(samples, np.int64)
            for one in np.unique(rate):
                whole[rate == one] = resampled_length(whole[rate == one], float(one), self.rate)
            return whole // (self.segments * self.samples)
        if self.source_samples == "recording":
            return (samples > 0).astype(np.int64)
        assert isinstance(self.source_samples, int)
        return np.asarray(samples // self.source_samples)

    def shape_windows(self, windows: Floats) -> Floats:
        """(..., window) -> (..., segments, samples): stretch where lengths differ, split, normalise."""
        frames = stretch(windows, self.segments * self.samples)
        return self.normalise(frames.reshape(*frames.shape[:-1], self.segments, self.samples))

    def normalise(self, frames: Floats) -> Floats:
        """(..., samples), each row on its own."""
        if self.normalisation == "none":
            return frames
        if self.normalisation == "typical":
            middle, spread = frames.mean(axis=-1, keepdims=True), frames.std(axis=-1, keepdims=True)
            return np.asarray((frames - middle) * (TYPICAL / np.where(spread > 0, spread, np.float32(1))))
        low = frames.min(axis=-1, keepdims=True)
        span = frames.max(axis=-1, keepdims=True) - low
        return np.asarray((frames - low) / np.where(span > 0, span, np.float32(1)))
