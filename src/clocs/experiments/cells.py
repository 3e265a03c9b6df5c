"""Cells of a grid: one pre-training or one evaluation, told in the paper's terms and carried out by the stages below.

A finished cell is a small file in the results folder, named by what went into it. Nothing else decides whether a
cell is run: so grids share cells, killed ones continue, and results can be committed and moved.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from clocs.core.errors import ConfigError, StoreError
from clocs.core.files import canonical_json, content_hash, write_bytes
from clocs.core.later import Later, later, without_unused
from clocs.core.options import checked
from clocs.evaluation.compact_scores import save_compact
from clocs.evaluation.finetune import FinetuneConfig, finetune
from clocs.evaluation.principal import with_principal_components
from clocs.evaluation.probe import ProbeConfig, probe
from clocs.evaluation.results import CODE as EVALUATION_CODE
from clocs.evaluation.results import load_scores
from clocs.evaluation.subject import RANDOM
from clocs.experiments.measures import MEASURES, Measure
from clocs.experiments.presets import PRESETS, Preset
from clocs.store.splits import make_split
from clocs.store.store import open_store
from clocs.training.checkpoint import load_encoder_folder
from clocs.training.config import PretrainConfig, ready_config
from clocs.training.pretrain import pretrain
from clocs.training.runs import CODE as TRAINING_CODE
from clocs.training.runs import TIMING, environment, finished_epochs, read_lines
from clocs.training.shipped import encoder_folder

ENCODERS = "encoders"
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


@dataclass(frozen=True)
class Place:
    """Where a grid works."""

    stores: Path
    """One store a dataset, by the dataset's name, each with a default split."""
    runs: Path
    """What is being computed; may be thrown away when cells are finished."""
    results: Path
    """Finished cells: small, to be kept."""
    threads: int = 1

    def store(self, dataset: str) -> Path:
        """A dataset's store."""
        return self.stores / dataset

    def has_store(self, dataset: str) -> bool:
        """Whether a dataset has been ingested."""
        return self.store(dataset).is_dir()

    def hashes(self, dataset: str) -> tuple[str, str]:
        """Of a dataset's store and split."""
        return _hashes(self.store(dataset))

    def origin(self, cell: Cell) -> dict[str, Any]:
        """Hashes of store and split of all data that a cell depends on, of an encoder that is shipped, and versions of
        the code it uses."""
        code = [TRAINING_CODE, *([EVALUATION_CODE] if isinstance(cell, Evaluation) else [])]
        told: dict[str, Any] = {"data": {dataset: self.hashes(dataset) for dataset in cell.datasets}, "code": code}
        if isinstance(cell, Evaluation) and cell.shipped:
            told["weights"] = _weights(cell.shipped)
        return told

    def name(self, cell: Cell) -> str:
        """A cell's name: readable, with a hash of everything that decides its numbers."""
        told = {"cell": told_of(cell), **self.origin(cell)}
        return f"{cell.label}-{content_hash(told)[:12]}"

    def file(self, cell: Cell) -> Path:
        """Where a cell's result is, or will be."""
        return self.results / "cells" / f"{self.name(cell)}.json"

    def encoder(self, cell: Pretraining) -> Path:
        """Where a finished pre-training's encoder is."""
        return self.results / ENCODERS / self.name(cell)

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """What a finished cell found."""
        path = self.file(cell)
        return json.loads(path.read_bytes()) if path.exists() else None


@lru_cache(maxsize=64)
def _hashes(folder: Path) -> tuple[str, str]:
    store = open_store(folder)
    return store.sha256, store.split().sha256


@lru_cache(maxsize=64)
def _weights(shipped: str) -> str:
    """Hash of an encoder that comes with the package."""
    return str(load_encoder_folder(encoder_folder(shipped))[1]["weights_sha256"])


def finished_cells(results: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and bodies of all finished cells of a folder, by name."""
    for path in sorted((results / "cells").glob("*.json")):
        try:
            body = json.loads(path.read_bytes())
            if not (isinstance(body["cell"], dict) and isinstance(body["result"], dict)):
                raise TypeError("'cell' and 'result' must be objects")
            _ = body["code"], body["data"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise StoreError(f"{path} is no finished cell: {type(error).__name__}: {error}") from error
        yield path.stem, body


def kept_keys(results: Path) -> frozenset[str]:
    """``key_of`` all finished cells, on whatever data."""
    return frozenset(content_hash(body["cell"]) for _, body in finished_cells(results))


def carry_out(cell: Cell, place: Place) -> dict[str, Any]:
    """A cell's result: looked up, or computed and kept."""
    known = place.result(cell)
    if known is not None:
        return known
    if isinstance(cell, Pretraining):
        found = _with_principal_components(cell, place) if cell.principal else _pretrain(cell, place)
    else:
        found = _measure(cell, place) if cell.protocol in MEASURES else _evaluate(cell, place)
    body = {"cell": told_of(cell), **place.origin(cell), **found}
    write_bytes(place.file(cell), canonical_json(body))
    return body


def _pretrain(cell: Pretraining, place: Place) -> dict[str, Any]:
    config = pretrain_config(cell, place)
    if config.split == APART:
        make_split(open_store(config.store), APART, seed=1)
    done = pretrain(config)
    folder, kept = Path(done["best"]), place.encoder(cell)
    kept.mkdir(parents=True, exist_ok=True)
    for name in ("seen.npy", "model.safetensors", "config.json"):  # the config last: without it there is no encoder
        shutil.copyfile(folder / name, kept / name)
    run = Path(done["run"])
    epochs = finished_epochs(run)
    told = ("validation_loss", "train_loss", "effective_rank", "validation_auc")
    return {
        "result": {key: done[key] for key in ("epochs", "steps", "best_epoch", "validation_loss")},
        "still_improving": _to_its_end(done, config) and done["best_epoch"] == done["epochs"] - 1,
        "seconds": sum(line.get("processor", line["seconds"]) for line in read_lines(run / TIMING)),
        "curves": {name: [line[name] for line in epochs] for name in told if name in epochs[0]},
        "environment": json.loads((run / "environment.json").read_bytes()),
    }


def _to_its_end(done: Mapping[str, Any], config: PretrainConfig) -> bool:
    """Whether its epochs or steps ended a run, and not that it got no better."""
    return bool(done["epochs"] >= config.epochs or (config.steps is not None and done["steps"] >= config.steps))


def _with_principal_components(cell: Pretraining, place: Place) -> dict[str, Any]:
    """The same encoder as it was trained, with another last layer: trained first, if it is not there yet."""
    trained, began = carry_out(cell.trained, place), time.process_time()
    stores = [place.store(dataset) for dataset in cell.datasets]
    with_principal_components(
        place.encoder(cell.trained), stores[0], place.encoder(cell), more_stores=stores[1:], seed=cell.seed
    )
    found = {key: trained[key] for key in ("result", "still_improving", "curves")}
    return {**found, "seconds": (trained["seconds"] or 0.0) + time.process_time() - began, "environment": environment()}


def pretrain_config(cell: Pretraining, place: Place) -> PretrainConfig:
    """The ready config of method and dataset, with the preset's changes and the cell's."""
    ready = ready_config(f"{cell.method}-{cell.dataset}")
    preset = PRESETS[cell.preset]
    method = {**ready["method"], **preset.method_options(cell.method), **cell.options}
    return checked(
        PretrainConfig,
        {
            **ready,
            "method": method,
            "encoder": {"name": "cnn", **preset.encoder_options},
            **preset.config,
            **cell.config,
            "embedding": cell.embedding,
            "seed": cell.seed,
            "epochs": cell.epochs,
            "store": place.store(cell.dataset),
            "more_stores": tuple(place.store(dataset) for dataset in cell.more),
            "runs": place.runs,
            "threads": place.threads,
        },
        cell.label,
    )


def _evaluate(cell: Evaluation, place: Place) -> dict[str, Any]:
    preset, began = PRESETS[cell.preset], time.process_time()
    start = _encoder(cell, place)
    given: dict[str, Any] = {
        "fraction": cell.fraction,
        "seed": cell.seed,
        "frames": preset.frames,
        "label_draw": preset.label_draw,
        "part": cell.part,
        **cell.config,
    }
    store = place.store(cell.dataset)
    if cell.protocol == "linear":
        told = checked(ProbeConfig, {"train_mode": preset.train_mode, **given}, cell.label)
        found = probe(start, store, told, runs=place.runs)
    else:
        training = checked(FinetuneConfig, {"epochs": cell.epochs, "threads": place.threads, **given}, cell.label)
        found = finetune(start, store, training, runs=place.runs)
    folder = Path(found["run"])
    save_compact(place.results / "scores" / f"{place.name(cell)}.npz", load_scores(folder))
    kept = {key: found[key] for key in (cell.part, "rows", "contract", "notes", "strength") if key in found}
    where = json.loads((folder / "environment.json").read_bytes())
    body = {"result": kept, "seconds": time.process_time() - began, "environment": where}
    return body if cell.protocol == "linear" else {**body, **_learning(cell, found["training"])}


def _learning(cell: Evaluation, training: dict[str, Any]) -> dict[str, Any]:
    """How fine-tuning went, epoch by epoch."""
    epochs = finished_epochs(Path(training["run"]))
    return {
        "curves": {"validation_auc": [line["validation_auc"] for line in epochs]},
        "still_improving": training["epochs"] >= cell.epochs and training["best_epoch"] == training["epochs"] - 1,
    }


def _measure(cell: Evaluation, place: Place) -> dict[str, Any]:
    began = time.process_time()
    options = {"part": cell.part, "frames": PRESETS[cell.preset].frames, "seed": cell.seed, **cell.config}
    found = MEASURES[cell.protocol](_encoder(cell, place), place.store(cell.dataset), **options)
    return {"result": found, "seconds": time.process_time() - began, "environment": environment()}


def _encoder(cell: Evaluation, place: Place) -> str | Path:
    """What an evaluation judges, as its commands take it."""
    if cell.start is None:
        return cell.shipped or RANDOM
    folder = place.encoder(cell.start)
    if not folder.exists():  # large ones are not kept with the project
        name = place.name(cell.start)
        raise ConfigError(f"the encoder of {name} was not kept; to train it again, delete its cells/{name}.json")
    return folder
