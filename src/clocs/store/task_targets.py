"""Targets of a task: the recordings that take part, and their classes or numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.datasets.task import Task, user_tasks
from clocs.store.extra_columns import as_type
from clocs.store.reader import StoreLike, StoreReader, open_reader

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TaskTargets:
    """Targets of a task for every recording of a store."""

    name: str
    """Name of the task; its title if the store does not name it."""
    task: Task
    """The task."""
    included: Mask
    """Recordings that take part, (N,)."""
    truth: Mask
    """Classes of each recording, (N, K) for K classes; (N, 0) for a regression. Recordings that do not take part have
    none."""
    values: npt.NDArray[np.float64]
    """Numbers of a regression, (N,), NaN for recordings that do not take part; (0,) for other tasks."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, (K,)."""
        return tuple(self.task.classes)

    def count(self, records: Mask | None = None) -> int:
        """Return the number of recordings that take part, of all or of the recordings in a mask, (N,)."""
        return int((self.included if records is None else self.included & records).sum())

    def positives(self, records: Mask | None = None) -> dict[str, int]:
        """Return the number of recordings of each class, of all or of the recordings in a mask, (N,)."""
        rows = self.truth if records is None else self.truth[records]
        return dict(zip(self.classes, rows.sum(axis=0).tolist(), strict=True))


def task_targets(store: StoreLike, task: str | Task) -> TaskTargets:
    """Return the targets of a task for all recordings of a store.

    Args:
        store: A store or its folder.
        task: Name of a task of the store, or a task.

    Returns:
        The classes or numbers of all recordings, and a mask of the recordings that belong to the task.

    Raises:
        ConfigError: The store has no such task or column, or a class or number does not fit the column's type.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 20})
        >>> targets = clocs.task_targets(store, "rhythm")
        >>> targets.truth.shape, targets.classes
        ((20, 5), ('AFIB', 'PVC', 'SB', 'SR', 'ST'))
        >>> clocs.task_targets(store, "age").values.min() >= 20
        np.True_
    """
    opened = open_reader(store)
    name, chosen = (task.title, task) if isinstance(task, Task) else (task, _find(opened, task))
    cells = opened.table(chosen.column).column(0)
    if chosen.kind == "regression":
        values = _numbers(cells, chosen)
        return TaskTargets(name, chosen, np.isfinite(values), np.zeros((len(values), 0), bool), values)
    truth = _truth(cells, chosen)
    num_classes = truth.sum(axis=1)
    included = num_classes == 1 if chosen.kind == "multi-class" else num_classes > 0
    if chosen.keep_others:
        included |= cells.is_valid().to_numpy()
    truth[~included] = False
    return TaskTargets(name, chosen, included, truth, np.empty(0))


def store_tasks(store: StoreLike) -> dict[str, Task]:
    """Return the tasks of a store by name.

    Args:
        store: A store or its folder.

    Returns:
        Tasks of its dataset, and those that were added by an option of the ingest.
    """
    tasks = open_reader(store).manifest.dataset.get("tasks", {})
    return {name: Task.model_validate(task) for name, task in tasks.items()}


def classes_task(store: StoreLike) -> Task:
    """Return the task of a store's classes.

    Args:
        store: A store or its folder.

    Returns:
        The named task of the dataset with these classes. Otherwise a multi-label one, in which recordings without any
        of the classes are negatives.

    Raises:
        ConfigError: The store has no classes.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> classes_task(store).kind
        'multi-class'
    """
    opened = open_reader(store)
    classes = {name: tuple(labels) for name, labels in opened.manifest.dataset["classes"].items()}
    if not classes:
        raise ConfigError(f"{opened.folder} has no classes. Name a task, or ingest it again with classes.")
    for task in store_tasks(opened).values():
        if {name: tuple(labels) for name, labels in task.classes.items()} == classes:
            return task
    return user_tasks(classes, {})["classes"]


def _find(store: StoreReader, name: str) -> Task:
    tasks = store_tasks(store)
    if name not in tasks:
        known = ", ".join(tasks) or "none. Ingest it again to add the tasks of its dataset"
        raise ConfigError(f"{store.folder} has no task '{name}'. Its tasks: {known}.")
    return tasks[name]


def _numbers(cells: pa.ChunkedArray, task: Task) -> npt.NDArray[np.float64]:
    """Return a column as numbers, (N,); NaN where it is empty."""
    if not (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
        raise ConfigError(
            f"Column '{task.column}' of task '{task.title}' has values of type {cells.type}, not numbers."
        )
    return np.asarray(cells.cast(pa.float64()).to_numpy(), np.float64)


def _truth(cells: pa.ChunkedArray, task: Task) -> Mask:
    """Return the classes of each recording, (N, K)."""
    truth = np.zeros((len(cells), len(task.classes)), bool)
    first = 0
    for chunk in cells.chunks:
        values, rows = _elements(chunk, task)
        for known, class_of in _lookups(task, values.type):
            codes = pc.index_in(values, known)
            found = codes.is_valid().to_numpy(False)
            truth[first + rows[found], class_of[codes.drop_null().to_numpy()]] = True
        first += len(chunk)
    return truth


def _elements(chunk: pa.Array, task: Task) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Return the values of a column, and the row of each. A row of lists has several values, or none."""
    elements, rows = chunk, np.arange(len(chunk))
    if pa.types.is_list(chunk.type):
        elements, rows = chunk.flatten(), pc.list_parent_indices(chunk).to_numpy()
        elements = pc.struct_field(elements, "label") if pa.types.is_struct(elements.type) else elements
    if pa.types.is_nested(elements.type):
        raise ConfigError(f"Column '{task.column}' of task '{task.title}' has no classes. Choose a column of values.")
    return elements, rows


def _lookups(task: Task, kind: pa.DataType) -> list[tuple[pa.Array, npt.NDArray[np.int64]]]:
    """Return values with their classes. Several pairs only if a value is in several classes."""
    lookups: list[dict[str, int]] = []
    for index, values in enumerate(task.classes.values()):
        for value in dict.fromkeys(values):
            free = next((lookup for lookup in lookups if value not in lookup), None)
            if free is None:
                lookups.append(free := {})
            free[value] = index
    return [(as_type(task.column, list(found), kind), np.array(list(found.values()))) for found in lookups]
