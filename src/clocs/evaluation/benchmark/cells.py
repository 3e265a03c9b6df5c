"""Cells of a benchmark: one encoder, or an untrained control, on one task of one store, in one way."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from clocs.evaluation.benchmark.embedders import Embedder, EncoderEmbedder, load_embedder
from clocs.evaluation.benchmark.linear_probe import Solver
from clocs.evaluation.benchmark.random_kernels import random_kernels
from clocs.evaluation.benchmark.recording_features import RecordingFeatures, recording_features
from clocs.evaluation.benchmark.recording_training import TrainingOptions
from clocs.evaluation.benchmark.scratch_networks import SCRATCH, scratch_embedder
from clocs.evaluation.benchmark.task_evaluation import PROTOCOL, BenchmarkOptions, evaluate_task
from clocs.evaluation.benchmark.trained_evaluation import (
    TrainedWay,
    TrainedWayInputs,
    evaluate_trained,
)
from clocs.evaluation.benchmark.unlabelled_fits import fit_adapted_pca, untrained_embedder
from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.recording_classifier import allows_missing_leads, mask_leads
from clocs.experiments.cells import Cell, Workload
from clocs.experiments.workspace import Workspace
from clocs.inference.classification import format_set
from clocs.store.store import Store, open_store
from clocs.store.task_targets import task_targets
from clocs.training.encoder_folder import read_config
from clocs.training.shipped import find_encoder_folder

Control = Literal["", "untrained", "random kernels"]
"""Empty: the encoder itself. ``untrained``: its network with random weights. ``random kernels``: MiniRocket, which has
no encoder."""
RANDOM_KERNELS: Final = "random kernels"
Way = Literal["linear"] | TrainedWay
"""Way of evaluation: a linear model on frozen features, or one of :data:`TrainedWay`."""


class BenchmarkCell(Cell):
    """Evaluation of an encoder or a control on a task."""

    kind: ClassVar[str] = "benchmark"

    encoder: str = ""
    """Name of a shipped encoder, folder of an encoder or run, ``scratch:NETWORK``, or the name of an embedder; empty
    for random kernels."""
    embedder_sha256: str = ""
    """Hash of the identity of an embedder that was passed as an object; empty for all others."""
    control: Control = ""
    """The untrained control to evaluate instead of the encoder."""
    dataset: str
    """Name of the store in the folder of stores."""
    task: str
    """Name of the task."""
    leads: tuple[str, ...] = ()
    """Leads that linear models may use; empty: all that most recordings of the store have."""
    options: BenchmarkOptions = BenchmarkOptions()
    """Label fractions, selections and bootstrap replicates."""
    way: Way = "linear"
    """Way of evaluation."""
    training: TrainingOptions | None = None
    """Options of the training; None for linear models."""

    @property
    def label(self) -> str:
        """Encoder or control, way of a trained encoder, store, task and leads."""
        way = self.way if self.way in ("attentive", "fine-tuned") else ""
        encoder = self.encoder.replace("/", "_").replace(":", "-")
        return "-".join(filter(None, (encoder, self.control, way, self.dataset, self.task, *self.leads)))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The store."""
        return (self.dataset,)

    @property
    def initial_weights_sha256(self) -> str | None:
        """Hash of the encoder's weights; None for random ones, and for embedders, which have a hash of their own."""
        if not self.encoder or self.encoder.startswith(SCRATCH) or self.embedder_sha256:
            return None
        return str(_about(self.encoder)["weights_sha256"])

    def workload(self) -> Workload:
        """Return one unit for each task. Features are computed by the first task of a store."""
        who = f"{self.control or self.encoder}, {self.way}"
        return Workload(1.0, ((f"{who} on {self.dataset}", (who, self.dataset)), (who, (who,))), 300.0)


def run_cell(
    cell: BenchmarkCell, workspace: Workspace, embedders: Mapping[str, Embedder] | None = None
) -> dict[str, Any]:
    """Evaluate an encoder or a control on a task.

    Args:
        cell: The cell.
        workspace: Folders of the benchmark. Features are kept in the folder of runs.
        embedders: Embedders that were passed as objects, by name.

    Returns:
        The row of the cell: what was evaluated, counts of the task, and a row for each set of features, label
        fraction and selection.

    Raises:
        LeakError: The encoder has seen test recordings, or does not list what it has seen.
    """
    start = time.perf_counter()
    store = open_store(workspace.store(cell.dataset))
    split, targets = store.split(), task_targets(store, cell.task)
    encoder = (embedders or {}).get(cell.encoder, cell.encoder)
    prepared = _prepare(encoder, cell.control, cell.way, cell.leads, store.folder, split.sha256, workspace.runs)
    features_at = time.perf_counter()
    if isinstance(prepared.inputs, TrainedWayInputs):
        assert cell.training is not None
        runs, threads = workspace.runs / "training", workspace.num_threads
        rows = evaluate_trained(
            prepared.inputs, store, split, targets, cell.options, cell.training, runs=runs, num_threads=threads
        )
    else:
        rows = evaluate_task(prepared.inputs, store, split, targets, cell.options, solver=prepared.solver)
    parts = {part: split.mask(part) for part in ("train", "validation", "test")}
    return {
        "protocol": PROTOCOL,
        "encoder": {"name": prepared.name, "control": cell.control, "seen": prepared.seen},
        "task": {
            "dataset": store.manifest.dataset["name"],
            "published_split": split.metadata.get("published"),
            "kind": targets.task.kind,
            "title": targets.task.title,
            "records": {part: targets.count(records) for part, records in parts.items()},
            "positives": {part: targets.positives(records) for part, records in parts.items()},
        },
        "rows": rows,
        "seconds": time.perf_counter() - start,
        "seconds_of_features": features_at - start,
    }


@dataclass(frozen=True)
class _Prepared:
    """Inputs of all recordings of a store, which several tasks use."""

    name: str
    """Name of the encoder in tables."""
    solver: Solver
    """Algorithm of linear models on these features."""
    seen: Any
    """Number of recordings of each part that the training has seen; None for a control and for an embedder."""
    inputs: dict[str, RecordingFeatures] | TrainedWayInputs
    """Features by the name of the output, or inputs and network of a training."""


@functools.lru_cache(maxsize=1)
def _prepare(
    encoder: str | Embedder,
    control: Control,
    way: Way,
    leads: tuple[str, ...],
    folder: Path,
    split_sha256: str,
    runs: Path,
) -> _Prepared:
    """Compute or read the inputs of a store. Those of the last store are kept for the next task."""
    store = open_store(folder)
    split = store.split()
    train, cache = split.mask("train"), runs / "features"
    if control == RANDOM_KERNELS:
        kernels = random_kernels(store, train, leads=leads)
        return _Prepared(_name(kernels, leads), "ridge", None, recording_features(kernels, store, cache=cache))
    embedder, seen = _embedder(encoder, store), None
    if control == "untrained":
        embedder = untrained_embedder(embedder, store, train)
    elif isinstance(encoder, str) and not encoder.startswith(SCRATCH):
        seen = check_leakage(find_encoder_folder(encoder), _about(encoder), store, split)["seen"]
    if way != "linear":
        return _Prepared(embedder.name, "logistic", seen, TrainedWayInputs.prepare(way, embedder, store, train, runs))
    if isinstance(embedder, EncoderEmbedder) and embedder.encoder.num_features:
        embedder = fit_adapted_pca(embedder, store, train)
    name = _name(embedder, leads)
    if leads and embedder.all_leads:
        may_lack_leads = isinstance(encoder, str) and allows_missing_leads(_about(encoder)["input"])
        embedder, leads = mask_leads(embedder, leads, may_lack_leads), ()
    return _Prepared(name, "logistic", seen, recording_features(embedder, store, cache=cache, leads=leads))


def _name(embedder: Embedder, leads: tuple[str, ...]) -> str:
    """Return the name of an embedder in tables, with the leads that it may use."""
    return f"{embedder.name}, {format_set(leads)}" if leads else embedder.name


def _embedder(encoder: str | Embedder, store: Store) -> Embedder:
    if isinstance(encoder, str) and encoder.startswith(SCRATCH):
        return scratch_embedder(encoder, store)
    return load_embedder(encoder)


@functools.lru_cache(maxsize=8)
def _about(encoder: str) -> dict[str, Any]:
    return read_config(find_encoder_folder(encoder))
