"""Frame policies, which define how recordings are cut into frames."""

from __future__ import annotations

from typing import Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from clocs.signals.resampling import Floats, resample_to_length, resampled_length

Normalization = Literal["none", "minmax", "typical"]
TYPICAL_STD: Final = np.float32(0.15)
"""Standard deviation of a typical lead in mV. The medians of 200 recordings each of PhysioNet 2020, Chapman and
PhysioNet 2017 are 0.13, 0.14 and 0.17."""
UNNAMED_LEAD: Final = "ECG"
"""Name of a lead in files that do not state which lead it is."""


class FramePolicy(BaseModel):
    """Definition of frames: windows of ``num_segments`` adjacent segments of ``num_samples`` each.

    Set exactly one of two fields. With ``sampling_rate``, recordings with another sampling rate are resampled. With
    ``num_source_samples``, that many samples of a recording are stretched to a frame regardless of its sampling rate,
    as in the paper.

    Example:
        >>> policy = clocs.FramePolicy(num_samples=2500, sampling_rate=500, leads=("II", "V2"))
        >>> policy.window_length(250)
        1250
        >>> policy.num_frames(np.array([5000, 7499]), np.array([500.0, 500.0])).tolist()
        [2, 2]
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_samples: int = Field(gt=0)
    """Number of samples of a segment, which is the input length of an encoder."""
    num_segments: int = Field(default=1, gt=0)
    """Number of adjacent segments per frame. They are the views in time of CMSC."""
    sampling_rate: float | None = Field(default=None, gt=0)
    """Sampling rate of frames in Hz; None if ``num_source_samples`` is set."""
    num_source_samples: int | Literal["recording"] | None = None
    """Number of samples of a recording per frame, or ``recording`` for one frame per recording. None if
    ``sampling_rate`` is set."""
    overlap: float = Field(default=0.0, ge=0, lt=1)
    """Fraction of a frame that the next frame repeats. With 0.5, a frame begins in the middle of the one before."""
    normalization: Normalization = "none"
    """Normalization of each segment: ``none``, ``minmax`` (to 0..1), or ``typical`` (to mean 0 and a standard deviation
    of 0.15, that of a typical lead in mV). Use ``typical`` for raw steps without a known gain."""
    normalization_scope: Literal["lead", "frame"] = "lead"
    """Values that determine the normalization: those of each ``lead`` of a segment, or those of all leads (``frame``),
    which keeps the relative amplitudes of leads."""
    leads: tuple[str, ...] = ()
    """Leads to use; empty for all leads of a recording."""
    allow_missing_leads: bool = False
    """True if frames with several leads may lack some of them. Missing leads are zero, and false in the lead mask. By
    default, frames with missing leads are skipped."""
    unnamed_lead: str | None = None
    """Lead to use for an unnamed lead, which is called "ECG"; None to reject unnamed leads."""
    label_at: Literal["recording", "start"] = "recording"
    """Label of a frame: that of its ``recording``, or that of the episode at its ``start``."""
    excluded_leads: tuple[tuple[str, str], ...] = ()
    """Pairs of record id and lead that are not used."""

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if (self.sampling_rate is None) == (self.num_source_samples is None):
            raise ValueError("Set exactly one of sampling_rate and num_source_samples.")
        if self.overlap and self.num_source_samples == "recording":
            raise ValueError("overlap needs several frames per recording. Set another num_source_samples.")
        if self.leads and self.unnamed_lead is not None and self.unnamed_lead not in self.leads:
            raise ValueError(
                f"unnamed_lead '{self.unnamed_lead}' is not in leads. Choose from {', '.join(self.leads)}."
            )
        return self

    def window_length(self, sampling_rate: float) -> int | None:
        """Return the number of samples of a recording that make one frame.

        Args:
            sampling_rate: Sampling rate of the recording in Hz.

        Returns:
            Number of samples, or None if the whole recording is one frame.
        """
        if self.sampling_rate is not None:
            return round(self.num_segments * self.num_samples * sampling_rate / self.sampling_rate)
        return None if self.num_source_samples == "recording" else self.num_source_samples

    def hop_length(self, sampling_rate: float) -> int | None:
        """Return the number of samples of a recording from the start of a frame to the start of the next.

        Args:
            sampling_rate: Sampling rate of the recording in Hz.

        Returns:
            Number of samples, or None if the whole recording is one frame.
        """
        window = self.window_length(sampling_rate)
        return None if window is None else max(1, round(window * (1 - self.overlap)))

    def num_frames(
        self, num_samples: npt.NDArray[np.int64], sampling_rate: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int64]:
        """Return the number of frames in recordings.

        Args:
            num_samples: Number of samples of each recording, of shape (N,).
            sampling_rate: Sampling rate of each recording in Hz, of shape (N,).

        Returns:
            Number of frames of each recording, of shape (N,).
        """
        if self.sampling_rate is not None:
            resampled = np.array(num_samples, np.int64)
            for rate in np.unique(sampling_rate):
                selected = sampling_rate == rate
                resampled[selected] = resampled_length(resampled[selected], float(rate), self.sampling_rate)
            num_samples = resampled
        window, hop = self.window_length(self.sampling_rate or 0.0), self.hop_length(self.sampling_rate or 0.0)
        if window is None or hop is None:
            return (num_samples > 0).astype(np.int64)
        return np.where(num_samples >= window, (num_samples - window) // hop + 1, 0)

    def shape_windows(self, windows: Floats, lead_mask: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Resample windows to the length of a frame, split them into segments and normalize these.

        Args:
            windows: Windows of shape (N, C, any length).
            lead_mask: Mask of shape (N, C), false for missing leads. Their values are ignored.

        Returns:
            Segments of shape (N, num_segments, C, num_samples), zero for missing leads.
        """
        frames = resample_to_length(windows, self.num_segments * self.num_samples)
        split = frames.reshape(*frames.shape[:-1], self.num_segments, self.num_samples)
        return self.normalize(split.swapaxes(1, 2), lead_mask)

    def normalize(self, frames: Floats, lead_mask: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Normalize frames according to the policy.

        Args:
            frames: Frames of shape (..., C, samples), or (..., samples) with ``normalization_scope="lead"``.
            lead_mask: Mask of shape (N, C), false for missing leads of frames of shape (N, ..., C, samples).

        Returns:
            Frames of the same shape, zero for missing leads.
        """
        if lead_mask is None or lead_mask.all():
            return self._scale(frames, None)
        mask = lead_mask.reshape(len(lead_mask), *(1,) * (frames.ndim - 3), lead_mask.shape[1], 1)
        return np.where(mask, self._scale(frames, mask), np.float32(0))

    def _scale(self, frames: Floats, mask: npt.NDArray[np.bool_] | None) -> Floats:
        if self.normalization == "none":
            return frames
        axis = -1 if self.normalization_scope == "lead" else (-2, -1)
        if mask is not None and self.normalization_scope == "frame":
            frames = np.where(mask, frames, np.float32(np.nan))  # excludes missing leads from the statistics
            mean, std, low, high = np.nanmean, np.nanstd, np.nanmin, np.nanmax
        else:
            mean, std, low, high = np.mean, np.std, np.min, np.max
        if self.normalization == "typical":
            center, spread = mean(frames, axis=axis, keepdims=True), std(frames, axis=axis, keepdims=True)
            return np.asarray((frames - center) * (TYPICAL_STD / np.where(spread > 0, spread, np.float32(1))))
        lowest = low(frames, axis=axis, keepdims=True)
        span = high(frames, axis=axis, keepdims=True) - lowest
        return np.asarray((frames - lowest) / np.where(span > 0, span, np.float32(1)))
