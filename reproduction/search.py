"""The search for the recommended recipe: trials that are scored only on validation patients.

All trials are listed, including those that did not help. The test part is never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from clocs.training.ready_configs import RECOMMENDED_AUGMENTATIONS
from reproduction.cells import AnyCell, Evaluation, Pretraining

DATASET: Final = "physionet2020"
STEPS: Final = 460
"""Steps of a trial: five passes over all leads of all training recordings."""

METHOD: Final[Mapping[str, Any]] = {"view_choice": "random_pair", "augmentations": RECOMMENDED_AUGMENTATIONS}
BASE: Final[Mapping[str, Any]] = {
    "encoder": {"name": "resnet"},
    "frames": {"normalization": "none"},
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "max_steps": STEPS,
}

SLOWER: Final[Mapping[str, Any]] = {"normalization": "none", "sampling_rate": 250, "num_samples": 1250}

THREE_DATASETS: Final[Mapping[str, Any]] = {
    "precision": "bf16-mixed",
    "extra_datasets": ("chapman", "physionet2017"),
    "schedule": "cosine",
    "warmup_steps": 200,
    "patience": 400,
}
LONG: Final[Mapping[str, Any]] = {**THREE_DATASETS, "temperature": 0.2, "max_steps": 12_000}
IN_TURNS: Final[Mapping[str, Any]] = {**THREE_DATASETS, "alternate_stores": True, "max_steps": 9_000}
OWN_INSTANCE: Final[Mapping[str, Any]] = {"precision": "bf16-mixed", "off_diagonals": "none"}
"""No positive pairs across a patient's instances."""
ALIKE: Final[Mapping[str, Any]] = {"precision": "bf16-mixed", "off_diagonals": "equal"}
"""Positive pairs across a patient's instances have the same weight as others."""

TRIALS: Final[dict[str, Mapping[str, Any]]] = {
    "base": {},
    "paper's network": {"encoder": {"name": "cnn"}},
    "no augmentations": {"augmentations": ()},
    "bf16": {"precision": "bf16-mixed"},
    "temperature 0.2": {"precision": "bf16-mixed", "temperature": 0.2},
    "temperature 0.05": {"precision": "bf16-mixed", "temperature": 0.05},
    "head": {"precision": "bf16-mixed", "projection_hidden_dim": 128},
    "250 Hz": {"precision": "bf16-mixed", "frames": SLOWER},
    "250 Hz, stem 7/2": {
        "precision": "bf16-mixed",
        "frames": SLOWER,
        "encoder": {"name": "resnet", "stem_kernel_size": 7, "stem_stride": 2},
    },
    "same lead": {"precision": "bf16-mixed", "method": "cmsc", "view_choice": None},
    "learning rate 3e-3": {"precision": "bf16-mixed", "learning_rate": 3e-3},
    "batch 512, half the steps": {"precision": "bf16-mixed", "batch_size": 512, "max_steps": STEPS // 2},
    "batch 128, twice the steps": {"precision": "bf16-mixed", "batch_size": 128, "max_steps": 2 * STEPS},
    "scaled to 0..1": {"precision": "bf16-mixed", "frames": {}},
    "stem stride 3": {"precision": "bf16-mixed", "encoder": {"name": "resnet", "stem_stride": 3}},
    "no head, eight times the steps": {"precision": "bf16-mixed", "max_steps": 8 * STEPS},
    "head, eight times the steps": {"precision": "bf16-mixed", "projection_hidden_dim": 128, "max_steps": 8 * STEPS},
    "decorrelation 0.3": {"precision": "bf16-mixed", "decorrelation": 0.3},
    "decorrelation 0.3, eight times the steps": {
        "precision": "bf16-mixed",
        "decorrelation": 0.3,
        "max_steps": 8 * STEPS,
    },
    "no head, eight times the steps, principal components": {
        "precision": "bf16-mixed",
        "max_steps": 8 * STEPS,
        "pca": True,
    },
    "head, eight times the steps, principal components": {
        "precision": "bf16-mixed",
        "projection_hidden_dim": 128,
        "max_steps": 8 * STEPS,
        "pca": True,
    },
    "decorrelation 1": {"precision": "bf16-mixed", "decorrelation": 1.0},
    "three datasets, long": LONG,
    "three datasets, long, principal components": {**LONG, "pca": True},
    "three datasets in turns": IN_TURNS,
    "three datasets in turns, principal components": {**IN_TURNS, "pca": True},
    "pairs within an instance alone": OWN_INSTANCE,
    "pairs within an instance alone, eight times the steps, principal components": {
        **OWN_INSTANCE,
        "max_steps": 8 * STEPS,
        "pca": True,
    },
    "pairs within an instance alone, principal components": {**OWN_INSTANCE, "pca": True},
    "all positive pairs weigh alike, principal components": {**ALIKE, "pca": True},
    "pairs within an instance alone, principal components, temperature 0.2": {
        **OWN_INSTANCE,
        "pca": True,
        "temperature": 0.2,
    },
    "three datasets in turns, all positive pairs weigh alike, principal components": {
        **IN_TURNS,
        **ALIKE,
        "pca": True,
    },
}
"""Changes to ``BASE`` and ``METHOD`` by trial. None removes an option."""

OF_METHOD: Final = frozenset(
    {"view_choice", "augmentations", "projection_hidden_dim", "temperature", "decorrelation", "off_diagonals"},
)


def search(seeds: Iterable[int], names: Iterable[str] = TRIALS) -> Iterator[AnyCell]:
    """Iterate over linear evaluations of trials, scored on validation patients."""
    for seed in seeds:
        for name in names:
            yield trial(name, seed)


def trial(name: str, seed: int = 0) -> Evaluation:
    """Return the evaluation of a trial, with its pre-training."""
    changes = dict(TRIALS[name])
    method, more = str(changes.pop("method", "cmsmlc")), changes.pop("extra_datasets", ())
    pca = bool(changes.pop("pca", False))
    given = {**METHOD, **{key: value for key, value in changes.items() if key in OF_METHOD}}
    options = {key: value for key, value in given.items() if value is not None}
    config = {**BASE, **{key: value for key, value in changes.items() if key not in OF_METHOD}}
    values: dict[str, Any] = {"method": method, "options": options, "config": config, "max_epochs": 400}
    values["extra_datasets"] = more
    start = Pretraining(dataset=DATASET, preset="trial", seed=seed, pca=pca, **values)
    return Evaluation(protocol="linear", start=start, dataset=DATASET, preset="trial", seed=seed, part="validation")
