"""A table of cells: appended to by many processes, read while it grows, and whole after a kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from clocs.core.errors import IntegrityError, StoreError
from clocs.experiments.workspace import CellTable
from tests.conftest import ROOT

APPEND = """
import sys
from pathlib import Path
from clocs.experiments.workspace import CellTable
for number in range(40):
    CellTable(Path(sys.argv[1])).append(f"{sys.argv[2]}-{number}", {"text": "x" * 5000})
"""


def test_rows_are_read_back(tmp_path: Path) -> None:
    table, reader = CellTable(tmp_path / "new" / "cells.jsonl"), CellTable(tmp_path / "new" / "cells.jsonl")
    assert reader.get("a") is None
    table.append("a", {"result": 0.1})
    assert reader.get("a") == {"result": 0.1}
    table.append("b", {"result": None})
    assert list(reader.rows()) == [("a", {"result": 0.1}), ("b", {"result": None})]
    assert [json.loads(line)["name"] for line in table.path.read_text().splitlines()] == ["a", "b"]


def test_processes_append_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    started = [
        subprocess.Popen([sys.executable, "-c", APPEND, str(path), name], cwd=ROOT) for name in ("first", "second")
    ]
    assert [process.wait() for process in started] == [0, 0]
    names = {name for name, _ in CellTable(path).rows()}
    assert names == {f"{who}-{number}" for who in ("first", "second") for number in range(40)}


@pytest.mark.parametrize("torn", [b'{"name": "b", "res', b"x" * 200_000])
def test_a_partial_line_is_ignored_and_then_removed(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "cells.jsonl"
    CellTable(path).append("a", {})
    with open(path, "ab") as file:
        file.write(torn)
    table = CellTable(path)
    assert [name for name, _ in table.rows()] == ["a"]
    table.append("c", {})
    assert [name for name, _ in table.rows()] == ["a", "c"]
    assert [name for name, _ in CellTable(path).rows()] == ["a", "c"]


@pytest.mark.parametrize("line", [b"{", b"[]", b"null", b'{"result": 1}', b"\xff\xfe"])
def test_an_invalid_line_raises_an_error(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(IntegrityError, match=r"^cells\.jsonl: line "):
        CellTable(path).get("a")


def test_a_read_only_folder_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write"):
        CellTable(tmp_path / "file" / "cells.jsonl").append("a", {})
