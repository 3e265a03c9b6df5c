"""Stores from arrays, with tables that have empty fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.datasets import Task
from clocs.store.store import Store
from clocs.store.task_targets import store_tasks, task_targets
from clocs.store.verify import verify
from tests.conftest import make_recording


def stored(folder: Path, table: Any, count: int) -> list[Recording]:
    """Return the recordings of a store of arrays with a table."""
    signals = [make_recording(("I", "II"), num_samples=2500, seed=seed).signal for seed in range(count)]
    return list(Store.from_arrays(folder / "arrays", signals, sampling_rate=500, leads=("I", "II"), table=table))


@pytest.mark.parametrize("frame", [False, True])
def test_recordings_without_a_patient_are_their_own_patients(frame: bool, tmp_path: Path) -> None:
    """As one patient they would be positives of one another, and in one part of a split."""
    table: Any = {"patient_id": ["a", None, float("nan"), None, "a", pd.NA, pd.NaT, ""]}
    found = stored(tmp_path, pd.DataFrame(table, dtype=object) if frame else table, 8)
    names = [recording.record_id for recording in found]
    assert [recording.patient_id for recording in found] == ["a", *names[1:4], "a", *names[5:]]


def test_empty_fields_are_unknown(tmp_path: Path) -> None:
    nothing = [None, float("nan"), pd.NA]
    table = dict.fromkeys(("record_id", "site", "labels", "age", "sex"), nothing)
    found = stored(tmp_path, table, 3)
    assert [recording.record_id for recording in found] == ["0000000", "0000001", "0000002"]
    assert {(recording.site, recording.labels, recording.age, recording.sex) for recording in found} == {
        ("", (), None, None)
    }


def test_integer_patient_ids_stay_integers_if_one_is_missing(tmp_path: Path) -> None:
    """Pandas converts integers with a missing value to floats."""
    found = stored(tmp_path, pd.DataFrame({"patient_id": [1, 1, None, 20]}), 4)
    assert [recording.patient_id for recording in found] == ["1", "1", found[2].record_id, "20"]


def test_labels_may_be_text_or_lists(tmp_path: Path) -> None:
    """Text is separated by ``;``, as in tables of files."""
    table = {"patient_id": [7, 7, 7, 7], "labels": ["AF", np.array(["AF", None, "SR"]), 3, "AF; SR"]}
    found = stored(tmp_path, table, 4)
    assert {recording.patient_id for recording in found} == {"7"}
    assert [recording.labels for recording in found] == [("AF",), ("AF", "SR"), ("3",), ("AF", "SR")]


def test_patient_ids_are_normalized_and_placeholders_ignored(tmp_path: Path) -> None:
    names = ["P1", "P1 ", "\uff301", "P1\u200b", "unknown", "nan", "unknown"]
    with pytest.warns(UserWarning, match="3 rows have a placeholder.* is row 4"):
        found = stored(tmp_path, {"patient_id": names}, 7)
    assert [recording.patient_id for recording in found] == ["P1"] * 4 + [item.record_id for item in found[4:]]


@pytest.mark.parametrize("frame", [False, True])
def test_other_columns_are_kept(frame: bool, tmp_path: Path) -> None:
    table: Any = {"fold": [1, None, 3], "device": ["A", "", None], "paced": [True, False, True]}
    found = stored(tmp_path, pd.DataFrame(table) if frame else table, 3)
    assert [recording.extra for recording in found] == [
        {"fold": "1", "device": "A", "paced": "True"},
        {"paced": "False"},
        {"fold": "3", "paced": "True"},
    ]
    with pytest.raises(ConfigError, match="Column 'Leads' cannot be kept"):
        stored(tmp_path, {"Leads": [1, 2, 3]}, 3)


def test_sex_is_not_guessed_from_a_letter(tmp_path: Path) -> None:
    found = stored(tmp_path, {"sex": ["Male", "mujer", "missing", "f"]}, 4)
    assert [recording.sex for recording in found] == ["male", None, None, "female"]


def test_the_same_samples_in_other_shapes_are_another_version(tmp_path: Path) -> None:
    whole = make_recording(("I", "II"), num_samples=10_000).signal
    for version, cut in enumerate((4000, 7000), 1):
        parts = [whole[:, :cut], whole[:, cut:]]
        made = Store.from_arrays(tmp_path / "arrays", parts, sampling_rate=500, leads=("I", "II"))
        assert made.manifest.version == version
        assert [recording.num_samples for recording in made] == [cut, 10_000 - cut]


def signals(*seeds: int, leads: int = 2) -> list[Any]:
    return [make_recording(("I", "II", "V1")[:leads], num_samples=2500, seed=seed).signal for seed in seeds]


def test_classes_and_tasks_come_with_arrays(tmp_path: Path) -> None:
    table = {"labels": ["AFIB", "SR", "", "AFL"], "lvef": [55, None, 30.5, 61], "grade": [1, 2, 3, None]}
    grades = {"low": ("1",), "high": ("2", "3")}
    tasks: dict[str, Any] = {
        "lvef": {"title": "Ejection fraction in %", "kind": "regression", "column": "lvef"},
        "grade": Task(title="Grade", kind="multi-class", column="grade", classes=grades),
    }
    store = Store.from_arrays(
        tmp_path / "store",
        signals(0, 1, 2, 3),
        sampling_rate=500,
        leads=("I", "II"),
        table=table,
        classes={"AF": ["AFIB", "AFL"]},
        tasks=tasks,
    )
    assert task_targets(store, "classes").truth[:, 0].tolist() == [True, False, False, True]
    np.testing.assert_array_equal(task_targets(store, "lvef").values, [55, np.nan, 30.5, 61])
    assert task_targets(store, "grade").positives() == {"low": 1, "high": 2}
    assert store.frames("evaluation").classes == {"AF": ("AFIB", "AFL")}


def test_tasks_that_cannot_be_used_are_reported(tmp_path: Path) -> None:
    common: dict[str, Any] = {"sampling_rate": 500, "leads": ("I", "II")}
    with pytest.raises(ConfigError, match=r"Invalid tasks: lvef: .*needs a column of numbers"):
        Store.from_arrays(tmp_path / "a", signals(0), tasks={"lvef": {"title": "x", "kind": "regression"}}, **common)
    tasks = {"lvef": Task(title="x", kind="regression", column="lvef")}
    with pytest.warns(UserWarning, match="task 'lvef' cannot be used: Unknown column lvef"):
        Store.from_arrays(tmp_path / "b", signals(0), tasks=tasks, **common)
    with pytest.warns(UserWarning, match="task 'classes': no recording is of the class AF"):
        Store.from_arrays(tmp_path / "c", signals(0), classes={"AF": ["AFIB"]}, **common)


def test_arrays_can_be_appended(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    ids = {"record_id": ["a", "b"], "labels": ["AF", "SR"]}
    tasks = {"rhythm": Task(title="Rhythm", kind="multi-class", classes={"AF": ("AF",), "SR": ("SR",)})}
    first = Store.from_arrays(folder, signals(0, 1), sampling_rate=500, leads=("I", "II"), table=ids, tasks=tasks)
    more: dict[str, Any] = {
        "signals": [*signals(2, leads=3), np.zeros((3, 2500))],
        "sampling_rate": 250,
        "leads": ("I", "II", "V1"),
        "table": {"record_id": ["c", "zero"], "labels": ["AF", "AF"], "fold": [1, 2]},
        "append": True,
    }
    grown = Store.from_arrays(folder, **more)
    assert [recording.record_id for recording in grown] == ["a", "b", "c"]
    assert grown.recording("c").sampling_rate == 250
    np.testing.assert_array_equal(grown.recording("a").digital, first.recording("a").digital)
    assert grown.table("fold").column(0).to_pylist() == [None, None, 1]
    assert (grown.manifest.records_in, grown.manifest.quarantined) == (4, {"flat": 1})
    assert task_targets(grown, "rhythm").positives() == {"AF": 2, "SR": 1}, "tasks stay"
    again = Store.from_arrays(folder, **more)
    assert again.sha256 == grown.sha256
    other = {"fold": Task(title="Fold", kind="regression", column="fold")}
    third = Store.from_arrays(
        folder, signals(5), sampling_rate=500, leads=("I", "II"), table={"record_id": ["d"]}, append=True, tasks=other
    )
    assert (len(third), third.manifest.version, store_tasks(third)) == (4, 3, other)
    assert Store.from_arrays(folder, **more).manifest == third.manifest, "arrays of an earlier call"
    assert verify(folder) == []


def test_appended_arrays_need_ids_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    common: dict[str, Any] = {"sampling_rate": 500, "leads": ("I", "II"), "append": True}
    with pytest.raises(ConfigError, match="Pass a table with a column 'record_id'"):
        Store.from_arrays(folder, signals(0), **common)
    Store.from_arrays(folder, signals(0), table={"record_id": ["a"]}, **common)
    with pytest.raises(ConfigError, match="Already in the store: a"):
        Store.from_arrays(folder, signals(1), table={"record_id": ["a"]}, **common)
    assert len(Store(folder)) == 1
