"""Splits by the values of a column, which are refused if they leak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import clocs
from clocs.core.errors import ConfigError, LeakError
from clocs.core.recording import Recording
from clocs.store.column_splits import parse_values
from clocs.store.store import Store
from tests.conftest import make_recording
from tests.store.conftest import Maker


def recording(number: int, fold: str, patient: int | None = None, num_samples: int = 5000) -> Recording:
    made = make_recording(num_samples=num_samples, seed=number, record_id=f"r{number}")
    return replace(
        made, patient_id=f"p{number if patient is None else patient}", extra={"fold": fold, "ward": f"w-{fold}"}
    )


@pytest.fixture
def store(store_of: Maker) -> Store:
    """Return a store of eight patients in folds 1 to 4, the last too short for a frame."""
    made = [recording(number, str(1 + number // 2)) for number in range(8)]
    return store_of([*made, recording(8, "4", num_samples=2000)], gate=clocs.GatePolicy(min_seconds=1))


def test_parts_are_those_of_the_values(store: Store) -> None:
    split = clocs.split_by(store, "fold", train=[1, 2], validation=3, test=4)
    assert split.parts.tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 3], "a recording without a frame is unused"
    assert split.metadata["patients"] == {"train": 4, "validation": 2, "test": 2}
    assert np.array_equal(store.split().parts, split.parts)
    by_text = clocs.split_by(store, "ward", train="w-1", test=["w-2"], name="wards")
    assert by_text.parts.tolist() == [0, 0, 2, 2, 3, 3, 3, 3, 3]


def test_a_repeated_split_is_the_same_and_another_needs_another_name(store: Store) -> None:
    first = clocs.split_by(store, "fold", train=[1, 2], test=4)
    assert clocs.split_by(store, "fold", train=range(1, 3), test=np.array([4])).sha256 == first.sha256
    with pytest.raises(ConfigError, match="exists and differs"):
        clocs.split_by(store, "fold", train=1, test=4)


def test_values_without_recordings_and_in_two_parts_are_refused(store: Store) -> None:
    with pytest.raises(ConfigError, match="No recording of the test part: column 'fold' has 1, 2, 3, 4"):
        clocs.split_by(store, "fold", train=1, test=10)
    with pytest.raises(ConfigError, match="in two parts"):
        clocs.split_by(store, "fold", train=[1, 2], test=[2, 3])
    with pytest.raises(ConfigError, match="Unknown column"):
        clocs.split_by(store, "folds", train=1)
    assert not (store.folder / "splits").exists()


def test_a_split_that_leaks_is_not_saved(store_of: Maker) -> None:
    same_patient = store_of([recording(0, "1", 7), recording(1, "2", 7)], name="patients")
    with pytest.raises(LeakError, match="belong to one patient"):
        clocs.split_by(same_patient, "fold", train=1, test=2)
    twin = replace(recording(0, "2"), record_id="twin", patient_id="other")
    same_signal = store_of([recording(0, "1"), twin, recording(2, "3")], name="signals")
    with pytest.raises(LeakError, match="are the same signal"):
        clocs.split_by(same_signal, "fold", train=1, test=2)
    assert clocs.split_by(same_signal, "fold", train=1, test=3).parts.tolist() == [0, 3, 2]
    assert not (same_patient.folder / "splits").exists()


def test_ranges_are_for_integers_only() -> None:
    assert parse_values("1-3, 7", pa.int64()) == ["1", "2", "3", "7"]
    assert parse_values("1-3,CS-12", pa.string()) == ["1-3", "CS-12"]
    assert parse_values("", pa.int64()) == []
