"""CPSC 2018 part of the PhysioNet/CinC Challenge 2020: 6,877 recordings of 6 to 144 s at 500 Hz."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets.dataset import Dataset, Download, Entry, Options, load_entry
from clocs.datasets.published_split import PublishedSplit
from clocs.datasets.task import AGE, SEX, Task
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

LEADS = ("II", "V2", "aVL", "aVR")
SNOMED_LABELS = {
    "164889003": "AF",
    "270492004": "I-AVB",
    "164909002": "LBBB",
    "426783006": "Normal",
    "284470004": "PAC",
    "164884008": "PVC",
    "59118001": "RBBB",
    "429622005": "STD",
    "164931005": "STE",
}
"""Short names of the nine SNOMED CT codes that the organizers labelled."""
CLASSES = {name: (name,) for name in sorted(SNOMED_LABELS.values())}
_HEADER = re.compile(r"(^|/)A\d{4}\.hea$")


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    return (Entry(name) for name in source.names() if _HEADER.search(name))


def _load(source: Source, entry: Entry, options: Options) -> Recording:
    """Read a recording and replace the SNOMED CT codes of its header by their short names."""
    recording = load_entry(source, entry, options)
    return replace(recording, labels=tuple(SNOMED_LABELS.get(code, code) for code in recording.labels))


PHYSIONET2020 = Dataset(
    name="physionet2020",
    title="PhysioNet/CinC Challenge 2020, CPSC 2018 training set",
    licence="CC BY 4.0",
    citation="Perez Alday et al., Classification of 12-lead ECGs: the PhysioNet/Computing in Cardiology "
    "Challenge 2020, Physiological Measurement 41:124003, 2020; Liu et al., An open access database for "
    "evaluating the algorithms of ECG rhythm and morphology abnormality detection, J Med Imaging Health "
    "Inform 8:1368, 2018",
    homepage="https://physionet.org/content/challenge-2020/1.0.2/",
    entries=_entries,
    load=_load,
    classes=CLASSES,
    tasks={
        "cpsc2018": Task(title="The nine findings of CPSC 2018", kind="multi-label", classes=CLASSES),
        "age": AGE,
        "sex": SEX,
    },
    splits={
        "clocs": PublishedSplit("Split of the encoders that come with clocs", table="physionet2020-parts.csv.gz"),
    },
    meanings={
        "AF": "atrial fibrillation",
        "I-AVB": "first-degree atrioventricular block",
        "LBBB": "left bundle branch block",
        "Normal": "normal sinus rhythm, none of the others",
        "PAC": "premature atrial contraction",
        "PVC": "premature ventricular contraction",
        "RBBB": "right bundle branch block",
        "STD": "ST-segment depression",
        "STE": "ST-segment elevation",
    },
    limitations=(
        "Only these nine findings were labelled: infarction, hypertrophy, flutter, tachycardia, bradycardia, higher "
        "blocks and paced rhythms are not among them.",
        "Labels were given per recording, some longer than a minute; a finding may be in a part of it only.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, num_source_samples=2500, normalization="minmax", leads=LEADS),
        "segments": FramePolicy(
            num_samples=2500, num_segments=2, sampling_rate=500, normalization="minmax", leads=LEADS
        ),
    },
    gate=GatePolicy(min_seconds=5),
    downloads=(
        Download("https://physionet.org/files/challenge-2020/1.0.2/", listing=True, only=("training/cpsc_2018/",)),
    ),
    expected={"in": 6877, "frames": 20162, "instances": 80648, "segment_frames": 9364, "duplicate_groups": 250},
)
