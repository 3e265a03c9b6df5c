"""Simulate an ECG for a heart, a rhythm and findings, with exact measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.recording import MICROVOLT_GAIN
from clocs.signals import heart_vector as hearts
from clocs.signals import rhythms
from clocs.signals.background import artifacts, fibrillation
from clocs.signals.leads import STANDARD_LEADS

Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Steps = npt.NDArray[np.int16]
Samples = npt.NDArray[np.int64]

CONDUCTION_FINDINGS: Final = ("1AVB", "2AVB", "3AVB", "PAC")
"""Findings of conduction and of ectopic atrial beats. Findings of shape are in ``heart_vector.SHAPES``."""
ST_DELAY: Final = 0.06
"""Seconds from the end of QRS to the measurement of the ST segment."""
BREATHING_SWING: Final = 0.03
"""Scale of the change of the amplitude of a lead with breathing."""
MARGIN: Final = 1.1
"""Seconds that are simulated before and after a recording, for waves that begin or end outside it."""


@dataclass(frozen=True)
class GroundTruth:
    """Exact measurements of a simulated recording. Samples are counted from its start.

    Args:
        p_onsets: First samples of the P waves, of shape (P waves,); empty in atrial fibrillation.
        atrial_ectopic: Whether each P wave is ectopic, of shape (P waves,).
        qrs_onsets: First samples of the QRS complexes, of shape (beats,).
        kinds: Origin of each beat: ``conducted``, ``ventricular`` (ectopic), ``escape`` or ``paced``.
        pr: PR intervals in seconds, of shape (beats,); NaN without a conducted P wave.
        qrs: QRS durations in seconds, of shape (beats,).
        qt: QT intervals in seconds, of shape (beats,).
        p_duration: Duration of the P wave in seconds; NaN without P waves.
        p_axis: Frontal axis of the area of P in degrees; NaN without P waves.
        qrs_axis: Frontal axis of the area of QRS in the usual beats, in degrees.
        t_axis: Frontal axis of the area of T in the usual beats, in degrees.
        st: Lead -> amplitude in mV 60 ms after the end of QRS in the usual beats.
    """

    p_onsets: Samples
    atrial_ectopic: npt.NDArray[np.bool_]
    qrs_onsets: Samples
    kinds: tuple[str, ...]
    pr: Array
    qrs: Array
    qt: Array
    p_duration: float
    p_axis: float
    qrs_axis: float
    t_axis: float
    st: Mapping[str, float]


@dataclass(frozen=True)
class Simulation:
    """A simulated recording before its samples are drawn: the heart, its beats, and the vector of each kind of beat.

    Args:
        heart: The heart at the time of the recording.
        beats: Times of atrial and ventricular beats.
        fibrillates: Whether the atria fibrillate.
        p: P wave of the sinus node, and ectopic P wave.
        ventricular: Index in ``rhythms.KINDS`` -> QRS, ST and T, for the kinds that occur.
        usual: Index in ``rhythms.KINDS`` of the usual beats.
        seconds: Duration of the recording.
        sampling_rate: Sampling rate in Hz.
    """

    heart: hearts.Heart
    beats: rhythms.BeatSequence
    fibrillates: bool
    p: tuple[hearts.Beat, hearts.Beat]
    ventricular: Mapping[int, hearts.Beat]
    usual: int
    seconds: float
    sampling_rate: float

    def truth(self) -> GroundTruth:
        """Return the measurements of all waves that begin within the recording."""
        beats, end, chest = self.beats, round(self.seconds * self.sampling_rate), self.heart.chest
        p, qrs = (self._samples(at) for at in (beats.atrial, beats.ventricular))
        is_visible_p, is_visible = (p >= 0) & (p < end), (qrs >= 0) & (qrs < end)
        kinds, usual = beats.kinds[is_visible], self.ventricular[self.usual]
        sinus, has_p = self.p[0], len(p) > 0
        microvolt = MICROVOLT_GAIN * chest @ usual.vector(np.array([usual.duration + ST_DELAY]))
        st = _to_leads(np.rint(microvolt).astype(np.int16), STANDARD_LEADS)[:, 0] / MICROVOLT_GAIN
        return GroundTruth(
            p_onsets=p[is_visible_p],
            atrial_ectopic=beats.atrial_ectopic[is_visible_p],
            qrs_onsets=qrs[is_visible],
            kinds=tuple(rhythms.KINDS[kind] for kind in kinds),
            pr=beats.pr[is_visible],
            qrs=np.array([self.ventricular[kind].duration for kind in kinds]),
            qt=np.array([self.ventricular[kind].end for kind in kinds]),
            p_duration=sinus.duration if has_p else math.nan,
            p_axis=hearts.frontal_axis(chest @ sinus.area(hearts.P)) if has_p else math.nan,
            qrs_axis=hearts.frontal_axis(chest @ usual.area(hearts.QRS)),
            t_axis=hearts.frontal_axis(chest @ usual.area(hearts.T)),
            st=dict(zip(STANDARD_LEADS, st.tolist(), strict=True)),
        )

    def draw(self, leads: tuple[str, ...], noise: float, random: np.random.Generator) -> Steps:
        """Draw the samples of the recording.

        Args:
            leads: Any of the twelve standard leads.
            noise: Factor of noise, baseline wander and mains hum.
            random: Random generator of the recording.

        Returns:
            Samples in microvolt of shape (leads, samples). The lead equations hold to a microvolt.
        """
        num_samples, margin = round(self.seconds * self.sampling_rate), math.ceil(MARGIN * self.sampling_rate)
        chest = self.heart.chest * MICROVOLT_GAIN
        breathing = (float(random.uniform(0.15, 0.35)), float(random.uniform(0, 2 * np.pi)))
        swing = BREATHING_SWING * hearts.clipped_normal(random, len(chest), 1)
        canvas = np.zeros((len(chest), num_samples + 2 * margin), np.float32)
        for beat, at in self._beats_by_kind():
            sizes = 1 + swing * np.sin(2 * np.pi * breathing[0] * at + breathing[1])
            time = np.arange(math.ceil(beat.end * self.sampling_rate)) / self.sampling_rate
            _add(canvas, self._samples(at) + margin, (chest @ beat.vector(time)).astype(np.float32), sizes)
        spikes = self._samples(self.beats.ventricular[self.beats.kinds == rhythms.PACED]) + margin - 1
        canvas[:, spikes] += (chest @ hearts.SPIKE).astype(np.float32)[:, None]
        source = canvas[:, margin : margin + num_samples]
        if self.fibrillates:
            source += fibrillation(chest, num_samples, self.sampling_rate, random)
        if noise:
            scale = np.float32(noise * MICROVOLT_GAIN)
            source += scale * artifacts(len(chest), num_samples, self.sampling_rate, breathing, random)
        return _to_leads(np.rint(source).astype(np.int16), leads)

    def _beats_by_kind(self) -> Iterator[tuple[hearts.Beat, Array]]:
        """Iterate over the kinds of beats, each with its onsets in seconds."""
        beats = self.beats
        yield self.p[0], beats.atrial[~beats.atrial_ectopic]
        yield self.p[1], beats.atrial[beats.atrial_ectopic]
        for kind, beat in self.ventricular.items():
            yield beat, beats.ventricular[beats.kinds == kind]

    def _samples(self, at: Array) -> Samples:
        return np.rint(at * self.sampling_rate).astype(np.int64)


def simulate(
    labels: Sequence[str], heart: hearts.Heart, seconds: float, sampling_rate: float, random: np.random.Generator
) -> Simulation:
    """Simulate a recording.

    Args:
        labels: A rhythm of ``rhythms.HEART_RATES``, then at most one of ``CONDUCTION_FINDINGS`` and at most one of
            ``heart_vector.SHAPES``.
        heart: Heart of the patient.
        seconds: Duration of the recording.
        sampling_rate: Sampling rate in Hz.
        random: Random generator of the recording.

    Returns:
        A simulation, from which samples and measurements can be computed.

    Example:
        >>> random = np.random.default_rng(0)
        >>> simulation = simulate(("SR", "LBBB"), hearts.make_heart(random), 10, 500, random)
        >>> simulation.draw(("II", "V1"), 1.0, random).shape
        (2, 5000)
        >>> bool((simulation.truth().qrs > 0.12).all())
        True
    """
    rhythm, *findings = labels
    conduction = next((name for name in findings if name in CONDUCTION_FINDINGS), "")
    shape = next((name for name in findings if name in hearts.SHAPES), "")
    heart = hearts.vary_heart(heart, random)
    beats = rhythms.make_beats(rhythm, conduction, shape == "PACE", heart, seconds, random)
    own = hearts.SHAPES[shape]
    shapes = {
        rhythms.CONDUCTED: own,
        rhythms.VENTRICULAR: hearts.ECTOPIC[heart.origin],
        rhythms.ESCAPE: hearts.ESCAPE if heart.wide_escape and not shape else own,
        rhythms.PACED: own,
    }
    gaps = np.diff(beats.ventricular)
    interval = float(gaps.mean()) if len(gaps) else 1.0
    kinds = set(beats.kinds.tolist())
    usual = next((kind for kind in (rhythms.PACED, rhythms.ESCAPE) if kind in kinds), rhythms.CONDUCTED)
    return Simulation(
        heart=heart,
        beats=beats,
        fibrillates=rhythm == "AFIB",
        p=(hearts.atrial_beat(heart, hearts.P_WAVE), hearts.atrial_beat(heart, hearts.ECTOPIC_P)),
        ventricular={kind: hearts.ventricular_beat(heart, shapes[kind], interval) for kind in sorted(kinds | {usual})},
        usual=usual,
        seconds=seconds,
        sampling_rate=sampling_rate,
    )


def _add(canvas: Floats, starts: Samples, shape: Floats, sizes: Array) -> None:
    """Add a shape (leads, samples) at each start, scaled by sizes (leads, starts)."""
    for start, size in zip(starts, sizes.T.astype(np.float32), strict=True):
        canvas[:, start : start + shape.shape[1]] += shape * size[:, None]


def _to_leads(source: Steps, leads: tuple[str, ...]) -> Steps:
    """Compute leads from the eight independent ones."""
    one, two = source[0], source[1]
    limb = {"III": lambda: two - one, "aVR": lambda: -((one + two) >> 1)}
    limb |= {"aVL": lambda: one - (two >> 1), "aVF": lambda: two - (one >> 1)}
    rows = dict(zip(hearts.SOURCE_LEADS, source, strict=True))
    return np.stack([rows[lead] if lead in rows else limb[lead]() for lead in leads])
