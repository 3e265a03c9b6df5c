"""Extra columns: kept as text in shards, typed in segments, used by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from clocs.core.column_names import KNOWN_COLUMNS
from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.core.stated_measurements import StatedMeasurements
from clocs.store import segment_plan
from clocs.store.column_summary import summarize_columns
from clocs.store.extra_columns import common_type, match_values, typed_columns
from clocs.store.segments import segment_path
from clocs.store.shard import schema
from clocs.store.store import Store, open_store
from clocs.store.summary import list_recordings
from clocs.store.verify import verify
from tests.conftest import make_recording
from tests.store.conftest import Maker

NOTHING = StatedMeasurements()


def recording(number: int, **extra: str) -> Recording:
    labels = ("SR", "LAD") if number % 2 else ("AF",)
    made = make_recording(num_samples=5000, seed=number, record_id=f"r{number}", patient_id=f"p{number // 2}")
    return replace(made, labels=labels, extra=extra)


def test_the_known_columns_are_those_of_a_shard() -> None:
    assert tuple(schema("int16").names) == KNOWN_COLUMNS


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1", None, "-20"], pa.int64(), [1, None, -20]),
        (["1", "2.5", "1e-3"], pa.float64(), [1.0, 2.5, 0.001]),
        (["True", "false", None], pa.bool_(), [True, False, None]),
        (["1", "true"], pa.string(), ["1", "true"]),
        (["007", "8"], pa.string(), ["007", "8"]),
        (["1" * 19], pa.string(), ["1" * 19]),
        (["nan", "1"], pa.string(), ["nan", "1"]),
        (["1\n"], pa.string(), ["1\n"]),
    ],
)
def test_a_column_has_the_type_of_all_its_values(texts: list[Any], kind: pa.DataType, values: list[Any]) -> None:
    rows = [[("x", text)] if text is not None else [] for text in texts]
    (column,) = typed_columns(pa.array(rows, pa.map_(pa.string(), pa.string()))).values()
    assert (column.type, column.to_pylist()) == (kind, values)


def test_stated_measurements_come_back_and_select_recordings(store_of: Maker) -> None:
    stated = StatedMeasurements(heart_rate=61.1, p_duration=100, qrs_axis=-30, p_axis=0)
    store = store_of([replace(recording(0, fold="2"), stated_measurements=stated), recording(1)])
    assert store.recording("r0").stated_measurements == stated
    assert (store.recording("r0").extra, store.recording("r1").stated_measurements) == ({"fold": "2"}, NOTHING)
    assert store.where(stated_qrs_axis=-30).tolist() == [True, False]
    assert store.table("stated_heart_rate").column(0).to_pylist() == [61.1, None]


def test_ranges_of_a_column_of_numbers() -> None:
    numbers, texts = pa.chunked_array([[60, 99.5, 100, None, -5]]), pa.chunked_array([["60..100", "70"]])
    assert match_values("x", numbers, "60..100").tolist() == [True, True, False, False, False]
    assert match_values("x", numbers, ["..0", 100]).tolist() == [False, False, True, False, True]
    assert match_values("x", numbers, ["100..", None]).tolist() == [False, False, True, True, False]
    assert match_values("x", texts, "60..100").tolist() == [True, False]
    with pytest.raises(ConfigError, match="has values of type double"):
        match_values("x", numbers, "..")


def test_types_of_segments_are_joined() -> None:
    whole, number, text, truth = pa.int64(), pa.float64(), pa.string(), pa.bool_()
    joined = [common_type(types) for types in ([whole], [whole, number], [whole, text], [truth, whole], [truth, truth])]
    assert joined == [whole, number, text, text, truth]


def test_a_store_returns_extra_values_as_they_were(store_of: Maker) -> None:
    made = [recording(0, fold="1", device="AT-6"), recording(1), recording(2, fold="007", note="ä, é")]
    store = store_of(made, per_shard=2)
    assert [found.extra for found in store] == [item.extra for item in made]
    table = store.table(["fold", "record_id", "note"])
    assert table.to_pydict() == {
        "fold": ["1", None, "007"],
        "record_id": ["r0", "r1", "r2"],
        "note": [None, None, "ä, é"],
    }
    assert verify(store.folder) == []
    assert [row["device"] for row in list_recordings(store)] == ["AT-6", None, None]
    with pytest.raises(
        ConfigError, match=r"Unknown column site2\. .*Extra columns of this store: device, fold, note\."
    ):
        store.table(["fold", "site2"])


def test_a_missing_segment_is_written_again_with_the_same_columns(store_of: Maker) -> None:
    store = store_of([recording(number, fold=str(number)) for number in range(3)])
    path = segment_path(store.folder, store.segments[0].info.name, "records")
    before = path.read_bytes()
    path.unlink()
    assert open_store(store.folder).table("fold").column(0).to_pylist() == [0, 1, 2]
    assert path.read_bytes() == before


@pytest.fixture
def mixed(store_of: Maker, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Return a store of four segments of one recording each, whose types differ."""
    monkeypatch.setattr(segment_plan, "MAX_RECORDS", 1)
    rows = [
        {"fold": "1", "score": "1", "level": "1.50"},
        {"fold": "2", "score": "0.5", "level": "2.5"},
        {"fold": "3", "level": "high"},
        {},
    ]
    return store_of([recording(number, **row) for number, row in enumerate(rows)], per_shard=1)


def test_columns_have_one_type_over_segments(mixed: Store) -> None:
    assert len(mixed.segments) == 4
    table = mixed.table(["fold", "score", "level"])
    assert table.schema.types == [pa.int64(), pa.float64(), pa.string()]
    assert table.to_pydict() == {
        "fold": [1, 2, 3, None],
        "score": [1.0, 0.5, None, None],
        "level": ["1.50", "2.5", "high", None],
    }


def test_a_clash_with_a_known_column_ends_the_ingest(store_of: Maker) -> None:
    with pytest.raises(ConfigError, match="Column 'patient_code' cannot be kept"):
        store_of([recording(0, fold="1"), recording(1, patient_code="1")])


def test_recordings_are_selected_by_value(mixed: Store) -> None:
    def numbers(**conditions: Any) -> list[int]:
        return np.flatnonzero(mixed.where(**conditions)).tolist()

    assert numbers(fold=2) == numbers(fold="2") == numbers(fold=2.0) == numbers(fold=np.int64(2)) == [1]
    assert numbers(fold=range(2, 9)) == numbers(fold={2, 3}) == [1, 2]
    assert numbers(fold=[1, None]) == [0, 3]
    assert numbers(score=0.5) == [1]
    assert numbers(level="1.50") == [0]
    assert numbers(labels="AF") == [0, 2]
    assert numbers(labels=["LAD", "AF"], fold=[1, 2]) == [0, 1]
    assert numbers(fold=99) == numbers(fold=[]) == []
    assert numbers() == [0, 1, 2, 3]
    with pytest.raises(ConfigError, match="Column 'fold' has values of type int64"):
        mixed.where(fold="two")
    with pytest.raises(ConfigError, match="Unknown column folds"):
        mixed.where(folds=1)
    with pytest.raises(ConfigError, match="'extra' cannot be compared"):
        mixed.where(extra="fold")


def test_a_summary_masks_what_could_identify(store_of: Maker) -> None:
    made = [
        recording(number, fold=str(number % 3), device="AT-6", doctor="A", rare=f"John {number}", seen="20190501")
        for number in range(12)
    ]
    found = {row.name: row for row in summarize_columns(store_of(made))}
    assert (found["fold"].type, found["fold"].num_values, found["fold"].num_distinct) == ("integer", 12, 3)
    assert found["fold"].examples == ("0", "1", "2")
    assert found["device"].examples == ("AT-6",)
    assert found["labels"].type == "list of text"
    assert found["labels"].num_values == 12
    shown = " ".join(example for row in found.values() for example in row.examples)
    assert not any(value in shown for value in ("John", "20190501", "r0", "p1"))
    assert found["doctor"].examples == ("**",)
    assert [row.name for row in found.values() if row.is_extra] == ["device", "doctor", "fold", "rare", "seen"]
