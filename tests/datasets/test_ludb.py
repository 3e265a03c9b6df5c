"""LUDB: each finding of its table is a label."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Entry, Options
from clocs.datasets.ludb import LUDB


def test_every_recording_has_the_findings_of_its_row(originals: Path) -> None:
    source = open_source(originals / "ludb")
    table = pd.read_csv(io.BytesIO(source.read("ludb.csv")), dtype=str, keep_default_na=False)
    rows = {row["ID"].strip(): row for _, row in table.iterrows()}
    found = list(LUDB.entries(source, Options()))
    assert len(found) == 20
    for entry in found:
        row = rows[entry.record_id]
        assert entry.file == f"data/{entry.record_id}.hea"
        assert entry.patient_id == entry.record_id
        assert entry.age == float(row["Age"])
        assert entry.sex == {"F": "female", "M": "male"}[row["Sex"].strip()]
        cells = [row[title] for title in table.columns if title not in ("ID", "Sex", "Age")]
        assert list(entry.labels) == [line.strip() for cell in cells for line in cell.split("\n") if line.strip()]
        assert entry.labels


def test_age_and_sex_agree_with_the_headers(originals: Path) -> None:
    """The publisher states them in the table and in the headers."""
    source = open_source(originals / "ludb")
    for entry in LUDB.entries(source, Options()):
        comments = source.read(entry.file).decode()
        assert f"#<age>: {entry.age:.0f}" in comments
        assert f"#<sex>: {(entry.sex or '?')[0].upper()}" in comments


def test_headers_are_found_without_the_table(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "7.hea").touch()
    (tmp_path / "7.hea").touch()
    assert list(LUDB.entries(open_source(tmp_path), Options())) == [Entry("data/7.hea", "7", "7")]


@pytest.mark.parametrize("rows", ["Number,Sex,Age\n7,F,50\n", "ID,Sex,Age\n7,F,50,more\n", "ID,Sex,Age\n7\n"])
def test_a_table_that_differs_from_the_published_one_raises_an_error(tmp_path: Path, rows: str) -> None:
    (tmp_path / "ludb.csv").write_text(rows)
    with pytest.raises(FormatError, match="differs from the published table: line 2 has"):
        list(LUDB.entries(open_source(tmp_path), Options()))
