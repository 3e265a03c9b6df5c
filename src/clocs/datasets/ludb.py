"""Lobachevsky University database: 200 12-lead recordings of 10 s at 500 Hz, one per patient."""

from __future__ import annotations

import re
from collections.abc import Iterator

from clocs.core.sources.source import Source
from clocs.datasets.csv_tables import find_table, read_csv
from clocs.datasets.dataset import Dataset, Download, Entry, Options
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import parse_age, parse_sex
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

_HEADER = re.compile(r"(^|/)data/(\d+)\.hea$")
_DEMOGRAPHICS = ("ID", "Sex", "Age")


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the headers in data/ with their rows of ludb.csv. Each finding of a row is a label."""
    table = find_table(source, "ludb.csv")
    rows = {row["ID"].strip(): row for row in read_csv(source, table, needed=_DEMOGRAPHICS)} if table else {}
    for name in source.names():
        if match := _HEADER.search(name):
            number = match.group(2)
            row = rows.get(number, {})
            findings = (value for title, value in row.items() if title not in _DEMOGRAPHICS and value)
            labels = tuple(line.strip() for value in findings for line in value.splitlines() if line.strip())
            yield Entry(
                name, number, number, age=parse_age(row.get("Age")), sex=parse_sex(row.get("Sex")), labels=labels
            )


LUDB = Dataset(
    name="ludb",
    title="Lobachevsky University Electrocardiography Database",
    licence="ODC-By 1.0",
    citation="Kalyakulina et al., LUDB: a new open-access validation tool for electrocardiogram delineation "
    "algorithms, IEEE Access 8:186181, 2020",
    homepage="https://physionet.org/content/ludb/1.0.1/",
    entries=_entries,
    tasks={
        "rhythm": Task(
            title="Rhythms with at least ten recordings",
            kind="multi-class",
            classes={name: (name,) for name in ("Sinus rhythm", "Sinus bradycardia", "Atrial fibrillation")},
        ),
        "age": AGE,
        "sex": SEX,
    },
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    # The publisher scaled each lead separately, so the lead equations do not hold.
    gate=GatePolicy(max_lead_equation_error=None),
    calibrated=False,
    downloads=(Download("https://physionet.org/files/ludb/1.0.1/", listing=True),),
    expected={"in": 200},
)
