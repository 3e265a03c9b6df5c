"""Evaluations of the shipped encoders and of baselines: neighbors, distances, groups and privacy.

Each has one seed, because other seeds would be other encoders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from reproduction.beyond import recommended_encoder
from reproduction.cells import Evaluation, Pretraining
from reproduction.paper_numbers import SOURCES
from reproduction.presets import Preset

SEGMENTS: Final = {"frames": "segments"}
OWN_FRAMES: Final = {"frames": "encoder"}

Encoder = Mapping[str, Any]
"""Fields of an evaluation that select an encoder."""
BASELINE_EPOCHS: Final = 100
"""Epochs of the encoders that are compared with the shipped ones."""
RANDOM: Final[Encoder] = {"start": None}
CMSC_CHAPMAN: Final[Encoder] = {"start": None, "shipped": "cmsc-chapman"}
CMSC_PHYSIONET2020: Final[Encoder] = {"start": None, "shipped": "cmsc-physionet2020"}
SMALL: Final[Encoder] = {"start": None, "shipped": "clocs-small"}
SMALL_AS_TRAINED: Final[Encoder] = {"start": recommended_encoder(0).model_copy(update={"pca": False})}
CMSC_LONG: Final[Encoder] = {"start": Pretraining(method="cmsc", dataset="chapman", max_epochs=BASELINE_EPOCHS)}
SIMCLR_LONG: Final[Encoder] = {"start": Pretraining(method="simclr", dataset="chapman", max_epochs=BASELINE_EPOCHS)}

SIMCLR: Final = f"SimCLR on Chapman, {BASELINE_EPOCHS} epochs"
TRAINED_ON: Final = "chapman"
"""Dataset on which SimCLR is also evaluated on its own frames, complete recordings of 10 s."""
COMPARED: Final[dict[str, Encoder]] = {
    "`clocs-small`": SMALL,
    "`clocs-small`, last layer without PCA": SMALL_AS_TRAINED,
    "`cmsc-chapman`, 400 epochs": CMSC_CHAPMAN,
    f"CMSC on Chapman, {BASELINE_EPOCHS} epochs": CMSC_LONG,
    "`cmsc-physionet2020`, 257 epochs": CMSC_PHYSIONET2020,
    SIMCLR: SIMCLR_LONG,
    "random weights": RANDOM,
}
GROUPED: Final = {"chapman": CMSC_CHAPMAN, "physionet2020": CMSC_PHYSIONET2020}
"""Encoder of the groups of patients, by dataset."""


def neighbours(encoder: Encoder, dataset: str, frames: Mapping[str, str] = SEGMENTS) -> Evaluation:
    """Return a measure of how often the nearest test patients share a diagnosis."""
    return Evaluation(protocol="neighbours", dataset=dataset, config=dict(frames), **encoder)


def audited(encoder: Encoder, dataset: str) -> Evaluation:
    """Return the privacy audit."""
    return Evaluation(protocol="audit", dataset=dataset, config=dict(SEGMENTS), **encoder)


def apart(encoder: Encoder, dataset: str) -> Evaluation:
    """Return a measure of distances within and between validation patients."""
    return Evaluation(protocol="distances", dataset=dataset, part="validation", config=dict(SEGMENTS), **encoder)


def grouped(dataset: str, *, fine: bool) -> Evaluation:
    """Return groups of test patients."""
    config = {**OWN_FRAMES, **({"fine": True} if fine else {})}
    return Evaluation(protocol="groups", dataset=dataset, config=config, **GROUPED[dataset])


def linear_evaluation(encoder: Encoder, dataset: str, preset: Preset = "paper", **config: Any) -> Evaluation:
    """Return a linear evaluation with half of the labels."""
    return Evaluation(protocol="linear", dataset=dataset, preset=preset, config=config, **encoder)


LINEAR: Final = {
    "`cmsc-chapman`": linear_evaluation(CMSC_CHAPMAN, "chapman"),
    "`cmsc-chapman`, on the 5 s at 500 Hz that it was trained on": linear_evaluation(
        CMSC_CHAPMAN, "chapman", "recommended"
    ),
    "the same in training mode, as the released code did": linear_evaluation(
        CMSC_CHAPMAN, "chapman", "recommended", train_mode=True
    ),
    "random weights": linear_evaluation(RANDOM, "chapman"),
    "random weights, on 5 s at 500 Hz": linear_evaluation(RANDOM, "chapman", "recommended"),
    "`cmsc-physionet2020`": linear_evaluation(CMSC_PHYSIONET2020, "physionet2020"),
    "random weights on PhysioNet 2020": linear_evaluation(RANDOM, "physionet2020"),
}
"""Linear evaluations of the paper's network, on the paper's frames unless stated otherwise."""


def in_use(seeds: Iterable[int]) -> Iterator[Evaluation]:
    """Iterate over all evaluations, for seed 0."""
    if 0 not in seeds:
        return
    yield from LINEAR.values()
    for dataset in SOURCES:
        for encoder in COMPARED.values():
            yield neighbours(encoder, dataset)
            yield audited(encoder, dataset)
            yield apart(encoder, dataset)
        for fine in (False, True):
            yield grouped(dataset, fine=fine)
    yield neighbours(SIMCLR_LONG, TRAINED_ON, OWN_FRAMES)
