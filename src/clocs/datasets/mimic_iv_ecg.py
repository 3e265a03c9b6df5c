"""MIMIC-IV-ECG: 800,035 12-lead recordings of 10 s at 500 Hz from 161,352 patients of a hospital in Boston."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.sources.source import Source
from clocs.datasets.csv_tables import RowsByKey, need_table, parse_flag, read_csv
from clocs.datasets.dataset import Dataset, Entry, Options
from clocs.datasets.published_split import PublishedSplit
from clocs.datasets.task import AGE, SEX, Task
from clocs.formats.demographics import Sex, parse_age, parse_sex
from clocs.signals.framing import FramePolicy

TABLE, MEASUREMENTS = "record_list.csv", "machine_measurements.csv"
DIAGNOSES = "records_w_diag_icd10.csv"
PATIENTS = ("patients.csv", "patients.csv.gz", "hosp/patients.csv", "hosp/patients.csv.gz")
"""Table of MIMIC-IV with the age and sex of patients, which this release lacks."""
REPORT = tuple(f"report_{line}" for line in range(18))
NOT_MEASURED = (29999, 32767, -32768, -32767, 65535)
"""Values of a measurement that could not be made."""
INTERVALS = {
    "pr_interval": ("p_onset", "qrs_onset"),
    "qrs_duration": ("qrs_onset", "qrs_end"),
    "qt_interval": ("qrs_onset", "t_end"),
}
"""Intervals in ms, each from one measured time to another."""
AXES = ("p_axis", "qrs_axis", "t_axis")
OLDEST = 90.0
"""Age of all patients over 89."""
CODE_LENGTHS = (3, 4, 5)
"""Lengths to which ICD-10-CM codes are cut. The shorter ones are the groups that a code belongs to."""
HEART_DISEASES = {
    "I48": "Atrial fibrillation or flutter",
    "I50": "Heart failure",
    "I21": "Acute myocardial infarction",
    "I25": "Chronic ischaemic heart disease",
    "I42": "Cardiomyopathy",
    "I44": "AV block or left bundle branch block",
    "I45": "Other conduction disorder",
    "I47": "Paroxysmal tachycardia",
    "I35": "Aortic valve disorder",
    "I10": "Essential hypertension",
}
"""Groups of ICD-10-CM with a task of their own."""


class MimicOptions(Options):
    """Options of MIMIC-IV-ECG: the diagnoses to use from the labels of MIMIC-IV-ECG-Ext-ICD."""

    diagnoses: Literal["all_diag_all", "all_diag_hosp", "hosp_diag_hosp", "ed_diag_hosp", "ed_diag_ed"] = "all_diag_all"
    """Column of ``records_w_diag_icd10.csv`` with the diagnoses, if that file lies beside ``record_list.csv``."""


@dataclass(frozen=True)
class _Metadata:
    """Values that the optional tables give for a study."""

    age: float | None = None
    sex: Sex | None = None
    labels: tuple[str, ...] = ()
    extra: dict[str, str] = field(default_factory=dict)


def _entries(source: Source, options: MimicOptions) -> Iterator[Entry]:
    """List the rows of record_list.csv for which the header exists, with the values of the other tables."""
    table = need_table(source, TABLE)
    folder = table.removesuffix(TABLE)
    needed = ("subject_id", "study_id", "ecg_time", "path")
    orders = _recording_orders(source, table)
    people = _people(source, folder)
    measurements = RowsByKey(_measurements(source, f"{folder}{MEASUREMENTS}"))
    diagnoses = RowsByKey(_diagnoses(source, f"{folder}{DIAGNOSES}", options.diagnoses))
    for row, order in zip(read_csv(source, table, needed=needed), orders, strict=True):
        study, subject = row["study_id"], row["subject_id"]
        measured, diagnosed = measurements.pop(study) or _Metadata(), diagnoses.pop(study) or _Metadata()
        header = f"{folder}{row['path']}.hea"
        if source.exists(header):
            person = people.get(subject)
            yield Entry(
                header,
                study,
                subject,
                age=diagnosed.age if diagnosed.age is not None else _age_at(person, row["ecg_time"]),
                sex=diagnosed.sex or (person[0] if person else None),
                labels=(*measured.labels, *diagnosed.labels),
                acquired=row["ecg_time"],
                extra={"recording_order": str(order)} | measured.extra | diagnosed.extra,
            )


def _recording_orders(source: Source, table: str) -> Iterator[int]:
    """Return the position of each row among the rows of its patient by time, from 1.

    Dates are shifted by patient, so the order of different patients means nothing.
    """
    subjects, times = array("q"), array("q")
    for row in read_csv(source, table, needed=("subject_id", "study_id", "ecg_time")):
        try:
            subjects.append(int(row["subject_id"]))
            times.append(int((datetime.fromisoformat(row["ecg_time"]) - datetime.min).total_seconds()))
        except (ValueError, OverflowError, TypeError) as error:
            raise FormatError(f"{table}: differs from the published table: study {row['study_id']}: {error}") from error
    by_time = np.lexsort((times, subjects))
    sorted_subjects = np.array(subjects, np.int64)[by_time]
    starts = np.flatnonzero(np.diff(sorted_subjects, prepend=-1))
    first = np.repeat(starts, np.diff([*starts, len(by_time)]))
    orders = np.empty(len(by_time), np.int64)
    orders[by_time] = np.arange(len(by_time)) - first + 1
    return iter(orders.tolist())


def _people(source: Source, folder: str) -> dict[str, tuple[Sex | None, float, int]]:
    """Return sex, age and the year of that age of each patient; empty without the table of MIMIC-IV."""
    name = next((folder + name for name in PATIENTS if source.exists(folder + name)), None)
    people = {}
    for row in read_csv(source, name, needed=("subject_id", "gender", "anchor_age", "anchor_year")) if name else ():
        if (age := parse_age(row["anchor_age"])) is not None and row["anchor_year"].isdecimal():
            people[row["subject_id"]] = (parse_sex(row["gender"]), age, int(row["anchor_year"]))
    return people


def _age_at(person: tuple[Sex | None, float, int] | None, time: str) -> float | None:
    """Return the age in years at a time. Ages over 89 become one value, as in MIMIC-IV."""
    if person is None:
        return None
    _, age, year = person
    return _pooled(parse_age(age + int(time[:4]) - year))


def _pooled(age: float | None) -> float | None:
    return min(age, OLDEST) if age is not None else None


def _measurements(source: Source, name: str) -> Iterator[tuple[str, _Metadata]]:
    """Read the machine's statements and measurements of each study."""
    if source.exists(name):
        for row in read_csv(source, name, needed=("study_id",)):
            lines = (_statement(row.get(column, "")) for column in REPORT)  # a blank line may come before others
            labels = tuple(dict.fromkeys(line for line in lines if line))
            yield row["study_id"], _Metadata(labels=labels, extra=_measured_values(row))


def _statement(line: str) -> str:
    """Return a line of a report in lower case, with single blanks and without a full stop."""
    return " ".join(line.split()).rstrip(". ").lower()


def _measured_values(row: dict[str, str]) -> dict[str, str]:
    """Return the RR interval, the intervals and the axes that could be measured."""
    found = {"rr_interval": _measured(row, "rr_interval")}
    for name, (start, end) in INTERVALS.items():
        times = _measured(row, start), _measured(row, end)
        found[name] = times[1] - times[0] if times[0] is not None and times[1] is not None else None
    positive = {name: value for name, value in found.items() if value is not None and value > 0}
    axes = {name: value for name in AXES if (value := _measured(row, name)) is not None and abs(value) <= 180}
    return {name: str(value) for name, value in (positive | axes).items()}


def _measured(row: dict[str, str], column: str) -> int | None:
    text = row.get(column, "").removesuffix(".0")
    value = int(text) if re.fullmatch(r"-?\d{1,9}", text) else None
    return None if value in NOT_MEASURED else value


def _diagnoses(source: Source, name: str, column: str) -> Iterator[tuple[str, _Metadata]]:
    """Read age, sex, fold and diagnoses of each study from the labels of MIMIC-IV-ECG-Ext-ICD."""
    if not source.exists(name):
        return
    for row in read_csv(source, name, needed=("study_id", column, "gender", "age", "strat_fold")):
        codes = _codes(row[column], name)
        number = row.get("ecg_no_within_stay", "").removesuffix(".0")
        extra = {"strat_fold": row["strat_fold"].removesuffix(".0")}
        extra |= {"ecg_no_within_stay": "" if number == "-1" else number}  # -1: outside of a stay
        extra |= {"in_ed_or_hospital": parse_flag(row.get("ecg_taken_in_ed_or_hosp", ""))}
        if codes:  # an empty list means that no diagnosis is linked, not that there is none
            extra |= {_column(code): str(code in codes).lower() for code in HEART_DISEASES}
        known = {name: text for name, text in extra.items() if text}
        yield row["study_id"], _Metadata(_pooled(parse_age(row["age"])), parse_sex(row["gender"]), codes, known)


def _codes(text: str, name: str) -> tuple[str, ...]:
    """Return the codes of a list such as ``['I4891', 'I10']``, cut to five characters, and the groups they are in."""
    if not re.fullmatch(r"\[.*\]", text.strip(), re.DOTALL):
        raise FormatError(f"{name}: differs from the published table: expected a list of codes, got {text[:80]!r}")
    codes = (code.replace(".", "").upper() for code in re.findall(r"['\"]([A-Za-z0-9.]+)['\"]", text))
    return tuple(dict.fromkeys(code[:length] for code in codes for length in CODE_LENGTHS if length <= len(code)))


def _column(code: str) -> str:
    return f"icd10_{code}"


MIMIC_IV_ECG = Dataset(
    name="mimic-iv-ecg",
    title="MIMIC-IV-ECG, diagnostic electrocardiogram matched subset",
    licence="PhysioNet Credentialed Health Data License 1.5.0",
    citation="Gow et al., MIMIC-IV-ECG: Diagnostic Electrocardiogram Matched Subset 1.0, PhysioNet, 2023; labels: "
    "Strodthoff et al., MIMIC-IV-ECG-Ext-ICD 1.0.1, PhysioNet, 2024",
    homepage="https://physionet.org/content/mimic-iv-ecg/1.0/",
    entries=_entries,
    options=MimicOptions,
    tasks={
        **{
            _column(code): Task(
                title=f"{title} ({code}), among studies with linked diagnoses",
                kind="binary",
                column=_column(code),
                classes={code: ("true",)},
                keep_others=True,
            )
            for code, title in HEART_DISEASES.items()
        },
        **{
            name: Task(title=f"{name.replace('_', ' ')} in ms, by the device", kind="regression", column=name)
            for name in ("rr_interval", *INTERVALS)
        },
        "age": AGE,
        "sex": SEX,
    },
    splits={
        "folds": PublishedSplit(
            "Folds of MIMIC-IV-ECG-Ext-ICD: 0-17, 18 and 19",
            column="strat_fold",
            train=tuple(range(18)),
            validation=(18,),
            test=(19,),
        )
    },
    limitations=(
        "Statements are those of the device. They are not confirmed by a physician.",
        "Diagnoses are those of the hospital stay. They need not show in the ECG.",
    ),
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
    expected={"in": 800035},
)
