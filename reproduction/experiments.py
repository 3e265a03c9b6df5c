"""The cells of the paper's tables and figures, and of further experiments.

Cells are ordered by seed, so that a partial grid has all cells of the first seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from clocs.core.errors import ConfigError
from clocs.datasets import DATASETS
from clocs.methods import METHODS as METHOD_REGISTRY
from reproduction.beyond import ablation, few_labels, growth, recommended, transfer
from reproduction.cells import EPOCHS, LONG_EPOCHS, SEPARATE_SPLIT, AnyCell, Evaluation, Pretraining, random_start
from reproduction.paper_numbers import SOURCES, Method
from reproduction.presets import PRESETS, Preset
from reproduction.search import search
from reproduction.shipped_encoders import in_use

METHODS: tuple[Method, ...] = ("mtssl", "byol", "simclr", "cmsc", "cmlc", "cmsmlc")
TRANSFERS = tuple(
    (source, target) for source in SOURCES for target in ("cardiology", "physionet2017", *SOURCES) if target != source
)


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, or a further experiment."""

    name: str
    title: str
    cells: Callable[[Iterable[int]], Iterator[AnyCell]]
    """Function that iterates over the cells for some seeds."""


def table1(seeds: Iterable[int], methods: Iterable[str] = METHODS, preset: Preset = "paper") -> Iterator[AnyCell]:
    """Iterate over linear evaluations on the dataset of pre-training, and of random weights."""
    for seed in seeds:
        for dataset in SOURCES:
            yield Evaluation(protocol="linear", start=None, dataset=dataset, seed=seed, preset=preset)
            for method in methods:
                start = Pretraining(method=method, dataset=dataset, seed=seed, preset=preset)
                yield Evaluation(protocol="linear", start=start, dataset=dataset, seed=seed, preset=preset)


def table2(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over fine-tunings on other datasets than that of pre-training, with baselines."""
    for seed in seeds:
        for target in dict.fromkeys(target for _, target in TRANSFERS):
            yield Evaluation(protocol="finetune", start=None, dataset=target, seed=seed)
        for source, target in TRANSFERS:
            for method in ("supervised", *METHODS):
                start = Pretraining(method=method, dataset=source, seed=seed)
                yield Evaluation(protocol="finetune", start=start, dataset=target, seed=seed)


def released(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over CMLC and CMSMLC on Chapman: by the paper, with the released code's loss, and by all of its code."""
    loss = {"options": PRESETS["released"].contrast_options}
    kinds: tuple[tuple[Preset, dict[str, Any]], ...] = (("paper", {}), ("paper", loss), ("released", {}))
    for seed in seeds:
        for preset, changes in kinds:
            for method in ("cmlc", "cmsmlc"):
                start = Pretraining(method=method, dataset="chapman", seed=seed, preset=preset, **changes)
                yield Evaluation(protocol="linear", start=start, dataset="chapman", seed=seed, preset=preset)


def figure4(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over CMSC and random weights with a quarter and with all of the labels."""
    for seed in seeds:
        for source, target in (("chapman", "physionet2017"), ("physionet2020", "cardiology")):
            start = Pretraining(method="cmsc", dataset=source, seed=seed)
            for label_fraction in (0.25, 1.0):
                yield Evaluation(
                    protocol="finetune", start=start, dataset=target, seed=seed, label_fraction=label_fraction
                )
                yield Evaluation(
                    protocol="finetune", start=None, dataset=target, seed=seed, label_fraction=label_fraction
                )


AUGMENTATIONS = ("gaussian_noise", "flip_time", "flip_amplitude", "spec_augment_time", "spec_augment_frequency")


def figure3(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over single augmentations, and noise followed by each other one, on Chapman."""
    sets = [(name,) for name in AUGMENTATIONS] + [("gaussian_noise", name) for name in AUGMENTATIONS[1:]]
    for seed in seeds:
        for names in sets:
            for method in ("simclr", "cmsc"):
                options = {} if (method, names) == ("simclr", ("gaussian_noise",)) else {"augmentations": list(names)}
                start = Pretraining(method=method, dataset="chapman", seed=seed, options=options)
                yield Evaluation(protocol="linear", start=start, dataset="chapman", seed=seed)


def figure5(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over fine-tunings on Cardiology after Chapman, by embedding dimension and by label fraction."""
    for seed in seeds:
        by_embedding = [(embedding_dim, 0.25) for embedding_dim in (32, 64, 128, 256)]
        for embedding_dim, label_fraction in by_embedding + [
            (64, label_fraction) for label_fraction in (0.5, 0.75, 1.0)
        ]:
            for method in ("random", "simclr", "cmsc", "cmlc", "cmsmlc"):
                start = _start(method, embedding_dim, seed)
                values: dict[str, Any] = {
                    "seed": seed,
                    "embedding_dim": embedding_dim,
                    "label_fraction": label_fraction,
                }
                yield Evaluation(protocol="finetune", start=start, dataset="cardiology", **values)


def _start(method: str, embedding_dim: int, seed: int) -> Pretraining | None:
    """Return a pre-training on Chapman, or initial weights."""
    if method == "random":
        return random_start(embedding_dim, seed)
    return Pretraining(method=method, dataset="chapman", seed=seed, embedding_dim=embedding_dim)


def figure6(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over distances within and between validation patients of PhysioNet 2020, for SimCLR and CMSC."""
    for seed in seeds:
        for method in ("simclr", "cmsc"):
            start = Pretraining(method=method, dataset="physionet2020", seed=seed)
            yield Evaluation(protocol="distances", start=start, dataset="physionet2020", seed=seed, part="validation")


LONGER = (EPOCHS, LONG_EPOCHS)


def longer(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over table 1 with the usual number of epochs, and with four times as many."""
    for seed in seeds:
        for dataset in SOURCES:
            for method in METHODS:
                for max_epochs in LONGER:
                    start = Pretraining(method=method, dataset=dataset, seed=seed, max_epochs=max_epochs)
                    yield Evaluation(protocol="linear", start=start, dataset=dataset, seed=seed)


def leakage(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over CMSC on PhysioNet 2020, pre-trained without and with most of the test patients."""
    for seed in seeds:
        changes: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
            ({}, {}),
            ({"split": SEPARATE_SPLIT}, {"on_leak": "measure"}),
        )
        for training, evaluation in changes:
            start = Pretraining(method="cmsc", dataset="physionet2020", seed=seed, config=training)
            yield Evaluation(protocol="linear", start=start, dataset="physionet2020", seed=seed, config=evaluation)


SAME_PATIENT = {"all pairs alike": "equal", "none": "none"}
"""Weights of pairs of one patient's instances, other than the paper's."""


AUTHORS_LOSS: Final = {"form": "nt_xent"}
"""The loss of SimCLR's authors."""


def instances_per_patient(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over weights of pairs across a patient's instances in CMSC."""
    for seed in seeds:
        for dataset in SOURCES:
            for options in ({}, *({"off_diagonals": weight} for weight in SAME_PATIENT.values())):
                start = Pretraining(method="cmsc", dataset=dataset, seed=seed, options=options)
                yield Evaluation(protocol="linear", start=start, dataset=dataset, seed=seed)


def nt_xent(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over SimCLR with InfoNCE between the two views, and with the loss of its authors."""
    for seed in seeds:
        for dataset in SOURCES:
            for options in ({}, AUTHORS_LOSS):
                start = Pretraining(method="simclr", dataset=dataset, seed=seed, options=options)
                yield Evaluation(protocol="linear", start=start, dataset=dataset, seed=seed)


EXPERIMENTS: dict[str, Experiment] = {
    item.name: item
    for item in (
        Experiment("table1", "Linear evaluation (Table 1)", table1),
        Experiment("table2", "Fine-tuning on other datasets (Table 2)", table2),
        Experiment("figure3", "Augmentations (Figure 3, on Chapman)", figure3),
        Experiment("figure4", "Less labelled data (Figure 4)", figure4),
        Experiment("figure5", "Length of the embedding and share of the labels (Figure 5)", figure5),
        Experiment("released", "The released code's loss, and all it did, against the paper's word", released),
        Experiment("figure6", "Distances within and between patients (Figure 6)", figure6),
        Experiment("longer", "Table 1 with pre-training four times as long", longer),
        Experiment("same-patient", "What pairs of one patient bring to CMSC, and should weigh", instances_per_patient),
        Experiment("nt-xent", "SimCLR with the loss of its authors", nt_xent),
        Experiment("leakage", "What a split that leaks would gain; marked, and in no other table", leakage),
        Experiment("recommended", "The recommended encoder, its network at random, and with labels alone", recommended),
        Experiment("few-labels", "How many labels the recommended encoder saves", few_labels),
        Experiment("transfer", "The recommended encoder on datasets it was not made for", transfer),
        Experiment("ablation", "What each part of the recommended recipe brings, by validation patients", ablation),
        Experiment("growth", "What a wider network and more patients bring, by validation patients", growth),
        Experiment("in-use", "Encoders in use: linear evaluation, neighbours, distances, what they give away", in_use),
        Experiment("search", "Trials for what to recommend, by validation patients", search),
    )
}


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
