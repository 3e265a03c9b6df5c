"""The beats of a recording: how far apart they come, and what the typical one looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Recording, missing_value

Values = npt.NDArray[np.float64]

LOOKED_AT: Final = ("I", "II", "V2")
"""Leads in which beats are sought; of a recording that has none of them, its first three."""
MOST_SECONDS: Final = 60.0
"""So much from the middle of a recording is looked at."""
COARSE_RATE: Final = 250.0
"""Hz, about: enough for the width of a QRS complex."""
MIN_SAMPLING_RATE: Final = 50.0
"""Hz. Below, a QRS complex of 80 ms has fewer than four samples, and no resampling brings it back."""
FEWEST: Final = 4
CLOSEST: Final = 0.2
"""Seconds from beat to beat: 300 a minute."""
QRS_WINDOW: Final = 0.1
HIGHEST: Final = (0.998, 0.98)
"""Of the slopes and of their energy: beyond this part of the samples there are spikes."""
BEAT_ENERGY: Final = 0.35
"""Of a beat's steepness, compared with that of the steepest ones."""


@dataclass(frozen=True)
class BeatMeasurements:
    """Beats in the seconds of the stated rate and in the recording's unit."""

    interval: float
    """Seconds from beat to beat, the median."""
    unevenness: float
    """Standard deviation of the intervals, as a fraction of their median."""
    qrs: float
    """Seconds that hold the middle 90 % of the typical beat's squared slope: a bit over half of the QRS duration."""
    t_delay: float
    """Seconds from the middle of the QRS complex to the top of the T wave."""
    agreement: float
    """Correlation of the beats with the typical one, the median."""
    waves: dict[str, tuple[float, float, float]]
    """By lead: the highest plus the lowest value of P, QRS and T; negative where a wave points down."""


def find_beats(recording: Recording) -> BeatMeasurements | None:
    """The beats of a recording; None where fewer than four can be made out, or its rate is too low for any."""
    if recording.sampling_rate < MIN_SAMPLING_RATE:
        return None
    leads = tuple(lead for lead in LOOKED_AT if lead in recording.leads) or recording.leads[:3]
    values, sampling_rate = _coarse(recording.select(leads))
    places = _places(values, sampling_rate)
    if len(places) < FEWEST:
        return None
    gaps = np.diff(places) / sampling_rate
    interval = float(np.median(gaps))
    before, after = int(min(0.35, 0.4 * interval) * sampling_rate), int(min(0.8, 0.7 * interval) * sampling_rate)
    whole = places[(places >= before) & (places + after <= values.shape[1])]
    if len(whole) < FEWEST - 1 or before < 0.06 * sampling_rate:
        return None
    beats = values[:, whole[:, None] + np.arange(-before, after)]
    typical = np.median(beats, axis=1)
    begin, middle, end = _qrs(typical, before, sampling_rate)
    waves, t_top = _waves(typical, begin, middle, end, sampling_rate)
    return BeatMeasurements(
        interval=interval,
        unevenness=float(np.std(gaps)) / interval,
        qrs=(end - begin) / sampling_rate,
        t_delay=(t_top - middle) / sampling_rate,
        agreement=_agreement(beats, typical),
        waves=dict(zip(leads, waves, strict=True)),
    )


def beat_times(recording: Recording) -> Values:
    """Seconds to where all leads together are steepest, for each beat; from the start of what is looked at."""
    values, sampling_rate = _coarse(recording)
    return _places(values, sampling_rate) / sampling_rate


def _coarse(recording: Recording) -> tuple[Values, float]:
    """(leads, samples) around the middle, some samples averaged to one; the missing are as the lead is elsewhere."""
    skip = max(0, int((recording.seconds - MOST_SECONDS) / 2 * recording.sampling_rate))
    digital = recording.digital[:, skip : recording.num_samples - skip]
    absent = digital == missing_value(digital.dtype)
    values = (digital - recording.baseline[:, None].astype(np.float64)) / recording.gain[:, None]
    if absent.any():
        values[absent] = np.broadcast_to(np.median(values, axis=1, keepdims=True), values.shape)[absent]
    factor = max(1, round(recording.sampling_rate / COARSE_RATE))
    whole = values.shape[1] // factor * factor
    return values[:, :whole].reshape(len(values), -1, factor).mean(axis=2), recording.sampling_rate / factor


def _places(values: Values, sampling_rate: float) -> npt.NDArray[np.intp]:
    """Where the leads together are steepest, a beat each."""
    from scipy.signal import find_peaks

    slopes = np.abs(values[:, 2:] - values[:, :-2])
    if slopes.shape[1] < sampling_rate:
        return np.empty(0, np.intp)
    steepest = _high(slopes, HIGHEST[0])
    steepest[steepest == 0] = np.inf
    energy = np.square(np.minimum(slopes / steepest[:, None], 1)).sum(axis=0)
    energy = np.convolve(energy, np.bartlett(2 * round(QRS_WINDOW * sampling_rate) + 1), "same")
    limit = BEAT_ENERGY * float(_high(energy, HIGHEST[1]))
    return np.asarray(find_peaks(energy, height=limit, distance=max(1, round(CLOSEST * sampling_rate)))[0] + 1, np.intp)


def _high(values: Values, part: float) -> Values:
    """The value below which that part of the last axis lies."""
    place = int(part * (values.shape[-1] - 1))
    return np.asarray(np.partition(values, place, axis=-1)[..., place])


def _qrs(typical: Values, before: int, sampling_rate: float) -> tuple[float, float, float]:
    """Begin, middle and end, in samples: 5, 50 and 95 % of the squared slope around the steepest place."""
    first = max(0, before - int(0.15 * sampling_rate))
    around = typical[:, first : before + int(0.15 * sampling_rate)]
    energy = np.cumsum(np.square(np.gradient(around, axis=1)).sum(axis=0))
    found = np.interp(np.array([0.05, 0.5, 0.95]) * energy[-1], energy, np.arange(len(energy))) + first
    return float(found[0]), float(found[1]), float(found[2])


def _waves(
    typical: Values, begin: float, middle: float, end: float, sampling_rate: float
) -> tuple[list[tuple[float, float, float]], int]:
    """Of each lead P, QRS and T, from the level just before the QRS complex; and the sample at which T is highest."""
    onset, offset = max(3, int(begin - 0.02 * sampling_rate)), int(end + 0.02 * sampling_rate) + 1
    level = typical - np.median(typical[:, onset - 3 : onset + 1], axis=1, keepdims=True)
    t_begin = min(int(middle + max((end - begin) / 2, 0.05 * sampling_rate) + 0.06 * sampling_rate), level.shape[1] - 3)
    parts = [
        level[:, max(0, onset - int(0.16 * sampling_rate)) : onset],
        level[:, onset : offset + 1],
        level[:, t_begin:],
    ]
    signs = np.stack([part.max(axis=1) + part.min(axis=1) for part in parts], axis=1)
    size = np.convolve(np.sqrt(np.square(level).sum(axis=0)), np.full(9, 1 / 9), "same")
    return [(row[0], row[1], row[2]) for row in signs.tolist()], t_begin + int(np.argmax(size[t_begin:]))


def _agreement(beats: Values, typical: Values) -> float:
    """(leads, beats, samples) against (leads, samples)."""
    each, mean = beats - beats.mean(axis=2, keepdims=True), typical - typical.mean(axis=1, keepdims=True)
    products = np.einsum("lbs,ls->b", each, mean)
    sizes = np.sqrt(np.einsum("lbs,lbs->b", each, each) * np.square(mean).sum())
    return float(np.median(products / np.maximum(sizes, np.finfo(np.float64).tiny)))
