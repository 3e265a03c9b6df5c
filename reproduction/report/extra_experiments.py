"""The page of further experiments: released loss, weights of pairs, leaking splits, longer pre-training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from reproduction.cells import LEVELS, AnyCell, Evaluation, Level
from reproduction.experiments import (
    AUTHORS_LOSS,
    LONGER,
    METHODS,
    SAME_PATIENT,
    instances_per_patient,
    leakage,
    nt_xent,
    released,
)
from reproduction.paper_numbers import SOURCES, Condition, Method
from reproduction.presets import Preset
from reproduction.report.estimates import Estimates
from reproduction.report.missing_cells import status_sentence
from reproduction.report.page import (
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
    count_text,
    difference_cell,
    interval_text,
    join_words,
    p_text,
    signed_text,
)
from reproduction.report.results import MAX_SEEDS, Runs, condition

CHANGED: Final[tuple[Method, ...]] = ("cmlc", "cmsmlc")


def extra_experiments_page(estimates: Estimates) -> Page:
    """Return the page of further experiments."""
    blocks: list[Block] = [
        Heading("Does the released code's loss change the ranking?"),
        Text(
            "The released code's loss for several views kept the last pair of views alone, and one triangle of its "
            "terms across a patient's instances. Here CMLC and CMSMLC are trained on Chapman by the paper's equations "
            "and by that loss, all else as in the paper, and judged alike by linear evaluation. A patient of Chapman "
            "has one instance, so that nothing but the pairs of views can matter there. "
            f"{status_sentence(estimates.results, 'released')}"
        ),
        _released(estimates, "the released loss", "paper"),
        *(Text(_ranking(estimates, level)) for level in LEVELS),
        Heading("What does everything that the released code did change?"),
        Text(
            "The preset `released` has that loss and more: no last ReLU, labels drawn over frames, and linear "
            "evaluation in training mode, with BatchNorm and dropout active."
        ),
        _released(estimates, "all of it", "released"),
        Heading("How much should pairs of one patient weigh?"),
        Text(
            "By the paper's equations, the pairs across a patient's instances have a mean of their own, and so as much "
            "weight as all pairs within an instance, though a batch has few of them. Here CMSC is trained with one "
            "mean over all pairs, in which each weighs as much as any other, and without such pairs; linear "
            f"evaluation as in table 1. {status_sentence(estimates.results, 'same-patient')}"
        ),
        _same_patient(estimates),
        Heading("Does SimCLR gain by the loss of its authors?"),
        Text(
            "Everywhere else SimCLR has InfoNCE between the two views, as CMSC has it, which is how we read the paper; "
            "its authors look for a view among all others of both kinds (`form=nt_xent`). Linear evaluation as in "
            f"table 1. {status_sentence(estimates.results, 'nt-xent')}"
        ),
        _nt_xent(estimates),
        Heading("What would a split that leaks gain?"),
        Text(
            "CMSC on PhysioNet 2020, pre-trained on a split drawn apart from that of the evaluation, so that most test "
            f"patients were pre-trained on. In no other table. {status_sentence(estimates.results, 'leakage')}"
        ),
        _leakage(estimates),
        Heading("What would longer pre-training change?"),
        Text(
            f"Everything else on these pages is pre-trained for at most {LONGER[0]} epochs, here for {LONGER[1]}; "
            f"linear evaluation as in table 1. {status_sentence(estimates.results, 'longer')}"
        ),
        longer_table(estimates),
    ]
    return Page("ours", "Our questions", tuple(blocks))


def _released(estimates: Estimates, name: str, preset: Preset) -> Table:
    """Compare the paper's equations with the released loss alone (preset ``paper``), or with all of ``released``."""
    rows = []
    for method in CHANGED:
        sides = [estimates.runs(_on_chapman(method)), _released_runs(estimates, method, preset)]
        rows += _rows(estimates, METHOD_NAMES[method], sides)
    return Table(("", "per", "the paper", name, f"the paper − {name}", "p", "seeds"), tuple(rows))


def _released_runs(estimates: Estimates, method: Method, preset: Preset) -> Runs:
    def is_released(cell: Evaluation) -> bool:
        start = cell.start
        changed = preset == "released" or (start is not None and bool(start.options))
        return cell.preset == preset and start is not None and start.method == method and changed

    return _finished(estimates, released, is_released)


def _on_chapman(method: Method) -> Condition:
    return condition(method, "chapman", "chapman")


def _rows(estimates: Estimates, name: str, sides: Sequence[Runs]) -> list[tuple[Entry, ...]]:
    """Compare two sides per frame and per recording, over their common seeds."""
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
    """Return a sentence on the order of the methods of table 1 with either loss, over their common seeds."""
    paper_runs = {method: estimates.runs(_on_chapman(method)) for method in METHODS}
    changed = {method: _released_runs(estimates, method, "paper") for method in CHANGED}
    shared = set.intersection(*map(set, (*paper_runs.values(), *changed.values())))
    kinds = [
        {method: {seed: run for seed, run in runs.items() if seed in shared} for method, runs in kind.items()}
        for kind in (paper_runs, {**paper_runs, **changed})
    ]
    orders = [_order(estimates, runs, level) for runs in kinds]
    if any(order is None for order in orders):
        return f"Per {level}, not all methods are done: the order is not known yet."
    paper_order, released_order = (join_words(order) for order in orders if order is not None)
    over = count_text(len(shared), "seed")
    if paper_order == released_order:
        return f"Per {level}, the means of {over} are in the same order by either loss, best first: {paper_order}."
    return (
        f"Per {level}, the means of {over} are in another order: by the paper's loss {paper_order}; by the released "
        f"code's {released_order}. The table above says how sure that is."
    )


def _order(estimates: Estimates, runs: Mapping[Method, Runs], level: Level) -> list[str] | None:
    """Return the methods from best to worst, or None if one is missing."""
    means = {METHOD_NAMES[method]: estimates.mean(each, level) for method, each in runs.items()}
    known = {name: mean.value for name, mean in means.items() if mean is not None}
    return sorted(known, key=lambda name: -known[name]) if len(known) == len(means) else None


def _same_patient(estimates: Estimates) -> Table:
    rows = []
    for dataset in SOURCES:
        values = estimates.runs(condition("cmsc", dataset, dataset))
        for name, weight in SAME_PATIENT.items():
            changed = _finished(estimates, instances_per_patient, partial(_weighs, dataset, weight))
            rows += _rows(estimates, f"{DATASET_NAMES[dataset]}: {name}", [changed, values])
    return Table(("", "per", "changed", "the paper", "gain", "p", "seeds"), tuple(rows))


def _weighs(dataset: str, weight: str, cell: Evaluation) -> bool:
    return cell.dataset == dataset and cell.start is not None and cell.start.options.get("off_diagonals") == weight


def _nt_xent(estimates: Estimates) -> Table:
    rows = []
    for dataset in SOURCES:
        values = estimates.runs(condition("simclr", dataset, dataset))
        changed = _finished(estimates, nt_xent, partial(_by_its_authors, dataset))
        rows += _rows(estimates, DATASET_NAMES[dataset], [changed, values])
    return Table(("", "per", "its authors' loss", "ours", "gain", "p", "seeds"), tuple(rows))


def _by_its_authors(dataset: str, cell: Evaluation) -> bool:
    return cell.dataset == dataset and cell.start is not None and cell.start.options == AUTHORS_LOSS


def _leakage(estimates: Estimates) -> Table:
    """Compare a leaking split with a sound one."""
    leaking = _finished(estimates, leakage, lambda cell: bool(cell.config))
    sound = _finished(estimates, leakage, lambda cell: not cell.config)
    titles = ("", "per", "leaking split", "sound split", "gain", "p", "seeds")
    return Table(titles, tuple(_rows(estimates, "CMSC", [leaking, sound])))


def longer_table(estimates: Estimates) -> Table:
    """Return table 1 by length of pre-training."""
    rows, lengths = [], LONGER[::-1]
    for dataset in SOURCES:
        for method in METHODS:
            sides = [estimates.with_max_epochs(epochs).runs(condition(method, dataset, dataset)) for epochs in lengths]
            rows += _rows(estimates, f"{DATASET_NAMES[dataset]}: {METHOD_NAMES[method]}", sides)
    titles = ("", "per", *(f"{epochs} epochs" for epochs in lengths), "gain", "p", "seeds")
    return Table(titles, tuple(rows))


def cmsc_above_simclr(estimates: Estimates, epochs: int) -> str:
    """Return the difference of CMSC and SimCLR on Chapman in words, for a maximum of epochs."""
    values = []
    for level in LEVELS:
        found = estimates.with_max_epochs(epochs).above(_on_chapman("cmsc"), _on_chapman("simclr"), level)
        value, interval = (
            (DASH, "") if found is None else (signed_text(found.value), interval_text(found, difference=True))
        )
        values.append(f"{value} per {level}" + (f" ({interval})" if interval else ""))
    return " and ".join(values)


def _finished(
    estimates: Estimates, cells: Callable[[Iterable[int]], Iterator[AnyCell]], keep: Callable[[Evaluation], bool]
) -> Runs:
    """Return the finished cells of an experiment that a filter keeps, by seed."""
    known = ((cell, estimates.results.get(cell)) for cell in cells(range(MAX_SEEDS)) if isinstance(cell, Evaluation))
    return {cell.seed: found for cell, found in known if found is not None and keep(cell)}
