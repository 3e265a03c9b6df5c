"""CSV tables of published datasets are found and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.errors import FormatError
from clocs.core.sources import open_source
from clocs.datasets.csv_tables import find_table, numbered_rows, read_csv


def test_find_table_searches_all_folders_and_prefers_the_first_name(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.csv").touch()
    (tmp_path / "not-a.csv").touch()
    source = open_source(tmp_path)
    assert find_table(source, "a.csv", "b.csv") == "deep/b.csv"
    (tmp_path / "a.csv").touch()
    assert find_table(source, "a.csv", "b.csv") == "a.csv"
    assert find_table(source, "c.csv") is None


def test_read_csv_handles_byte_order_marks_and_line_breaks_in_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes('\ufefffile,x\r\na,"1\n2"\r\n'.encode())
    assert list(read_csv(open_source(tmp_path), "t.csv")) == [{"file": "a", "x": "1\n2"}]
    assert list(read_csv(open_source(tmp_path), "t.csv", ("p", "q")))[1] == {"p": "a", "q": "1\n2"}
    (tmp_path / "gaps.csv").write_text("file,x\n\na,1\n\n\nb,2\n")
    assert [line for line, _ in numbered_rows(open_source(tmp_path), "gaps.csv")] == [3, 6]
    (tmp_path / "latin.csv").write_bytes(b"file\n\xff\n")
    with pytest.raises(FormatError, match=r"latin\.csv: not a readable CSV"):
        list(read_csv(open_source(tmp_path), "latin.csv"))
