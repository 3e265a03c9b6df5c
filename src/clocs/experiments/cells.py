"""Cells of a grid: one pre-training or one evaluation, told in the paper's terms."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from clocs.core.files import content_hash
from clocs.core.later import Later, later, without_unused
from clocs.evaluation.subject import RANDOM
from clocs.experiments.measures import Measure
from clocs.experiments.presets import Preset

RANDOM_EMBEDDING = 128
"""Of random weights without a pre-training; for others, a pre-training of no epochs gives them."""
EPOCHS = 25
"""Of a pre-training of the paper, at most; the paper states no number. The cap is the same for all methods."""
LONG = 4 * EPOCHS
"""Where longer pre-training is looked at."""
APART = "apart"
"""A split drawn anew for pre-training, so that patients of the default one's test part are pre-trained on."""


class Pretraining(BaseModel):
    """An encoder to be trained."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    dataset: str
    preset: Preset = "paper"
    embedding: int = 128
    leads: int = 4
    seed: int = 0
    epochs: int = Field(default=EPOCHS, ge=0)
    """At most. 0: the encoder as it starts."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Of the method, such as perturbations or BYOL's decay."""
    config: Annotated[dict[str, Any], Later()] = Field(default_factory=dict)
    """Other keys of the pre-training's config, such as encoder or frames."""
    more: Annotated[tuple[str, ...], Later()] = ()
    """Datasets that are trained on together with the first."""
    principal: Annotated[bool, Later()] = False
    """Whether, once trained, the embedding becomes principal components of what all blocks tell."""

    @property
    def trained(self) -> Pretraining:
        """The same before principal components take the place of its last layer."""
        return self.model_copy(update={"principal": False})

    @property
    def datasets(self) -> tuple[str, ...]:
        """All that it is trained on."""
        return (self.dataset, *self.more)

    @property
    def label(self) -> str:
        """Readable part of the name."""
        return f"{self.method}-{'-'.join(self.datasets)}-e{self.embedding}-s{self.seed}"


class Evaluation(BaseModel):
    """A linear evaluation or a fine-tuning of one encoder, or a measure of its embeddings as they are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol: Literal["linear", "finetune"] | Measure
    start: Pretraining | None
    """None: random weights, or an encoder that is ``shipped``."""
    dataset: str
    preset: Preset = "paper"
    embedding: int = 128
    leads: int = 4
    fraction: float = 0.5
    seed: int = 0
    epochs: int = Field(default=100, gt=0)
    """Of fine-tuning, at most."""
    part: Annotated[Literal["validation", "test"], Later()] = "test"
    """Whose patients judge."""
    config: Annotated[dict[str, Any], Later()] = Field(default_factory=dict)
    """Other keys of the evaluation's config, or options of the measure."""
    shipped: Annotated[str, Later()] = ""
    """Name of an encoder that comes with the package."""

    @model_validator(mode="after")
    def _one_encoder(self) -> Self:
        if self.start is None and self.embedding != RANDOM_EMBEDDING:
            raise ValueError(f"random weights have E = {RANDOM_EMBEDDING}; for others, start from one of epochs=0")
        if self.shipped and self.start is not None:
            raise ValueError(f"it starts either from {self.shipped} or from a pre-training")
        return self

    @property
    def method(self) -> str:
        """What the encoder was trained by; of one that is shipped, its name."""
        if self.start is None:
            return self.shipped or RANDOM
        return self.start.method if self.start.epochs else RANDOM

    @property
    def datasets(self) -> tuple[str, ...]:
        """All that it depends on."""
        return (self.dataset, *(self.start.datasets if self.start is not None else ()))

    @property
    def label(self) -> str:
        """Readable part of the name."""
        start = self.method if self.start is None else "-".join((self.start.method, *self.start.datasets))
        return f"{self.protocol}-{start}-{self.dataset}-e{self.embedding}-f{self.fraction:g}-s{self.seed}"


Cell = Pretraining | Evaluation


def random_start(embedding: int, seed: int) -> Pretraining | None:
    """Where an evaluation of the paper's network with random weights starts."""
    if embedding == RANDOM_EMBEDDING:
        return None
    # As a run starts with it: its weights come from the seed alone, whatever method and dataset.
    return Pretraining(method="cmsc", dataset="chapman", embedding=embedding, seed=seed, epochs=0)


def told_of(cell: Cell) -> dict[str, Any]:
    """A cell as JSON, without options that came later and are not used: so earlier cells keep their names."""
    told = without_unused(cell.model_dump(mode="json"), {**later(type(cell)), "config": {}, "more": []})
    if isinstance(cell, Evaluation) and cell.start is not None:
        told["start"] = told_of(cell.start)
    return told


def chain_of(cell: Cell) -> tuple[Cell, ...]:
    """A cell behind all that has to be done first: a pre-training, and its principal components."""
    if isinstance(cell, Evaluation):
        return (*chain_of(cell.start), cell) if cell.start is not None else (cell,)
    return (cell.trained, cell) if cell.principal else (cell,)


def key_of(cell: Cell) -> str:
    """What a cell is, as a hash; unlike its name it does not depend on data or code."""
    return content_hash(told_of(cell))
