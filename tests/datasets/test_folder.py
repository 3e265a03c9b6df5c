"""A user's own folder: every readable file, with what a table says about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.core.sources import open_source
from clocs.datasets.dataset import Entry
from clocs.datasets.folder import FOLDER

HEADER = "{0} 1 500 4\n{0}.dat 16 1000/mV 16 0 0 0 0 II\n# Age: 40\n# Sex: Male\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two WFDB records, one of them in a folder, a CSV, and files that are no ECGs."""
    root = tmp_path / "archive"
    for folder, name in (("ward/2", "b"), (".", "a")):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / f"{name}.hea").write_text(HEADER.format(name))
        np.arange(4, dtype="<i2").tofile(root / folder / f"{name}.dat")
    (root / "c.csv").write_text("1,2,3,4,5,6,7,8,9,10,11,12\n")
    (root / "README.md").write_text("# About\nnothing\n")
    (root / "scan.pdf").write_bytes(b"%PDF-1.7")
    return root


def entries(archive: Path, table: str | None = None) -> dict[str, Entry]:
    options = {}
    if table is not None:
        path = archive.parent / "about.csv"
        path.write_text(table)
        options = {"table": str(path)}
    found = FOLDER.entries(open_source(archive), FOLDER.parse_options(options))
    return {entry.file: entry for entry in found}


def test_every_ecg_is_found_once_and_is_a_patient_of_its_own(archive: Path) -> None:
    assert entries(archive) == {
        "a.hea": Entry("a.hea", "a", "a"),
        "c.csv": Entry("c.csv", "c", "c"),
        "ward/2/b.hea": Entry("ward/2/b.hea", "ward/2/b", "ward/2/b"),
    }


@pytest.mark.parametrize("named", ["ward/2/b.hea", "ward/2/b", "b"])
def test_a_table_may_name_files_by_path_or_by_name(archive: Path, named: str) -> None:
    table = f"file,patient_id,record_id,site,age,sex,labels\n{named},p1,r1,north,61,F,AF; STD ;;\n"
    found = entries(archive, table)
    assert found["ward/2/b.hea"] == Entry("ward/2/b.hea", "r1", "p1", "north", 61.0, "female", ("AF", "STD"))
    assert found["a.hea"] == Entry("a.hea", "a", "a")


def test_what_the_table_leaves_out_the_file_tells(archive: Path) -> None:
    found = entries(archive, "file,patient_id\na,p9\n")
    source = open_source(archive)
    recording = FOLDER.load(source, found["a.hea"], FOLDER.parse_options({}))
    assert (recording.patient_id, recording.record_id, recording.age, recording.sex) == ("p9", "a", 40.0, "male")


def test_a_spreadsheets_mark_and_line_ends_do_not_matter(archive: Path) -> None:
    found = entries(archive, "\ufefffile,labels\r\na,AF;SR\r\n")
    assert found["a.hea"].labels == ("AF", "SR")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("file,patient\na,1\n", r"unknown here: patient"),
        ("patient_id\n1\n", r"every row needs 'file'"),
        ("file,patient_id\n,1\n", r"every row needs 'file'"),
        ("file,age\na,1,surplus\n", r"unknown here: None"),
    ],
)
def test_a_table_with_other_columns_is_refused_with_those_allowed(archive: Path, table: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refusal:
        entries(archive, table)
    assert "record_id, patient_id, site, age, sex, labels" in str(refusal.value)


def test_an_absent_table_is_refused(archive: Path) -> None:
    options = FOLDER.parse_options({"table": str(archive / "absent.csv")})
    with pytest.raises(ConfigError, match=r"absent\.csv: no such file"):
        list(FOLDER.entries(open_source(archive), options))


def test_a_damaged_header_is_listed_so_that_its_refusal_is_recorded(archive: Path) -> None:
    (archive / "bad.hea").write_bytes(b"\0\0\0")
    assert "bad.hea" in entries(archive)
