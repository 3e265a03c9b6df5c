"""Synthetic patients: twelve-lead ECGs of a moving heart vector, with known waves, intervals and axes.

Use them for tests, tutorials and benchmarks of speed. They only look plausible: do not report results on them as
results on patients.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from clocs.core.errors import FormatError
from clocs.core.recording import MICROVOLT_GAIN, Provenance, Recording
from clocs.core.seeds import generator
from clocs.core.sources.source import Source
from clocs.datasets.dataset import Dataset, Entry, Options
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import parse_acquired
from clocs.signals.framing import FramePolicy
from clocs.signals.heart_vector import SHAPES, Heart, make_heart
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.rhythms import HEART_RATES
from clocs.signals.simulation import CONDUCTION_FINDINGS, GroundTruth, Simulation, simulate

Array = npt.NDArray[np.float64]

LEAD_SETS: Final = {1: ("II",), 2: ("II", "V2"), 4: ("II", "V2", "aVL", "aVR"), 12: STANDARD_LEADS}
RHYTHMS: Final = tuple(HEART_RATES)
MORPHOLOGY: Final = tuple(name for name in SHAPES if name)
MEANINGS: Final = {
    "SR": "sinus rhythm",
    "SB": "sinus bradycardia",
    "ST": "sinus tachycardia",
    "AFIB": "atrial fibrillation",
    "PVC": "ventricular ectopic beats in sinus rhythm",
    "1AVB": "first-degree AV block",
    "2AVB": "second-degree AV block",
    "3AVB": "complete AV block",
    "PAC": "atrial ectopic beats",
    "LBBB": "left bundle branch block",
    "RBBB": "right bundle branch block",
    "LVH": "left ventricular hypertrophy",
    "RVH": "right ventricular hypertrophy",
    "PACE": "ventricular pacing",
    "STE-ANT": "anterior ST elevation",
    "STE-INF": "inferior ST elevation",
    "STE-LAT": "lateral ST elevation",
    "STD-ANT": "anterior ST depression",
    "STD-INF": "inferior ST depression",
    "STD-LAT": "lateral ST depression",
}
"""Meaning of each label. The first label of a recording is its rhythm, the others are findings."""
RHYTHM_CLASSES: Final = {name: (name,) for name in RHYTHMS}
ALL_CLASSES: Final = {name: (name,) for name in MEANINGS}
USUAL_PROBABILITY: Final = 0.75
"""Probability that a recording shows its patient's usual rhythm, and that it shows an intermittent finding."""
PERSISTENT: Final = ("1AVB", "LBBB", "RBBB", "LVH", "RVH", "PACE")
"""Findings that every recording of a patient shows, unless its rhythm excludes them."""
CONDUCTION_FRACTION, MORPHOLOGY_FRACTION = 0.32, 0.62
"""Fractions of patients with a conduction finding and with a morphology finding."""
INCOMPATIBLE: Final = {
    "AFIB": ("1AVB", "2AVB", "PAC"),
    "PVC": ("2AVB", "3AVB", "PAC", "PACE"),
    "SB": ("PACE",),
    "PACE": CONDUCTION_FINDINGS,
}
"""Findings that a label excludes."""
MODEL_VERSION: Final = 2
"""Version of the simulation, part of a recording's hash. Increase it when signals change."""
_CHUNK_SIZE = 1024


class SyntheticOptions(Options):
    """Options of synthetic data. A larger ``num_records`` does not change existing recordings."""

    num_records: int = Field(default=1000, ge=1, le=100_000_000)
    """Number of recordings."""
    seed: int = Field(default=0, ge=0)
    """Random seed of the patients and recordings."""
    recordings_per_patient: int = Field(default=2, ge=1)
    """Number of recordings of each patient. The last patient may have fewer."""
    leads: int = 12
    """Number of leads: 1 (II), 2 (II, V2), 4 (II, V2, aVL, aVR) or 12."""
    seconds: float = Field(default=10.0, ge=1, le=600)
    """Length of each recording in seconds."""
    sampling_rate: float = Field(default=500.0, ge=100, le=2000)
    """Sampling rate in Hz."""
    noise: float = Field(default=1.0, ge=0, le=5)
    """Factor on noise, baseline wander and mains hum; 0 for a clean signal."""
    task: Literal["rhythm", "findings"] = "rhythm"
    """Classes: ``rhythm`` for one of five rhythms per recording, ``findings`` for all 20 labels."""

    @field_validator("leads")
    @classmethod
    def _check_leads(cls, leads: int) -> int:
        if leads not in LEAD_SETS:
            raise ValueError(f"expected {', '.join(map(str, LEAD_SETS))} leads, got {leads}")
        return leads

    @property
    def custom_classes(self) -> Mapping[str, tuple[str, ...]]:
        """Classes of the task; empty for the dataset's own."""
        return {} if self.task == "rhythm" else ALL_CLASSES


def truth(record_id: str, options: SyntheticOptions) -> GroundTruth:
    """Return the true beats, intervals and axes of a recording.

    Args:
        record_id: Id of the recording in the store, seven digits.
        options: Options of the dataset.

    Returns:
        The beats within the recording, including waves that are cut off at its ends.

    Raises:
        FormatError: The record does not exist.

    Example:
        >>> beats = truth("0000006", SyntheticOptions(num_records=10))
        >>> len(beats.qrs_onsets) == len(beats.kinds) == len(beats.qt)
        True
    """
    return _simulate(_record_number(record_id), options)[0].truth()


def _entries(source: Source, options: SyntheticOptions) -> Iterator[Entry]:
    """List every record in order, without making a signal."""
    return (_entry(number, options) for number in range(options.num_records))


def _entry(number: int, options: SyntheticOptions) -> Entry:
    patient = number // options.recordings_per_patient
    usual, age, sex, conducts, shape = _random_rows(options.seed, "patients", patient // _CHUNK_SIZE)[
        patient % _CHUNK_SIZE
    ]
    stays, other, first, second, _ = _random_rows(options.seed, "recordings", number // _CHUNK_SIZE)[
        number % _CHUNK_SIZE
    ]
    rhythm = RHYTHMS[int((usual if stays < USUAL_PROBABILITY else other) * len(RHYTHMS))]
    findings = (
        _choose_finding(MORPHOLOGY, shape / MORPHOLOGY_FRACTION, first),
        _choose_finding(CONDUCTION_FINDINGS, conducts / CONDUCTION_FRACTION, second),
    )
    return Entry(
        file=f"synthetic/{number:07d}",
        record_id=f"{number:07d}",
        patient_id=f"P{patient:07d}",
        age=float(20 + int(age * 70)),
        sex="female" if sex < 0.5 else "male",
        labels=_compatible(rhythm, *findings),
    )


def _choose_finding(names: tuple[str, ...], position: float, stays: float) -> str:
    """Return the finding at a position from 0 to 1; empty beyond 1, or if an intermittent finding is absent."""
    name = names[int(position * len(names))] if position < 1 else ""
    return name if name in PERSISTENT or stays < USUAL_PROBABILITY else ""


def _compatible(rhythm: str, *findings: str) -> tuple[str, ...]:
    labels = [rhythm]
    for finding in findings:
        if finding and not any(finding in INCOMPATIBLE.get(label, ()) for label in labels):
            labels.append(finding)
    return tuple(labels)


@functools.lru_cache(maxsize=16)
def _random_rows(seed: int, kind: str, chunk: int) -> Array:
    """Draw (chunk, 5) numbers in 0..1, one row per patient or recording. Chunks make listing millions fast."""
    return generator(seed, "synthetic", kind, chunk).random((_CHUNK_SIZE, 5))


def _record_number(stem: str) -> int:
    if not (stem.isascii() and stem.isdigit()):
        raise FormatError(f"{stem}: not a synthetic record. Their names are synthetic/0000000 and so on.")
    return int(stem)


def _load(source: Source, entry: Entry, options: SyntheticOptions) -> Recording:
    """Simulate the recording of an entry."""
    number = _record_number(entry.file.removeprefix("synthetic/"))
    full_entry = _entry(number, options)
    simulation, random = _simulate(number, options)
    leads = LEAD_SETS[options.leads]
    identity = f"{MODEL_VERSION} {number} {options.model_dump_json(exclude={'num_records', 'task'})}"
    return Recording(
        digital=simulation.draw(leads, options.noise, random),
        gain=np.full(len(leads), MICROVOLT_GAIN),
        baseline=np.zeros(len(leads), np.int32),
        sampling_rate=options.sampling_rate,
        leads=leads,
        record_id=full_entry.record_id,
        patient_id=full_entry.patient_id,
        age=full_entry.age,
        sex=full_entry.sex,
        labels=full_entry.labels,
        acquired=parse_acquired(entry.acquired),
        provenance=Provenance(full_entry.file, "synthetic", hashlib.sha256(identity.encode()).hexdigest()),
    )


def _simulate(number: int, options: SyntheticOptions) -> tuple[Simulation, np.random.Generator]:
    """Return the simulation of a recording and the random generator of its noise."""
    random = generator(options.seed, "synthetic", "signal", number)
    heart = _heart(options.seed, number // options.recordings_per_patient)
    return simulate(_entry(number, options).labels, heart, options.seconds, options.sampling_rate, random), random


@functools.lru_cache(maxsize=64)
def _heart(seed: int, patient: int) -> Heart:
    return make_heart(generator(seed, "synthetic", "patient", patient))


SYNTHETIC = Dataset(
    name="synthetic",
    title="Synthetic twelve-lead ECGs: five rhythms and 15 findings, patients with repeated recordings",
    licence="Apache-2.0",
    citation="",
    homepage="",
    entries=_entries,
    load=_load,
    options=SyntheticOptions,
    needs_source=False,
    classes=RHYTHM_CLASSES,
    tasks={
        "rhythm": Task(title="Rhythm", kind="multi-class", classes=RHYTHM_CLASSES),
        "findings": Task(title="Rhythm and findings", kind="multi-label", classes=ALL_CLASSES),
        # Age and sex do not change the signal: encoders that predict them see something else.
        "age": AGE,
        "sex": SEX,
    },
    meanings=MEANINGS,
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
)
