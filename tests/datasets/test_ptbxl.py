"""PTB-XL: its tables, sampling rates and coded ages."""

from __future__ import annotations

import ast
import io
from pathlib import Path

import pandas as pd
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Entry
from clocs.datasets.ptbxl import KEPT_COLUMNS, PTBXL

HEADER = "ecg_id,patient_id,age,sex,site,scp_codes,filename_lr,filename_hr\n"


def entries(path: Path, **options: str) -> list[Entry]:
    return list(PTBXL.entries(open_source(path), PTBXL.parse_options(options)))


def make(folder: Path, rows: str, *files: str) -> Path:
    (folder / "ptbxl_database.csv").write_text(HEADER + rows)
    for file in files:
        (folder / file).touch()
    return folder


def test_entries_agree_with_the_table_as_pandas_reads_it(originals: Path) -> None:
    raw = open_source(originals).read("ptbxl/ptbxl_database.csv")
    rows = pd.read_csv(io.BytesIO(raw), index_col="ecg_id").to_dict("index")
    found = entries(originals / "ptbxl", sampling_rate="100")
    assert len(found) == 60
    for entry in found:
        row = rows[int(Path(entry.file).stem.removesuffix("_lr"))]
        assert entry.patient_id == str(int(row["patient_id"]))
        assert entry.age == row["age"]
        assert entry.sex == {0: "male", 1: "female"}[row["sex"]]
        assert set(entry.labels) == set(ast.literal_eval(str(row["scp_codes"])))
        assert int(entry.extra["strat_fold"]) == row["strat_fold"]
        assert entry.acquired == row["recording_date"]
        assert entry.extra["device"].split() == row["device"].split()
        assert entry.extra["validated_by_human"] == str(row["validated_by_human"])
        assert entry.extra.get("nurse") == (None if pd.isna(row["nurse"]) else str(int(row["nurse"])))


def test_the_order_of_dates_is_kept(originals: Path) -> None:
    raw = open_source(originals).read("ptbxl/ptbxl_database.csv")
    dates = pd.read_csv(io.BytesIO(raw), index_col="ecg_id")["recording_date"]
    found = entries(originals / "ptbxl", sampling_rate="100")
    assert {name for entry in found for name in entry.extra} == {*KEPT_COLUMNS, "recording_order"}
    by_order = sorted(found, key=lambda entry: int(entry.extra["recording_order"]))
    ordered = [dates[int(Path(entry.file).stem.removesuffix("_lr"))] for entry in by_order]
    assert ordered == sorted(ordered)


def test_the_higher_sampling_rate_is_preferred(originals: Path) -> None:
    files = [entry.file for entry in entries(originals / "ptbxl")]
    assert sum(file.startswith("records500/") for file in files) == 6
    assert sum(file.startswith("records100/") for file in files) == 54
    assert [entry.file for entry in entries(originals / "ptbxl", sampling_rate="500")] == files[:6]


def test_classes_are_the_diagnostic_superclasses(originals: Path) -> None:
    raw = open_source(originals).read("ptbxl/scp_statements.csv")
    table = pd.read_csv(io.BytesIO(raw), index_col=0)
    diagnostic = table[table["diagnostic"] == 1]
    expected = {str(name): set(group.index) for name, group in diagnostic.groupby("diagnostic_class")}
    assert {name: set(labels) for name, labels in PTBXL.classes.items()} == expected


def test_tasks_agree_with_the_statements_as_pandas_reads_them(originals: Path) -> None:
    raw = open_source(originals).read("ptbxl/scp_statements.csv")
    table = pd.read_csv(io.BytesIO(raw), index_col=0)
    groups = {name: set(table.index[table[name] == 1]) for name in ("diagnostic", "form", "rhythm")}
    groups["all"] = set(table.index)
    for name, codes in groups.items():
        assert {each: set(values) for each, values in PTBXL.tasks[name].classes.items()} == {
            code: {code} for code in codes
        }
    diagnostic = table[table["diagnostic"] == 1]
    for name, column in (("sub", "diagnostic_subclass"), ("super", "diagnostic_class")):
        expected = {str(each): set(group.index) for each, group in diagnostic.groupby(column)}
        assert {each: set(values) for each, values in PTBXL.tasks[name].classes.items()} == expected
    sizes = {name: len(PTBXL.tasks[name].classes) for name in ("all", "diagnostic", "sub", "super", "form", "rhythm")}
    assert sizes == {"all": 71, "diagnostic": 44, "sub": 23, "super": 5, "form": 19, "rhythm": 12}


def test_every_class_of_a_task_has_a_meaning() -> None:
    classes = {name for task in PTBXL.tasks.values() for name in task.classes}
    assert {name for name in classes if PTBXL.meanings.get(name, name) == name} == {"female"}


@pytest.mark.parametrize(("age", "years"), [("300.0", 90.0), ("300", 90.0), ("89.0", 89.0), ("", None), ("0.0", 0.0)])
def test_an_age_of_300_means_over_89(tmp_path: Path, age: str, years: float | None) -> None:
    make(tmp_path, f"1,15709.0,{age},1,0.0,\"{{'NORM': 100.0}}\",a_lr,a_hr\n", "a_hr.hea")
    assert [(entry.age, entry.sex) for entry in entries(tmp_path)] == [(years, "female")]


def test_rows_without_a_signal_file_are_skipped(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n},50,0,,\"{{'SR': 0.0}}\",{n}_lr,{n}_hr\n" for n in range(3))
    make(tmp_path, rows, "1_lr.hea")
    assert entries(tmp_path) == [Entry("1_lr.hea", patient_id="1", age=50.0, sex="male", labels=("SR",))]


@pytest.mark.parametrize(
    "rows",
    [
        "1,x,50,0,,\"{'SR': 0.0}\",a,b\n",
        "1,2,50,0,,__import__('os'),a,b\n",
        "1,2,50,0,,{'SR',a,b\n",
        "1\n",
        "1,2,50,0,,5,a,b\n",
        "1,2,50,0,,\"{'SR': 0.0}\",a,b,c\n",
        "1,2,50,0,," + 9000 * "(" + ",a,b\n",
    ],
)
def test_a_table_that_differs_from_the_published_one_raises_an_error(tmp_path: Path, rows: str) -> None:
    with pytest.raises(FormatError, match="differs from the published table") as caught:
        entries(make(tmp_path, rows, "a.hea"))
    assert len(str(caught.value)) < 400


def test_a_missing_table_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"ptbxl_database\.csv with the labels is missing"):
        entries(tmp_path)
