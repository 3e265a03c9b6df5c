"""Rows of a table of classified recordings are found by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from clocs.core.errors import ConfigError
from clocs.inference import batch_table, classified_rows
from clocs.inference.batch_table import class_probabilities, table_writer
from clocs.inference.classified_rows import ClassifiedRows

SCHEMA = pa.schema([("recording", pa.string()), ("probability_A", pa.float64()), ("probability_B", pa.float64())])


def write(path: Path, count: int) -> list[dict[str, Any]]:
    rows = [{"recording": f"=r{n}", "probability_A": n / count, "probability_B": None} for n in range(count)]
    table_writer(path)(SCHEMA, (rows[first : first + 3] for first in range(0, count, 3)))
    return rows


@pytest.mark.parametrize("same_hash", [False, True])
def test_every_row_is_found_by_name(same_hash: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several batches, also if all names had one hash."""
    monkeypatch.setattr(batch_table, "ROWS_PER_BATCH", 7)
    if same_hash:
        monkeypatch.setattr(classified_rows, "hash_id", lambda name: 5)
        monkeypatch.setattr("clocs.store.segments.hash_id", lambda name: 5)
    rows = write(tmp_path / "table.arrow", 20)
    with pa.memory_map(str(tmp_path / "table.arrow")) as source:
        assert pa.ipc.open_file(source).num_record_batches == 3
    found = ClassifiedRows(tmp_path / "table.arrow")
    assert len(found) == 20
    assert [found.find(row["recording"]) for row in rows] == rows
    assert found.find("r1") is None


def test_a_table_may_have_no_rows(tmp_path: Path) -> None:
    write(tmp_path / "table.arrow", 0)
    assert ClassifiedRows(tmp_path / "table.arrow").find("r0") is None


def test_other_files_raise_an_error(tmp_path: Path) -> None:
    (tmp_path / "text.arrow").write_text("recording\n")
    with pa.OSFile(str(tmp_path / "other.arrow"), "wb") as file, pa.ipc.new_file(file, pa.schema([("a", pa.int8())])):
        pass
    for name in ("absent.arrow", "text.arrow", "other.arrow"):
        with pytest.raises(ConfigError, match=r"clocs classify STORE --out TABLE\.arrow"):
            ClassifiedRows(tmp_path / name)


def test_classes_come_by_descending_probability() -> None:
    row = {"recording": "a", "probability_A": 0.2, "probability_B": None, "probability_C": 0.7, "heart_rate": 60.0}
    assert class_probabilities(row) == [("C", 0.7), ("A", 0.2)]
