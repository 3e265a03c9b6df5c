"""Run a grid: compute the cells that have no result, by one process or many, each once.

A task is a cell that requires no other, with all cells that require it. Tasks do not depend on each other: any engine,
or any share of them on a cluster, can take them in any order.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clocs.core import engine as engines
from clocs.core.errors import ClocsError, ConfigError
from clocs.experiments.cells import Cell, chain_of
from clocs.experiments.status import Costs
from clocs.experiments.workspace import Workspace

RunCell = Callable[[Any, Workspace], dict[str, Any]]
"""Compute a cell and return its row, without description and origin. A function of a module, so that it pickles."""


@dataclass(frozen=True)
class CellTask:
    """Cells that one worker computes one after the other."""

    workspace: Workspace
    run_cell: RunCell
    cells: tuple[Cell, ...]
    wait: bool = False
    """Wait for another process that has claimed these cells. Otherwise they are left to it for now."""


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task."""

    names: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    """A message for each cell that failed, by its name."""
    seconds: float = 0.0
    claimed: CellTask | None = None
    """The task, where another process has claimed it."""


@dataclass
class Summary:
    """The outcome of a grid."""

    finished: int = 0
    failed: list[str] = field(default_factory=list)
    missing_inputs: Counter[str] = field(default_factory=Counter)
    """Number of cells that were left out, by the input that they lack."""


def parse_shard(text: str) -> tuple[int, int]:
    """Parse ``i/n``."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise ConfigError(f"shard '{text}' must be i/n, with i from 0 to n - 1")
    return int(index), int(count)


def tasks(
    cells: Iterable[Cell], workspace: Workspace, run_cell: RunCell, *, shard: tuple[int, int] = (0, 1)
) -> Iterator[CellTask]:
    """Yield tasks for the cells that have no result, in the order in which they are first wanted.

    Cells with missing inputs are left out.

    Args:
        cells: The grid.
        workspace: Its folders.
        run_cell: Computes one cell.
        shard: (i, n) for every n-th task from the i-th on: n jobs of a scheduler share a results folder.
    """
    groups: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if not cell.missing_inputs(workspace):
            chain = chain_of(cell)
            group = groups.setdefault(workspace.name(chain[0]), {})
            group.update((workspace.name(part), part) for part in _to_compute(chain, workspace))
    for number, group in enumerate(groups.values()):
        if group and number % shard[1] == shard[0]:
            yield CellTask(workspace, run_cell, tuple(group.values()))


def _to_compute(chain: Sequence[Cell], workspace: Workspace) -> list[Cell]:
    """Return the cells of a chain without a result, and those before them whose files are gone."""
    found: list[Cell] = []
    read = False  # whether the next cell is computed, and reads the files of this one
    for cell in reversed(chain):
        read = workspace.result(cell) is None or (read and not cell.has_output(workspace))
        if read:
            found.insert(0, cell)
    return found


def run_task(task: CellTask) -> TaskOutcome:
    """Compute the cells of a task. One that fails does not stop the others."""
    with _claim(task) as ours:
        return _computed(task) if ours else TaskOutcome(claimed=task)


@contextlib.contextmanager
def _claim(task: CellTask) -> Iterator[bool]:
    """Keep other processes from a task until this one is finished or dead; False where another has claimed it."""
    folder = task.workspace.runs / "claims"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / task.workspace.name(chain_of(task.cells[0])[0]), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if task.wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def _computed(task: CellTask) -> TaskOutcome:
    began, names = time.monotonic(), []
    failed: dict[str, str] = {}
    workspace = task.workspace
    for cell in task.cells:
        name, *before = (workspace.name(part) for part in reversed(chain_of(cell)))
        lacking = next((part for part in before if part in failed), None)
        if lacking is not None:
            failed[name] = f"requires {lacking}"
            continue
        try:
            compute_cell(cell, workspace, task.run_cell)
            names.append(name)
        except Exception as error:
            failed[name] = str(error) if isinstance(error, ClocsError) else f"unexpected {error!r}"
    return TaskOutcome(tuple(names), failed, time.monotonic() - began)


def compute_cell(cell: Cell, workspace: Workspace, run_cell: RunCell) -> dict[str, Any]:
    """Return the row of a cell: from the table, or computed and added to it.

    A cell whose files were deleted is computed again; its row stays as it is.
    """
    known = workspace.result(cell)
    if known is None or not cell.has_output(workspace):
        found = run_cell(cell, workspace)
        if known is None:
            workspace.add_result(cell, found)
    row = workspace.result(cell)
    assert row is not None
    return row


def run_grid(
    cells: Sequence[Cell],
    workspace: Workspace,
    run_cell: RunCell,
    *,
    engine: engines.Engine = "serial",
    workers: int = 1,
    shard: tuple[int, int] = (0, 1),
    progress: Callable[[TaskOutcome], None] | None = None,
) -> Summary:
    """Compute what is missing and can be computed. What other processes have claimed comes last."""
    summary = Summary(missing_inputs=Counter(each for cell in cells for each in cell.missing_inputs(workspace)))
    waiting: Iterable[CellTask] = tasks(cells, workspace, run_cell, shard=shard)
    while waiting:
        claimed = []
        for _, done in engines.run(run_task, waiting, engine=engine, workers=workers):
            if done.claimed is not None:
                claimed.append(replace(done.claimed, wait=True))
                continue
            summary.finished += len(done.names)
            summary.failed += [f"{name}: {message}" for name, message in done.failed.items()]
            if progress is not None:
                progress(done)
        waiting = claimed
    return summary


class TimeLeft:
    """How many cells are left of a run, and for how long. Every finished cell improves the estimate."""

    def __init__(self, todo: Iterable[CellTask], costs: Costs, workers: int) -> None:
        self._left = {task.workspace.name(cell): (cell, task.workspace) for task in todo for cell in task.cells}
        self._costs, self._workers = costs, workers
        self.cells = len(self._left)
        """At the beginning."""

    def count(self, done: TaskOutcome) -> None:
        """Subtract a task."""
        for name in (*done.names, *done.failed):
            cell, workspace = self._left.pop(name, (None, None))
            if cell is not None and workspace is not None and name in done.names:
                self._costs.learn(cell, (workspace.result(cell) or {}).get("seconds"))

    @property
    def done(self) -> int:
        """Cells that are finished."""
        return self.cells - len(self._left)

    @property
    def seconds(self) -> float:
        """Until the end, with all workers busy."""
        return sum(self._costs.estimate(cell).seconds for cell, _ in self._left.values()) / self._workers
