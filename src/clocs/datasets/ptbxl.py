"""PTB-XL: 21,799 12-lead recordings of 10 s from 18,869 patients, at 500 and 100 Hz."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from clocs.core.errors import FormatError
from clocs.core.sources.source import Source
from clocs.datasets.csv_tables import need_table, order_of, package_table, read_csv
from clocs.datasets.dataset import Dataset, Download, Entry, Options
from clocs.datasets.published_split import PublishedSplit
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import Sex, parse_age
from clocs.signals.framing import FramePolicy

SEX_CODES: dict[str, Sex] = {"0": "male", "1": "female"}
SIGNAL_COLUMNS = {500: "filename_hr", 100: "filename_lr"}
KEPT_COLUMNS = ("strat_fold", "device", "nurse", "validated_by_human")
"""Columns of the table that are kept as extra columns. ``nurse`` is a number."""

STATEMENTS: Final = package_table("ptbxl-statements.csv")
"""Meaning of each statement, and its diagnostic class and subclass or its kind: facts of scp_statements.csv."""
GROUP_MEANINGS: Final = {
    "CD": "conduction disturbance",
    "HYP": "hypertrophy",
    "MI": "infarction",
    "STTC": "change of the ST segment or T wave",
    "ISCA": "ischemia in anterior or lateral leads",
    "ISCI": "ischemia in inferior leads",
    "LAFB/LPFB": "left anterior or posterior fascicular block",
    "_AVB": "atrioventricular block",
}
"""Meanings of diagnostic classes and subclasses that are no statements themselves."""


class PtbxlOptions(Options):
    """Options of PTB-XL: the sampling rate of the recordings."""

    sampling_rate: Literal["best", "500", "100"] = "best"
    """Sampling rate in Hz. With ``best`` 500 if that file exists, otherwise 100."""


def _entries(source: Source, options: PtbxlOptions) -> Iterator[Entry]:
    """List the rows of ptbxl_database.csv for which the signal file exists."""
    table = need_table(source, "ptbxl_database.csv")
    folder = table.removesuffix("ptbxl_database.csv")
    rates = [500, 100] if options.sampling_rate == "best" else [int(options.sampling_rate)]
    needed = (*(SIGNAL_COLUMNS[sampling_rate] for sampling_rate in rates), "scp_codes", "patient_id", "age", "sex")
    rows = list(read_csv(source, table, needed=needed))
    dates = [row.get("recording_date", "") for row in rows]
    for row, order in zip(rows, order_of(dates), strict=True):
        files = [f"{folder}{row[SIGNAL_COLUMNS[sampling_rate]]}.hea" for sampling_rate in rates]
        try:
            codes = tuple(map(str, ast.literal_eval(row["scp_codes"])))
            patient = str(int(float(row["patient_id"])))
        except (ValueError, SyntaxError, TypeError, OverflowError, MemoryError, RecursionError) as error:
            raise FormatError(f"{table}: differs from the published table: {error!r:.200}") from error
        file = next((name for name in files if source.exists(name)), None)
        if file is not None:
            site = row.get("site", "").removesuffix(".0")
            age = (
                90.0 if row["age"] in ("300", "300.0") else parse_age(row["age"])
            )  # the publisher writes 300 for ages over 89
            extra = _extra_values(row) | ({"recording_order": order} if order else {})
            yield Entry(
                file,
                patient_id=patient,
                site=site,
                age=age,
                sex=SEX_CODES.get(row["sex"]),
                labels=codes,
                acquired=row.get("recording_date", ""),
                extra=extra,
            )


def _extra_values(row: dict[str, str]) -> dict[str, str]:
    """Return the extra columns of a row, with single blanks and whole numbers."""
    texts = {name: " ".join(row.get(name, "").split()).removesuffix(".0") for name in KEPT_COLUMNS}
    return {name: text for name, text in texts.items() if text}


def _groups(column: str, order: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return the statements of each diagnostic class or subclass."""
    names = dict.fromkeys((*order, *(row[column] for row in STATEMENTS if row[column])))
    return {name: tuple(row["code"] for row in STATEMENTS if row[column] == name) for name in names}


def _task(title: str, column: str = "") -> Task:
    """Return a task with a class for each statement that has a value in a column of the statements, or for all."""
    codes = [row["code"] for row in STATEMENTS if not column or row[column]]
    return Task(title=title, kind="multi-label", classes={code: (code,) for code in codes})


SUPERCLASSES: Final = _groups("diagnostic_class", ("NORM", "MI", "STTC", "CD", "HYP"))

PTBXL = Dataset(
    name="ptbxl",
    title="PTB-XL, a large publicly available electrocardiography dataset",
    licence="CC BY 4.0",
    citation="Wagner et al., PTB-XL, a large publicly available electrocardiography dataset, "
    "Scientific Data 7:154, 2020",
    homepage="https://physionet.org/content/ptb-xl/1.0.3/",
    entries=_entries,
    options=PtbxlOptions,
    classes=SUPERCLASSES,
    # The six tasks of Strodthoff et al. 2020. A statement counts whatever its likelihood: 0 means not graded.
    tasks={
        "all": _task("All statements"),
        "diagnostic": _task("Diagnostic statements", "diagnostic_class"),
        "sub": Task(title="Diagnostic subclasses", kind="multi-label", classes=_groups("diagnostic_subclass")),
        "super": Task(title="Diagnostic superclasses", kind="multi-label", classes=SUPERCLASSES),
        "form": _task("Statements on the form of the waves", "form"),
        "rhythm": _task("Statements on the rhythm", "rhythm"),
        "age": AGE,
        "sex": SEX,
    },
    splits={
        "folds": PublishedSplit(
            "Folds 1-8, 9 and 10, as the publisher recommends",
            column="strat_fold",
            train=tuple(range(1, 9)),
            validation=(9,),
            test=(10,),
        )
    },
    meanings={row["code"]: row["meaning"] for row in STATEMENTS} | GROUP_MEANINGS,
    limitations=(
        "A finding that a report does not mention counts as absent.",
        "All recordings are 10 s long and come from the devices of one manufacturer.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    downloads=(
        Download(
            "https://physionet.org/files/ptb-xl/1.0.3/",
            listing=True,
            checksum="sha256:b7224b92b341511ec3ceb13dc6652079b2c36a06504bcb49506f157f51dc695d",
        ),
    ),
    expected={"in": 21799},
)
