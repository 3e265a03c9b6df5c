"""Results folders as a grid leaves them, with made-up scores: complete, or with cells missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.files import content_hash
from clocs.core.run_identity import identity_name
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.scoring import compute_metrics, outputs_by_level
from clocs.experiments.workspace import TABLE, CellTable
from clocs.metrics.replicates import draw_replicates
from reproduction.cells import EPOCHS, LEVELS, AnyCell, Evaluation, Pretraining
from reproduction.run_cell import REPLICATES_TABLE

STRENGTH = {
    **{"random": 0.2, "supervised": 1.4, "mtssl": 0.5, "byol": 0.4, "simclr": 0.8},
    **{"cmsc": 2.0, "cmlc": 1.2, "cmsmlc": 1.6},
}
"""How well a method tells made-up patients apart: the order of a well-behaved paper."""
DATA = {
    name: [content_hash([name, kind]) for kind in ("store", "split")]
    for name in ("chapman", "physionet2020", "physionet2017", "cardiology", "synthetic")
}
CURVE_EPOCHS = 6
FIGURES = {
    *(f"figure-3-{method}" for method in ("simclr", "cmsc")),
    *("figure-4a", "figure-4b", "figure-5a", "figure-5b", "figure-6-simclr-e128", "figure-6-cmsc-e128"),
    *(f"figure-9-cmsc-e{embedding_dim}" for embedding_dim in (32, 64, 128, 256)),
}
"""Of a report with all results."""
LEARNING = "figure-learning"
"""On another page."""


def method_of(cell: Evaluation) -> str:
    return "random" if cell.start is None or cell.start.max_epochs == 0 else cell.start.method


def usual_strength(cell: Evaluation) -> float:
    """More with more labels, longer pre-training and leaks; less with augmentations and by the released loss."""
    strength = STRENGTH[method_of(cell)] * (0.6 + 0.4 * cell.label_fraction)
    if cell.start is not None:
        strength *= (0.8 if cell.start.options else 1.0) * (1.2 if cell.start.max_epochs > EPOCHS else 1.0)
    strength *= 0.9 if cell.preset == "released" else 1.0
    return strength + (0.4 if cell.config else 0.0)


def make_scores(cell: Evaluation, strength: float, patients: int = 36) -> ModelOutputs:
    """Two leads of one recording a patient, three classes; patients differ by dataset, noise by cell."""
    random = np.random.default_rng(int(cell.key[:8], 16))
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


def learning(improving: bool) -> dict[str, list[float]]:
    """Losses from 3 down to 1.5, or up from it; ranks from 60 down to 12."""
    fall = np.linspace(3.0, 1.5, CURVE_EPOCHS).tolist()
    loss = fall if improving else fall[::-1]
    rank = np.linspace(60, 12, CURVE_EPOCHS).tolist()
    return {"train_loss": loss, "validation_loss": loss, "effective_rank": rank}


def write_pretraining(folder: Path, cell: Pretraining, **told: Any) -> str:
    improving = cell.method != "byol"
    best = cell.max_epochs - 1 if improving else 0
    result = {"epochs": cell.max_epochs, "steps": 100 * cell.max_epochs, "best_epoch": best, "validation_loss": 1.5}
    found = {"result": result, "still_improving": improving, "seconds": 600.0, "curves": learning(improving)}
    return write_cell(folder, cell, {**found, **told})


def write_evaluation(folder: Path, cell: Evaluation, strength: float, **told: Any) -> str:
    scores = make_scores(cell, strength)
    found: dict[str, Any] = {
        "result": {
            cell.part: compute_metrics(scores, replicates=2),
            "notes": [],
            "rows": {cell.part: len(scores.values)},
        },
        "seconds": 30.0 if cell.protocol == "linear" else 240.0,
    }
    if cell.protocol == "finetune":
        end = found["result"][cell.part]["frame"]["auc"]["value"]
        found["still_improving"] = False
        found["curves"] = {"validation_auc": np.linspace(0.5, end, CURVE_EPOCHS + 1)[1:].tolist()}
    name = write_cell(folder, cell, {**found, **told})
    write_replicates(folder, name, scores)
    return name


def write_replicates(folder: Path, name: str, scores: ModelOutputs, replicates: int = 8) -> None:
    """So few that they are quickly drawn, and of no use elsewhere."""
    known, drawn = dict(outputs_by_level(scores)), dict[str, Any]()
    for level in LEVELS:
        rows = known[level]
        found = draw_replicates(rows.truth, rows.values, rows.patient, replicates=replicates)
        assert found is not None
        drawn[level] = found.as_dict()
    CellTable(folder / REPLICATES_TABLE).append(name, drawn)


def write_results(
    folder: Path, cells: Iterable[AnyCell], strength: Callable[[Evaluation], float] = usual_strength
) -> Path:
    """All of these cells, with the pre-trainings they wait for."""
    wanted = {part.model_dump_json(): part for cell in cells for part in (*cell.requires, cell)}
    for cell in wanted.values():
        if isinstance(cell, Pretraining):
            write_pretraining(folder, cell)
        else:
            write_evaluation(folder, cell, strength(cell))
    return folder


def write_distances(folder: Path, method: str, embedding_dim: int, separation: float) -> None:
    start = Pretraining(method=method, dataset="physionet2020", embedding_dim=embedding_dim)
    told: dict[str, Any] = {"edges": np.linspace(0, 10, 11).tolist(), "intra": [1, 5, 9, 5, 1, 0, 0, 0, 0, 0]}
    found = {
        "intra": {"mean": 2.5},
        "inter": {"mean": 6.0},
        "separation": {"value": separation, "low": separation - 0.01, "high": separation + 0.01},
        "histogram": {**told, "inter": [0, 0, 0, 1, 5, 9, 9, 5, 1, 0]},
    }
    cell = Evaluation(
        protocol="distances", start=start, dataset="physionet2020", embedding_dim=embedding_dim, part="validation"
    )
    write_cell(folder, cell, {"result": {"distances": found}, "seconds": 3.0})
