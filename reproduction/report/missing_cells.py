"""The cells that are not computed yet, and what they would cost."""

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
from reproduction.report.page import DASH, Block, Entry, Heading, Page, Points, Table, Text, counted, hours
from reproduction.report.results import Results


@dataclass
class Missing:
    """Counts over some cells and the pre-trainings that they require."""

    cells: int = 0
    done: int = 0
    seconds: float = 0.0
    """Of one core, for those that are not done."""
    bases: Counter[str] = field(default_factory=Counter)
    """What the estimates are based on."""
    twelve_leads: int = 0
    """Of those that are not done."""

    def __iadd__(self, other: Missing) -> Missing:
        self.cells += other.cells
        self.done += other.done
        self.seconds += other.seconds
        self.bases += other.bases
        self.twelve_leads += other.twelve_leads
        return self

    @property
    def to_do(self) -> int:
        """Cells without a result."""
        return self.cells - self.done


@lru_cache(maxsize=256)
def _wanted(name: str, seeds: int) -> tuple[tuple[str, AnyCell], ...]:
    """Return the key of each cell of an experiment and of the pre-trainings that it requires, each once."""
    cells = all_experiments()[name].cells(range(seeds))
    return tuple({part.key: part for cell in cells for part in (*cell.requires, cell)}.items())


class Ledger:
    """Counts cells that are missing; each once, however many experiments want it."""

    def __init__(self, results: Results) -> None:
        self._results, self._done = results, results.keys
        self._seen: set[str] = set()

    def count(self, name: str, seeds: int) -> Missing:
        """Count the cells of an experiment that were not counted before."""
        found = Missing()
        for key, cell in _wanted(name, seeds):
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


def sentence(results: Results, name: str) -> str:
    """Return the status of an experiment, with one seed and with as many as the paper has."""
    seeds = paper().seeds
    one, many = (Ledger(results).count(name, count) for count in (1, seeds))
    if not many.to_do:
        values = "one seed each, by design" if one.cells == many.cells else f"with {seeds} seeds"
        return f"All {many.cells:,} cells are done, {values}."
    kinds = "cells (evaluations, and the pre-trainings they need)"
    first = f"All {one.cells:,} {kinds} are done for one seed."
    if one.to_do:
        first = f"Missing: {one.to_do:,} of {one.cells:,} {kinds} for one seed, about {hours(one.seconds)} of one core."
    more = f"With the paper's {seeds} seeds {many.to_do:,} of {many.cells:,} are missing, about {hours(many.seconds)}."
    return f"{first} {more}"


def missing_page(results: Results) -> Page:
    """Return the page of all missing cells, of our experiments and of the paper."""
    seeds = paper().seeds
    ours, _ = _table(results, EXPERIMENTS.values(), 1)
    papers, whole = _table(results, paper_experiments().values(), seeds)
    bases = whole.bases.most_common()
    blocks: tuple[Block, ...] = (
        Text(
            "A cell is one pre-training or one evaluation with one seed. Times are of one core, estimated from "
            "finished cells: their seconds for a thousand frames. `python -m reproduction run NAME` runs what is "
            "missing of an experiment. A cell that several experiments want is counted with the first."
        ),
        Heading("Our experiments, one seed"),
        ours,
        Heading(f"The paper's whole grid, {seeds} seeds"),
        Text(
            f"{whole.done:,} of {whole.cells:,} cells are done; the other {whole.to_do:,} would take about "
            f"{hours(whole.seconds)}. {whole.twelve_leads:,} of them need the {FULL_DOWNLOADS}. Estimated from:"
        ),
        Points(tuple(f"{counted(count, 'cell')}: {_basis(basis)}" for basis, count in bases)),
        papers,
    )
    return Page("missing", "What is missing", blocks)


def _basis(basis: str) -> str:
    if basis == DEFAULT:
        return "a rate measured elsewhere, because no similar cell is finished"
    return f"finished cells, {basis}"


def _table(results: Results, experiments: Iterable[Experiment], seeds: int) -> tuple[Table, Missing]:
    """Return a row for each experiment that has cells, and their sum."""
    ledger, whole, rows = Ledger(results), Missing(), []
    for each in experiments:
        found = ledger.count(each.name, seeds)
        if not _wanted(each.name, seeds):
            continue
        whole += found
        cost = hours(found.seconds) if found.to_do else DASH
        needs = FULL_DOWNLOADS if found.twelve_leads else ""
        texts = (f"`{each.name}`", each.title, f"{found.done:,}", f"{found.to_do:,}", cost, needs)
        rows.append(tuple(Entry(text) for text in texts))
    return Table(("experiment", "", "done", "missing", "cost of those", "needs"), tuple(rows)), whole
