"""Running a grid: what is missing, by one process or many, and never twice.

A task is a pre-training with the evaluations that wait for it, or an evaluation that waits for nothing: so tasks do not
depend on each other, and any engine, or any share of them on a cluster, can take them in any order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from clocs.core import engine as engines
from clocs.core.errors import ClocsError, ConfigError
from clocs.experiments.cells import Cell, Evaluation, Place, Pretraining, carry_out


@dataclass(frozen=True)
class Task:
    """Cells that one worker does one after the other."""

    place: Place
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Done:
    """What became of a task's cells."""

    names: tuple[str, ...]
    failed: tuple[str, ...] = ()
    """A message for each cell that could not be done."""
    seconds: float = 0.0


@dataclass
class Summary:
    """What became of a grid."""

    finished: int = 0
    failed: list[str] = field(default_factory=list)


def parse_shard(text: str) -> tuple[int, int]:
    """``i/n`` as numbers."""
    place, _, count = text.partition("/")
    if not (place.isdigit() and count.isdigit() and int(place) < int(count)):
        raise ConfigError(f"shard '{text}' must be i/n, with i from 0 to n - 1")
    return int(place), int(count)


def tasks(cells: Iterable[Cell], place: Place, *, shard: tuple[int, int] = (0, 1)) -> Iterator[Task]:
    """Tasks for the cells that have no result yet, in the order in which they are first wanted.

    ``shard`` (i, n): every n-th task from the i-th on, for n jobs of a scheduler that share a results folder.
    """
    chains: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        root = _root(cell)
        chains.setdefault(place.name(root), {place.name(root): root})[place.name(cell)] = cell
    for number, chain in enumerate(chains.values()):
        missing = tuple(cell for cell in chain.values() if place.result(cell) is None)
        if missing and number % shard[1] == shard[0]:
            yield Task(place, missing)


def _root(cell: Cell) -> Cell:
    """What has to be there first: a pre-training, or the cell itself."""
    return cell.start if isinstance(cell, Evaluation) and cell.start is not None else cell


def run_task(task: Task) -> Done:
    """Carry out a task's cells; one that fails by an error of clocs' own leaves the others be."""
    began, names, failed = time.monotonic(), [], []
    for cell in task.cells:
        name = task.place.name(cell)
        try:
            carry_out(cell, task.place)
            names.append(name)
        except ClocsError as error:
            failed.append(f"{name}: {error}")
            if isinstance(cell, Pretraining):
                failed += [f"{task.place.name(other)}: waits for it" for other in task.cells if other != cell]
                break
    return Done(tuple(names), tuple(failed), time.monotonic() - began)


def run_grid(
    cells: Sequence[Cell],
    place: Place,
    *,
    engine: engines.Engine = "serial",
    workers: int = 1,
    shard: tuple[int, int] = (0, 1),
    progress: Callable[[Done], None] | None = None,
) -> Summary:
    """Do what is missing."""
    summary = Summary()
    for _, done in engines.run(run_task, tasks(cells, place, shard=shard), engine=engine, workers=workers):
        summary.finished += len(done.names)
        summary.failed += done.failed
        if progress is not None:
            progress(done)
    return summary


def status(cells: Iterable[Cell], place: Place) -> dict[str, Any]:
    """Cells done and to do, and the datasets that have no store yet."""
    wanted = {part.model_dump_json(): part for cell in cells for part in (_root(cell), cell)}
    missing = {cell.dataset for cell in wanted.values() if not place.has_store(cell.dataset)}
    ready = [cell for cell in wanted.values() if not {cell.dataset, _root(cell).dataset} & missing]
    done = sum(place.result(cell) is not None for cell in ready)
    return {"cells": len(wanted), "done": done, "to_do": len(wanted) - done, "needs_stores": sorted(missing)}
