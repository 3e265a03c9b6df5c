"""Computation of a grid: one process or many compute the cells that have no result, each once.

A task is a cell that requires no other, with all cells that require it. Tasks do not depend on each other, so an engine
or the jobs of a cluster can run them in any order.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from clocs.core import engine as engines
from clocs.core.errors import ClocsError, ConfigError
from clocs.core.storage.file_locks import lock_file
from clocs.experiments.cells import Cell, chain_of
from clocs.experiments.status import Costs
from clocs.experiments.workspace import Workspace

RunCell = Callable[[Any, Workspace], dict[str, Any]]
"""Computes a cell and returns its row, without description and origin. It must be picklable."""


@dataclass(frozen=True)
class CellTask:
    """Cells that one worker computes one after the other."""

    workspace: Workspace
    """Folders of the grid."""
    run_cell: RunCell
    """Function that computes a cell."""
    cells: tuple[Cell, ...]
    """Cells in the order in which they are computed."""
    wait: bool = False
    """True to wait for another process that has claimed these cells. Otherwise the task is postponed."""


@dataclass(frozen=True)
class TaskOutcome:
    """The outcome of a task."""

    names: tuple[str, ...] = ()
    """Names of the cells that are finished."""
    failed: dict[str, str] = field(default_factory=dict)
    """Error messages by name of the cell."""
    seconds: float = 0.0
    """Duration of the task."""
    claimed: CellTask | None = None
    """The task, if another process has claimed it."""


@dataclass
class Summary:
    """The outcome of a grid."""

    finished: int = 0
    """Number of cells that were computed."""
    failed: list[str] = field(default_factory=list)
    """Name and error message of each cell that failed."""
    missing_inputs: Counter[str] = field(default_factory=Counter)
    """Number of cells that were skipped, by missing input."""


def parse_shard(text: str) -> tuple[int, int]:
    """Parse ``i/n`` to (i, n)."""
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and int(index) < int(count)):
        raise ConfigError(f"Expected a shard i/n with i from 0 to n - 1, got '{text}'.")
    return int(index), int(count)


def tasks(
    cells: Iterable[Cell], workspace: Workspace, run_cell: RunCell, *, shard: tuple[int, int] = (0, 1)
) -> Iterator[CellTask]:
    """Iterate over tasks for the cells that have no result. Cells with missing inputs are skipped.

    Args:
        cells: Cells of the grid.
        workspace: Folders of the grid.
        run_cell: Function that computes a cell.
        shard: (i, n) for every n-th task from the i-th on, for n jobs that share a results folder.
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
    """Return the cells of a chain without a result, and the cells before them whose files were deleted."""
    missing: list[Cell] = []
    needed = False  # the next cell is computed, and reads the files of this one
    for cell in reversed(chain):
        needed = workspace.result(cell) is None or (needed and not cell.has_output(workspace))
        if needed:
            missing.insert(0, cell)
    return missing


def run_task(task: CellTask) -> TaskOutcome:
    """Compute the cells of a task. The others continue if one fails."""
    with _claim(task) as is_claimed:
        return _run_cells(task) if is_claimed else TaskOutcome(claimed=task)


@contextlib.contextmanager
def _claim(task: CellTask) -> Iterator[bool]:
    """Lock a task against other processes until this one ends; False if another process has locked it."""
    folder = task.workspace.runs / "claims"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / task.workspace.name(chain_of(task.cells[0])[0]), "w") as file:
        try:
            lock_file(file, wait=task.wait)
        except BlockingIOError:
            yield False
        else:
            yield True


def _run_cells(task: CellTask) -> TaskOutcome:
    start, names = time.monotonic(), []
    failed: dict[str, str] = {}
    workspace = task.workspace
    for cell in task.cells:
        name, *before = (workspace.name(part) for part in reversed(chain_of(cell)))
        failed_before = next((part for part in before if part in failed), None)
        if failed_before is not None:
            failed[name] = f"requires {failed_before}"
            continue
        try:
            compute_cell(cell, workspace, task.run_cell)
            names.append(name)
        except Exception as error:
            failed[name] = str(error) if isinstance(error, ClocsError) else f"unexpected {error!r}"
    return TaskOutcome(tuple(names), failed, time.monotonic() - start)


def compute_cell(cell: Cell, workspace: Workspace, run_cell: RunCell) -> dict[str, Any]:
    """Return the row of a cell from the table, or compute and add it.

    A cell whose files were deleted is computed again; its row does not change.
    """
    known = workspace.result(cell)
    if known is None or not cell.has_output(workspace):
        computed = run_cell(cell, workspace)
        if known is None:
            workspace.add_result(cell, computed)
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
    """Compute the cells that have no result and no missing input. Cells that others have claimed come last.

    Args:
        cells: Cells of the grid.
        workspace: Folders of the grid.
        run_cell: Function that computes a cell.
        engine: ``serial``, ``processes`` or ``ray``.
        workers: Number of tasks that run at the same time.
        shard: (i, n) for every n-th task from the i-th on.
        progress: Called with the outcome of each task.
    """
    summary = Summary(missing_inputs=Counter(name for cell in cells for name in cell.missing_inputs(workspace)))
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
    """Number of cells left, and an estimate of the time. Every finished cell improves the estimate."""

    def __init__(self, todo: Iterable[CellTask], costs: Costs, workers: int) -> None:
        self._left = {task.workspace.name(cell): (cell, task.workspace) for task in todo for cell in task.cells}
        self._costs, self._workers = costs, workers
        self.cells = len(self._left)
        """Number of cells at the beginning."""

    def count(self, done: TaskOutcome) -> None:
        """Subtract the cells of a task."""
        for name in (*done.names, *done.failed):
            cell, workspace = self._left.pop(name, (None, None))
            if cell is not None and workspace is not None and name in done.names:
                self._costs.learn(cell, (workspace.result(cell) or {}).get("seconds"))

    @property
    def done(self) -> int:
        """Number of cells that are finished."""
        return self.cells - len(self._left)

    @property
    def seconds(self) -> float:
        """Estimated seconds until the end, with all workers busy."""
        return sum(self._costs.estimate(cell).seconds for cell, _ in self._left.values()) / self._workers
