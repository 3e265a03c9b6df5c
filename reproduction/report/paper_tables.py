"""The paper's tables 1 and 2 with our results, label fractions of figure 4, and variants of CMSC."""

from __future__ import annotations

from functools import partial
from typing import Final

from clocs.metrics.intervals import Interval
from reproduction.cells import Level
from reproduction.experiments import (
    COMPARED,
    LABEL_FRACTIONS,
    RANDOM_WEIGHTS,
    SUPERVISED,
    TRANSFERS,
    VARIANTS,
    finetuned,
    linear,
    variant,
)
from reproduction.paper_numbers import Method, paper, results
from reproduction.report.costs import not_done, not_pretrained, planned_seeds
from reproduction.report.estimates import CHOICES, Estimates, Mean, Seeded
from reproduction.report.page import (
    DASH,
    DATASET_NAMES,
    METHOD_NAMES,
    Entry,
    Table,
    auc_cell,
    count_text,
    difference_cell,
    mean_text,
)

PAPER: Final = f"the paper, {paper().seeds} seeds, per frame"
ALL_METHODS: Final[tuple[Method, ...]] = (
    *("random", "supervised", "mtssl", "byol"),
    *("simclr", "cmsc", "cmlc", "cmsmlc"),
)
WITHOUT_PRETRAINING: Final = (RANDOM_WEIGHTS, SUPERVISED)
"""Rows of table 1 without a pre-training, for which there is one encoder."""


def printed(table: int, method: str, source: str, target: str, label_fraction: float = 0.5) -> str:
    """Return the value that the paper prints, or a dash."""
    before = None if method == RANDOM_WEIGHTS else source
    found = results(table=table, method=method, pretraining=before, evaluation=target, label_fraction=label_fraction)
    return found[0].printed if found else DASH


def table1(estimates: Estimates, dataset: str, level: Level) -> Table:
    """Return a column of table 1 as a table, with both ways of choosing the encoder."""
    rows = []
    for method in ALL_METHODS:
        cell = partial(linear, method, dataset)
        values = [auc_cell(estimates.auc(cell, level, choice)) for choice in CHOICES]
        if method in WITHOUT_PRETRAINING:
            values[1] = Entry(DASH)
        done = len(estimates.runs(cell))
        if not done:
            values = [not_pretrained(estimates.results, cell), Entry(DASH)]
        paper_value = [_paper_entry(method, dataset)] if level == "frame" else []
        rows.append((Entry(METHOD_NAMES[method]), *paper_value, *values, _seeds_entry(done, cell)))
    titles = [PAPER] if level == "frame" else []
    return Table((f"per {level}", *titles, *CHOICES, "seeds"), tuple(rows))


def _paper_entry(method: str, dataset: str) -> Entry:
    """Return the paper's value. Training from scratch with half of the labels is in its table 2, as random weights."""
    if method == SUPERVISED:
        return Entry(printed(2, RANDOM_WEIGHTS, dataset, dataset), "table 2")
    return Entry(printed(1, method, dataset, dataset))


def _seeds_entry(done: int, cell: Seeded) -> Entry:
    planned = planned_seeds(cell)
    return Entry(str(done) if done >= planned else f"{done} of {planned}")


def table2(estimates: Estimates, source: str, level: Level) -> Table:
    """Return table 2 for one dataset of pre-training. Per frame, each entry has the paper's value."""
    targets = [target for before, target in TRANSFERS if before == source]
    rows = []
    for method in ALL_METHODS:
        entries = [
            _value(estimates, partial(finetuned, method, source, target), level, printed(2, method, source, target))
            for target in targets
        ]
        rows.append((Entry(METHOD_NAMES[method]), *entries))
    return Table((f"per {level}", *(f"→ {DATASET_NAMES[target]}" for target in targets)), tuple(rows))


def _value(estimates: Estimates, cell: Seeded, level: Level, paper_value: str) -> Entry:
    """Return a mean with the number of seeds and the paper's value, which is of frames."""
    mean = estimates.auc(cell, level)
    found = not_done(estimates.results, cell) if mean is None else Entry(mean_text(mean), _seeds(mean))
    if level == "frame":
        return Entry(found.text, f"{found.detail}; paper {paper_value}")
    return Entry(found.text) if mean is None else found


def _seeds(mean: Mean) -> str:
    return count_text(len(mean.by_seed), "seed")


def label_fractions(estimates: Estimates, source: str, target: str, level: Level) -> Table:
    """Return the results of fine-tuning by label fraction. Per frame, each entry has the paper's value."""
    fractions = sorted((*LABEL_FRACTIONS, 0.5))
    rows = []
    for method in (RANDOM_WEIGHTS, *COMPARED):
        entries = [
            _value(
                estimates,
                partial(finetuned, method, source, target, label_fraction=fraction),
                level,
                printed(17, method, source, target, fraction),
            )
            for fraction in fractions
        ]
        rows.append((Entry(METHOD_NAMES[method]), *entries))
    return Table((f"per {level}", *(f"{100 * fraction:g} % of the labels" for fraction in fractions)), tuple(rows))


def variants_table(estimates: Estimates, level: Level) -> Table:
    """Return variants of CMSC on PhysioNet 2020, and their differences from CMSC as in the paper."""
    base = partial(linear, "cmsc", "physionet2020")
    cells: dict[str, Seeded] = {"CMSC by the paper's equations": base}
    cells |= {name: partial(variant, name) for name in VARIANTS}
    rows = []
    for name, cell in cells.items():
        entries = [auc_cell(estimates.auc(cell, level, choice)) for choice in CHOICES]
        if not estimates.runs(cell):
            entries = [not_pretrained(estimates.results, cell), Entry(DASH)]
        rows.append((Entry(name), *entries, difference_cell(variant_difference(estimates, cell, base, level))))
    return Table((f"per {level}", *CHOICES, "difference"), tuple(rows))


def variant_difference(estimates: Estimates, cell: Seeded, base: Seeded, level: Level) -> Interval | None:
    """Return the difference of a variant from CMSC, by the encoder of the lowest loss. None for CMSC itself."""
    return None if cell is base else estimates.difference(estimates.runs(cell), estimates.runs(base), level)
