"""SaMi-Trop: 1,631 12-lead recordings at 400 Hz, one per patient with chronic Chagas cardiomyopathy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from clocs.core.errors import FormatError
from clocs.core.sources.source import Source
from clocs.datasets.array_rows import count_hdf5_rows, load_tracing
from clocs.datasets.csv_tables import find_table, need_table, parse_flag, read_csv
from clocs.datasets.dataset import Dataset, Download, Entry, Options
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import Sex, parse_age
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS

SAMPLING_RATE = 400.0
SEXES: dict[str, Sex] = {"true": "male", "false": "female"}
"""Sex by the flag ``is_male``."""
TABLE, TRACINGS = "exams.csv", "exams.hdf5"
NORMAL = "normal_ecg"


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the rows of exams.csv. The tracings have no ids: row i of the table is row i of the tracings."""
    table = need_table(source, TABLE)
    file = find_table(source, TRACINGS)
    if file is None:
        raise FormatError(f"{source.path}: {TRACINGS} is missing. Unpack exams.zip beside {TABLE}.")
    rows = list(read_csv(source, table, needed=("exam_id", "age", "is_male", NORMAL, "death", "timey")))
    num_tracings = count_hdf5_rows(source, file, "tracings")
    if num_tracings != len(rows):
        raise FormatError(
            f"{file} has {num_tracings} tracings and {table} {len(rows)} rows, so they cannot be joined by their "
            "order. Download both again."
        )
    for position, row in enumerate(rows):
        known = {"death": parse_flag(row["death"]), "timey": row["timey"]}
        yield Entry(
            file,
            row["exam_id"],
            row["exam_id"],
            age=parse_age(row["age"]),
            sex=SEXES.get(parse_flag(row["is_male"])),
            labels=(NORMAL,) if parse_flag(row[NORMAL]) == "true" else (),
            extra={"amplitude_calibrated": "unknown", "chagas": "true"}
            | {name: text for name, text in known.items() if text},
            row=position,
        )


SAMITROP = Dataset(
    name="samitrop",
    title="SaMi-Trop cohort of patients with chronic Chagas cardiomyopathy",
    licence="CC BY 4.0",
    citation="Ribeiro et al., Sami-Trop: 12-lead ECG traces with age and mortality annotations, Zenodo, 2021, "
    "doi:10.5281/zenodo.4905618",
    homepage="https://zenodo.org/records/4905618",
    entries=_entries,
    load=partial(load_tracing, leads=STANDARD_LEADS, sampling_rate=SAMPLING_RATE),
    tasks={
        "death": Task(
            title="Death during the follow-up, a median of two years",
            kind="binary",
            column="death",
            classes={"death": ("true",)},
            keep_others=True,
        ),
        "normal": Task(title="Normal ECG", kind="binary", classes={"normal": (NORMAL,)}, keep_others=True),
        "age": AGE,
        "sex": SEX,
    },
    limitations=(
        "The scale of the signals is in doubt: published as mV, they are about twice as large as those of others.",
        "Every patient has Chagas disease. A model trained on it and other data may learn to tell the sources apart.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    downloads=(
        Download("https://zenodo.org/records/4905618/files/exams.csv"),
        Download("https://zenodo.org/records/4905618/files/exams.zip"),
    ),
    expected={"in": 1631},
)
