"""PhysioNet/CinC Challenge 2017: 8,528 single-lead recordings of 9 to 61 s at 300 Hz (AliveCor)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clocs.core.sources.source import Source
from clocs.datasets.csv_tables import find_table, read_csv
from clocs.datasets.dataset import Dataset, Download, Entry, Options
from clocs.datasets.task import Task
from clocs.signals.framing import FramePolicy

CLASSES = {"Normal": ("N",), "AF": ("A",), "Other": ("O",), "Noisy": ("~",)}
_HEADER = re.compile(r"(^|/)(A\d{5})\.hea$")
_COLUMNS = ("record", "label")
_REFERENCES = ("REFERENCE-v3.csv", "REFERENCE.csv", "REFERENCE-original.csv")
"""Label files in order of preference. The organizers recommend their third revision."""


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    table = find_table(source, *_REFERENCES)
    rows = read_csv(source, table, _COLUMNS, needed=_COLUMNS) if table else ()
    labels = {row["record"]: row["label"] for row in rows}
    for name in source.names():
        if match := _HEADER.search(name):
            label = labels.get(match.group(2))
            yield Entry(name, labels=(label,) if label else ())


PHYSIONET2017 = Dataset(
    name="physionet2017",
    title="PhysioNet/CinC Challenge 2017: AF classification from a short single-lead recording",
    licence="ODC-By 1.0",
    citation="Clifford et al., AF classification from a short single lead ECG recording: the "
    "PhysioNet/Computing in Cardiology Challenge 2017, Computing in Cardiology 44, 2017",
    homepage="https://physionet.org/content/challenge-2017/1.0.0/",
    entries=_entries,
    classes=CLASSES,
    tasks={"cinc2017": Task(title="The four classes of CinC 2017", kind="multi-class", classes=CLASSES)},
    meanings={
        "Normal": "normal sinus rhythm",
        "AF": "atrial fibrillation",
        "Other": "any other rhythm",
        "Noisy": "too noisy to tell",
    },
    limitations=(
        "Which other rhythm it is was not labelled, nor anything that is no rhythm: infarction, ischaemia, "
        "hypertrophy.",
        "Recordings were of a single lead by a hand-held device, 9 to 61 s long.",
    ),
    frame_policies={"evaluation": FramePolicy(num_samples=2500, num_source_samples=2500, leads=("ECG",))},
    downloads=(
        Download(
            "https://physionet.org/files/challenge-2017/1.0.0/",
            listing=True,
            only=("training2017.zip", "REFERENCE-v3.csv"),
        ),
    ),
    expected={"in": 8528, "stored": 8528, "frames": 28661, "instances": 28661, "duplicate_groups": 2},
)
