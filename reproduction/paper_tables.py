"""Every table and figure of the paper as an experiment, such as ``paper-table-9``.

Cells are named by their content, so experiments share cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import lru_cache, partial
from typing import Any

from clocs.core.errors import ConfigError
from clocs.methods.method import parse_method
from clocs.signals.leads import STANDARD_LEADS
from clocs.training.ready_configs import ready_config
from reproduction.cells import AnyCell, Evaluation, Pretraining, random_start
from reproduction.experiments import EXPERIMENTS, Experiment
from reproduction.paper_numbers import (
    SINGLE_LEAD,
    Condition,
    Figure,
    Panel,
    PretrainingCondition,
    paper,
    results,
)

UNSTATED: dict[str, tuple[Any, ...]] = {"embedding_dim": (128,), "leads": (4,), "augmentations": (None,)}
"""Values that figures 4 and 6 do not state, from the tables of the main text."""


def cell_of(condition: Condition, seed: int) -> Evaluation:
    """Return the evaluation of a condition, for one seed."""
    return Evaluation(
        protocol=condition.protocol,
        start=_start(condition, seed),
        dataset=condition.evaluation,
        embedding_dim=condition.embedding_dim,
        label_fraction=condition.label_fraction,
        seed=seed,
        **_leads(condition.leads, condition.evaluation),
    )


def _start(condition: Condition, seed: int) -> Pretraining | None:
    if condition.pretrained is None:
        return random_start(condition.embedding_dim, seed)
    return pretraining_of(condition.pretrained, seed)


def pretraining_of(condition: PretrainingCondition, seed: int) -> Pretraining:
    """Return the pre-training of a condition, for one seed."""
    return Pretraining(
        method=condition.method,
        dataset=condition.dataset,
        embedding_dim=condition.embedding_dim,
        seed=seed,
        options=_options(condition),
        **_leads(condition.leads, condition.dataset),
    )


def _leads(count: int, dataset: str) -> dict[str, Any]:
    """Return options for 12 leads. Other numbers are the dataset's own leads in the paper."""
    if count != len(STANDARD_LEADS):
        return {}
    return {"leads": count, "config": {} if dataset in SINGLE_LEAD else {"leads": STANDARD_LEADS}}


def _options(condition: PretrainingCondition) -> dict[str, Any]:
    """Return the differences from the method's ready config, so that equal cells are shared."""
    ready = parse_method(ready_config(f"{condition.method}-{condition.dataset}")["method"])
    found: dict[str, Any] = {}
    if condition.decay is not None and condition.decay != ready.get("decay"):
        found["decay"] = condition.decay
    usual = tuple(str(step["name"]) for step in ready["augmentations"])
    if condition.augmentations is not None and condition.augmentations != usual:
        found["augmentations"] = list(condition.augmentations)
    return found


def _table_cells(conditions: tuple[Condition, ...], seeds: Iterable[int]) -> Iterator[AnyCell]:
    for seed in seeds:
        for condition in conditions:
            yield cell_of(condition, seed)


def _figure_cells(figure: Figure, seeds: Iterable[int]) -> Iterator[AnyCell]:
    for seed in seeds:
        for panel in figure.panels:
            varies = {**UNSTATED, **panel.varies}
            if "evaluation" in varies:
                for condition in Panel(part=panel.part, varies=varies).conditions():
                    yield cell_of(condition, seed)
            else:
                yield from _distances(varies, seed)


def _distances(varies: dict[str, tuple[Any, ...]], seed: int) -> Iterator[Evaluation]:
    """Iterate over distances of the validation patients of the dataset of pre-training."""
    fixed = {"protocol": ("linear",), "label_fraction": (1.0,), "evaluation": varies["pretraining"]}
    for condition in Panel(part="", varies={**varies, **fixed}).conditions():
        assert condition.pretrained is not None
        yield Evaluation(
            protocol="distances",
            start=pretraining_of(condition.pretrained, seed),
            dataset=condition.evaluation,
            embedding_dim=condition.embedding_dim,
            seed=seed,
            part="validation",
        )


@lru_cache(maxsize=1)
def paper_experiments() -> dict[str, Experiment]:
    """Return an experiment for each table and figure of the paper. Those without results have no cells."""
    found = []
    for table in paper().tables:
        conditions = tuple(dict.fromkeys(result.condition for result in results(table=table.number)))
        title = f"Table {table.number}: {table.shows}"
        found.append(Experiment(f"paper-table-{table.number}", title, partial(_table_cells, conditions)))
    for figure in paper().figures:
        title = f"Figure {figure.number}: {figure.shows}"
        found.append(Experiment(f"paper-figure-{figure.number}", title, partial(_figure_cells, figure)))
    return {item.name: item for item in found}


def all_experiments() -> dict[str, Experiment]:
    """Ours, then the paper's."""
    return {**EXPERIMENTS, **paper_experiments()}


def find_experiment(name: str) -> Experiment:
    """By its name."""
    known = all_experiments()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(
            f"no experiment '{name}'; there are {', '.join(EXPERIMENTS)}, paper-table-1 to -{len(paper().tables)} and "
            f"paper-figure-1 to -{len(paper().figures)}.{hint}"
        )
    return known[name]
