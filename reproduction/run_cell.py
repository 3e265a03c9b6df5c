"""Computation of a cell: pre-training, evaluation, or a measure of embeddings."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import ConfigError
from clocs.core.options import validate_model
from clocs.core.storage.files import write_bytes
from clocs.evaluation.checkpoint import RANDOM
from clocs.evaluation.finetune import FinetuneConfig, finetune
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.pca import write_pca_encoder
from clocs.evaluation.probe import ProbeConfig, probe
from clocs.evaluation.results import load_scores
from clocs.evaluation.scoring import outputs_by_level
from clocs.experiments.grid import compute_cell
from clocs.experiments.workspace import CellTable, Workspace
from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.class_metrics import ClassMetrics
from clocs.store.splits import make_split
from clocs.store.store import open_store
from clocs.training.config import PretrainConfig
from clocs.training.pretrain import pretrain
from clocs.training.ready_configs import ready_config
from clocs.training.runs import KEPT, environment, finished_epochs, kept_encoders, read_environment, timings
from reproduction.cells import LEVELS, SEPARATE_SPLIT, AnyCell, Evaluation, Pretraining
from reproduction.measures import MEASURES
from reproduction.presets import PRESETS

REPLICATES_TABLE: Final = "replicates.jsonl"
"""File of bootstrap replicates of the AUC of each evaluation, by the cell's name, in the results folder."""
REPLICATES: Final = 1000


def compute(cell: AnyCell, workspace: Workspace) -> dict[str, Any]:
    """Return the row of a cell from the table, or compute and add it."""
    return compute_cell(cell, workspace, run_cell)


def run_cell(cell: AnyCell, workspace: Workspace) -> dict[str, Any]:
    """Compute a cell and return its row."""
    if isinstance(cell, Evaluation):
        return _measure(cell, workspace) if cell.protocol in MEASURES else _evaluate(cell, workspace)
    return _write_pca_encoder(cell, workspace) if cell.pca else _pretrain(cell, workspace)


def _pretrain(cell: Pretraining, workspace: Workspace) -> dict[str, Any]:
    config = pretrain_config(cell, workspace)
    if config.split == SEPARATE_SPLIT:
        make_split(open_store(config.store), SEPARATE_SPLIT, seed=1)
    done = pretrain(config)
    run, folder = Path(done["run"]), cell.folder(workspace)
    for num_epochs, kept in kept_encoders(run).items():
        _copy_encoder(kept, folder / KEPT / str(num_epochs))
    _copy_encoder(Path(done["best"]), folder)
    epochs = finished_epochs(run)
    curves = ("validation_loss", "train_loss", "effective_rank", "validation_auc")
    return {
        "result": {key: done[key] for key in ("epochs", "steps", "best_epoch", "validation_loss")},
        "still_improving": _reached_limit(done, config) and done["best_epoch"] == done["epochs"] - 1,
        "seconds": sum(line.get("processor", line["seconds"]) for line in timings(run)),
        "curves": {name: [line[name] for line in epochs] for name in curves if name in epochs[0]},
        "environment": read_environment(run),
    }


def _copy_encoder(source: Path, target: Path) -> None:
    for name in ("seen.npy", "model.safetensors", "config.json"):  # without a config an encoder is incomplete
        write_bytes(target / name, (source / name).read_bytes())


def _reached_limit(done: Mapping[str, Any], config: PretrainConfig) -> bool:
    """Return whether the maximum of epochs or steps ended a run, and not early stopping."""
    return bool(
        done["epochs"] >= config.max_epochs or (config.max_steps is not None and done["steps"] >= config.max_steps)
    )


def _write_pca_encoder(cell: Pretraining, workspace: Workspace) -> dict[str, Any]:
    """Replace the last layer of a trained encoder by PCA. The row repeats the result of its training."""
    trained, began = compute(cell.trained, workspace), time.process_time()
    stores = [workspace.store(dataset) for dataset in cell.datasets]
    write_pca_encoder(
        cell.trained.folder(workspace), stores[0], cell.folder(workspace), extra_stores=stores[1:], seed=cell.seed
    )
    found = {key: trained[key] for key in ("result", "still_improving", "curves")}
    return {**found, "seconds": time.process_time() - began, "environment": environment()}


def pretrain_config(cell: Pretraining, workspace: Workspace) -> PretrainConfig:
    """Return the ready config of method and dataset, with the changes of the cell."""
    ready = ready_config(f"{cell.method}-{cell.dataset}")
    method = {**ready["method"], **cell.options}
    values = {**ready, "method": method, "encoder": {"name": "cnn"}, **cell.config}
    return validate_model(
        PretrainConfig,
        {
            **values,
            "encoder": {**values["encoder"], "embedding_dim": cell.embedding_dim},
            "seed": cell.seed,
            "max_epochs": cell.max_epochs,
            "store": workspace.store(cell.dataset),
            "extra_stores": tuple(workspace.store(dataset) for dataset in cell.extra_datasets),
            "runs": workspace.runs,
            "onnx": False,
            "num_threads": workspace.num_threads,
        },
        cell.label,
    )


def _evaluate(cell: Evaluation, workspace: Workspace) -> dict[str, Any]:
    preset, began = PRESETS[cell.preset], time.process_time()
    start = _encoder(cell, workspace)
    given: dict[str, Any] = {
        "label_fraction": cell.label_fraction,
        "seed": cell.seed,
        "frames": preset.frames,
        "label_unit": preset.label_unit,
        "part": cell.part,
        **cell.config,
    }
    store = workspace.store(cell.dataset)
    if cell.protocol == "linear":
        values = validate_model(ProbeConfig, {"representation": "frames", **given}, cell.label)
        found = probe(start, store, values, runs=workspace.runs)
        more = {"by_epochs": _evaluate_kept(cell, workspace, values)}
    else:
        training = validate_model(
            FinetuneConfig, {"max_epochs": cell.max_epochs, "num_threads": workspace.num_threads, **given}, cell.label
        )
        found = finetune(start, store, training, runs=workspace.runs)
        more = _learning(cell, found["training"])
    _save_replicates(workspace, workspace.name(cell), found)
    body = {"result": _result(cell, found), **more, "seconds": time.process_time() - began}
    return {**body, "environment": read_environment(Path(found["run"]))}


def _evaluate_kept(cell: Evaluation, workspace: Workspace, config: ProbeConfig) -> dict[str, Any]:
    """Return the results of all encoders that the pre-training kept, by the number of epochs."""
    folders = [] if cell.start is None else list((cell.start.folder(workspace) / KEPT).glob("*"))
    found = {
        folder.name: probe(folder, workspace.store(cell.dataset), config, runs=workspace.runs)
        for folder in sorted(folders, key=lambda each: int(each.name))
    }
    if found:
        best = max(found, key=lambda epochs: float(found[epochs]["validation_auc"]))
        _save_replicates(workspace, best_kept_name(workspace.name(cell)), found[best])
    return {epochs: _result(cell, each) for epochs, each in found.items()}


def best_kept_name(name: str) -> str:
    """Return the name of the replicates of the kept encoder with the best validation AUC, from that of the cell."""
    return f"{name}@best"


def _result(cell: Evaluation, found: dict[str, Any]) -> dict[str, Any]:
    keys = (cell.part, "validation_auc", "rows", "contract", "notes", "strength")
    return {key: found[key] for key in keys if key in found}


def _save_replicates(workspace: Workspace, name: str, found: dict[str, Any]) -> None:
    """Save the bootstrap replicates of an evaluation, which intervals of means and differences need."""
    table = CellTable(workspace.results / REPLICATES_TABLE)
    known = dict(outputs_by_level(load_scores(Path(found["run"]))))
    if table.get(name) is None:
        drawn = {level: draw_replicates(known[level]) for level in LEVELS}
        table.append(name, {level: each for level, each in drawn.items() if each is not None})


def draw_replicates(rows: ModelOutputs, replicates: int = REPLICATES) -> dict[str, Any] | None:
    """Return the bootstrap replicates of the macro AUC for JSON, or None if a class is too rare."""
    metrics = ClassMetrics(rows.truth, rows.values, rows.patient, names=("auc",))
    found = bootstrap(metrics, replicates=replicates).replicates("auc")
    return None if found is None else found[0].as_dict()


def _learning(cell: Evaluation, training: dict[str, Any]) -> dict[str, Any]:
    """Return the curves of fine-tuning by epoch."""
    epochs = finished_epochs(Path(training["run"]))
    return {
        "curves": {"validation_auc": [line["validation_auc"] for line in epochs]},
        "still_improving": training["epochs"] >= cell.max_epochs and training["best_epoch"] == training["epochs"] - 1,
    }


def _measure(cell: Evaluation, workspace: Workspace) -> dict[str, Any]:
    began = time.process_time()
    options = {"part": cell.part, "frames": PRESETS[cell.preset].frames, "seed": cell.seed, **cell.config}
    found = MEASURES[cell.protocol](_encoder(cell, workspace), workspace.store(cell.dataset), **options)
    return {"result": found, "seconds": time.process_time() - began, "environment": environment()}


def _encoder(cell: Evaluation, workspace: Workspace) -> str | Path:
    """Return the encoder to evaluate, in the form that the commands accept."""
    if cell.start is None:
        return cell.shipped or RANDOM
    if not cell.start.has_output(workspace):
        name = workspace.name(cell.start)
        raise ConfigError(f"the encoder of {name} is not in {workspace.runs}: compute its pre-training first")
    return cell.start.folder(workspace)
