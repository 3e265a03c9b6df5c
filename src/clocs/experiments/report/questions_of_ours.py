"""What we asked beyond the paper: the released code's loss, splits that leak, longer pre-training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from clocs.experiments.cells import Cell, Evaluation
from clocs.experiments.paper_numbers import SOURCES, Condition, Method
from clocs.experiments.report.comparison import SELF_SUPERVISED, columns
from clocs.experiments.report.estimates import Estimates
from clocs.experiments.report.outstanding import sentence
from clocs.experiments.report.page import (
    DASH,
    DATASET_NAMES,
    METHOD_NAMES,
    Block,
    Entry,
    Heading,
    Page,
    Table,
    Text,
    auc_cell,
    difference_cell,
    ends,
    listed,
    p_text,
    signed,
)
from clocs.experiments.report.reading import LEVELS, Level, Runs, condition
from clocs.experiments.tables import LONGER, METHODS, leakage

CHANGED: Final[tuple[Method, ...]] = ("cmlc", "cmsmlc")
MOST_SEEDS: Final = 20
"""Looked for."""


def our_page(estimates: Estimates) -> Page:
    """Three questions."""
    blocks: list[Block] = [
        Heading("Does the released code's loss change the ranking?"),
        Text(
            "The released code's loss for several views kept the last pair of views alone. Here CMLC and CMSMLC are "
            "trained on Chapman by the paper's equations and by that code's behaviour (preset `released`), and judged "
            f"by linear evaluation. {sentence(estimates.results, 'released')}"
        ),
        *_released(estimates),
        Heading("What would a split that leaks gain?"),
        Text(
            "CMSC on PhysioNet 2020, pre-trained on a split drawn apart from that of the evaluation, so that most test "
            f"patients were pre-trained on. In no other table. {sentence(estimates.results, 'leakage')}"
        ),
        _leakage(estimates),
        Heading("What would longer pre-training change?"),
        Text(
            f"Everything else on these pages is pre-trained for at most {LONGER[0]} epochs, here for {LONGER[1]}; "
            f"linear evaluation as in table 1. {sentence(estimates.results, 'longer')}"
        ),
        longer_table(estimates),
    ]
    return Page("ours", "Our questions", tuple(blocks))


def _released(estimates: Estimates) -> list[Block]:
    rows = []
    for method in CHANGED:
        each = condition(method, "chapman", "chapman")
        sides = [estimates.results.evaluations(each, preset) for preset in ("paper", "released")]
        rows += _rows(estimates, METHOD_NAMES[method], sides)
    titles = ("", "per", "the paper's loss", "the released code's", "the paper's − the released", "p", "seeds")
    texts = [Text(_ranking(estimates, level)) for level in LEVELS]
    return [Table(titles, tuple(rows)), *texts]


def _rows(estimates: Estimates, name: str, sides: Sequence[Runs]) -> list[tuple[Entry, ...]]:
    """The first against the second, per frame and per recording, over the seeds that both have."""
    both = sides[0].keys() & sides[1].keys()
    sides = [{seed: run for seed, run in runs.items() if seed in both or not both} for runs in sides]
    rows = []
    for level in LEVELS:
        means = [estimates.mean(runs, level) for runs in sides]
        tested = estimates.difference(sides[0], sides[1], level)
        seeds = str(len(both)) if both else DASH
        p = p_text(None if tested is None else tested.p_above)
        rows.append((Entry(name), Entry(level), *map(auc_cell, means), difference_cell(tested), Entry(p), Entry(seeds)))
    return rows


def _ranking(estimates: Estimates, level: Level) -> str:
    """The methods of table 1 in order, with either loss."""
    rivals = [each for each in columns(1)[0] if each.method in SELF_SUPERVISED]
    orders = [_order(estimates, rivals, level, preset) for preset in ("paper", "released")]
    if any(order is None for order in orders):
        return f"Per {level}, not all methods are done: the order cannot be told yet."
    paper_order, released_order = (listed(order) for order in orders if order is not None)
    if paper_order == released_order:
        return f"Per {level}, the order is the same by either loss, best first: {paper_order}."
    return (
        f"Per {level}, the order changes: by the paper's loss {paper_order}; by the released code's {released_order}."
    )


def _order(estimates: Estimates, rivals: Sequence[Condition], level: Level, preset: str) -> list[str] | None:
    """Methods from the best down; CMLC and CMSMLC by the preset, the others by the paper's."""
    found = {}
    for each in rivals:
        mean = estimates.auc(each, level, preset if each.method in CHANGED else "paper")
        if mean is None:
            return None
        found[METHOD_NAMES[each.method]] = mean.value
    return sorted(found, key=lambda name: -found[name])


def _leakage(estimates: Estimates) -> Table:
    """Marked cells are looked up by themselves: no table of the paper has them."""
    leaking = _finished(estimates, leakage, lambda cell: bool(cell.config))
    sound = _finished(estimates, leakage, lambda cell: not cell.config)
    titles = ("", "per", "leaking split", "sound split", "gain", "p", "seeds")
    return Table(titles, tuple(_rows(estimates, "CMSC", [leaking, sound])))


def longer_table(estimates: Estimates) -> Table:
    """Table 1 by length of pre-training."""
    rows, lengths = [], LONGER[::-1]
    for dataset in SOURCES:
        for method in METHODS:
            sides = [estimates.after(epochs).runs(condition(method, dataset, dataset)) for epochs in lengths]
            rows += _rows(estimates, f"{DATASET_NAMES[dataset]}: {METHOD_NAMES[method]}", sides)
    titles = ("", "per", *(f"{epochs} epochs" for epochs in lengths), "gain", "p", "seeds")
    return Table(titles, tuple(rows))


def cmsc_above_simclr(estimates: Estimates, epochs: int) -> str:
    """On Chapman after so many epochs, in words."""
    told = []
    cmsc, simclr = (condition(method, "chapman", "chapman") for method in ("cmsc", "simclr"))
    for level in LEVELS:
        found = estimates.after(epochs).above(cmsc, simclr, level)
        value, interval = (DASH, "") if found is None else (signed(found.value), ends(found, difference=True))
        told.append(f"{value} per {level}" + (f" ({interval})" if interval else ""))
    return " and ".join(told)


def _finished(
    estimates: Estimates, cells: Callable[[Iterable[int]], Iterator[Cell]], wanted: Callable[[Evaluation], bool]
) -> Runs:
    """What is done of an experiment's cells, by seed."""
    known = ((cell, estimates.results.of(cell)) for cell in cells(range(MOST_SEEDS)) if isinstance(cell, Evaluation))
    return {cell.seed: found for cell, found in known if found is not None and wanted(cell)}
