"""The cells of the paper's tables and figures, and of further experiments.

Cells are ordered by seed, so that a partial grid has all cells of the first seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from clocs.core.errors import ConfigError
from clocs.datasets import DATASETS
from clocs.methods import METHODS as METHOD_REGISTRY
from reproduction.beyond import ablation, few_labels, growth, recommended, transfer
from reproduction.cells import SEPARATE_SPLIT, AnyCell, Evaluation, paper_pretraining
from reproduction.paper_numbers import SOURCES, Method
from reproduction.search import search
from reproduction.shipped_encoders import in_use

METHODS: tuple[Method, ...] = ("cmsc", "simclr", "cmlc", "cmsmlc", "byol", "mtssl")
COMPARED: tuple[Method, ...] = ("cmsc", "simclr")
"""Methods with three seeds, between which claims are decided, besides random weights."""
TRANSFERS = tuple(
    (source, target) for source in SOURCES for target in ("cardiology", "physionet2017", *SOURCES) if target != source
)
FEWER_LABELS = (("chapman", "physionet2017"), ("physionet2020", "cardiology"))
"""Datasets of pre-training and of fine-tuning in figure 4."""
LABEL_FRACTIONS = (0.25, 1.0)
"""Fractions of figure 4 besides that of table 2, one half."""
RANDOM_WEIGHTS = "random"
SUPERVISED = "supervised"


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or a further experiment."""

    name: str
    title: str
    cells: Callable[[Iterable[int]], Iterator[AnyCell]]
    """Function that iterates over the cells for some seeds."""


def linear(method: str, dataset: str, seed: int) -> Evaluation:
    """Return a linear evaluation on the dataset of pre-training, or its baseline: random weights or all weights."""
    if method == SUPERVISED:  # trained from scratch with the labels that the others are evaluated with
        return Evaluation(protocol="finetune", start=None, dataset=dataset, seed=seed)
    start = None if method == RANDOM_WEIGHTS else paper_pretraining(method, dataset, seed)
    return Evaluation(protocol="linear", start=start, dataset=dataset, seed=seed)


def table1(seeds: Iterable[int], methods: Iterable[str] = (RANDOM_WEIGHTS, *METHODS, SUPERVISED)) -> Iterator[AnyCell]:
    """Iterate over linear evaluations of every method on both datasets."""
    chosen = tuple(methods)
    for seed in seeds:
        for dataset in SOURCES:
            for method in chosen:
                yield linear(method, dataset, seed)


def finetuned(method: str, source: str, target: str, seed: int, label_fraction: float = 0.5) -> Evaluation:
    """Return a fine-tuning on a target dataset."""
    start = None if method == RANDOM_WEIGHTS else paper_pretraining(method, source, seed)
    return Evaluation(protocol="finetune", start=start, dataset=target, seed=seed, label_fraction=label_fraction)


def table2(seeds: Iterable[int], methods: Iterable[str] = (RANDOM_WEIGHTS, *METHODS, SUPERVISED)) -> Iterator[AnyCell]:
    """Iterate over fine-tunings on other datasets than that of pre-training."""
    chosen = tuple(methods)
    for seed in seeds:
        for source, target in TRANSFERS:
            for method in chosen:
                yield finetuned(method, source, target, seed)


def figure4(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over fine-tunings with a quarter and with all of the labels."""
    for seed in seeds:
        for source, target in FEWER_LABELS:
            for label_fraction in LABEL_FRACTIONS:
                for method in (RANDOM_WEIGHTS, *COMPARED):
                    yield finetuned(method, source, target, seed, label_fraction)


def distances(method: str, seed: int) -> Evaluation:
    """Return distances within and between validation patients of PhysioNet 2020."""
    start = paper_pretraining(method, "physionet2020", seed)
    return Evaluation(protocol="distances", start=start, dataset="physionet2020", seed=seed, part="validation")


def figure6(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over distances after the methods with three seeds."""
    for seed in seeds:
        for method in COMPARED:
            yield distances(method, seed)


RELEASED_LOSS: Final = {"off_diagonals": "one_triangle", "view_pairs": "last"}
VARIANTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "the loss of the released code": ({"options": RELEASED_LOSS}, {}),
    "all pairs of a patient weigh the same": ({"options": {"off_diagonals": "equal"}}, {}),
    "no pairs across instances": ({"options": {"off_diagonals": "none"}}, {}),
    "a split that leaks": ({"config": {"split": SEPARATE_SPLIT}}, {"config": {"on_leak": "measure"}}),
}
"""Changes of CMSC on PhysioNet 2020 that may explain the distance from the paper: fields of pre-training and of
evaluation."""


def variant(name: str, seed: int) -> Evaluation:
    """Return the linear evaluation of a variant of CMSC on PhysioNet 2020."""
    training, evaluation = VARIANTS[name]
    start = paper_pretraining("cmsc", "physionet2020", seed, **training)
    return Evaluation(protocol="linear", start=start, dataset="physionet2020", seed=seed, **evaluation)


def variants(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over variants of CMSC on PhysioNet 2020."""
    for seed in seeds:
        for name in VARIANTS:
            yield variant(name, seed)


def queue(_: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over all cells of the paper's tables and figures in the order of the plan, with the planned seeds.

    An evaluation is computed right after its pre-training, whatever its place here.
    """
    for seed in range(3):
        yield from table1([seed], (RANDOM_WEIGHTS, *COMPARED))
    yield from variants([0])
    yield from table1([0], ("cmlc", "cmsmlc", "byol", SUPERVISED))
    yield from table2([0], (RANDOM_WEIGHTS, *COMPARED, SUPERVISED, "cmlc", "cmsmlc", "byol"))
    yield from figure4([0])
    yield from figure6([0])
    yield from table2([1], (RANDOM_WEIGHTS, *COMPARED))
    yield from table1([1], ("cmlc", "cmsmlc", "byol", SUPERVISED))
    yield from table1([0], ("mtssl",))


EXPERIMENTS: dict[str, Experiment] = {
    item.name: item
    for item in (
        Experiment("table1", "Linear evaluation (Table 1)", table1),
        Experiment("table2", "Fine-tuning on other datasets (Table 2)", table2),
        Experiment("figure4", "Fewer labels (Figure 4)", figure4),
        Experiment("figure6", "Distances within and between patients (Figure 6)", figure6),
        Experiment("variants", "CMSC on PhysioNet 2020 with another loss, and with a split that leaks", variants),
        Experiment("queue", "The paper's cells in the order of the plan, with the planned seeds", queue),
        Experiment("recommended", "The recommended encoder, its network at random, and with labels alone", recommended),
        Experiment("few-labels", "Labels that the recommended encoder saves", few_labels),
        Experiment("transfer", "The recommended encoder on other datasets", transfer),
        Experiment("ablation", "Parts of the recommended recipe, by validation patients", ablation),
        Experiment("growth", "A wider network and more patients, by validation patients", growth),
        Experiment("in-use", "Shipped encoders: linear evaluation, neighbours, distances, privacy", in_use),
        Experiment("search", "Trials for the recommendation, by validation patients", search),
    )
}


def find_experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"Unknown experiment '{name}'. Known: {', '.join(EXPERIMENTS)}.{hint}")
    return EXPERIMENTS[name]


def cell_filter(methods: str, datasets: str) -> Callable[[AnyCell], bool]:
    """Return a filter for methods and datasets, each a list of names with commas. Empty: all."""
    kept_methods = _known_names(methods, "methods", ["random", *METHOD_REGISTRY.names()])
    kept_datasets = _known_names(datasets, "datasets", DATASETS.names())

    def chosen(cell: AnyCell) -> bool:
        right_method = not kept_methods or cell.method in kept_methods
        return right_method and (not kept_datasets or cell.dataset in kept_datasets)

    return chosen


def _known_names(text: str, what: str, known: list[str]) -> set[str]:
    names = {name.strip() for name in text.split(",") if name.strip()}
    if names - set(known):
        raise ConfigError(f"{what}: unknown {', '.join(sorted(names - set(known)))}. Known: {', '.join(known)}.")
    return names
