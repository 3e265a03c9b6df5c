"""Cells of a benchmark: one encoder, or an untrained control, on one task of one store."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from clocs.evaluation.benchmark.embedders import EncoderEmbedder, load_embedder
from clocs.evaluation.benchmark.linear_probe import Solver
from clocs.evaluation.benchmark.random_kernels import random_kernels
from clocs.evaluation.benchmark.recording_features import RecordingFeatures, recording_features
from clocs.evaluation.benchmark.task_evaluation import PROTOCOL, LinearOptions, evaluate_task
from clocs.evaluation.benchmark.unlabelled_fits import fit_adapted_pca, untrained_embedder
from clocs.evaluation.leakage import check_leakage
from clocs.experiments.cells import Cell, Workload
from clocs.experiments.workspace import Workspace
from clocs.store.store import open_store
from clocs.store.task_targets import task_targets
from clocs.training.encoder_folder import read_config
from clocs.training.shipped import find_encoder_folder

Control = Literal["", "untrained", "random kernels"]
"""Empty: the encoder itself. ``untrained``: its network with random weights. ``random kernels``: MiniRocket, which has
no encoder."""
RANDOM_KERNELS: Final = "random kernels"


class BenchmarkCell(Cell):
    """Linear evaluation of an encoder or a control on a task."""

    kind: ClassVar[str] = "benchmark"

    encoder: str = ""
    """Name of a shipped encoder, or folder of an encoder or run; empty for random kernels."""
    control: Control = ""
    """The untrained control to evaluate instead of the encoder."""
    dataset: str
    """Name of the store in the folder of stores."""
    task: str
    """Name of the task."""
    options: LinearOptions = LinearOptions()
    """Options of the linear evaluation."""

    @property
    def label(self) -> str:
        """Encoder or control, store and task."""
        return "-".join(filter(None, (self.encoder.replace("/", "_"), self.control, self.dataset, self.task)))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The store."""
        return (self.dataset,)

    @property
    def initial_weights_sha256(self) -> str | None:
        """Hash of the encoder's weights."""
        return str(_about(self.encoder)["weights_sha256"]) if self.encoder else None

    def workload(self) -> Workload:
        """Return one unit for each task. Features are computed by the first task of a store."""
        who = self.control or self.encoder
        return Workload(1.0, ((f"{who} on {self.dataset}", (who, self.dataset)), (who, (who,))), 300.0)


def run_cell(cell: BenchmarkCell, workspace: Workspace) -> dict[str, Any]:
    """Evaluate an encoder or a control on a task.

    Args:
        cell: The cell.
        workspace: Folders of the benchmark. Features are kept in the folder of runs.

    Returns:
        The row of the cell: what was evaluated, counts of the task, and a row for each set of features, label
        fraction and selection.

    Raises:
        LeakError: The encoder has seen test recordings, or does not list what it has seen.
    """
    start = time.perf_counter()
    store = open_store(workspace.store(cell.dataset))
    split = store.split()
    prepared = _prepare(cell.encoder, cell.control, store.folder, split.sha256, workspace.runs / "features")
    features_at = time.perf_counter()
    targets = task_targets(store, cell.task)
    rows = evaluate_task(prepared.features, store, split, targets, cell.options, solver=prepared.solver)
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
    """Features of all recordings of a store, which several tasks use."""

    name: str
    """Name of the encoder in tables."""
    solver: Solver
    """Algorithm of linear models on these features."""
    seen: Any
    """Number of recordings of each part that the training has seen; None for a control."""
    features: dict[str, RecordingFeatures]
    """Features by the name of the output."""


@functools.lru_cache(maxsize=1)
def _prepare(encoder: str, control: Control, folder: Path, split_sha256: str, cache: Path) -> _Prepared:
    """Compute or read the features of a store. The last ones are kept for the next task."""
    store = open_store(folder)
    split = store.split()
    train = split.mask("train")
    if control == RANDOM_KERNELS:
        kernels = random_kernels(store, train)
        return _Prepared(kernels.name, "ridge", None, recording_features(kernels, store, cache=cache))
    embedder, seen = load_embedder(encoder), None
    if control == "untrained":
        embedder = untrained_embedder(embedder, store, train)
    else:
        seen = check_leakage(find_encoder_folder(encoder), _about(encoder), store, split)["seen"]
    if isinstance(embedder, EncoderEmbedder) and embedder.encoder.num_features:
        embedder = fit_adapted_pca(embedder, store, train)
    return _Prepared(embedder.name, "logistic", seen, recording_features(embedder, store, cache=cache))


@functools.lru_cache(maxsize=8)
def _about(encoder: str) -> dict[str, Any]:
    return read_config(find_encoder_folder(encoder))
