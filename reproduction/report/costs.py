"""Cells that are done, and the cost of those that are not."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from reproduction.cells import AnyCell
from reproduction.experiments import EXPERIMENTS
from reproduction.report.estimates import Seeded
from reproduction.report.page import Entry, Table, duration_text
from reproduction.report.results import MAX_SEEDS, Results

PLANNED_HOURS: Final = 40
"""Core-hours that were planned for the paper's tables and figures."""
PARTS: Final = ("table1", "variants", "table2", "figure4", "figure6")
"""Experiments of the paper. A cell that several of them need counts with the first."""


@lru_cache(maxsize=64)
def chained_cells(name: str, seeds: int = 1) -> dict[str, AnyCell]:
    """Return the cells of an experiment with the pre-trainings that they require, by key."""
    cells = EXPERIMENTS[name].cells(range(seeds))
    return {part.key: part for cell in cells for part in (*cell.requires, cell)}


def planned_seeds(cell: Seeded) -> int:
    """Return the number of seeds that are planned for an evaluation."""
    return sum(cell(seed).key in chained_cells("queue") for seed in range(MAX_SEEDS))


def not_done(results: Results, cell: Seeded) -> Entry:
    """Return the table entry of an evaluation without a result, with the estimated time of one core."""
    return Entry("not done", f"about {duration_text(results.costs.estimate(cell(0)).seconds)}")


def not_pretrained(results: Results, cell: Seeded) -> Entry:
    """Return the same entry with the time of the pre-trainings that are still required."""
    first = cell(0)
    chain: tuple[AnyCell, ...] = (*first.requires, first)
    seconds = sum(results.costs.estimate(part).seconds for part in chain if results.get(part) is None)
    return Entry("not done", f"about {duration_text(seconds)}")


def status_sentence(results: Results, name: str) -> str:
    """Return how much of an experiment is done for one seed."""
    cells = chained_cells(name)
    missing = [cell for key, cell in cells.items() if key not in results.keys]
    if not missing:
        return f"All {len(cells):,} cells of the first seed are done."
    cost = duration_text(sum(results.costs.estimate(cell).seconds for cell in missing))
    return f"Of the first seed, {len(missing):,} of {len(cells):,} cells are not done, about {cost} of one core."


def cost_table(results: Results) -> Table:
    """Return the planned cells by part of the paper: done, hours spent and hours left."""
    planned, seen = chained_cells("queue"), set[str]()
    rows, totals = [], [0.0, 0.0, 0.0, 0.0]
    for name in PARTS:
        part = {key: cell for key, cell in chained_cells(name, MAX_SEEDS).items() if key in planned and key not in seen}
        seen |= part.keys()
        found = {key: done for key, cell in part.items() if (done := results.get(cell)) is not None}
        spent = sum(done.seconds or 0 for done in found.values())
        left = sum(results.costs.estimate(cell).seconds for key, cell in part.items() if key not in found)
        values = (len(part), len(found), spent, left)
        totals = [total + value for total, value in zip(totals, values, strict=True)]
        rows.append(_row(EXPERIMENTS[name].title, *values))
    titles = ("part", "cells", "done", "core-hours spent", "core-hours left, estimated")
    return Table(titles, (*rows, _row("all", *totals)))


def _row(title: str, cells: float, done: float, spent: float, left: float) -> tuple[Entry, ...]:
    texts = (title, f"{cells:.0f}", f"{done:.0f}", f"{spent / 3600:.1f}", f"{left / 3600:.1f}")
    return tuple(Entry(text) for text in texts)
