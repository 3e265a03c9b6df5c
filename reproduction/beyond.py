"""Experiments beyond the paper: the recommended encoder, its ablation, and its scaling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from clocs.training.ready_configs import RECOMMENDED
from reproduction.cells import AnyCell, Evaluation, Pretraining
from reproduction.paper_numbers import SOURCES

PRETRAINING_DATASETS: Final = ("physionet2020", "chapman", "physionet2017")
"""Datasets that the recommended encoder is trained on."""
TRANSFER_DATASETS: Final = ("physionet2017", "cardiology")
LABELLED_PATIENTS: Final = (10, 30, 100, 300, 1000)
"""Numbers of labelled patients; all patients come last."""
WITH_LABELS: Final[dict[str, Any]] = {"optimizer": "adamw", "learning_rate": 1e-3}
"""Options of training the residual network with labels."""
FINETUNE_LEARNING_RATE: Final = 3e-4
"""Learning rate of fine-tuning."""
EPOCHS_WITH_LABELS: Final = 20
"""Maximum number of epochs if there are many labels."""
PATIENCE_WITH_LABELS: Final = 5
"""Epochs without a better validation AUC after which training with labels stops."""
ABLATION_STEPS: Final = 460
"""Steps of an ablation: five passes over all leads of all training recordings of PhysioNet 2020."""
GROWTH_STEPS: Final = 1_000
"""Steps of a scaling experiment."""
FLOAT32: Final[dict[str, Any]] = {"precision": "32-true"}
"""Precision that every processor supports; as good as bfloat16 in the ablation."""

UNCHANGED: Final = "unchanged"
PAPERS_WEIGHTS: Final[dict[str, Any]] = {"off_diagonals": None}
"""The paper's weights of pairs of one patient, which the ablation starts from."""
ABLATIONS: Final[dict[str, dict[str, Any]]] = {
    UNCHANGED: {},
    "all positive pairs weigh alike (recommended)": {"method": {"off_diagonals": "equal"}},
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
    "projection head": {"method": {"projection_hidden_dim": 128}},
    "no positives across a patient's instances": {"method": {"off_diagonals": "none"}},
    "frames scaled to 0..1": {"frames": {}},
    "250 Hz": {"frames": {"normalization": "none", "sampling_rate": 250, "num_samples": 1250}},
    "last layer without PCA": {"pca": False},
    "temperature 0.2": {"method": {"temperature": 0.2}},
    "float32": FLOAT32,
}
"""Changes of one thing at a time, by name. None removes an option of the method."""

GROWTH: Final[dict[str, dict[str, Any]]] = {
    "as recommended": {},
    "width 12": {"encoder": {"name": "resnet", "width": 12}},
    "width 48": {"encoder": {"name": "resnet", "width": 48}},
    "10 % of the patients": {"patient_fraction": 0.1},
    "30 % of the patients": {"patient_fraction": 0.3},
}
"""Wider and narrower networks, and fewer unlabelled patients with the same number of steps."""


def encoder(seed: int, datasets: tuple[str, ...], changes: Mapping[str, Any] | None = None) -> Pretraining:
    """Return the recommended pre-training, with changes. The cell states all values, so that defaults may change."""
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


def recommended_encoder(seed: int) -> Pretraining:
    """Return the recommended encoder. Each batch has one dataset, and datasets alternate.

    Seed 0 is the shipped encoder, trained in bfloat16. Other seeds are trained in float32.
    """
    return encoder(seed, PRETRAINING_DATASETS, {"alternate_stores": True, **(FLOAT32 if seed else {})})


def untrained(dataset: str, seed: int, *, pca: bool = False) -> Pretraining:
    """Return the recommended network with its initial weights."""
    shape = {key: RECOMMENDED[key] for key in ("encoder", "frames")}
    method: str = RECOMMENDED["method"]["name"]
    values: dict[str, Any] = {"preset": "recommended", "seed": seed, "max_epochs": 0, "config": shape}
    return Pretraining(method=method, dataset=dataset, pca=pca, **values)


def linear(start: Pretraining, dataset: str, seed: int, label_fraction: float = 0.5, **values: Any) -> Evaluation:
    """Return a linear evaluation by the recommended protocol; ``values`` are other keys of its config."""
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
    """Return training of all weights with labels."""
    config = {**WITH_LABELS, **values}
    given: dict[str, Any] = {
        "preset": "recommended",
        "label_fraction": label_fraction,
        "max_epochs": max_epochs,
        "config": config,
    }
    return Evaluation(protocol="finetune", start=start, dataset=dataset, seed=seed, **given)


COMPARED: Final[dict[str, Callable[[str, int], Evaluation]]] = {
    "recommended encoder, linear": lambda data, seed: linear(recommended_encoder(seed), data, seed),
    "its network with random weights, principal components, linear": lambda data, seed: linear(
        untrained(data, seed, pca=True), data, seed
    ),
    "its network with random weights, linear": lambda data, seed: linear(untrained(data, seed), data, seed),
    "its network, trained with the labels": lambda data, seed: from_scratch(data, seed, None, 0.5),
}
"""Evaluations by dataset and seed with half of the labels: the recommended encoder, and baselines."""


def recommended(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over the evaluations of the recommended encoder and its baselines."""
    for seed in seeds:
        for dataset in SOURCES:
            for kind in COMPARED.values():
                yield kind(dataset, seed)


def few_frozen(dataset: str, seed: int, patients: int | None) -> Evaluation:
    """Return a linear evaluation with the labels of some patients, which the seed draws. None: all patients."""
    start = recommended_encoder(0)
    return (
        linear(start, dataset, seed, 1.0)
        if patients is None
        else linear(start, dataset, seed, num_labelled_patients=patients)
    )


def few_tuned(dataset: str, seed: int, patients: int | None) -> Evaluation:
    """Return fine-tuning of the recommended encoder with the labels of some patients. None: all patients."""
    return trained(
        recommended_encoder(0), dataset, seed, 1.0, learning_rate=FINETUNE_LEARNING_RATE, **_by_labels(patients)
    )


def from_scratch(dataset: str, seed: int, patients: int | None, label_fraction: float = 1.0) -> Evaluation:
    """Return training of the same network from scratch, with the labels of some patients. None: all patients."""
    return trained(untrained(dataset, seed), dataset, seed, label_fraction, **_by_labels(patients))


def _by_labels(patients: int | None) -> dict[str, Any]:
    """Return training options for a number of labelled patients.

    With few labels an epoch has more passes, so that it has as many frames as with a thousand patients.
    """
    values: dict[str, Any] = {"monitor": "auc", "patience": PATIENCE_WITH_LABELS}
    few = (
        {"num_labelled_patients": patients, "batch_size": 32, "passes_per_epoch": max(LABELLED_PATIENTS) // patients}
        if patients is not None
        else {}
    )
    return values | few


def few_labels(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over evaluations with few labelled patients: linear, fine-tuned and from scratch.

    Each seed draws other patients. The encoder is always the shipped one.
    """
    for seed in seeds:
        for count in (*LABELLED_PATIENTS, None):
            for dataset in SOURCES:
                yield few_frozen(dataset, seed, count)
                yield from_scratch(dataset, seed, count)
                yield few_tuned(dataset, seed, count)


def transfer(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over evaluations on the paper's other two datasets: linear, fine-tuned and from scratch."""
    for seed in seeds:
        for dataset in TRANSFER_DATASETS:
            yield linear(recommended_encoder(seed), dataset, seed)
            yield trained(recommended_encoder(seed), dataset, seed, learning_rate=FINETUNE_LEARNING_RATE)
            yield trained(untrained("physionet2020", seed), dataset, seed)


def ablation(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over the ablation on PhysioNet 2020, scored on validation patients."""
    for seed in seeds:
        for name in ABLATIONS:
            yield ablated(name, seed)


def ablated(name: str, seed: int) -> Evaluation:
    """Return the evaluation of one change, from the recommended recipe with the paper's weights of pairs."""
    method = {**PAPERS_WEIGHTS, **ABLATIONS[name].get("method", {})}
    start = encoder(seed, ("physionet2020",), {**ABLATIONS[name], "method": method, "max_steps": ABLATION_STEPS})
    return linear(start, "physionet2020", seed).model_copy(update={"part": "validation"})


def growth(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Iterate over the scaling experiments on PhysioNet 2020, scored on validation patients."""
    for seed in seeds:
        for name in GROWTH:
            yield grown(name, seed)


def grown(name: str, seed: int) -> Evaluation:
    """Return the evaluation of a scaling experiment."""
    values = {
        "max_steps": GROWTH_STEPS,
        "max_epochs": GROWTH_STEPS,
        "patience": GROWTH_STEPS,
    }  # however few steps an epoch of few patients has
    start = encoder(seed, ("physionet2020",), {**GROWTH[name], **values, **FLOAT32})  # so that times compare
    return linear(start, "physionet2020", seed).model_copy(update={"part": "validation"})
