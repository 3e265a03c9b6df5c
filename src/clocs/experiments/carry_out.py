"""Carrying out a cell by the stages below: pre-training, evaluation, measures of embeddings as they are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clocs.core.errors import ConfigError
from clocs.core.files import canonical_json, write_bytes
from clocs.core.options import checked
from clocs.evaluation.compact_scores import save_compact
from clocs.evaluation.finetune import FinetuneConfig, finetune
from clocs.evaluation.principal import with_principal_components
from clocs.evaluation.probe import ProbeConfig, probe
from clocs.evaluation.results import load_scores
from clocs.evaluation.subject import RANDOM
from clocs.experiments.cells import APART, Cell, Evaluation, Pretraining, told_of
from clocs.experiments.measures import MEASURES
from clocs.experiments.place import Place
from clocs.experiments.presets import PRESETS
from clocs.store.splits import make_split
from clocs.store.store import open_store
from clocs.training.config import PretrainConfig, ready_config
from clocs.training.pretrain import pretrain
from clocs.training.runs import environment, finished_epochs, read_environment, timings


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
    for name in ("seen.npy", "model.safetensors", "config.json"):  # the config last: without it there is no encoder
        write_bytes(kept / name, (folder / name).read_bytes())
    run = Path(done["run"])
    epochs = finished_epochs(run)
    told = ("validation_loss", "train_loss", "effective_rank", "validation_auc")
    return {
        "result": {key: done[key] for key in ("epochs", "steps", "best_epoch", "validation_loss")},
        "still_improving": _to_its_end(done, config) and done["best_epoch"] == done["epochs"] - 1,
        "seconds": sum(line.get("processor", line["seconds"]) for line in timings(run)),
        "curves": {name: [line[name] for line in epochs] for name in told if name in epochs[0]},
        "environment": read_environment(run),
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
    where = read_environment(folder)
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
