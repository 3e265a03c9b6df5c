"""PhysioNet/CinC Challenges 2020 and 2021: 88,253 12-lead recordings of eight cohorts, at 257 to 1,000 Hz."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from pydantic import field_validator

from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets.csv_tables import find_table, read_csv
from clocs.datasets.dataset import Dataset, Download, Entry, Options, load_entry
from clocs.datasets.task import Task
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

Cohort = Literal[
    "cpsc_2018", "cpsc_2018_extra", "st_petersburg_incart", "ptb", "ptb-xl", "georgia", "chapman_shaoxing", "ningbo"
]
COHORTS: Final[dict[Cohort, str]] = {
    "cpsc_2018": r"A\d{4}",
    "cpsc_2018_extra": r"Q\d{4}",
    "st_petersburg_incart": r"I\d{4}",
    "ptb": r"S\d{4}",
    "ptb-xl": r"HR\d{5}",
    "georgia": r"E\d{5}",
    "chapman_shaoxing": r"JS(?:0\d{4}|10[0-5]\d{2}|106[0-3]\d|1064[0-6])",
    "ningbo": r"J?S\d{5}",
}
"""File names of each cohort. One file of Ningbo is named S23074 instead of JS23074."""
DEFAULT_COHORTS: Final[tuple[Cohort, ...]] = tuple(name for name in COHORTS if name != "st_petersburg_incart")
SCORED_LABELS: Final = {
    "164889003": "AF",
    "164890007": "AFL",
    "6374002": "BBB",
    "426627000": "Brady",
    "733534002": "CLBBB",
    "713427006": "CRBBB",
    "270492004": "IAVB",
    "713426002": "IRBBB",
    "39732003": "LAD",
    "445118002": "LAnFB",
    "164909002": "LBBB",
    "164947007": "LPR",
    "251146004": "LQRSV",
    "111975006": "LQT",
    "698252002": "NSIVCB",
    "426783006": "NSR",
    "284470004": "PAC",
    "10370003": "PR",
    "365413008": "PRWP",
    "427172004": "PVC",
    "164917005": "QAb",
    "47665007": "RAD",
    "59118001": "RBBB",
    "427393009": "SA",
    "426177001": "SB",
    "427084000": "STach",
    "63593006": "SVPB",
    "164934002": "TAb",
    "59931005": "TInv",
    "17338001": "VPB",
}
"""Short names of the 30 SNOMED CT codes that the 2021 challenge scored. Other codes stay codes."""
SCORED_AS_ONE: Final = {"LBBB": "CLBBB", "RBBB": "CRBBB", "PAC": "SVPB", "PVC": "VPB"}
"""Pairs of labels that the challenge scored as one class."""
MEANINGS: Final = {
    "AF": "atrial fibrillation",
    "AFL": "atrial flutter",
    "BBB": "bundle branch block, side not stated",
    "Brady": "bradycardia",
    "IAVB": "first-degree atrioventricular block",
    "IRBBB": "incomplete right bundle branch block",
    "LAD": "left axis deviation",
    "LAnFB": "left anterior fascicular block",
    "LBBB": "left bundle branch block, complete or not stated",
    "LPR": "prolonged PR interval",
    "LQRSV": "low QRS voltages",
    "LQT": "prolonged QT interval",
    "NSIVCB": "non-specific intraventricular conduction disorder",
    "NSR": "sinus rhythm",
    "PAC": "premature atrial or supraventricular beats",
    "PR": "pacing rhythm",
    "PRWP": "poor R wave progression",
    "PVC": "premature ventricular beats",
    "QAb": "abnormal Q wave",
    "RAD": "right axis deviation",
    "RBBB": "right bundle branch block, complete or not stated",
    "SA": "sinus arrhythmia",
    "SB": "sinus bradycardia",
    "STach": "sinus tachycardia",
    "TAb": "abnormal T wave",
    "TInv": "inverted T wave",
}
CLASSES: Final = {
    name: (name, SCORED_AS_ONE[name]) if name in SCORED_AS_ONE else (name,)
    for name in SCORED_LABELS.values()
    if name not in SCORED_AS_ONE.values()
}
_OVER_89 = re.compile(rb"(?m)^#\s*Age:\s*300(\.0)?\s*$")


class Physionet2021Options(Options):
    """Options of the challenge's collections: which cohorts to read."""

    cohorts: tuple[Cohort, ...] = DEFAULT_COHORTS
    """Cohorts to read, separated by commas. By default all except ``st_petersburg_incart``, whose original has better
    signals, beats and patients."""

    @field_validator("cohorts", mode="before")
    @classmethod
    def _split_text(cls, value: object) -> object:
        return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else value


def _entries(source: Source, options: Physionet2021Options) -> Iterator[Entry]:
    """List the headers of the chosen cohorts.

    A ``ptbxl_database.csv`` in the source gives the patients of PTB-XL.
    """
    patients = _ptbxl_patients(source) if "ptb-xl" in options.cohorts else {}
    for name in source.names():
        stem = name.rsplit("/", 1)[-1].removesuffix(".hea")
        cohort = _cohort(stem) if name.endswith(".hea") else None
        if cohort in options.cohorts:
            record_id = f"J{stem}" if cohort == "ningbo" and stem.startswith("S") else stem
            patient_id = patients.get(int(stem[2:]), "") if cohort == "ptb-xl" else ""
            yield Entry(name, record_id, patient_id=patient_id, site=cohort)


def _cohort(stem: str) -> Cohort | None:
    return next((name for name, pattern in COHORTS.items() if re.fullmatch(pattern, stem)), None)


def _ptbxl_patients(source: Source) -> dict[int, str]:
    """Return the patients of PTB-XL by the number of the recording; empty without the table."""
    table = find_table(source, "ptbxl_database.csv")
    rows = read_csv(source, table, needed=("ecg_id", "patient_id")) if table else ()
    return {int(row["ecg_id"]): f"ptb-xl-{row['patient_id'].removesuffix('.0')}" for row in rows}


def _load(source: Source, entry: Entry, options: Physionet2021Options) -> Recording:
    """Read a recording with the short names of its diagnoses. PTB-XL writes 300 for ages over 89."""
    recording = load_entry(source, entry, options)
    labels = tuple(SCORED_LABELS.get(code, code) for code in recording.labels)
    is_over_89 = recording.age is None and _OVER_89.search(source.read(entry.file)) is not None
    return replace(recording, labels=labels, age=90.0 if is_over_89 else recording.age)


PHYSIONET2021 = Dataset(
    name="physionet2021",
    title="PhysioNet/CinC Challenges 2020 and 2021, training sets of all cohorts",
    licence="CC BY 4.0",
    citation="Reyna et al., Will two do? Varying dimensions in electrocardiography: the PhysioNet/Computing in "
    "Cardiology Challenge 2021, Computing in Cardiology 48, 2021; Perez Alday et al., Classification of 12-lead ECGs: "
    "the PhysioNet/Computing in Cardiology Challenge 2020, Physiological Measurement 41:124003, 2020",
    homepage="https://physionet.org/content/challenge-2021/1.0.3/",
    entries=_entries,
    load=_load,
    options=Physionet2021Options,
    classes=CLASSES,
    tasks={
        "scored": Task(
            title="The 26 classes that the 2021 challenge scored", kind="multi-label", classes=CLASSES, keep_others=True
        ),
    },
    meanings=MEANINGS,
    limitations=(
        "Cohorts differ in sampling rate, length and habits of labelling, so a classifier can learn the cohort instead "
        "of the diagnosis.",
        "No patients are published. Recordings of one PTB or INCART patient count as several, as do those of PTB-XL "
        "unless its table is in the source.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    gate=GatePolicy(min_seconds=5),
    downloads=(Download("https://physionet.org/files/challenge-2021/1.0.3/", listing=True, only=("training/",)),),
    expected={"in": 88179},
)
