"""Chapman: its table agrees with the raw XML and with the published counts."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from pathlib import Path

import openpyxl
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.chapman import CHAPMAN, TRUNCATED_RECORD
from clocs.datasets.dataset import Entry, Options

PUBLISHED = {"AFIB": 2225, "GSVT": 2307, "SB": 3889, "SR": 2225}
"""Zheng et al. 2020, table of the four merged rhythm groups."""


def entries(path: Path) -> list[Entry]:
    return list(CHAPMAN.entries(open_source(path), Options()))


@pytest.fixture(scope="module")
def all_entries(real_data: Path) -> dict[str, Entry]:
    return {entry.record_id: entry for entry in entries(real_data / "chapman.zip")}


def published_table(raw: bytes) -> list[dict[str, str]]:
    """Read the rows of a sheet from its XML, independently of the package."""
    with zipfile.ZipFile(io.BytesIO(raw)) as book:
        texts = [
            "".join(re.findall(r"<t[^>]*>([^<]*)</t>", item))
            for item in book.read("xl/sharedStrings.xml").decode().split("<si>")[1:]
        ]
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    rows = []
    for row in sheet.split("<row ")[1:]:
        cells = re.findall(r'<c r="([A-Z]+)\d+"([^>]*)><v>([^<]*)</v>', row)
        rows.append({column: texts[int(value)] if 't="s"' in kind else value for column, kind, value in cells})
    titles = rows.pop(0)
    return [{title: row.get(column, "") for column, title in titles.items()} for row in rows]


def test_every_record_has_a_row_of_the_table(all_entries: dict[str, Entry], real_data: Path) -> None:
    table = published_table(open_source(real_data / "chapman.zip").read("Diagnostics.xlsx"))
    assert len(all_entries) == len(table) == CHAPMAN.expected["in"]
    for row in table:
        name = row["FileName"]
        beats = [code for code in row["Beat"].split() if code != "NONE"]
        age, sex = float(row["PatientAge"]), row["Gender"].lower()
        assert sex in ("female", "male")
        expected = (f"WFDBRecords/{name}.hea", name, (row["Rhythm"], *beats), age, sex)
        entry = all_entries[name]
        assert (entry.file, entry.patient_id, entry.labels, entry.age, entry.sex) == expected


def test_rhythm_groups_have_the_published_sizes(all_entries: dict[str, Entry]) -> None:
    group_of = {label: group for group, labels in CHAPMAN.classes.items() for label in labels}
    assert Counter(group_of[entry.labels[0]] for entry in all_entries.values()) == PUBLISHED
    assert sum(PUBLISHED.values()) == 10_646


def test_no_beat_code_is_also_a_rhythm(all_entries: dict[str, Entry]) -> None:
    """Otherwise beats would decide the class of a recording."""
    rhythms = {label for labels in CHAPMAN.classes.values() for label in labels}
    both = {label for entry in all_entries.values() for label in entry.labels[1:]} & rhythms
    assert both == set()


def test_original_csv_files_are_matched_with_their_rows(originals: Path) -> None:
    source = open_source(originals / "chapman")
    rows = {row["FileName"]: row for row in published_table(source.read("Diagnostics.xlsx"))}
    found = entries(originals / "chapman")
    assert len(found) == 16
    for entry in found:
        assert entry.file == f"ECGDataDenoised/{entry.record_id}.csv"
        assert entry.labels[0] == rows[entry.record_id]["Rhythm"]


def test_a_record_without_a_row_is_kept_without_labels(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.append(["FileName", "Rhythm", "Beat", "PatientAge", "Gender"])
    book.active.append(["MUSE_1", "SB", "RBBB TWC", 85, "MALE"])
    book.save(tmp_path / "Diagnostics.xlsx")
    folder = tmp_path / "ECGDataDenoised"
    folder.mkdir()
    (folder / "MUSE_1.csv").touch()
    (folder / "MUSE_unknown.csv").touch()
    (tmp_path / "notes.csv").write_text("not a record\n")
    assert entries(tmp_path) == [
        Entry("ECGDataDenoised/MUSE_1.csv", "MUSE_1", "MUSE_1", "", 85.0, "male", ("SB", "RBBB", "TWC")),
        Entry("ECGDataDenoised/MUSE_unknown.csv", "MUSE_unknown"),
    ]


def test_a_missing_or_different_table_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"Diagnostics\.xlsx with the labels is missing"):
        entries(tmp_path)
    (tmp_path / "Diagnostics.xlsx").write_bytes(b"no workbook")
    with pytest.raises(FormatError, match=r"Diagnostics\.xlsx: not a readable workbook"):
        entries(tmp_path)
    book = openpyxl.Workbook()
    book.active.append(["FileName", "Rhythm", "PatientAge", "Gender"])
    book.save(tmp_path / "Diagnostics.xlsx")
    with pytest.raises(FormatError, match="the column 'Beat' is missing"):
        entries(tmp_path)
    book = openpyxl.Workbook(write_only=True)  # omits the size of the sheet, so that rows may be short
    sheet = book.create_sheet()
    sheet.append(["FileName", "Rhythm", "Beat", "PatientAge", "Gender"])
    sheet.append(["MUSE_1", "SB"])
    book.save(tmp_path / "Diagnostics.xlsx")
    with pytest.raises(FormatError, match="a row has 2 of 5 columns"):
        entries(tmp_path)


def test_one_lead_of_the_truncated_record_is_excluded() -> None:
    """10,646 x 4 leads, less 8 missing V2 and this one, are the paper's 42,575 instances."""
    assert CHAPMAN.frame_policies["evaluation"].excluded_leads == ((TRUNCATED_RECORD, "V2"),)
    assert CHAPMAN.expected["instances"] == 10_646 * 4 - 8 - 1
