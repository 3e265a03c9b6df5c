"""The list of recordings: its order, the recordings of a patient, later versions and tables."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import clocs
from clocs.core.errors import ConfigError
from clocs.inference.batch_table import table_writer
from clocs.service.recording_list import PAGE_SIZE, RecordingList
from clocs.signals.quality import GATE_OFF

COUNT = 115
START = datetime(2020, 1, 1, 8, 30, 5)
SCHEMA = pa.schema([("recording", pa.string()), ("gate", pa.string())])


def times(count: int) -> list[datetime | None]:
    """Return a time for each recording in no order; one of ten has none, and some are equal."""
    random = np.random.default_rng(0)
    days = random.integers(0, count // 2, count).tolist()
    return [None if number % 10 == 3 else START + timedelta(days=day) for number, day in enumerate(days)]


def make_store(folder: Path, count: int, first: int = 0, *, patients: bool = True) -> None:
    signals = np.random.default_rng(first).normal(0, 0.3, (count, 1, 500))
    numbers = range(first, first + count)
    table = {
        "record_id": [f"r{number}" for number in numbers],
        "acquired": [time.isoformat(" ") if time else "" for time in times(count)],
        **({"patient_id": [f"p{number % 40}" for number in numbers]} if patients else {}),
    }
    clocs.Store.from_arrays(
        folder, signals, sampling_rate=500, leads=["II"], table=table, gate=GATE_OFF, append=first > 0
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    make_store(tmp_path / "store", COUNT)
    return tmp_path / "store"


def expected(count: int) -> list[str]:
    """Return the ids, newest first; those without a time last, and what was stored later before what was earlier."""
    known = [(time or datetime.min, number) for number, time in enumerate(times(count))]
    return [f"r{number}" for _, number in sorted(known, reverse=True)]


def test_pages_list_every_recording_once_newest_first(store: Path) -> None:
    listed = RecordingList(store)
    pages = [listed.page(number) for number in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [PAGE_SIZE, PAGE_SIZE, COUNT - 2 * PAGE_SIZE, 0]
    assert [item.record_id for page in pages for item in page] == expected(COUNT)
    assert [item.acquired for page in pages for item in page] == sorted(
        times(COUNT), key=lambda time: time or datetime.min, reverse=True
    )
    stored = [item.record_id for number in (1, 2, 3, 4) for item in listed.page(number, "stored")]
    assert stored == [f"r{number}" for number in reversed(range(COUNT))]
    assert not listed.has_shifted_times


def test_recordings_of_a_patient_are_listed_newest_first(store: Path) -> None:
    listed = RecordingList(store)
    for number in (0, 7, 114):
        found = listed.of_patient(f"r{number}")
        assert [item.record_id for item in found] == [f for f in expected(COUNT) if (int(f[1:]) - number) % 40 == 0]
        assert {item.num_recordings for item in found} == {len(found)}
        assert all(item.has_known_patient for item in found)
    assert listed.of_patient("absent") == []
    assert listed.recording("absent") is None
    opened = listed.recording("r7")
    assert opened is not None
    assert (opened.record_id, opened.patient_id, opened.acquired) == ("", "", times(COUNT)[7])
    assert [listed.patient_id(name) for name in ("r7", "absent")] == ["p7", ""]


def test_a_shifted_time_is_not_a_time_of_the_recording(store: Path, tmp_path: Path) -> None:
    clocs.make_key(tmp_path / "key")
    clocs.deidentify(store, tmp_path / "shifted", key=tmp_path / "key")
    listed = RecordingList(tmp_path / "shifted")
    first = listed.page(1)[0]
    assert listed.has_shifted_times
    assert first.acquired is not None
    opened = listed.recording(first.record_id)
    assert opened is not None
    assert opened.acquired is None


def test_a_store_without_patients_says_so(tmp_path: Path) -> None:
    make_store(tmp_path / "store", 5, patients=False)
    listed = RecordingList(tmp_path / "store")
    assert [(item.num_recordings, item.has_known_patient) for item in listed.page(1)] == [(1, False)] * 5
    assert len(listed.of_patient("r2")) == 1
    assert listed.patient_id("r2") == ""


def test_later_versions_are_followed(store: Path) -> None:
    listed = RecordingList(store)
    assert len(listed) == COUNT
    make_store(store, 10, first=COUNT)
    assert len(listed) == COUNT + 10
    assert [item.record_id for item in listed.page(1, "stored")][:2] == ["r124", "r123"]
    clocs.withdraw(store, ["p0"])
    assert listed.of_patient("r0") == []
    assert "r0" not in {item.record_id for number in (1, 2, 3) for item in listed.page(number)}


def test_rows_come_from_the_table_which_may_be_replaced(store: Path, tmp_path: Path) -> None:
    path = tmp_path / "table.arrow"

    def write(gate: str) -> None:
        table_writer(path)(SCHEMA, [[{"recording": f"r{number}", "gate": gate} for number in range(0, COUNT, 2)]])

    write("passed")
    listed = RecordingList(store, path)
    rows = {item.record_id: item.row for item in listed.page(1)}
    assert len(rows) == PAGE_SIZE
    for name, row in rows.items():
        assert row == ({"recording": name, "gate": "passed"} if int(name[1:]) % 2 == 0 else None)
    write("withheld")
    assert {item.row["gate"] for item in listed.of_patient("r0") if item.row} == {"withheld"}


def test_folders_without_a_store_and_absent_tables_raise_an_error(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a store"):
        RecordingList(tmp_path)
    with pytest.raises(ConfigError, match="is no Arrow table"):
        RecordingList(store, tmp_path / "absent.arrow")


def test_a_table_of_another_encoder_is_refused_and_the_old_one_stays(store: Path, tmp_path: Path) -> None:
    path, schema = tmp_path / "table.arrow", SCHEMA.append(pa.field("encoder_sha256", pa.string()))

    def write(encoder: str) -> None:
        table_writer(path)(schema, [[{"recording": "r0", "gate": "passed", "encoder_sha256": encoder}]])

    write("aa")
    with pytest.raises(ConfigError, match="another encoder"):
        RecordingList(store, path, "bb")
    listed = RecordingList(store, path, "aa")
    write("bb")
    assert {item.row["encoder_sha256"] for item in listed.of_patient("r0") if item.row} == {"aa"}
    path.unlink()
    assert {item.row["encoder_sha256"] for item in listed.of_patient("r0") if item.row} == {"aa"}
