"""Splits by the values of a column and from lists, which are refused if they leak."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import clocs
from clocs.core.errors import ConfigError, LeakError
from clocs.core.recording import Recording
from clocs.datasets import PublishedSplit
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


def test_identical_signals_are_allowed_where_a_protocol_has_them(store_of: Maker) -> None:
    twin = replace(recording(0, "2"), record_id="twin", patient_id="other")
    store = store_of([recording(0, "1"), twin, recording(2, "2"), recording(3, "1", 5), recording(4, "2", 5)])
    with pytest.raises(LeakError, match="belong to one patient"):
        clocs.split_by(store, "fold", train=1, test=2, allow_duplicates=True)
    ids: dict[str, Any] = {"train": ["r0", "r3"], "test": ["twin", "r2"]}
    split = clocs.split_by(store, "record_id", **ids, allow_duplicates=True)
    assert (split.metadata["allow_duplicates"], split.metadata["shared_signals"]) == (True, 2)
    assert store.split().parts.tolist() == [0, 2, 2, 0, 3], "it loads, because it says that it has duplicates"
    with pytest.raises(LeakError, match="are the same signal"):
        clocs.split_by(store, "record_id", **ids, name="strict")


def test_lists_of_records_and_patients_give_parts(store: Store) -> None:
    ids: dict[str, Any] = {"train": [f"r{number}" for number in range(6)], "test": np.array(["r7"])}
    by_record = clocs.split_by(store, "record_id", **ids, name="records")
    assert by_record.parts.tolist() == [0, 0, 0, 0, 0, 0, 3, 2, 3]
    by_patient = clocs.split_by(store, "patient_id", train=["p0", "p1"], validation="p2", name="patients")
    assert by_patient.parts.tolist() == [0, 0, 1, 3, 3, 3, 3, 3, 3]
    with pytest.warns(UserWarning, match="2 of 3 values of column 'record_id' in the test part are not in the store"):
        clocs.split_by(store, "record_id", train="r0", test=["r1", "r70", "r71"], name="missing")
    with pytest.raises(ConfigError, match="No recording of the test part: column 'patient_id' has none of the given"):
        clocs.split_by(store, "patient_id", train="p0", test=["q1", "q2"], name="none")


def test_a_long_list_is_kept_as_its_hash(store_of: Maker) -> None:
    store = store_of([recording(number, "1") for number in range(24)], per_shard=30)
    ids = [f"r{number}" for number in range(24)]
    split = clocs.split_by(store, "record_id", train=ids[:22], test=ids[22:])
    assert split.metadata["by"]["train"]["values"] == 22
    assert split.metadata["by"]["test"] == ["r22", "r23"]
    assert clocs.split_by(store, "record_id", train=ids[21::-1], test=ids[22:]).sha256 == split.sha256
    with pytest.raises(ConfigError, match="exists and differs"):
        clocs.split_by(store, "record_id", train=ids[:21], test=ids[22:])


@pytest.mark.parametrize("kind", ["csv", "mapping", "frame"])
def test_a_table_of_parts_gives_a_split(kind: str, store: Store, tmp_path: Path) -> None:
    columns = {
        "record_id": [f"r{number}" for number in range(6)],
        "part": ["train", "val", "test", "", "train", "unused"],
    }
    table: Any = columns if kind == "mapping" else pd.DataFrame(columns)
    if kind == "csv":
        table.to_csv(tmp_path / "parts.csv", index=False)
        table = tmp_path / "parts.csv"
    split = clocs.split_from_table(store, table)
    assert split.parts.tolist() == [0, 1, 2, 3, 0, 3, 3, 3, 3]
    assert split.metadata["by"]["validation"] == ["r1"]


def test_a_table_that_gives_no_split_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"needs the columns 'record_id' or 'patient_id', and 'part'. It has: id, part"
    ):
        clocs.split_from_table(store, {"id": ["r0"], "part": ["train"]})
    with pytest.raises(ConfigError, match="Unknown part 'holdout'"):
        clocs.split_from_table(store, {"record_id": ["r0"], "part": ["holdout"]})
    with pytest.raises(ConfigError, match="in two parts"):
        clocs.split_from_table(store, {"record_id": ["r0", "r0"], "part": ["train", "test"]})
    with pytest.raises(ConfigError, match="cannot be read"):
        clocs.split_from_table(store, tmp_path / "absent.csv")


def test_values_of_a_command_may_be_ranges_of_integers_or_files(tmp_path: Path) -> None:
    assert parse_values("1-3, 7", "fold", pa.int64()) == ["1", "2", "3", "7"]
    assert parse_values("1-3,CS-12", "ward", pa.string()) == ["1-3", "CS-12"]
    assert parse_values("", "fold", pa.int64()) == []
    (tmp_path / "ids.txt").write_text("r1\n r2 \n\nr3\n")
    assert parse_values(f"@{tmp_path}/ids.txt", "record_id", pa.string()) == ["r1", "r2", "r3"]
    (tmp_path / "ids.csv").write_text("patient_id,record_id\np1,r1\np1,r2\n")
    assert parse_values(f"@{tmp_path}/ids.csv", "record_id", pa.string()) == ["r1", "r2"]
    with pytest.raises(ConfigError, match="has no column 'fold'"):
        parse_values(f"@{tmp_path}/ids.csv", "fold", pa.int64())
    with pytest.raises(ConfigError, match="cannot be read"):
        parse_values(f"@{tmp_path}/absent.txt", "record_id", pa.string())


def test_published_splits_are_named_by_the_dataset(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Dataset 'made-store' has no published split 'folds'. Its splits: none"):
        clocs.split_published(store, "folds")
    published = PublishedSplit("made up", column="fold", train=(1, 2), test=(4,))
    made = clocs.ingest("synthetic", None, tmp_path / "synthetic", options={"num_records": 6, "seconds": 5})
    listed = PublishedSplit("made up", train=("0000000", "0000001"), test=("0000004",))
    dataset = replace(clocs.DATASETS.get("synthetic"), splits={"list": listed, "folds": published})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(clocs.DATASETS, "get", lambda name: dataset)
        split = clocs.split_published(made, "list")
        assert (split.name, split.metadata["published"]) == ("list", "list")
        assert split.parts.tolist() == [0, 0, 3, 3, 2, 3]
        assert clocs.split_published(made, "list", name="mine").name == "mine"
