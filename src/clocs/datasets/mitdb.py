"""MIT-BIH arrhythmia database: 48 ambulatory recordings of 30 minutes with two leads at 360 Hz, of 47 patients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from clocs.core.errors import FormatError
from clocs.core.recording import Episode, Recording
from clocs.core.sources.source import Source
from clocs.datasets.dataset import Dataset, Download, Entry, Options, load_entry
from clocs.datasets.task import Task
from clocs.formats.demographics import parse_age, parse_sex
from clocs.formats.wfdb.annotations import RHYTHM, parse_annotations
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

SAME_PATIENT: Final = {"202": "201"}
"""Records of a patient that another record has, too: 201 and 202 were cut from one tape."""
PACED: Final = ("102", "104", "107", "217")
"""Records of patients with a pacemaker, which the usual split leaves out."""
DS1: Final = (
    *("101", "106", "108", "109", "112", "114", "115", "116", "118", "119", "122", "124", "201", "203", "205"),
    *("207", "208", "209", "215", "220", "223", "230"),
)
"""Training records of the usual split between patients (de Chazal et al. 2004). Its test records are the others
without a pacemaker, but 202 is of the same patient as 201 and is left out here."""
RHYTHMS: Final = {
    "AB": "atrial bigeminy",
    "AFIB": "atrial fibrillation",
    "AFL": "atrial flutter",
    "B": "ventricular bigeminy",
    "BII": "second-degree heart block",
    "IVR": "idioventricular rhythm",
    "N": "sinus rhythm",
    "NOD": "nodal rhythm",
    "P": "paced rhythm",
    "PREX": "pre-excitation",
    "SBR": "sinus bradycardia",
    "SVTA": "supraventricular tachyarrhythmia",
    "T": "ventricular trigeminy",
    "VFL": "ventricular flutter",
    "VT": "ventricular tachycardia",
}
_HEADER = re.compile(r"(^|/)(\d{3})\.hea$")
_DEMOGRAPHICS = re.compile(rb"(?m)^#\s*(-?\d+)\s+([MF])\b")


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the headers. Excerpts of other records in ``x_mitdb`` have names that begin with x."""
    for name in source.names():
        if match := _HEADER.search(name):
            number = match.group(2)
            subset = "paced" if number in PACED else "DS1" if number in DS1 else "DS2"
            extra = {} if number in SAME_PATIENT else {"subset": subset}
            yield Entry(name, number, SAME_PATIENT.get(number, number), extra=extra)


def _load(source: Source, entry: Entry, options: Options) -> Recording:
    """Read a record with its rhythms, and age and sex of the first comment. An age of -1 means that it is unknown."""
    recording = load_entry(source, entry, options)
    if match := _DEMOGRAPHICS.search(source.read(entry.file)):
        age, sex = (group.decode() for group in match.groups())
        recording = replace(recording, age=parse_age(age), sex=parse_sex(sex))
    name = entry.file.removesuffix("hea") + "atr"
    if not source.exists(name):
        raise FormatError(f"{name}: the annotations are missing. Download the dataset again.")
    episodes = tuple(_episodes(source.read(name), name, recording.num_samples))
    return replace(recording, episodes=episodes, labels=tuple(sorted({episode.label for episode in episodes})))


def _episodes(data: bytes, name: str, num_samples: int) -> Iterator[Episode]:
    """Iterate over the episodes of one rhythm each. Samples before the first change have no rhythm."""
    changes = [item for item in parse_annotations(data, name) if item.code == RHYTHM and item.text.startswith("(")]
    ends = [item.sample for item in changes[1:]] + [num_samples]
    for change, end in zip(changes, ends, strict=True):
        if change.sample < end:
            yield Episode(change.sample, end, change.text.removeprefix("("))


MITDB = Dataset(
    name="mitdb",
    title="MIT-BIH arrhythmia database",
    licence="ODC-By 1.0",
    citation="Moody and Mark, The impact of the MIT-BIH arrhythmia database, IEEE Engineering in Medicine and Biology "
    "Magazine 20(3):45, 2001",
    homepage="https://physionet.org/content/mitdb/1.0.0/",
    entries=_entries,
    load=_load,
    classes={name: (name,) for name in RHYTHMS},
    tasks={
        "af": Task(
            title="Atrial fibrillation in any part of the recording",
            kind="binary",
            classes={"AFIB": ("AFIB",)},
            keep_others=True,
        ),
    },
    meanings=RHYTHMS,
    limitations=(
        "Half of the 48 recordings were chosen for rare rhythms, so their frequency says nothing about other patients.",
        "Rhythms are labels of episodes. Beats are not stored.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500, label_at="start"),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500, label_at="start"),
    },
    gate=GatePolicy(max_saturated_seconds=None),  # the recorders clipped some beats at 5 mV
    downloads=(Download("https://physionet.org/files/mitdb/1.0.0/", listing=True),),
    expected={"in": 48, "patients": 47},
    records_per_shard=16,
)
