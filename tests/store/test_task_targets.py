"""Targets of tasks: who takes part, and with which classes or numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError
from clocs.core.recording import Episode
from clocs.datasets import Task
from clocs.store.store import Store
from clocs.store.task_targets import store_tasks, task_targets
from tests.conftest import make_recording
from tests.store.conftest import Maker

LABELS = [("AFIB",), ("AFL", "PVC"), ("SR",), (), ("SR", "AFIB"), ("PVC",), ("AFIB", "AFL")]
SEXES: Final[list[Any]] = ["female", "male", None, "male", "female", None, "male"]
PACED = ["True", "False", None, "False", "True", None, "False"]
FRACTIONS = ["55", None, "60.5", "30", None, "47", "62"]
CLASSES = {"AF": ("AFIB", "AFL"), "SR": ("SR",)}


@pytest.fixture
def store(store_of: Maker) -> Store:
    """Return a store of several shards with labels, demographics and extra columns, some empty."""
    made = []
    for number, labels in enumerate(LABELS):
        extra = {"paced": PACED[number], "lvef": FRACTIONS[number]}
        made.append(
            replace(
                make_recording(seed=number, record_id=f"r{number}", patient_id=f"p{number}", labels=labels),
                sex=SEXES[number],
                age=None if number == 2 else 40.0 + number,
                episodes=(Episode(0, 100, "SVT"), Episode(100, 200, "NSR")) if number == 1 else (),
                extra={name: text for name, text in extra.items() if text is not None},
            )
        )
    tasks = {"rhythm": Task(title="Rhythm", kind="multi-class", classes=CLASSES)}
    return store_of(made, per_shard=3, tasks=tasks)


def targets(store: Store, **task: Any) -> tuple[list[int], list[list[int]]]:
    """Return the recordings that take part in a task, and their classes."""
    found = task_targets(store, Task(title="made up", **task))
    assert not found.truth[~found.included].any()
    return np.flatnonzero(found.included).tolist(), found.truth[found.included].astype(int).tolist()


def test_a_multi_class_task_leaves_out_recordings_with_no_or_several_classes(store: Store) -> None:
    found = clocs.task_targets(store, "rhythm")
    assert found.name == "rhythm"
    assert found.classes == ("AF", "SR")
    assert np.flatnonzero(found.included).tolist() == [0, 1, 2, 6], "two labels of one class are one class"
    assert found.truth[[0, 1, 2, 6]].tolist() == [[True, False], [True, False], [False, True], [True, False]]
    assert (found.count(), found.positives()) == (4, {"AF": 3, "SR": 1})
    half = np.arange(7) < 2
    assert (found.count(half), found.positives(half)) == (2, {"AF": 2, "SR": 0})


def test_a_multi_label_task_keeps_the_others_only_if_told(store: Store) -> None:
    assert targets(store, kind="multi-label", classes=CLASSES) == (
        [0, 1, 2, 4, 6],
        [[1, 0], [1, 0], [0, 1], [1, 1], [1, 0]],
    )
    everyone, truth = targets(store, kind="multi-label", classes=CLASSES, keep_others=True)
    assert everyone == list(range(7))
    assert truth[3] == truth[5] == [0, 0]


def test_a_value_may_be_in_several_classes(store: Store) -> None:
    nested = {"any": ("AFIB", "AFL", "SR"), "AF": ("AFIB", "AFL"), "AFIB": ("AFIB",)}
    assert targets(store, kind="multi-label", classes=nested)[1] == [
        [1, 1, 1],
        [1, 1, 0],
        [1, 0, 0],
        [1, 1, 1],
        [1, 1, 1],
    ]


def test_empty_columns_are_left_out_even_if_others_are_kept(store: Store) -> None:
    sex = targets(store, kind="binary", column="sex", classes={"female": ("female",)}, keep_others=True)
    assert sex == ([0, 1, 3, 4, 6], [[1], [0], [0], [1], [0]])
    paced = targets(store, kind="binary", column="paced", classes={"paced": ("true",)}, keep_others=True)
    assert paced == ([0, 1, 3, 4, 6], [[1], [0], [0], [1], [0]])


def test_episodes_give_classes(store: Store) -> None:
    classes = {"SVT": ("SVT",), "NSR": ("NSR",), "VT": ("VT",)}
    assert targets(store, kind="multi-label", column="episodes", classes=classes) == ([1], [[1, 1, 0]])


def test_a_regression_takes_numbers_of_a_column(store: Store) -> None:
    fraction = task_targets(store, Task(title="LVEF", kind="regression", column="lvef"))
    assert fraction.truth.shape == (7, 0)
    np.testing.assert_array_equal(fraction.values, [55, np.nan, 60.5, 30, np.nan, 47, 62])
    np.testing.assert_array_equal(fraction.included, np.isfinite(fraction.values))
    assert (fraction.count(), fraction.positives(), fraction.classes) == (5, {}, ())
    age = task_targets(store, Task(title="Age", kind="regression", column="age"))
    np.testing.assert_array_equal(age.values, [40, 41, np.nan, 43, 44, 45, 46])
    with pytest.raises(ConfigError, match="'paced' of task 'Paced' has values of type bool, not numbers"):
        task_targets(store, Task(title="Paced", kind="regression", column="paced"))


def test_unknown_tasks_and_columns_raise_errors_that_list_the_known_ones(store: Store) -> None:
    assert list(store_tasks(store)) == ["rhythm"]
    with pytest.raises(ConfigError, match=r"has no task 'super'. Its tasks: rhythm\."):
        task_targets(store, "super")
    with pytest.raises(ConfigError, match=r"Unknown column fold.*lvef, paced"):
        targets(store, kind="binary", column="fold", classes={"1": ("1",)}, keep_others=True)
    with pytest.raises(ConfigError, match="has no classes"):
        targets(store, kind="binary", column="extra", classes={"1": ("1",)}, keep_others=True)


def test_synthetic_tasks_agree_with_the_labels(tmp_path: Path) -> None:
    store = clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 40, "seconds": 5})
    for name in ("rhythm", "findings"):
        found = task_targets(store.folder, name)
        assert found.included.all()
        for recording, row in zip(store, found.truth, strict=True):
            assert {found.classes[index] for index in np.flatnonzero(row)} == set(recording.labels) & set(found.classes)
