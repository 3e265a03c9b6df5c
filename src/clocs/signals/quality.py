"""The quality gate: what is wrong with a recording, lead by lead, before it may be stored or embedded."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.recording import Recording, missing_value
from clocs.signals.beats import MIN_SAMPLING_RATE, BeatMeasurements, find_beats
from clocs.signals.leads import LEAD_EQUATIONS

Values = npt.NDArray[np.float64]
Reason = Literal[
    "unreadable",
    "length",
    "short",
    "missing",
    "flat",
    "amplitude",
    "saturated",
    "lead_equations",
    "sampling_rate",
    "electrodes",
]
REASONS: tuple[Reason, ...] = get_args(Reason)
"""In the order in which they name a recording that is refused for several."""

LIMBS = {"I": (1.0, 0.0), "II": (0.0, 1.0)} | {lead: (sums["I"], sums["II"]) for lead, sums in LEAD_EQUATIONS.items()}
"""The weights of I and II in each limb lead: six leads in one plane, so that any three obey an equation."""
SPIKES = 10.0
"""Spikes that may hide a flat lead, in multiples of the span that makes one flat."""
EXCHANGE_FACTOR = 2.0
"""Two leads are taken for exchanged if the lead equations fit this much better with their names swapped. Measured on
the 10,606 Chapman records that are not flat, each lead filtered by itself: at most 1.5 as published; after a swap of
two names, 98 to 100 % are beyond 2."""
EXCHANGE_FLOOR = 0.02
"""Deviation from the equations, as a fraction of the limb leads' size, below which no exchange is looked for."""
CLEAR_BEATS, EVEN_BEATS = 0.9, 0.15
"""Least agreement of beats that are judged, and the most unevenness of those that are judged by their shape."""
DOUBTFUL_RATES = ((0.4, 0.6), (5 / 3, 2.5))
"""Measured heart rate over the one that the file states, as a rate of half or twice the true one makes it."""
TOO_SLOW, TOO_QUICK = (1.3, 0.065, 0.33), (0.6, 0.032, 0.23)
"""Seconds from beat to beat, seconds of the QRS complex, and the T wave's delay over the root of the interval. Beats
with all three above (below) are those of a rate half (twice) the true one; of 25,999 real recordings none has them."""
ARMS_EXCHANGED = (-0.03, -0.2, -0.05)
"""mV. P, QRS and T of lead I all below: of 17,471 real recordings with lead I none."""
P_APART_FROM_T = 0.55
"""Seconds from beat to beat; in quicker hearts the one hides the other."""


@dataclass(frozen=True)
class Finding:
    """One fault: its reason, the lead it is in (empty: the whole recording), and the measured value."""

    reason: Reason
    lead: str
    detail: str


class GatePolicy(BaseModel):
    """What a recording must satisfy. A limit of None switches that check off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_seconds: float | None = Field(default=1.0, ge=0)
    match_header_length: bool = True
    max_missing: float | None = Field(default=0.0, ge=0, le=1)
    """Fraction of a lead's samples that may be missing."""
    min_span: float | None = Field(default=0.01, ge=0)
    """Peak to peak, mV; below, a lead is flat. So is one of up to ten times that, if it is below but for its
    ``max_outlier_fraction`` outermost samples: spikes on a signal of the wrong scale. In adu, only a constant
    lead is flat."""
    max_amplitude: float | None = Field(default=20.0, gt=0)
    """mV. The largest real beats stay under 10; no heart gives 20."""
    max_outlier_fraction: float = Field(default=0.01, ge=0, le=1)
    """Fraction of a lead's samples that may be beyond it: spikes are common, a wrong scale is not."""
    max_saturated_seconds: float | None = Field(default=0.2, gt=0)
    """Longest stay at one of a lead's own extremes, if that is beyond ``saturation_floor``."""
    saturation_floor: float = 2.0
    """mV."""
    max_lead_equation_error: float | None = Field(default=0.5, gt=0)
    """Deviation from the lead equations, as a fraction of the limb leads' own size (both rms). None switches off the
    search for exchanged leads, too."""
    check_sampling_rate: bool = False
    """Whether beats must be such as a heart makes at the stated rate. For files of unknown care."""
    check_electrodes: bool = False
    """Whether lead I must not look as if the electrodes of the arms were exchanged."""


GATE_OFF = GatePolicy(
    min_seconds=None,
    match_header_length=False,
    max_missing=None,
    min_span=None,
    max_amplitude=None,
    max_saturated_seconds=None,
    max_lead_equation_error=None,
)
"""Everything that can be read passes."""


def assess(recording: Recording, policy: GatePolicy) -> list[Finding]:
    """All faults of a recording under a policy; empty when it may be stored."""
    if policy == GATE_OFF:
        return []
    findings = _length(recording, policy)
    present = recording.digital != missing_value(recording.digital.dtype)
    for row, lead in enumerate(recording.leads):
        findings += _lead(recording, policy, row, lead, present[row])
    findings += _identities(recording, policy, present)
    return findings or _beats(recording, policy)


def _length(recording: Recording, policy: GatePolicy) -> list[Finding]:
    found: list[Finding] = []
    declared = recording.provenance.num_declared_samples
    if policy.match_header_length and declared is not None and declared != recording.num_samples:
        found.append(Finding("length", "", f"{recording.num_samples} samples, header says {declared}"))
    if policy.min_seconds is not None and recording.seconds < policy.min_seconds:
        found.append(Finding("short", "", f"{recording.seconds:g} s, at least {policy.min_seconds:g} s needed"))
    return found


def _lead(
    recording: Recording, policy: GatePolicy, row: int, lead: str, present: npt.NDArray[np.bool_]
) -> list[Finding]:
    found: list[Finding] = []
    absent = len(present) - int(np.count_nonzero(present))
    if policy.max_missing is not None and absent > policy.max_missing * len(present):
        found.append(Finding("missing", lead, f"{absent} of {len(present)} samples"))
    values = recording.digital[row] if absent == 0 else recording.digital[row][present]
    if not len(values):
        return found
    low, high = int(values.min()), int(values.max())
    gain, zero = abs(float(recording.gain[row])), int(recording.baseline[row])
    in_mv = recording.unit == "mV"
    span = (high - low) / gain
    if policy.min_span is not None and in_mv and span < SPIKES * policy.min_span:
        span = _inner_span(values, policy.max_outlier_fraction) / gain
    if policy.min_span is not None and (high == low or (in_mv and span < policy.min_span)):
        return [*found, Finding("flat", lead, f"{span:g} {recording.unit} peak to peak")]
    if not in_mv:
        return found
    peak = max(high - zero, zero - low) / gain
    if policy.max_amplitude is not None and peak > policy.max_amplitude:
        beyond = float(np.mean(np.abs(values.astype(np.int64) - zero) > policy.max_amplitude * gain))
        if beyond > policy.max_outlier_fraction:
            found.append(Finding("amplitude", lead, f"{peak:.3g} mV; {beyond:.0%} beyond {policy.max_amplitude:g}"))
    for extreme in (high, low):
        height = abs(extreme - zero) / gain
        if policy.max_saturated_seconds is not None and height > policy.saturation_floor:
            stay = _longest_run(values == extreme) / recording.sampling_rate
            if stay > policy.max_saturated_seconds:
                found.append(Finding("saturated", lead, f"{stay:.3g} s at {height:.3g} mV"))
    return found


def _identities(recording: Recording, policy: GatePolicy, present: npt.NDArray[np.bool_]) -> list[Finding]:
    """Einthoven and Goldberger, where a recording measured at least three limb leads."""
    limbs = [lead for lead in LIMBS if lead in recording.leads and lead not in recording.provenance.derived_leads]
    if policy.max_lead_equation_error is None or len(limbs) < 3:
        return []
    rows = [recording.leads.index(lead) for lead in limbs]
    values = _values(recording, rows)
    judged = present[rows].all(axis=0)
    if policy.max_amplitude is not None and recording.unit == "mV":  # a spike on all leads fits no equation
        judged &= (np.abs(values) <= policy.max_amplitude).all(axis=0)
    # Limb leads that all show one value, not zero, show a calibration pulse: no heart fits that.
    judged &= (values != values[0]).any(axis=0) | (values[0] == 0)
    if not judged.any():
        return []
    volts = dict(zip(limbs, values if judged.all() else values[:, judged], strict=True))
    off = _off_equations(volts, policy.max_lead_equation_error)
    products = _products(list(volts.values()))
    if off or _off_plane(products, tuple(limbs)) <= EXCHANGE_FLOOR * np.sqrt(np.trace(products)):
        return off
    chest = sorted(lead for row, lead in enumerate(recording.leads) if lead not in LIMBS and present[row, judged].all())
    chest_values = _values(recording, [recording.leads.index(lead) for lead in chest])[:, judged]
    return _exchanged(volts, dict(zip(chest, chest_values, strict=True)))


def _off_equations(volts: dict[str, Values], limit: float) -> list[Finding]:
    """Leads that I and II, where both are there, do not give."""
    if not {"I", "II"} <= set(volts):
        return []
    size = max(_rms(volts["I"]), _rms(volts["II"]))
    found = []
    for lead in (lead for lead in LEAD_EQUATIONS if lead in volts):
        expected = sum(weight * volts[name] for name, weight in LEAD_EQUATIONS[lead].items())
        error = _rms(volts[lead] - expected) / size if size else 0.0
        if error > limit:
            found.append(Finding("lead_equations", lead, f"{error:.2f} of the limb leads' size off its equation"))
    return found


def _exchanged(limbs: dict[str, Values], others: dict[str, Values]) -> list[Finding]:
    """Two leads, one of a limb, that fit the equations far better under each other's names."""
    names = (*limbs, *others)
    products = _products([*limbs.values(), *others.values()])

    def off_plane(one: int, other: int) -> float:
        """After an exchange of these two."""
        order = [{one: other, other: one}.get(row, row) for row in range(len(limbs))]
        return _off_plane(products[np.ix_(order, order)], tuple(limbs))

    pairs = [(one, other) for one in range(len(limbs)) for other in range(one + 1, len(names))]
    best, pair = min((off_plane(*pair), pair) for pair in pairs)
    found = off_plane(0, 0)
    if found <= EXCHANGE_FACTOR * best:
        return []
    size = float(np.sqrt(np.trace(products[: len(limbs), : len(limbs)])))
    one, other = (names[row] for row in pair)
    said = f"{found / size:.2g} of the limb leads' size off their equations; {best / size:.2g} if it is "
    return [Finding("lead_equations", lead, said + twin) for lead, twin in ((one, other), (other, one))]


def _beats(recording: Recording, policy: GatePolicy) -> list[Finding]:
    """What no heart does at the stated rate, or with electrodes where they belong."""
    if policy.check_sampling_rate and recording.sampling_rate < MIN_SAMPLING_RATE:
        return [
            Finding(
                "sampling_rate",
                "",
                f"{recording.sampling_rate:g} Hz; below {MIN_SAMPLING_RATE:g} no heartbeat can be seen",
            )
        ]
    beats = find_beats(recording) if policy.check_sampling_rate or policy.check_electrodes else None
    if beats is None or beats.agreement < CLEAR_BEATS:
        return []
    if policy.check_sampling_rate and (said := _wrong_rate(beats, recording)):
        return [Finding("sampling_rate", "", said)]
    clear = recording.unit == "mV" and beats.unevenness < EVEN_BEATS and beats.interval > P_APART_FROM_T
    lead_one = np.array(beats.waves.get("I", (0.0, 0.0, 0.0)))
    if policy.check_electrodes and clear and (lead_one < ARMS_EXCHANGED).all():
        return [
            Finding(
                "electrodes",
                "I",
                "P, QRS and T point down: arms exchanged, leads upside down, or the heart on the right",
            )
        ]
    return []


def _wrong_rate(beats: BeatMeasurements, recording: Recording) -> str:
    """Why the rate is half or twice the true one; empty where it may be right."""
    measured, stated = 60 / beats.interval, recording.provenance.heart_rate
    told = f"{measured:.0f} beats a minute at {recording.sampling_rate:g} Hz"
    if stated:
        wrong = any(low < measured / stated < high for low, high in DOUBTFUL_RATES)
        return f"{told}, but the file says {stated:.0f}" if wrong else ""
    shape = np.array([beats.interval, beats.qrs, beats.t_delay / np.sqrt(beats.interval)])
    slow, quick = bool((shape > TOO_SLOW).all()), bool((shape < TOO_QUICK).all())
    if beats.unevenness > EVEN_BEATS or not slow | quick:
        return ""
    waves = f"QRS of {beats.qrs * 1e3:.0f} ms, T after {beats.t_delay * 1e3:.0f} ms"
    return f"{told}, {waves}: as if it were {'twice' if slow else 'half'} as high"


def _products(rows: list[Values]) -> Values:
    """(rows, rows) sums of products, means removed."""
    centred = np.stack([values - values.mean() for values in rows])
    return np.asarray(np.einsum("is,js->ij", centred, centred))  # not @: its threads cost more than they save here


def _off_plane(products: Values, limbs: tuple[str, ...]) -> float:
    """How far limb leads, given by their sums of products, are from their plane: root of the sum of squares."""
    normals = _normals(limbs)
    return float(np.sqrt(max(np.sum(normals @ products * normals), 0.0)))


@functools.cache
def _normals(limbs: tuple[str, ...]) -> Values:
    """(limbs - 2, limbs): unit vectors at right angles to the plane of these leads."""
    directions = np.linalg.svd(np.array([LIMBS[lead] for lead in limbs]))[0]
    return np.asarray(directions[:, 2:].T)


def _values(recording: Recording, rows: list[int]) -> Values:
    """(rows, samples) in the recording's unit."""
    digital, zero = recording.digital[rows], recording.baseline[rows, None].astype(np.float64)
    return np.asarray((digital - zero) / recording.gain[rows, None])


def _inner_span(values: npt.NDArray[np.int16 | np.int32], left_out: float) -> int:
    """Steps from the lowest to the highest value, but for that fraction of them, half at each end."""
    skip = int(left_out * len(values) / 2)
    ordered = np.sort(values)
    return int(ordered[len(values) - 1 - skip]) - int(ordered[skip])


def _rms(values: Values) -> float:
    return float(np.sqrt(np.mean(np.square(values - values.mean()))))


def _longest_run(mask: npt.NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.view(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))
