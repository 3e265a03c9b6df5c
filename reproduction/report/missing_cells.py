"""The page of cells that are not computed yet, and their estimated cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from clocs.experiments.status import DEFAULT
from clocs.signals.leads import STANDARD_LEADS
from reproduction.cells import FULL_DOWNLOADS, AnyCell
from reproduction.experiments import EXPERIMENTS, Experiment
from reproduction.paper_numbers import SINGLE_LEAD, paper
from reproduction.paper_tables import all_experiments, paper_experiments
from reproduction.report.page import DASH, Block, Entry, Heading, Page, Points, Table, Text, count_text, duration_text
from reproduction.report.results import Results


@dataclass
class MissingCells:
    """Counts of cells and of the pre-trainings that they require."""

    cells: int = 0
    done: int = 0
    seconds: float = 0.0
    """Estimated seconds of one core for the missing cells."""
    bases: Counter[str] = field(default_factory=Counter)
    """Number of estimates by their basis."""
    twelve_leads: int = 0
    """Number of missing cells that need twelve leads."""

    def __iadd__(self, other: MissingCells) -> MissingCells:
        self.cells += other.cells
        self.done += other.done
        self.seconds += other.seconds
        self.bases += other.bases
        self.twelve_leads += other.twelve_leads
        return self

    @property
    def to_do(self) -> int:
        """Number of cells without a result."""
        return self.cells - self.done


@lru_cache(maxsize=256)
def _required_cells(name: str, seeds: int) -> tuple[tuple[str, AnyCell], ...]:
    """Return the key of each cell of an experiment and of the pre-trainings that it requires, each once."""
    cells = all_experiments()[name].cells(range(seeds))
    return tuple({part.key: part for cell in cells for part in (*cell.requires, cell)}.items())


class CellCounter:
    """Counter of missing cells. A cell of several experiments counts once."""

    def __init__(self, results: Results) -> None:
        self._results, self._done = results, results.keys
        self._seen: set[str] = set()

    def count(self, name: str, seeds: int) -> MissingCells:
        """Count the cells of an experiment that were not counted before."""
        found = MissingCells()
        for key, cell in _required_cells(name, seeds):
            if key in self._seen:
                continue
            self._seen.add(key)
            found.cells += 1
            if key in self._done:
                found.done += 1
                continue
            cost = self._results.costs.estimate(cell)
            found.seconds += cost.seconds
            found.bases[cost.basis] += 1
            found.twelve_leads += cell.leads == len(STANDARD_LEADS) and cell.dataset not in SINGLE_LEAD
        return found


def status_sentence(results: Results, name: str) -> str:
    """Return the status of an experiment, with one seed and with as many as the paper has."""
    seeds = paper().seeds
    one, many = (CellCounter(results).count(name, count) for count in (1, seeds))
    if not many.to_do:
        values = "one seed each, by design" if one.cells == many.cells else f"with {seeds} seeds"
        return f"All {many.cells:,} cells are done, {values}."
    kinds = "cells (evaluations, and the pre-trainings they need)"
    first = f"All {one.cells:,} {kinds} are done for one seed."
    if one.to_do:
        cost = f"about {duration_text(one.seconds)} of one core"
        first = f"Missing: {one.to_do:,} of {one.cells:,} {kinds} for one seed, {cost}."
    cost = f"about {duration_text(many.seconds)}"
    more = f"With the paper's {seeds} seeds {many.to_do:,} of {many.cells:,} are missing, {cost}."
    return f"{first} {more}"


def missing_page(results: Results) -> Page:
    """Return the page of all missing cells, of our experiments and of the paper."""
    seeds = paper().seeds
    own, _ = _table(results, EXPERIMENTS.values(), 1)
    papers, total = _table(results, paper_experiments().values(), seeds)
    bases = total.bases.most_common()
    blocks: tuple[Block, ...] = (
        Text(
            "A cell is one pre-training or one evaluation with one seed. Times are of one core, estimated from "
            "finished cells: their seconds for a thousand frames. `python -m reproduction run NAME` runs what is "
            "missing of an experiment. A cell that several experiments want is counted with the first."
        ),
        Heading("Our experiments, one seed"),
        own,
        Heading(f"The paper's whole grid, {seeds} seeds"),
        Text(
            f"{total.done:,} of {total.cells:,} cells are done; the other {total.to_do:,} would take about "
            f"{duration_text(total.seconds)}. {total.twelve_leads:,} of them need the {FULL_DOWNLOADS}. Estimated from:"
        ),
        Points(tuple(f"{count_text(count, 'cell')}: {_basis(basis)}" for basis, count in bases)),
        papers,
    )
    return Page("missing", "What is missing", blocks)


def _basis(basis: str) -> str:
    if basis == DEFAULT:
        return "a rate measured elsewhere, because no similar cell is finished"
    return f"finished cells, {basis}"


def _table(results: Results, experiments: Iterable[Experiment], seeds: int) -> tuple[Table, MissingCells]:
    """Return a row for each experiment that has cells, and their sum."""
    counter, total, rows = CellCounter(results), MissingCells(), []
    for each in experiments:
        found = counter.count(each.name, seeds)
        if not _required_cells(each.name, seeds):
            continue
        total += found
        cost = duration_text(found.seconds) if found.to_do else DASH
        needs = FULL_DOWNLOADS if found.twelve_leads else ""
        texts = (f"`{each.name}`", each.title, f"{found.done:,}", f"{found.to_do:,}", cost, needs)
        rows.append(tuple(Entry(text) for text in texts))
    return Table(("experiment", "", "done", "missing", "cost of those", "needs"), tuple(rows)), total
