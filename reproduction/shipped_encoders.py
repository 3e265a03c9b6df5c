"""Encoders in use: those that come with the package, and others to hold them against, as a search for patients does.

One seed each: other seeds would be other encoders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from reproduction.beyond import one_encoder
from reproduction.cells import LONG, Evaluation, Pretraining
from reproduction.paper_numbers import SOURCES
from reproduction.presets import Preset

SEGMENTS: Final = {"frames": "segments"}
OWN_FRAMES: Final = {"frames": "encoder"}

Encoder = Mapping[str, Any]
"""Which one, as fields of an evaluation."""
RANDOM: Final[Encoder] = {"start": None}
CMSC_CHAPMAN: Final[Encoder] = {"start": None, "shipped": "cmsc-chapman"}
CMSC_PHYSIONET2020: Final[Encoder] = {"start": None, "shipped": "cmsc-physionet2020"}
SMALL: Final[Encoder] = {"start": None, "shipped": "clocs-small"}
SMALL_AS_TRAINED: Final[Encoder] = {"start": one_encoder(0).model_copy(update={"pca": False})}
CMSC_LONG: Final[Encoder] = {"start": Pretraining(method="cmsc", dataset="chapman", max_epochs=LONG)}
SIMCLR_LONG: Final[Encoder] = {"start": Pretraining(method="simclr", dataset="chapman", max_epochs=LONG)}

SIMCLR: Final = f"SimCLR on Chapman, {LONG} epochs"
TRAINED_ON: Final = "chapman"
"""Where SimCLR is judged on its own frames, too: whole recordings of 10 s."""
COMPARED: Final[dict[str, Encoder]] = {
    "`clocs-small`": SMALL,
    "`clocs-small` with the layer that its loss saw": SMALL_AS_TRAINED,
    "`cmsc-chapman`, 400 epochs": CMSC_CHAPMAN,
    f"CMSC on Chapman, {LONG} epochs": CMSC_LONG,
    "`cmsc-physionet2020`, 257 epochs": CMSC_PHYSIONET2020,
    SIMCLR: SIMCLR_LONG,
    "random weights": RANDOM,
}
GROUPED: Final = {"chapman": CMSC_CHAPMAN, "physionet2020": CMSC_PHYSIONET2020}
"""By dataset: the encoder whose groups of patients are shown."""


def neighbours(encoder: Encoder, dataset: str, frames: Mapping[str, str] = SEGMENTS) -> Evaluation:
    """Whether the nearest test patients share a diagnosis."""
    return Evaluation(protocol="neighbours", dataset=dataset, config=dict(frames), **encoder)


def audited(encoder: Encoder, dataset: str) -> Evaluation:
    """What embeddings give away of test patients and of those who trained the encoder."""
    return Evaluation(protocol="audit", dataset=dataset, config=dict(SEGMENTS), **encoder)


def apart(encoder: Encoder, dataset: str) -> Evaluation:
    """Distances within and between validation patients."""
    return Evaluation(protocol="distances", dataset=dataset, part="validation", config=dict(SEGMENTS), **encoder)


def grouped(dataset: str, *, fine: bool) -> Evaluation:
    """Groups of test patients."""
    config = {**OWN_FRAMES, **({"fine": True} if fine else {})}
    return Evaluation(protocol="groups", dataset=dataset, config=config, **GROUPED[dataset])


def judged(encoder: Encoder, dataset: str, preset: Preset = "paper", **config: Any) -> Evaluation:
    """Linear evaluation with half of the labels."""
    return Evaluation(protocol="linear", dataset=dataset, preset=preset, config=config, **encoder)


LINEAR: Final = {
    "`cmsc-chapman`": judged(CMSC_CHAPMAN, "chapman"),
    "`cmsc-chapman`, on the 5 s at 500 Hz that it was trained on": judged(CMSC_CHAPMAN, "chapman", "recommended"),
    "the same in training mode, as the released code did": judged(
        CMSC_CHAPMAN, "chapman", "recommended", train_mode=True
    ),
    "random weights": judged(RANDOM, "chapman"),
    "random weights, on 5 s at 500 Hz": judged(RANDOM, "chapman", "recommended"),
    "`cmsc-physionet2020`": judged(CMSC_PHYSIONET2020, "physionet2020"),
    "random weights on PhysioNet 2020": judged(RANDOM, "physionet2020"),
}
"""The paper's network, on the paper's frames unless said otherwise."""


def in_use(seeds: Iterable[int]) -> Iterator[Evaluation]:
    """All of it, for seed 0."""
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
