"""How a recording becomes frames: a policy that belongs to a dataset and a purpose. Data, not code."""

from __future__ import annotations

from typing import Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from clocs.signals.resampling import Floats, resample_to_length, resampled_length

Normalization = Literal["none", "minmax", "typical"]
TYPICAL_STD: Final = np.float32(0.15)
"""mV: the median standard deviation of a lead of 200 recordings each of PhysioNet 2020, Chapman and PhysioNet 2017 is
0.13, 0.14 and 0.17."""
UNNAMED_LEAD: Final = "ECG"
"""Name of a lead whose file does not say which one it is."""


class FramePolicy(BaseModel):
    """Non-overlapping frames of ``segments`` adjacent segments of ``num_samples`` each.

    Either ``sampling_rate`` is enforced (recordings at another rate are resampled), or ``num_source_samples`` of a
    recording, at whatever rate it has, are stretched to a frame, as the paper does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_samples: int = Field(gt=0)
    """Samples of one segment, as an encoder takes them."""
    num_segments: int = Field(default=1, gt=0)
    """Adjacent segments per frame (CMSC's views in time)."""
    sampling_rate: float | None = Field(default=None, gt=0)
    """Hz that every frame has."""
    num_source_samples: int | Literal["recording"] | None = None
    """Samples cut from the recording per frame; ``recording``: all of it becomes one frame."""
    normalization: Normalization = "none"
    """``unit``: each segment is scaled to 0..1. ``typical``: to mean 0 and the standard deviation of an ordinary lead
    in millivolt, for raw steps whose gain nobody knows."""
    normalization_scope: Literal["lead", "frame"] = "lead"
    """``lead``: each lead of a segment is normalised by its own values. ``frame``: all leads of a segment by the values
    that they have in common, so that their sizes stay comparable."""
    leads: tuple[str, ...] = ()
    """Leads that become instances; empty: every lead a recording has."""
    allow_missing_leads: bool = False
    """Whether frames of all leads may lack some: these are zero and false in the lead mask. Otherwise such frames are
    left out."""
    unnamed_lead: str | None = None
    """Lead that an unnamed one, called "ECG", is taken for."""
    label_at: Literal["recording", "start"] = "recording"
    """``start``: a frame has the label of the episode its first sample lies in."""
    excluded_leads: tuple[tuple[str, str], ...] = ()
    """(record id, lead) pairs that are never instances."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.sampling_rate is None) == (self.num_source_samples is None):
            raise ValueError("give either rate or source_samples")
        if self.leads and self.unnamed_lead is not None and self.unnamed_lead not in self.leads:
            raise ValueError(f"unnamed_lead: '{self.unnamed_lead}' is not among the leads {', '.join(self.leads)}")
        return self

    def window_length(self, sampling_rate: float) -> int | None:
        """Samples of a recording at ``sampling_rate`` that make one frame; None: all of them."""
        if self.sampling_rate is not None:
            return round(self.num_segments * self.num_samples * sampling_rate / self.sampling_rate)
        return None if self.num_source_samples == "recording" else self.num_source_samples

    def num_frames(
        self, num_samples: npt.NDArray[np.int64], sampling_rate: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int64]:
        """Frames in recordings of these lengths and rates, element by element."""
        if self.sampling_rate is not None:
            whole = np.array(num_samples, np.int64)
            for one in np.unique(sampling_rate):
                whole[sampling_rate == one] = resampled_length(
                    whole[sampling_rate == one], float(one), self.sampling_rate
                )
            return whole // (self.num_segments * self.num_samples)
        if self.num_source_samples == "recording":
            return (num_samples > 0).astype(np.int64)
        assert isinstance(self.num_source_samples, int)
        return np.asarray(num_samples // self.num_source_samples)

    def shape_windows(self, windows: Floats, lead_mask: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Stretch windows where lengths differ, split them into segments and normalise these.

        Args:
            windows: (N, C, any).
            lead_mask: (N, C), false where a lead is missing; its values are ignored.

        Returns:
            (N, segments, C, samples), zero where a lead is missing.
        """
        frames = resample_to_length(windows, self.num_segments * self.num_samples)
        split = frames.reshape(*frames.shape[:-1], self.num_segments, self.num_samples)
        return self.normalize(split.swapaxes(1, 2), lead_mask)

    def normalize(self, frames: Floats, lead_mask: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Normalise frames as the policy says.

        Args:
            frames: (..., C, samples); with ``normalization_scope`` "lead", any shape (..., samples).
            lead_mask: (N, C), false where a lead is missing, for frames (N, ..., C, samples).

        Returns:
            The same shape, zero where a lead is missing.
        """
        if lead_mask is None or lead_mask.all():
            return self._scaled(frames, None)
        there = lead_mask.reshape(len(lead_mask), *(1,) * (frames.ndim - 3), lead_mask.shape[1], 1)
        return np.where(there, self._scaled(frames, there), np.float32(0))

    def _scaled(self, frames: Floats, there: npt.NDArray[np.bool_] | None) -> Floats:
        if self.normalization == "none":
            return frames
        axis = -1 if self.normalization_scope == "lead" else (-2, -1)
        if there is not None and self.normalization_scope == "frame":
            frames = np.where(there, frames, np.float32(np.nan))  # missing leads have no part in the statistics
            mean, std, low, high = np.nanmean, np.nanstd, np.nanmin, np.nanmax
        else:
            mean, std, low, high = np.mean, np.std, np.min, np.max
        if self.normalization == "typical":
            middle, spread = mean(frames, axis=axis, keepdims=True), std(frames, axis=axis, keepdims=True)
            return np.asarray((frames - middle) * (TYPICAL_STD / np.where(spread > 0, spread, np.float32(1))))
        lowest = low(frames, axis=axis, keepdims=True)
        span = high(frames, axis=axis, keepdims=True) - lowest
        return np.asarray((frames - lowest) / np.where(span > 0, span, np.float32(1)))
