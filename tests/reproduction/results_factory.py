"""Results folders as a grid leaves them, with made-up scores: complete, or with cells missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.hashes import content_hash
from clocs.core.run_identity import identity_name
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.scoring import compute_metrics, outputs_by_level
from clocs.experiments.workspace import TABLE, CellTable
from reproduction.cells import LEVELS, AnyCell, Evaluation, Pretraining
from reproduction.run_cell import REPLICATES_TABLE, best_kept_name, draw_replicates

STRENGTH = {
    **{"random": 0.2, "supervised": 1.4, "mtssl": 0.5, "byol": 0.4, "simclr": 0.8},
    **{"cmsc": 2.0, "cmlc": 1.2, "cmsmlc": 1.6},
}
"""How well a method tells made-up patients apart: the order of a well-behaved paper."""
DATA = {
    name: [content_hash([name, kind]) for kind in ("store", "split")]
    for name in ("chapman", "physionet2020", "physionet2017", "cardiology", "synthetic")
}
PATIENCE_EPOCHS = 60
"""Epochs after which pre-trainings of methods other than CMSC and BYOL stop."""
KEPT = {1: 0.1, 25: 0.9}
"""Numbers of epochs of kept encoders: how well they tell patients apart, as a fraction of that of the lowest loss."""
KEPT_BEST = {**KEPT, 25: 1.3}
"""The same of SimCLR, which is better after 25 epochs than at its lowest loss."""
FIGURES = {
    *("figure-4-cardiology", "figure-4-physionet2017", "figure-6-cmsc", "figure-6-simclr"),
    *("figure-learning-chapman", "figure-learning-physionet2020"),
}
"""Figures of a report with all results of the paper."""


def method_of(cell: Evaluation) -> str:
    return "random" if cell.start is None or cell.start.max_epochs == 0 else cell.start.method


def usual_strength(cell: Evaluation) -> float:
    """Return more with more labels and leaks, and less with other losses."""
    strength = STRENGTH[method_of(cell)] * (0.6 + 0.4 * cell.label_fraction)
    if cell.start is not None and cell.start.options:
        strength *= 0.8
    return strength + (0.4 if cell.config else 0.0)


def usual_kept(cell: Evaluation) -> dict[int, float]:
    return KEPT_BEST if method_of(cell) == "simclr" else KEPT


def make_scores(cell: Evaluation, strength: float, patients: int = 36) -> ModelOutputs:
    """Two leads of one recording a patient, three classes; patients differ by dataset, noise by cell."""
    random = np.random.default_rng(int(content_hash(cell.describe())[:8], 16))  # the same under every schema number
    record = np.repeat(np.arange(patients), 2)
    truth = np.eye(3, dtype=np.bool_)[(record * 7 + len(cell.dataset)) % 3]
    logits = strength * truth + random.normal(0, 0.8, (patients, 3))[record] + random.normal(0, 0.4, truth.shape)
    values = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return ModelOutputs(values.astype(np.float32), truth, record, record, ("AF", "SR", "other"))


def write_cell(folder: Path, cell: AnyCell, found: dict[str, Any], data: dict[str, list[str]] | None = None) -> str:
    origin = {"data": {name: (data or DATA)[name] for name in cell.datasets}}
    if isinstance(cell, Evaluation) and cell.initial_weights_sha256 is not None:
        origin["weights"] = cell.initial_weights_sha256  # type: ignore[assignment]
    name = identity_name(cell.label, cell.describe(), origin)
    environment = {"python": "3.11.7", "packages": {"clocs": "0.1.0", "torch": "2.13.0"}}
    row = {"cell": cell.describe(), "origin": origin, "environment": environment, **found}
    CellTable(folder / TABLE).append(name, row)
    return name


def write_pretraining(folder: Path, cell: Pretraining, **told: Any) -> str:
    """Write a run: CMSC improves to its last epoch, BYOL from its first epoch on gets worse, others lose patience."""
    epochs = cell.max_epochs if cell.method in ("cmsc", "byol") else min(cell.max_epochs, PATIENCE_EPOCHS)
    best = {"cmsc": epochs - 1, "byol": 0}.get(cell.method, epochs - 16)
    loss = [1.0 + abs(epoch - best) / 100 for epoch in range(epochs)]
    result = {"epochs": epochs, "steps": 100 * epochs, "best_epoch": best, "validation_loss": 1.0}
    curves = {"train_loss": loss, "validation_loss": loss, "effective_rank": [20.0] * epochs}
    found = {"result": result, "still_improving": cell.method == "cmsc", "seconds": 600.0, "curves": curves}
    return write_cell(folder, cell, {**found, **told})


def evaluated(cell: Evaluation, scores: ModelOutputs, strength: float) -> dict[str, Any]:
    """Return the result of an evaluation. The validation AUC follows the strength."""
    found = {cell.part: compute_metrics(scores, replicates=2), "notes": [], "rows": {cell.part: len(scores.values)}}
    return {**found, "validation_auc": 0.5 + 0.1 * strength}


def write_evaluation(
    folder: Path, cell: Evaluation, strength: float, kept: Mapping[int, float] | None = None, **told: Any
) -> str:
    """Write an evaluation; with ``kept``, also those of kept encoders, by their fraction of the strength."""
    scores = make_scores(cell, strength)
    found: dict[str, Any] = {"result": evaluated(cell, scores, strength), "seconds": 30.0}
    if cell.protocol == "finetune":
        end = found["result"][cell.part]["frame"]["auc"]["value"]
        found |= {"seconds": 240.0, "still_improving": False}
        found["curves"] = {"validation_auc": np.linspace(0.5, end, 7)[1:].tolist()}
    others = {} if cell.protocol == "finetune" else kept or {}
    made = {epochs: make_scores(cell, fraction * strength) for epochs, fraction in others.items()}
    if made:
        found["by_epochs"] = {
            str(epochs): evaluated(cell, each, others[epochs] * strength) for epochs, each in made.items()
        }
    name = write_cell(folder, cell, {**found, **told})
    write_replicates(folder, name, scores)
    if made:
        write_replicates(folder, best_kept_name(name), made[max(others, key=lambda epochs: others[epochs])])
    return name


def write_replicates(folder: Path, name: str, scores: ModelOutputs, replicates: int = 8) -> None:
    """So few that they are quickly drawn, and of no use elsewhere."""
    known, drawn = dict(outputs_by_level(scores)), dict[str, Any]()
    for level in LEVELS:
        drawn[level] = draw_replicates(known[level], replicates)
        assert drawn[level] is not None
    CellTable(folder / REPLICATES_TABLE).append(name, drawn)


def write_results(
    folder: Path,
    cells: Iterable[AnyCell],
    strength: Callable[[Evaluation], float] = usual_strength,
    kept: Callable[[Evaluation], Mapping[int, float]] = usual_kept,
) -> Path:
    """Write all of these cells, with the pre-trainings that they require."""
    wanted = {part.model_dump_json(): part for cell in cells for part in (*cell.requires, cell)}
    for cell in wanted.values():
        if isinstance(cell, Pretraining):
            write_pretraining(folder, cell)
        elif cell.protocol == "distances":
            write_distances(folder, cell, 0.9 if cell.method == "cmsc" else 0.6)
        else:
            has_kept = cell.start is not None and "keep_epochs" in cell.start.config
            write_evaluation(folder, cell, strength(cell), kept(cell) if has_kept else None)
    return folder


def write_distances(folder: Path, cell: Evaluation, separation: float) -> None:
    histogram = {"edges": np.linspace(0, 10, 11).tolist(), "intra": [1, 5, 9, 5, 1, 0, 0, 0, 0, 0]}
    found = {
        "intra": {"mean": 2.5},
        "inter": {"mean": 6.0},
        "separation": {"value": separation, "low": separation - 0.01, "high": separation + 0.01},
        "histogram": {**histogram, "inter": [0, 0, 0, 1, 5, 9, 9, 5, 1, 0]},
    }
    write_cell(folder, cell, {"result": {"distances": found}, "seconds": 3.0})
