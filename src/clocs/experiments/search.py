"""The search for what to recommend: trials that change one thing at a time, judged by validation patients alone.

Every trial that was run is here and in the results, the ones that failed too. The test part is never opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from clocs.experiments.cells import Cell, Evaluation, Pretraining

DATASET: Final = "physionet2020"
STEPS: Final = 460
"""Of 256 instances with two views each: five times all leads of all training recordings."""

PERTURBATIONS: Final[tuple[Mapping[str, Any], ...]] = (
    {"name": "scaling", "low": 0.7, "high": 1.4},
    {"name": "gaussian", "sigma": 0.02},
    {"name": "baseline_wander", "amplitude": 0.1},
    {"name": "mask", "width": 0.2},
)
METHOD: Final[Mapping[str, Any]] = {"view_choice": "random_pair", "perturbations": PERTURBATIONS}
BASE: Final[Mapping[str, Any]] = {
    "encoder": {"name": "resnet"},
    "frames": {"normalisation": "none"},
    "optimiser": "adamw",
    "learning_rate": 1e-3,
    "steps": STEPS,
}

TRIALS: Final[dict[str, dict[str, Any]]] = {
    "base": {},
    "paper's network": {"encoder": {"name": "cnn"}},
    "no perturbations": {"perturbations": ()},
    "same lead": {"method": "cmsc", "view_choice": None},
    "head": {"head": 128},
    "bf16": {"precision": "bf16-mixed"},
    "250 Hz": {"frames": {"normalisation": "none", "rate": 250, "samples": 1250}},
    "250 Hz, stem 7/2": {
        "frames": {"normalisation": "none", "rate": 250, "samples": 1250},
        "encoder": {"name": "resnet", "stem_kernel": 7, "stem_stride": 2},
    },
    "scaled to 0..1": {"frames": {}},
    "temperature 0.05": {"temperature": 0.05},
    "temperature 0.2": {"temperature": 0.2},
    "batch 512, half the steps": {"batch": 512, "steps": STEPS // 2},
    "batch 128, twice the steps": {"batch": 128, "steps": 2 * STEPS},
}
"""What each changes in ``BASE`` and ``METHOD``; None takes an option away."""

OF_METHOD: Final = frozenset({"view_choice", "perturbations", "head", "temperature"})


def search(seeds: Iterable[int], names: Iterable[str] = TRIALS) -> Iterator[Cell]:
    """Linear evaluation of every trial by validation patients."""
    for seed in seeds:
        for name in names:
            yield trial(name, seed)


def trial(name: str, seed: int = 0) -> Evaluation:
    """One trial's evaluation, with the pre-training it needs."""
    changes = dict(TRIALS[name])
    method = str(changes.pop("method", "cmsmlc"))
    given = {**METHOD, **{key: value for key, value in changes.items() if key in OF_METHOD}}
    options = {key: value for key, value in given.items() if value is not None}
    config = {**BASE, **{key: value for key, value in changes.items() if key not in OF_METHOD}}
    start = Pretraining(
        method=method, dataset=DATASET, preset="trial", seed=seed, epochs=400, options=options, config=config
    )
    return Evaluation(protocol="linear", start=start, dataset=DATASET, preset="trial", seed=seed, part="validation")
