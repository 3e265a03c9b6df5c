"""Shandong Provincial Hospital: 25,770 12-lead recordings of 10 to 56 s at 500 Hz from 24,666 patients."""

from __future__ import annotations

import functools
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import Source, local_path
from clocs.datasets.array_rows import read_hdf5_file, recording_from_array
from clocs.datasets.csv_tables import need_table, order_of, read_csv
from clocs.datasets.dataset import Dataset, Entry, Options, apply_entry
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import parse_age, parse_date, parse_sex
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS

SAMPLING_RATE = 500.0
TABLE, FOLDER, ARCHIVE = "metadata.csv", "records/", "records.tar.gz"
MAX_MEMBER_BYTES = 64 << 20
"""Maximum size of a recording's file, 60 times that of the longest."""
LENGTH = "N"
"""Column with the number of samples. It is checked and not stored."""
NORMAL = "1"
STATEMENTS = {
    "1": "normal ECG",
    "21": "sinus tachycardia",
    "22": "sinus bradycardia",
    "23": "sinus arrhythmia",
    "30": "atrial premature beats",
    "31": "atrial premature beats that are not conducted",
    "36": "junctional premature beats",
    "37": "junctional escape beats",
    "50": "atrial fibrillation",
    "51": "atrial flutter",
    "54": "junctional tachycardia",
    "60": "ventricular premature beats",
    "80": "short PR interval",
    "81": "AV conduction in a ratio",
    "82": "prolonged PR interval",
    "83": "second-degree AV block, Mobitz I",
    "84": "second-degree AV block, Mobitz II",
    "85": "2:1 AV block",
    "86": "AV block with varying conduction",
    "87": "advanced AV block",
    "88": "complete AV block",
    "101": "left anterior fascicular block",
    "102": "left posterior fascicular block",
    "104": "left bundle branch block",
    "105": "incomplete right bundle branch block",
    "106": "right bundle branch block",
    "108": "ventricular pre-excitation",
    "120": "right axis deviation",
    "121": "left axis deviation",
    "125": "low voltage",
    "140": "left atrial enlargement",
    "142": "left ventricular hypertrophy",
    "143": "right ventricular hypertrophy",
    "145": "ST deviation",
    "146": "ST deviation with T wave change",
    "147": "T wave abnormality",
    "148": "prolonged QT interval",
    "152": "fusion of T and U waves",
    "153": "ST-T change of ventricular hypertrophy",
    "155": "early repolarization",
    "160": "anterior infarction",
    "161": "inferior infarction",
    "165": "anteroseptal infarction",
    "166": "extensive anterior infarction",
}
"""Primary statements of the AHA that occur, by code."""


def _entries(source: Source, options: Options) -> Iterator[Entry]:
    """List the rows of metadata.csv with a file in ``records/`` or in the archive, which is a tar despite its name."""
    table = need_table(source, TABLE)
    root = table.removesuffix(TABLE)
    archive = f"{root}{ARCHIVE}"
    packed = _members(source, archive) if source.exists(archive) else {}
    rows = list(read_csv(source, table, needed=("ECG_ID", "AHA_Code", "Patient_ID", "Age", "Sex", "N")))
    dates = [_iso_date(row.get("Date", "")) for row in rows]
    for row, date, order in zip(rows, dates, order_of(dates), strict=True):
        file = f"{root}{FOLDER}{row['ECG_ID']}.h5"
        if not source.exists(file):
            file = archive
            if row["ECG_ID"] not in packed:
                continue
        yield Entry(
            file,
            row["ECG_ID"],
            row["Patient_ID"],
            age=parse_age(row["Age"]),
            sex=parse_sex(row["Sex"]),
            labels=_labels(row["AHA_Code"]),
            acquired=date,
            extra={LENGTH: row["N"]} | ({"recording_order": order} if order else {}),
        )


def _labels(code: str) -> tuple[str, ...]:
    """Return the primary codes of ``60+310;147``, then the statements with modifiers: 60, 147, 60+310."""
    statements = [[part.strip() for part in statement.split("+") if part.strip()] for statement in code.split(";")]
    primary = [parts[0] for parts in statements if parts]
    modified = ["+".join(parts) for parts in statements if len(parts) > 1]
    return tuple(dict.fromkeys([*primary, *modified]))  # a statement may be repeated


def _iso_date(text: str) -> str:
    date = parse_date(text, ("%Y-%m-%d", "%Y/%m/%d"))
    return date.isoformat() if date else ""


def _load(source: Source, entry: Entry, options: Options) -> Recording:
    """Read the file of a recording, which holds (12, N) float16 in mV."""
    name = entry.file
    if name.endswith(ARCHIVE):
        name, data = _read_member(source, name, entry.record_id)
    else:
        data = source.read(name)
    values = read_hdf5_file(data, name, "ecg")
    length = entry.extra[LENGTH]
    declared = int(length) if length.isdecimal() else None
    recording = recording_from_array(values, name, STANDARD_LEADS, SAMPLING_RATE, num_declared_samples=declared)
    extra = {column: text for column, text in entry.extra.items() if column != LENGTH}
    return apply_entry(recording, replace(entry, extra=extra))


def _members(source: Source, archive: str) -> dict[str, tuple[str, int, int]]:
    """Return name, position and size of the file of each record in the archive."""
    path = local_path(source, archive)
    return _index(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=2)
def _index(path: Path, _modified: int) -> dict[str, tuple[str, int, int]]:
    try:
        with tarfile.open(path, "r:") as archive:
            return {
                Path(member.name).stem: (member.name.removeprefix("./"), member.offset_data, member.size)
                for member in archive
                if member.isreg() and member.name.endswith(".h5")
            }
    except tarfile.TarError as error:
        raise FormatError(
            f"{path.name}: not an uncompressed tar, as it is published: {error}. Unpack it to {FOLDER}."
        ) from error


def _read_member(source: Source, archive: str, record_id: str) -> tuple[str, bytes]:
    member, start, size = _members(source, archive)[record_id]
    name = f"{archive}/{member}"
    if size > MAX_MEMBER_BYTES:
        raise FormatError(f"{name}: {size} bytes are too many for one recording")
    with local_path(source, archive).open("rb") as file:
        file.seek(start)
        data = file.read(size)
    if len(data) != size:
        raise FormatError(f"{name}: the archive breaks off inside it. Download the archive again.")
    return name, data


SPH = Dataset(
    name="sph",
    title="Shandong Provincial Hospital 12-lead ECG database",
    licence="CC BY 4.0",
    citation="Liu et al., A large-scale multi-label 12-lead electrocardiogram database with standardized diagnostic "
    "statements, Scientific Data 9:272, 2022",
    homepage="https://doi.org/10.6084/m9.figshare.c.5779802.v1",
    entries=_entries,
    load=_load,
    classes={code: (code,) for code in STATEMENTS},
    tasks={
        "statements": Task(
            title="Primary statements of the AHA", kind="multi-label", classes={code: (code,) for code in STATEMENTS}
        ),
        "normal": Task(title="Normal ECG", kind="binary", classes={"normal": (NORMAL,)}, keep_others=True),
        "age": AGE,
        "sex": SEX,
    },
    meanings=STATEMENTS,
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    expected={"in": 25770},
)
