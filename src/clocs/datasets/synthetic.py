"""Made-up patients: as many ECGs as wanted, out of numbers alone, for tests, demonstrations and load.

Each wave of a beat is a dipole in the chest that swells and fades; leads see it through Dower's
matrix. Plausible to the eye, and nothing more: never report results on it as if on patients.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from clocs.core.errors import FormatError
from clocs.core.recording import MICROVOLT_GAIN, Provenance, Recording
from clocs.core.seeds import generator
from clocs.core.sources import Source
from clocs.datasets.dataset import Dataset, Entry, Options
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD

Array = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Steps = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]

LEAD_SETS: Final = {1: ("II",), 4: ("II", "V2", "aVL", "aVR"), 12: STANDARD}
RATES: Final = {"SR": (62, 95), "SB": (42, 57), "ST": (104, 145), "AFIB": (70, 130), "PVC": (62, 90)}
"""Rhythm -> beats per minute: sinus rhythm, bradycardia, tachycardia, atrial fibrillation, ectopic beats."""
RHYTHMS: Final = tuple(RATES)
STAYS: Final = 0.75
"""Chance that a recording shows its patient's usual rhythm; otherwise any of them."""
MODEL: Final = 1
"""Raised with every change of the numbers below, since it is part of a record's identity."""
SOURCE_LEADS: Final = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")
DOWER: Final = np.array(
    [
        (0.632, 0.235, -0.515, 0.044, 0.882, 1.213, 1.125, 0.831),
        (-0.235, 1.066, 0.157, 0.164, 0.098, 0.127, 0.127, 0.076),
        (0.059, -0.132, -0.917, -1.387, -1.277, -0.601, -0.086, 0.230),
    ]
).T
"""(source leads, 3): what a lead sees of a dipole pointing left, down, back (Dower et al., 1980)."""

WAVES: Final = np.array(
    [
        (-0.160, 0.018, 0.020, 0.06, 0.07, -0.06),  # right atrium
        (-0.128, 0.020, 0.022, 0.08, 0.05, 0.02),  # left atrium
        (-0.020, 0.008, 0.009, -0.15, -0.03, -0.27),  # septum: q on the left, r in V1
        (0.000, 0.010, 0.010, 1.25, 0.75, 0.20),  # free wall: R
        (0.021, 0.010, 0.012, -0.15, -0.20, 0.60),  # base: S
        (0.290, 0.055, 0.036, 0.30, 0.17, -0.13),  # T, slow up and fast down
        (0.015, 0.027, 0.042, 0.85, 1.35, 1.00),  # ectopic QRS from the right outflow tract: wide
        (0.340, 0.065, 0.048, -0.38, -0.55, -0.50),  # its T, against its QRS
    ]
)
"""(waves, 6): seconds after R at a rate of 60, widths of rise and fall in seconds, dipole in mV."""
ATRIAL: Final = slice(0, 2)
T_WAVES: Final = [5, 7]
ECTOPIC: Final = slice(6, 8)
REACH: Final = 4.5
"""Widths from its peak at which a wave is over."""
MARGIN: Final = 1.1
"""Seconds drawn before and after a recording, so that waves may begin and end outside it."""
FIBRILLATION: Final = np.array([(-0.030, 0.025, -0.045), (-0.015, 0.040, -0.030)])
"""(components, 3): dipoles of the fibrillating atria in mV, largest in V1 and V2."""
NOISE_BITS: Final = 5
"""White noise lies evenly within 2**5 microvolt: 9 rms."""
WANDER: Final = 0.035
"""mV, scale of a lead's baseline wander, breathing and slower."""
_BLOCK = 1024


class SyntheticOptions(Options):
    """How many, how long, and from which seed. More records never change those there already are."""

    records: int = Field(default=1000, ge=1, le=100_000_000)
    """How many recordings."""
    seed: int = Field(default=0, ge=0)
    """Another seed makes other patients."""
    recordings_per_patient: int = Field(default=2, ge=1)
    """The last patient may have fewer."""
    leads: int = 12
    """1 (II), 4 (II, V2, aVL, aVR) or 12."""
    seconds: float = Field(default=10.0, ge=1, le=600)
    """Of each recording."""
    rate: float = Field(default=500.0, ge=100, le=2000)
    """Hz."""

    @field_validator("leads")
    @classmethod
    def _known_set(cls, leads: int) -> int:
        if leads not in LEAD_SETS:
            raise ValueError(f"leads may be {', '.join(map(str, LEAD_SETS))}")
        return leads


@dataclass(frozen=True)
class _Patient:
    """What the recordings of a patient share."""

    dipoles: Array
    """(waves, 3) in mV: the heart's position and the strength of its waves."""
    chest: Array
    """(source leads, 3): how this body conducts to the electrodes."""
    tempo: float
    """0..1 within the range of any rhythm."""
    conduction: Array
    """(waves,): factors on the delays: PR and QT."""


def _entries(source: Source, options: SyntheticOptions) -> Iterator[Entry]:
    """Every record in order, without making a signal."""
    return (_entry(number, options) for number in range(options.records))


def _entry(number: int, options: SyntheticOptions) -> Entry:
    patient = number // options.recordings_per_patient
    usual, age, sex, _ = _draws(options.seed, "patients", patient // _BLOCK)[patient % _BLOCK]
    stays, other, _, _ = _draws(options.seed, "recordings", number // _BLOCK)[number % _BLOCK]
    rhythm = RHYTHMS[int((usual if stays < STAYS else other) * len(RHYTHMS))]
    return Entry(
        file=f"synthetic/{number:07d}",
        record_id=f"{number:07d}",
        patient_id=f"P{patient:07d}",
        age=float(20 + int(age * 70)),
        sex="female" if sex < 0.5 else "male",
        labels=(rhythm,),
    )


@functools.lru_cache(maxsize=16)
def _draws(seed: int, kind: str, block: int) -> Array:
    """(block, 4) numbers in 0..1, a row for each patient or recording; made at once, since a million are listed."""
    return generator(seed, "synthetic", kind, block).random((_BLOCK, 4))


def _load(source: Source, entry: Entry, options: SyntheticOptions) -> Recording:
    """Make the recording of an entry's number; what the entry says besides is made anew, alike."""
    stem = entry.file.removeprefix("synthetic/")
    if not (stem.isascii() and stem.isdigit()):
        raise FormatError(f"{entry.file}: not a synthetic record; they are named synthetic/0000000 and so on")
    number = int(stem)
    known = _entry(number, options)
    patient = _patient(options.seed, number // options.recordings_per_patient)
    random = generator(options.seed, "synthetic", "signal", number)
    leads = LEAD_SETS[options.leads]
    identity = f"{MODEL} {number} {options.model_dump_json(exclude={'records'})}"
    return Recording(
        digital=_digital(patient, known.labels[0], random, options),
        gain=np.full(len(leads), MICROVOLT_GAIN),
        baseline=np.zeros(len(leads), np.int32),
        rate=options.rate,
        leads=leads,
        record_id=known.record_id,
        patient_id=known.patient_id,
        age=known.age,
        sex=known.sex,
        labels=known.labels,
        provenance=Provenance(known.file, "synthetic", hashlib.sha256(identity.encode()).hexdigest()),
    )


@functools.lru_cache(maxsize=64)
def _patient(seed: int, number: int) -> _Patient:
    random = generator(seed, "synthetic", "patient", number)
    tilt, turn = np.radians(_bounded(random, 2) * (18.0, 10.0))
    frontal = np.array([(np.cos(tilt), -np.sin(tilt), 0), (np.sin(tilt), np.cos(tilt), 0), (0, 0, 1)])
    transverse = np.array([(np.cos(turn), 0, -np.sin(turn)), (0, 1, 0), (np.sin(turn), 0, np.cos(turn))])
    size = np.linalg.norm(WAVES[:, 3:], axis=1, keepdims=True)
    shape = WAVES[:, 3:] * np.exp(0.15 * _bounded(random, len(WAVES), 1))
    shape += 0.07 * size * _bounded(random, len(WAVES), 3)
    conduction = 1 + 0.04 * _bounded(random, len(WAVES))
    conduction[ATRIAL] = 1 + 0.08 * _bounded(random, 1)
    return _Patient(
        dipoles=shape @ (transverse @ frontal).T * np.exp(0.2 * _bounded(random)),
        chest=DOWER * np.exp(0.1 * _bounded(random, len(DOWER), 1)),
        tempo=float(random.random()),
        conduction=conduction,
    )


def _digital(patient: _Patient, rhythm: str, random: np.random.Generator, options: SyntheticOptions) -> Steps:
    """(leads, samples) in microvolt: unrest and beats as the electrodes see them, and noise."""
    samples, margin = round(options.seconds * options.rate), math.ceil(MARGIN * options.rate)
    at, ectopic, mean = _beats(rhythm, patient.tempo, options.seconds, random)
    electrodes = patient.chest * np.exp(0.03 * _bounded(random, len(DOWER), 1)) * MICROVOLT_GAIN
    canvas = _unrest(rhythm, electrodes, samples + 2 * margin, options.rate, random)
    delays, widths = _timing(patient.conduction, mean)
    normal = slice(ATRIAL.stop if rhythm == "AFIB" else 0, ECTOPIC.start)
    for waves, beats in ((normal, at[~ectopic]), (ECTOPIC, at[ectopic])):
        weights = electrodes @ patient.dipoles[waves].T
        _draw_beats(canvas, beats, weights, delays[waves], widths[waves], options.rate)
    np.rint(canvas, out=canvas)
    source = canvas[:, margin : margin + samples].astype(np.int16)
    noise = random.bit_generator.random_raw(samples).astype("<u8", copy=False).view(np.int8)  # 30 x faster than normal
    source += noise.reshape(source.shape) >> (8 - NOISE_BITS)
    return _to_leads(source, LEAD_SETS[options.leads])


def _unrest(rhythm: str, electrodes: Array, samples: int, rate: float, random: np.random.Generator) -> Floats:
    """(source leads, samples) in microvolt: what goes on between beats, wander and fibrillating atria."""
    time = np.arange(samples, dtype=np.float32) / np.float32(rate)
    sines = _sines(time, random.uniform((0.15, 0.04), (0.35, 0.1)), random)
    weights = WANDER * MICROVOLT_GAIN * _bounded(random, len(DOWER), 2)
    if rhythm == "AFIB":
        turns = np.float32(1.8) * _sines(time, random.uniform(0.4, 1.4, 2), random)
        flutter = _sines(time, random.uniform((5.0, 6.0), (6.5, 8.0)), random, turns)
        seen = electrodes @ FIBRILLATION.T * np.exp(0.25 * _bounded(random))
        sines, weights = np.concatenate([sines, flutter]), np.concatenate([weights, seen], axis=1)
    return np.asarray(weights.astype(np.float32) @ sines)


def _beats(rhythm: str, tempo: float, seconds: float, random: np.random.Generator) -> tuple[Array, Flags, float]:
    """When the ventricles beat, in seconds, a little beyond both ends; which beats are ectopic; mean interval."""
    low, high = RATES[rhythm]
    mean = 60 / (low + (high - low) * float(np.clip(tempo + 0.06 * _bounded(random), 0, 1)))
    count = math.ceil(2 * seconds / mean) + 10
    if rhythm == "AFIB":
        interval = np.clip(mean * random.gamma(18, 1 / 18, count), max(0.33, 0.55 * mean), 2 * mean)
    else:
        breathing = np.sin(2 * np.pi * (random.random() + random.uniform(0.15, 0.35) * mean * np.arange(count)))
        interval = mean * (1 + 0.02 * breathing + 0.008 * _bounded(random, count))
    ectopic = np.zeros(count, np.bool_)
    if rhythm == "PVC":
        lot = random.random(count)
        lot[4 + int(random.random() * max(1.0, seconds / mean - 2))] = -1  # at least one in four seconds or more
        ectopic[1:-1] = (lot[1:-1] < 0.18) & (lot[1:-1] < lot[:-2]) & (lot[1:-1] < lot[2:])
        early = 0.38 * mean * ectopic
        interval += np.roll(early, 1) - early  # the pause makes up for it
    at = np.cumsum(interval)
    at -= at[2] + random.random() * mean
    kept = (at > -0.7) & (at < seconds + 0.35)  # with all their waves within the margin
    return at[kept], ectopic[kept], mean


def _timing(conduction: Array, mean: float) -> tuple[Array, Array]:
    """Delays (waves,) and widths (waves, 2) in seconds: PR and QT follow the mean interval, not each beat's."""
    delays, widths = WAVES[:, 0] * conduction, WAVES[:, 1:3].copy()
    delays[ATRIAL] *= mean**0.25
    delays[T_WAVES] *= math.cbrt(mean)
    widths[T_WAVES] *= math.cbrt(mean)
    return delays, widths


def _draw_beats(canvas: Floats, at: Array, weights: Array, delays: Array, widths: Array, rate: float) -> None:
    """Add beats, all alike, to (source leads, margin + samples + margin): a bell for each wave."""
    if not len(at):
        return
    begin = math.floor((delays - REACH * widths[:, 0]).min() * rate)
    end = math.ceil((delays + REACH * widths[:, 1]).max() * rate)
    away = np.arange(begin, end + 1, dtype=np.float64) / rate - delays[:, None]
    away /= np.where(away < 0, widths[:, :1], widths[:, 1:])
    shape = (weights @ np.exp(-0.5 * away * away)).astype(np.float32)
    for start in np.rint((at + MARGIN) * rate).astype(np.int64) + begin:
        canvas[:, start : start + shape.shape[1]] += shape


def _sines(time: Floats, hertz: Array, random: np.random.Generator, shift: Floats | None = None) -> Floats:
    """(waves, samples): a sine for each frequency, from a phase of its own, shifted by radians over time."""
    phases = (2 * np.pi * hertz[:, None]).astype(np.float32) * time
    phases += random.uniform(0, 2 * np.pi, (len(hertz), 1)).astype(np.float32)
    if shift is not None:
        phases += shift
    return np.asarray(np.sin(phases, out=phases))


def _to_leads(source: Steps, leads: tuple[str, ...]) -> Steps:
    """The wanted leads of the eight; limb leads follow from I and II, to half a microvolt."""
    one, two = source[0], source[1]
    limb = {"III": lambda: two - one, "aVR": lambda: -((one + two) >> 1)}
    limb |= {"aVL": lambda: one - (two >> 1), "aVF": lambda: two - (one >> 1)}
    rows = {lead: row for row, lead in enumerate(SOURCE_LEADS)}
    return np.stack([source[rows[lead]] if lead in rows else limb[lead]() for lead in leads])


def _bounded(random: np.random.Generator, *shape: int) -> Array:
    """Normal numbers held within 2.5, so that no patient is a monster."""
    return np.asarray(random.standard_normal(shape)).clip(-2.5, 2.5)


SYNTHETIC = Dataset(
    name="synthetic",
    title="Synthetic ECGs of five rhythms, patients with repeated recordings",
    licence="Apache-2.0",
    citation="",
    homepage="",
    entries=_entries,
    load=_load,
    options=SyntheticOptions,
    needs_source=False,
    classes={rhythm: (rhythm,) for rhythm in RHYTHMS},
    frames={
        "evaluation": FramePolicy(samples=2500, rate=500),
        "segments": FramePolicy(samples=2500, segments=2, rate=500),
    },
)
