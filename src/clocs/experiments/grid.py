"""Running a grid: what is missing, by one process or many, and never twice.

A task is a pre-training with all that waits for it, or an evaluation that waits for nothing: so tasks do not depend on
each other, and any engine, or any share of them on a cluster, can take them in any order.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from clocs.core import engine as engines
from clocs.core.errors import ClocsError, ConfigError
from clocs.experiments.carry_out import carry_out
from clocs.experiments.cells import Cell, chain_of
from clocs.experiments.costs import Costs
from clocs.experiments.place import Place
from clocs.experiments.status import needs


@dataclass(frozen=True)
class Task:
    """Cells that one worker does one after the other."""

    place: Place
    cells: tuple[Cell, ...]
    wait: bool = False
    """For another process that has these cells in hand; else they are left to it for now."""


@dataclass(frozen=True)
class Done:
    """What became of a task's cells."""

    names: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)
    """A message for each cell that could not be done, by its name."""
    seconds: float = 0.0
    elsewhere: Task | None = None
    """Another process has it in hand."""


@dataclass
class Summary:
    """What became of a grid."""

    finished: int = 0
    failed: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    """What cells were left out for, with how many of them."""


def parse_shard(text: str) -> tuple[int, int]:
    """``i/n`` as numbers."""
    place, _, count = text.partition("/")
    if not (place.isdigit() and count.isdigit() and int(place) < int(count)):
        raise ConfigError(f"shard '{text}' must be i/n, with i from 0 to n - 1")
    return int(place), int(count)


def tasks(cells: Iterable[Cell], place: Place, *, shard: tuple[int, int] = (0, 1)) -> Iterator[Task]:
    """Tasks for the cells that have no result yet, in the order in which they are first wanted.

    ``shard`` (i, n): every n-th task from the i-th on, for n jobs of a scheduler that share a results folder.
    Cells that need what is not there are left out.
    """
    chains: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        if not needs(cell, place):
            chain = chain_of(cell)
            chains.setdefault(place.name(chain[0]), {}).update({place.name(part): part for part in chain})
    for number, parts in enumerate(chains.values()):
        if number % shard[1] == shard[0]:
            missing = tuple(cell for cell in parts.values() if not place.file(cell).exists())
            if missing:
                yield Task(place, missing)


def run_task(task: Task) -> Done:
    """Carry out a task's cells; one that fails leaves the others be."""
    with _in_hand(task) as ours:
        return _carried_out(task) if ours else Done(elsewhere=task)


@contextlib.contextmanager
def _in_hand(task: Task) -> Iterator[bool]:
    """Keep other processes from a task, until this one is through or dead; False: one of them has it."""
    folder = task.place.runs / "in-hand"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / task.place.name(chain_of(task.cells[0])[0]), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if task.wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def _carried_out(task: Task) -> Done:
    began, names = time.monotonic(), []
    failed: dict[str, str] = {}
    for cell in task.cells:
        name, *before = (task.place.name(part) for part in reversed(chain_of(cell)))
        lacking = next((part for part in before if part in failed), None)
        if lacking is not None:
            failed[name] = f"waits for {lacking}"
            continue
        try:
            carry_out(cell, task.place)
            names.append(name)
        except Exception as error:
            failed[name] = str(error) if isinstance(error, ClocsError) else f"unexpected {error!r}"
    return Done(tuple(names), failed, time.monotonic() - began)


def run_grid(
    cells: Sequence[Cell],
    place: Place,
    *,
    engine: engines.Engine = "serial",
    workers: int = 1,
    shard: tuple[int, int] = (0, 1),
    progress: Callable[[Done], None] | None = None,
) -> Summary:
    """Do what is missing and can be done. What other processes have in hand comes last: by then they are through."""
    summary = Summary(left=Counter(need for cell in cells for need in needs(cell, place)))
    waiting: Iterable[Task] = tasks(cells, place, shard=shard)
    while waiting:
        elsewhere = []
        for _, done in engines.run(run_task, waiting, engine=engine, workers=workers):
            if done.elsewhere is not None:
                elsewhere.append(replace(done.elsewhere, wait=True))
                continue
            summary.finished += len(done.names)
            summary.failed += [f"{name}: {message}" for name, message in done.failed.items()]
            if progress is not None:
                progress(done)
        waiting = elsewhere
    return summary


class TimeLeft:
    """How many cells are left of a run, and for about how long: every cell that gets done teaches what others cost."""

    def __init__(self, todo: Iterable[Task], costs: Costs, workers: int) -> None:
        self._left = {task.place.name(cell): (cell, task.place) for task in todo for cell in task.cells}
        self._costs, self._workers = costs, workers
        self.cells = len(self._left)
        """At the beginning."""

    def count(self, done: Done) -> None:
        """Take a task off."""
        for name in (*done.names, *done.failed):
            cell, place = self._left.pop(name, (None, None))
            if cell is not None and place is not None and name in done.names:
                self._costs.learn(cell, (place.result(cell) or {}).get("seconds"))

    @property
    def done(self) -> int:
        """Cells that are through."""
        return self.cells - len(self._left)

    @property
    def seconds(self) -> float:
        """Until the end, with all workers at work."""
        return sum(self._costs.estimate(cell).seconds for cell, _ in self._left.values()) / self._workers
