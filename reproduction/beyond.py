"""Beyond the paper: what the recommended encoder is worth, what each of its parts brings, and what more would bring."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal

from clocs.training.ready_configs import RECOMMENDED
from reproduction.cells import AnyCell, Evaluation, Pretraining
from reproduction.paper_numbers import SOURCES

TOGETHER: Final = ("physionet2020", "chapman", "physionet2017")
"""What the one encoder for all is trained on."""
ELSEWHERE: Final = ("physionet2017", "cardiology")
FEW: Final = (10, 30, 100, 300, 1000)
"""Patients with labels; then all."""
WITH_LABELS: Final[dict[str, Any]] = {"optimizer": "adamw", "learning_rate": 1e-3}
"""How the residual network is trained with labels."""
FINE: Final = 3e-4
"""Learning rate of fine-tuning."""
EPOCHS_WITH_LABELS: Final = 20
"""At most, where there are many labels."""
PATIENCE_WITH_LABELS: Final = 5
"""Epochs without a better validation AUC that end training from scratch."""
SHORT: Final = 460
"""Steps of an ablation: five times all leads of all training recordings of PhysioNet 2020."""
MEDIUM: Final = 1_000
"""Steps where growth is measured."""
FLOAT32: Final[dict[str, Any]] = {"precision": "32-true"}
"""What any processor does quickly; the ablation found it as good as bfloat16."""

UNCHANGED: Final = "nothing changed"
PAPERS_WEIGHTS: Final[dict[str, Any]] = {"off_diagonals": None}
"""Of pairs of one patient, in what the ablation changes: it showed that the recipe should not have them."""
ABLATIONS: Final[dict[str, dict[str, Any]]] = {
    UNCHANGED: {},
    "all positive pairs weigh alike, as is recommended": {"method": {"off_diagonals": "alike"}},
    "the paper's network": {"encoder": {"name": "cnn"}, "pca": False},
    "no other lead (CMSC)": {"method": {"name": "cmsc", "view_choice": None}},
    "no other segment (CMLC)": {
        "method": {"name": "cmlc", "view_choice": None},
        "frames": {
            "normalization": "none",
            "sampling_rate": 500,
            "num_source_samples": None,
        },  # of one segment: the paper states no rate
    },
    "all pairs of views": {"method": {"view_choice": "all"}},
    "no augmentations": {"method": {"augmentations": ()}},
    "projection head": {"method": {"head": 128}},
    "no positives across a patient's instances": {"method": {"off_diagonals": "none"}},
    "frames scaled to 0..1": {"frames": {}},
    "250 Hz": {"frames": {"normalization": "none", "sampling_rate": 250, "num_samples": 1250}},
    "the embedding that the loss saw": {"pca": False},
    "temperature 0.2": {"method": {"temperature": 0.2}},
    "float32": FLOAT32,
}
"""One change at a time, by name; None takes an option of the method away."""

GROWTH: Final[dict[str, dict[str, Any]]] = {
    "as recommended": {},
    "width 12": {"encoder": {"name": "resnet", "width": 12}},
    "width 48": {"encoder": {"name": "resnet", "width": 48}},
    "10 % of the patients": {"patient_fraction": 0.1},
    "30 % of the patients": {"patient_fraction": 0.3},
}
"""Wider and narrower networks, and fewer unlabelled patients for as many steps."""


def encoder(seed: int, datasets: tuple[str, ...], changes: Mapping[str, Any] | None = None) -> Pretraining:
    """As recommended, or with changes; the cell says all of it, so that it keeps its name when we change our mind."""
    values = {**RECOMMENDED, "pca": True, **(changes or {})}
    method = {**RECOMMENDED["method"], **values.pop("method")}
    kept = {key: value for key, value in method.items() if key != "name" and value is not None}
    return Pretraining(
        method=method["name"],
        dataset=datasets[0],
        extra_datasets=datasets[1:],
        preset="recommended",
        seed=seed,
        max_epochs=values.pop("max_epochs"),
        pca=values.pop("pca"),
        options=kept,
        config=values,
    )


def one_encoder(seed: int) -> Pretraining:
    """The encoder for all: each batch is of one dataset, as many of each.

    Seed 0 is the one that we ship, trained in bfloat16; others are in float32.
    """
    return encoder(seed, TOGETHER, {"alternate_stores": True, **(FLOAT32 if seed else {})})


def untrained(dataset: str, seed: int, *, pca: bool = False) -> Pretraining:
    """The recommended network as it starts; what it would have been trained with does not matter to it."""
    shape = {key: RECOMMENDED[key] for key in ("encoder", "frames")}
    method: str = RECOMMENDED["method"]["name"]
    values: dict[str, Any] = {"preset": "recommended", "seed": seed, "max_epochs": 0, "config": shape}
    return Pretraining(method=method, dataset=dataset, pca=pca, **values)


def linear(start: Pretraining, dataset: str, seed: int, label_fraction: float = 0.5, **values: Any) -> Evaluation:
    """By the recommended protocol; ``values``: other keys of the evaluation's config."""
    given: dict[str, Any] = {"preset": "recommended", "label_fraction": label_fraction, "config": values}
    return Evaluation(protocol="linear", start=start, dataset=dataset, seed=seed, **given)


def trained(
    start: Pretraining,
    dataset: str,
    seed: int,
    label_fraction: float = 0.5,
    max_epochs: int = EPOCHS_WITH_LABELS,
    **values: Any,
) -> Evaluation:
    """All weights, with labels."""
    config = {**WITH_LABELS, **values}
    given: dict[str, Any] = {
        "preset": "recommended",
        "label_fraction": label_fraction,
        "max_epochs": max_epochs,
        "config": config,
    }
    return Evaluation(protocol="finetune", start=start, dataset=dataset, seed=seed, **given)


def as_in_paper(method: str | None, protocol: Literal["linear", "finetune"], dataset: str, seed: int) -> Evaluation:
    """By the preset ``paper``, on the paper's own frames; None: random weights."""
    start = None if method is None else Pretraining(method=method, dataset=dataset, seed=seed)
    return Evaluation(protocol=protocol, start=start, dataset=dataset, seed=seed)


COMPARED: Final[dict[str, Callable[[str, int], Evaluation]]] = {
    "recommended encoder, linear": lambda data, seed: linear(one_encoder(seed), data, seed),
    "its network with random weights, principal components, linear": lambda data, seed: linear(
        untrained(data, seed, pca=True), data, seed
    ),
    "its network with random weights, linear": lambda data, seed: linear(untrained(data, seed), data, seed),
    "its network, trained with the labels": lambda data, seed: from_scratch(data, seed, None, 0.5),
    "CMSC as in the paper, linear": partial(as_in_paper, "cmsc", "linear"),
    "SimCLR as in the paper, linear": partial(as_in_paper, "simclr", "linear"),
    "the paper's network with random weights, linear": partial(as_in_paper, None, "linear"),
    "the paper's network, trained with the labels": partial(as_in_paper, None, "finetune"),
}
"""By dataset and seed: the one encoder, its network without pre-training, and the paper's; half of the labels."""


def recommended(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """The one encoder and what it is to be compared with."""
    for seed in seeds:
        for dataset in SOURCES:
            for kind in COMPARED.values():
                yield kind(dataset, seed)


def few_frozen(dataset: str, seed: int, patients: int | None) -> Evaluation:
    """A linear classifier on the one encoder, with the labels of so many patients, whom the seed draws; None: all."""
    start = one_encoder(0)
    return (
        linear(start, dataset, seed, 1.0)
        if patients is None
        else linear(start, dataset, seed, num_labelled_patients=patients)
    )


def few_tuned(dataset: str, seed: int, patients: int | None) -> Evaluation:
    """The one encoder fine-tuned with the labels of so many patients."""
    return trained(one_encoder(0), dataset, seed, 1.0, learning_rate=FINE, **_by_labels(patients))


def from_scratch(dataset: str, seed: int, patients: int | None, label_fraction: float = 1.0) -> Evaluation:
    """The same network trained with labels alone."""
    return trained(untrained(dataset, seed), dataset, seed, label_fraction, **_by_labels(patients))


def _by_labels(patients: int | None) -> dict[str, Any]:
    """As for the classifier, validation AUC chooses.

    However few the labels, training goes as often over frames as with those of a thousand patients, in small batches.
    """
    values: dict[str, Any] = {"monitor": "auc", "patience": PATIENCE_WITH_LABELS}
    few = (
        {"num_labelled_patients": patients, "batch_size": 32, "passes_per_epoch": max(FEW) // patients}
        if patients is not None
        else {}
    )
    return values | few


def few_labels(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """With labels of so many patients: the one encoder with a linear classifier and fine-tuned, and from scratch.

    Other seeds draw other patients, on whom much depends where they are few; the encoder stays the one that we ship.
    """
    for seed in seeds:
        for count in (*FEW, None):
            for dataset in SOURCES:
                yield few_frozen(dataset, seed, count)
                yield from_scratch(dataset, seed, count)
                yield few_tuned(dataset, seed, count)


def transfer(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """To the paper's other two datasets, at their physical rate: linear, fine-tuned, and from scratch."""
    for seed in seeds:
        for dataset in ELSEWHERE:
            yield linear(one_encoder(seed), dataset, seed)
            yield trained(one_encoder(seed), dataset, seed, learning_rate=FINE)
            yield trained(untrained("physionet2020", seed), dataset, seed)


def ablation(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """One change at a time, equal steps, on PhysioNet 2020, by validation patients."""
    for seed in seeds:
        for name in ABLATIONS:
            yield ablated(name, seed)


def ablated(name: str, seed: int) -> Evaluation:
    """What is recommended but for the paper's weights, with one change and few steps."""
    method = {**PAPERS_WEIGHTS, **ABLATIONS[name].get("method", {})}
    start = encoder(seed, ("physionet2020",), {**ABLATIONS[name], "method": method, "max_steps": SHORT})
    return linear(start, "physionet2020", seed).model_copy(update={"part": "validation"})


def growth(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """On PhysioNet 2020, by validation patients: wider networks, and fewer unlabelled patients."""
    for seed in seeds:
        for name in GROWTH:
            yield grown(name, seed)


def grown(name: str, seed: int) -> Evaluation:
    """What is recommended, larger or smaller."""
    values = {
        "max_steps": MEDIUM,
        "max_epochs": MEDIUM,
        "patience": MEDIUM,
    }  # however few steps an epoch of few patients has
    start = encoder(seed, ("physionet2020",), {**GROWTH[name], **values, **FLOAT32})  # so that times compare
    return linear(start, "physionet2020", seed).model_copy(update={"part": "validation"})
