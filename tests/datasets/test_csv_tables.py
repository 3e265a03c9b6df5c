"""CSV tables of published datasets are found and read."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.csv_tables import (
    RowsByKey,
    find_table,
    need_table,
    numbered_rows,
    order_of,
    parse_flag,
    read_csv,
)


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


def test_find_table_takes_the_file_next_to_the_root(tmp_path: Path) -> None:
    for folder in ("a", "a/b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.csv").touch()
        (tmp_path / folder / "u.csv").touch()
    source = open_source(tmp_path)
    assert find_table(source, "t.csv") == "a/t.csv"
    assert find_table(source, "none.csv", "u.csv") == "a/u.csv"
    assert need_table(source, "t.csv") == "a/t.csv"
    with pytest.raises(FormatError, match=r"none\.csv with the labels is missing"):
        need_table(source, "none.csv")


def test_find_table_prefers_an_unpacked_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("t.csv", "")
    source = open_source(tmp_path)
    assert find_table(source, "t.csv") == find_table(source, "none.csv", "t.csv") == "data.zip/t.csv"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "t.csv").touch()
    assert find_table(source, "t.csv") == find_table(source, "none.csv", "t.csv") == "data/t.csv"


def test_a_compressed_table_is_read_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    data = gzip.compress(b"file\na\n")
    (tmp_path / "t.csv.gz").write_bytes(data)
    (tmp_path / "cut.csv.gz").write_bytes(data[:-9])
    (tmp_path / "plain.csv.gz").write_text("file\na\n")
    source = open_source(tmp_path)
    assert list(read_csv(source, "t.csv.gz")) == [{"file": "a"}]
    for name in ("cut.csv.gz", "plain.csv.gz"):
        with pytest.raises(FormatError, match="not a readable gzip file"):
            list(read_csv(source, name))


def test_rows_in_the_same_order_are_not_kept() -> None:
    read: list[str] = []

    def rows() -> Iterator[tuple[str, int]]:
        for number, key in enumerate("abcd"):
            read.append(key)
            yield key, number

    by_key = RowsByKey(rows())
    assert (by_key.pop("a"), read) == (0, ["a"])
    assert (by_key.pop("c"), read) == (2, ["a", "b", "c"])
    assert (by_key.pop("b"), by_key.pop("b"), by_key.pop("d")) == (1, None, 3)


@pytest.mark.parametrize(
    ("text", "flag"),
    [("True", "true"), ("1", "true"), ("1.0", "true"), (" false", "false"), ("0.0", "false"), ("", ""), ("nan", "")],
)
def test_flags_are_words_or_numbers(text: str, flag: str) -> None:
    assert parse_flag(text) == flag


def test_order_replaces_dates() -> None:
    assert order_of(["2020-02-01", "", "2019-12-31", "2020-02-01"]) == ["2", "", "1", "3"]
