"""CODE-15 %: 345,779 12-lead recordings of 7 or 10 s at 400 Hz from 233,770 patients of primary care in Brazil."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from clocs.core.errors import FormatError
from clocs.core.sources.source import Source
from clocs.datasets.array_rows import load_tracing, read_hdf5_column
from clocs.datasets.csv_tables import is_packed, need_table, parse_flag, read_csv
from clocs.datasets.dataset import Dataset, Download, Entry, Options
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import Sex, parse_age
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS

SAMPLING_RATE = 400.0
SEXES: dict[str, Sex] = {"true": "male", "false": "female"}
"""Sex by the flag ``is_male``."""
FLAGS = ("1dAVb", "RBBB", "LBBB", "SB", "ST", "AF")
NORMAL = "normal_ecg"
TABLE, CHAGAS_TABLE = "exams.csv", "code15_chagas_labels.csv"
FILLER_ID = 0
"""Id of the empty row at the end of each part. No table names it."""
_PART = re.compile(r"(?:^|/)exams_part(\d+)\.hdf5$")


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the exams of each part that is there, in the order of its rows.

    The table is in another order, so rows are found by the ids in the parts.
    """
    table = need_table(source, TABLE)
    exams, named = _exams(source, table)
    for name in _parts(source):
        ids = read_hdf5_column(source, name, "exam_id").tolist()
        if len(set(ids)) != len(ids):
            raise FormatError(f"{name}: an exam_id occurs twice. Unpack the part again.")
        absent = named.get(name.rsplit("/", 1)[-1], set()) - {str(exam_id) for exam_id in ids}
        if absent:
            raise FormatError(f"{name}: lacks {len(absent)} exams of {table}. Unpack the part again.")
        for row, exam_id in enumerate(ids):
            if exam_id != FILLER_ID and str(exam_id) in exams:
                yield replace(exams[str(exam_id)], file=name, row=row)


def _parts(source: Source) -> list[str]:
    """Return the parts by number. One that is there both unpacked and in its zip is read unpacked."""
    found: dict[int, str] = {}
    for name in source.names():
        if match := _PART.search(name):
            number = int(match.group(1))
            if number not in found or is_packed(found[number]) > is_packed(name):
                found[number] = name
    return [found[number] for number in sorted(found)]


def _exams(source: Source, table: str) -> tuple[dict[str, Entry], dict[str, set[str]]]:
    """Return the entry of each exam without file and row, and the exams of each part as the table names it."""
    chagas = _chagas_labels(source, table.removesuffix(TABLE) + CHAGAS_TABLE)
    exams: dict[str, Entry] = {}
    named: dict[str, set[str]] = {}
    needed = ("exam_id", "age", "is_male", "patient_id", "death", "timey", NORMAL, "trace_file", *FLAGS)
    for row in read_csv(source, table, needed=needed):
        exam_id = row["exam_id"]
        named.setdefault(row["trace_file"], set()).add(exam_id)
        # A blank death means that the patient was not followed up, not that the patient survived.
        followed = {"death": parse_flag(row["death"]), "timey": row["timey"], "chagas": chagas.get(exam_id, "")}
        exams[exam_id] = Entry(
            "",
            exam_id,
            row["patient_id"],
            age=parse_age(row["age"]),
            sex=SEXES.get(parse_flag(row["is_male"])),
            labels=tuple(name for name in (*FLAGS, NORMAL) if parse_flag(row[name]) == "true"),
            extra={"amplitude_calibrated": "unknown"} | {name: text for name, text in followed.items() if text},
        )
    return exams, named


def _chagas_labels(source: Source, table: str) -> dict[str, str]:
    """Return ``true`` or ``false`` for each exam in the table of the 2025 challenge, which is optional."""
    if not source.exists(table):
        return {}
    return {row["exam_id"]: parse_flag(row["chagas"]) for row in read_csv(source, table, needed=("exam_id", "chagas"))}


CODE15 = Dataset(
    name="code15",
    title="CODE-15 %, a large-scale annotated dataset of 12-lead ECGs",
    licence="CC BY 4.0",
    citation="Ribeiro et al., CODE-15 %: a large scale annotated dataset of 12-lead ECGs, Zenodo, 2021, "
    "doi:10.5281/zenodo.4916206; Lima et al., Nature Communications 12:5117, 2021",
    homepage="https://zenodo.org/records/4916206",
    entries=_entries,
    load=partial(load_tracing, leads=STANDARD_LEADS, sampling_rate=SAMPLING_RATE),
    classes={name: (name,) for name in FLAGS},
    tasks={
        "findings": Task(
            title="Six abnormalities",
            kind="multi-label",
            classes={name: (name,) for name in FLAGS},
            keep_others=True,  # every exam was read for the six
        ),
        "normal": Task(title="Normal ECG", kind="binary", classes={"normal": (NORMAL,)}, keep_others=True),
        "death": Task(
            title="Death during the follow-up, among patients with one",
            kind="binary",
            column="death",
            classes={"death": ("true",)},
            keep_others=True,
        ),
        "chagas": Task(
            title="Chagas disease as reported by the patient, among exams with an answer",
            kind="binary",
            column="chagas",
            classes={"chagas": ("true",)},
            keep_others=True,
        ),
        "age": AGE,
        "sex": SEX,
    },
    meanings={
        "1dAVb": "first-degree AV block",
        "RBBB": "right bundle branch block",
        "LBBB": "left bundle branch block",
        "SB": "sinus bradycardia",
        "ST": "sinus tachycardia",
        "AF": "atrial fibrillation",
    },
    limitations=(
        "The scale of the signals is in doubt: published as mV, they are about twice as large as those of others.",
        "An exam without any of the six abnormalities is not therefore normal: half of these are not marked as normal.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    downloads=(
        Download(
            "https://zenodo.org/records/4916206/files/exams.csv",
            checksum="md5:0107516d3f63864498fb77d15799cc95",
        ),
        *(Download(f"https://zenodo.org/records/4916206/files/exams_part{part}.zip") for part in range(18)),
    ),
    expected={"in": 345779},
)
