"""Ready-made configs of pre-training runs: every method on every dataset that fits it, and a recommended one.

The recommended config goes beyond the paper. It was chosen on validation patients only (docs/results/search.md).
"""

from __future__ import annotations

import copy
from difflib import get_close_matches
from typing import Any, Final

from clocs.core.errors import ConfigError
from clocs.datasets import DATASETS, Dataset
from clocs.methods import METHODS, Method
from clocs.methods.method import parse_method

RECOMMENDED_NAME: Final = "recommended"
"""Name of the recommended config, used instead of a method's name."""
RECOMMENDED_AUGMENTATIONS: Final[tuple[dict[str, Any], ...]] = (
    {"name": "scaling", "low": 0.7, "high": 1.4},
    {"name": "gaussian_noise", "sigma": 0.02},
    {"name": "baseline_wander", "amplitude": 0.1},
    {"name": "mask", "mask_fraction": 0.2},
)
RECOMMENDED: Final[dict[str, Any]] = {
    "method": {
        "name": "cmsmlc",
        "off_diagonals": "equal",
        "view_choice": "random_pair",
        "augmentations": RECOMMENDED_AUGMENTATIONS,
    },
    "encoder": {"name": "resnet"},
    "frames": {"normalization": "none"},
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "schedule": "cosine",
    "warmup_steps": 200,
    "max_steps": 9_000,
    "max_epochs": 400,
    "patience": 400,
    "precision": "bf16-mixed",
}
"""Recommended config, sized for about 20,000 patients.

It differs from the paper in the encoder (a small residual network), in signals (millivolt), and in views: two
augmented ones per instance, of two segments and two random leads. All positive pairs have the same weight. Several
stores alternate (``alternate_stores``), and PCA of the features replaces the embedding after training
(:mod:`clocs.evaluation.pca`).
"""
PATCH_ENCODER: Final = {"name": "patch_transformer", "embedding_dim": 96, "head": "none"}
"""Encoder of ready configs whose method needs patches. Its embedding is the mean of the tokens."""
TOKEN_ENCODER: Final = {"name": "resnet", "embedding_dim": 192, "head": "none"}
"""Encoder of ready configs whose method trains tokens only. Its embedding is their mean and maximum over time."""


def ready_configs() -> list[str]:
    """Return the names of all ready configs: ``method-dataset`` and ``recommended-dataset``."""
    return ["-".join(pair) for pair in _method_dataset_pairs()]


def ready_config(name: str) -> dict[str, Any]:
    """Return a ready config: the paper's settings of a method on a dataset, or the recommended settings.

    Args:
        name: ``METHOD-DATASET`` or ``recommended-DATASET``.

    Raises:
        ConfigError: There is no ready config of this name.
    """
    pairs = {"-".join(pair): pair for pair in reversed(_method_dataset_pairs())}  # the first of equal names wins
    if name not in pairs:
        near = get_close_matches(name, pairs, n=3)
        hint = f"Did you mean {', '.join(near)}?" if near else f"Methods: {', '.join(METHODS.names())}."
        raise ConfigError(
            f"No config '{name}': expected a file or METHOD-DATASET. {hint} Import or install a method or "
            "dataset of your own first. The dataset needs the frames that the method uses."
        )
    method, dataset = pairs[name]
    if method == RECOMMENDED_NAME:
        return {**copy.deepcopy(RECOMMENDED), "store": f"stores/{dataset}"}
    config: dict[str, Any] = {"method": {"name": method}, "store": f"stores/{dataset}"}
    if METHODS.get(method).needs_patches:
        config["encoder"] = dict(PATCH_ENCODER)
    elif METHODS.get(method).needs_tokens:
        config["encoder"] = dict(TOKEN_ENCODER)
    return _with_dataset_settings(config, method, dataset)


def _with_dataset_settings(config: dict[str, Any], method: str, dataset: str) -> dict[str, Any]:
    """Add the settings that depend on the dataset."""
    if (method, dataset) == ("mtssl", "chapman"):  # the paper: with more tasks, the network did not converge
        config["method"]["augmentations"] = ["scaling", "flip_amplitude", "flip_time"]
    if method == "supervised" and dataset in ("physionet2020", "ptbxl"):
        config["method"]["multi_label"] = True
    if dataset == "cardiology":  # signals without a unit: noise needs a relative size
        config["batch_size"] = 16
        steps = parse_method(config["method"])["augmentations"]
        noise = {"name": "gaussian_noise", "relative": True, "sigma": 0.05}
        config["method"]["augmentations"] = [noise if step["name"] == noise["name"] else step for step in steps]
    if dataset in ("synthetic", "ludb"):
        config |= {"batch_size": 64, "max_epochs": 20, "learning_rate": 1e-3}
    return config


def _method_dataset_pairs() -> list[tuple[str, str]]:
    """Return method and dataset of each ready config. Both names may contain hyphens."""
    recommended = METHODS.get(RECOMMENDED["method"]["name"])
    return [(RECOMMENDED_NAME, dataset.name) for dataset in DATASETS if _is_applicable(recommended, dataset)] + [
        (name, dataset.name)
        for name in METHODS.names()
        for dataset in DATASETS
        if _is_applicable(METHODS.get(name), dataset)
    ]


def _is_applicable(method: type[Method], dataset: Dataset) -> bool:
    """Return True if a dataset has the frames, labels and leads that a method needs."""
    if method.frame_policy not in dataset.frame_policies or (method.needs_labels and not dataset.classes):
        return False
    policy = dataset.frame_policies[method.frame_policy]
    return not method.leads_as_views or len(policy.leads) != 1 or policy.num_segments > 1
