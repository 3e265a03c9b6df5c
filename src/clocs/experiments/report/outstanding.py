"""What is not done yet, and what it would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from clocs.experiments.cells import Cell, chain_of, key_of
from clocs.experiments.costs import BASES
from clocs.experiments.paper_numbers import SINGLE_LEAD, paper
from clocs.experiments.paper_tables import all_experiments, paper_experiments
from clocs.experiments.report.page import DASH, Block, Entry, Heading, Page, Points, Table, Text, counted, hours
from clocs.experiments.report.reading import Results
from clocs.experiments.status import FULL_DOWNLOADS
from clocs.experiments.tables import EXPERIMENTS, Experiment
from clocs.signals.leads import STANDARD


@dataclass
class Outstanding:
    """Of some cells, with the pre-trainings they wait for."""

    cells: int = 0
    done: int = 0
    seconds: float = 0.0
    """Of one core, for those that are not done."""
    bases: Counter[str] = field(default_factory=Counter)
    """What the estimates are taken from."""
    twelve_leads: int = 0
    """Of those that are not done."""

    def __iadd__(self, other: Outstanding) -> Outstanding:
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
def _wanted(name: str, seeds: int) -> tuple[tuple[str, Cell], ...]:
    """All cells of an experiment with the pre-trainings they wait for, each once, with its key."""
    cells = all_experiments()[name].cells(range(seeds))
    return tuple({key_of(part): part for cell in cells for part in chain_of(cell)}.items())


class Ledger:
    """Counts cells that are missing; each once, however many experiments want it."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._seen: set[str] = set()

    def count(self, name: str, seeds: int) -> Outstanding:
        """Of an experiment's cells, those that were not counted before."""
        found = Outstanding()
        for key, cell in _wanted(name, seeds):
            if key in self._seen:
                continue
            self._seen.add(key)
            found.cells += 1
            if self._results.has(key):
                found.done += 1
                continue
            cost = self._results.costs.estimate(cell)
            found.seconds += cost.seconds
            found.bases[cost.basis] += 1
            found.twelve_leads += cell.leads == len(STANDARD) and cell.dataset not in SINGLE_LEAD
        return found


def sentence(results: Results, name: str) -> str:
    """How an experiment stands, with one seed and with as many as the paper has."""
    seeds = paper().seeds
    one, many = (Ledger(results).count(name, count) for count in (1, seeds))
    if not many.to_do:
        told = "one seed each, by design" if one.cells == many.cells else f"with {seeds} seeds"
        return f"All {many.cells:,} cells are done, {told}."
    kinds = "cells (evaluations, and the pre-trainings they need)"
    first = f"All {one.cells:,} {kinds} are done for one seed."
    if one.to_do:
        first = f"Missing: {one.to_do:,} of {one.cells:,} {kinds} for one seed, about {hours(one.seconds)} of one core."
    more = f"With the paper's {seeds} seeds {many.to_do:,} of {many.cells:,} are missing, about {hours(many.seconds)}."
    return f"{first} {more}"


def missing_page(results: Results) -> Page:
    """Everything of ours and of the paper that is not done."""
    seeds = paper().seeds
    ours, _ = _table(results, EXPERIMENTS.values(), 1)
    papers, whole = _table(results, paper_experiments().values(), seeds)
    bases = [(basis, whole.bases[basis]) for basis in BASES if whole.bases[basis]]
    blocks: tuple[Block, ...] = (
        Text(
            "A cell is one pre-training or one evaluation with one seed. Times are of one core, estimated from "
            "finished cells: their seconds for a thousand frames. `clocs reproduce NAME` runs what is missing of an "
            "experiment. A cell that several want is counted with the first."
        ),
        Heading("Our experiments, one seed"),
        ours,
        Heading(f"The paper's whole grid, {seeds} seeds"),
        Text(
            f"{whole.done:,} of {whole.cells:,} cells are done; the other {whole.to_do:,} would take about "
            f"{hours(whole.seconds)}. {whole.twelve_leads:,} of them need the {FULL_DOWNLOADS}. The estimate rests on:"
        ),
        Points(tuple(f"for {counted(count, 'cell')}, {_basis(basis)}" for basis, count in bases)),
        papers,
    )
    return Page("missing", "What is missing", blocks)


def _basis(basis: str) -> str:
    if basis == BASES[-1]:
        return "a rate that was measured elsewhere, as none of their kind is finished"
    return f"finished cells of the {basis}"


def _table(results: Results, experiments: Iterable[Experiment], seeds: int) -> tuple[Table, Outstanding]:
    """A row an experiment that has cells, and all of them together."""
    ledger, whole, rows = Ledger(results), Outstanding(), []
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
