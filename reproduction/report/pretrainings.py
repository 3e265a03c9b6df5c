"""Pre-trainings of the paper's tables: how they stopped, and how their encoders learned."""

from __future__ import annotations

from functools import partial
from statistics import fmean
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.panels import draw_sweep
from reproduction.cells import KEPT_EPOCHS, Evaluation, Pretraining
from reproduction.experiments import METHODS, VARIANTS, linear, variant
from reproduction.paper_numbers import SOURCES
from reproduction.report.costs import chained_cells
from reproduction.report.estimates import Estimates, Mean
from reproduction.report.gallery import NamedFigures, sweep
from reproduction.report.page import DASH, DATASET_NAMES, METHOD_NAMES, Entry, Table, signed_text
from reproduction.report.results import FinishedCell, Results, Runs

Floats = npt.NDArray[np.floating]
LAST_EPOCHS: Final = 15
"""Number of epochs over which the change of the loss is given: the patience."""
TITLES: Final = (
    "pre-training",
    "epochs, lowest loss",
    "epochs, best validation AUC",
    f"change of the loss, last {LAST_EPOCHS} epochs",
    "seconds an epoch",
)


def stop_text(found: FinishedCell) -> str:
    """Return how a pre-training stopped."""
    epochs = found.result["epochs"]
    by_patience = epochs < found.cell.max_epochs
    return f"stopped by patience after {epochs} epochs" if by_patience else f"stopped at {epochs} epochs"


def loss_change(found: FinishedCell) -> float | None:
    """Return the change of the validation loss over the last epochs, or None if there are too few."""
    losses = found.row["curves"]["validation_loss"]
    return losses[-1] - losses[-1 - LAST_EPOCHS] if len(losses) > LAST_EPOCHS else None


def pretraining_table(results: Results, dataset: str) -> Table:
    """Return a row for each finished pre-training of the plan on a dataset, by method and seed."""
    cells = chained_cells("queue").values()
    evaluated = {
        cell.start.key: found
        for cell in cells
        if isinstance(cell, Evaluation) and cell.protocol == "linear" and cell.start is not None
        if (found := results.get(cell)) is not None and cell.dataset == cell.start.dataset
    }
    rows = [
        _row(found, evaluated.get(cell.key))
        for cell in cells
        if isinstance(cell, Pretraining) and cell.dataset == dataset
        if (found := results.get(cell)) is not None
    ]
    return Table(TITLES, tuple(sorted(rows, key=lambda row: row[0].text)))


def _row(found: FinishedCell, evaluated: FinishedCell | None) -> tuple[Entry, ...]:
    lowest, change = found.result["best_epoch"] + 1, loss_change(found)
    best = DASH if evaluated is None else str(evaluated.best_kept_epochs or lowest)
    seconds, epochs = found.seconds, found.result["epochs"]
    return (
        Entry(_name(found.cell), stop_text(found)),
        Entry(str(lowest)),
        Entry(best),
        Entry(DASH if change is None else signed_text(change)),
        Entry(DASH if seconds is None else f"{seconds / epochs:.1f}"),
    )


def _name(cell: object) -> str:
    assert isinstance(cell, Pretraining)
    variants = {start.key: name for name in VARIANTS if (start := variant(name, cell.seed).start) is not None}
    what = f", {variants[cell.key]}" if cell.key in variants else ""
    return f"{METHOD_NAMES[cell.method]}, seed {cell.seed}{what}"


def learning_figures(estimates: Estimates) -> NamedFigures:
    """Return validation AUC by epochs of pre-training, a figure for each dataset. Random weights have 0 epochs."""
    drawn: NamedFigures = []
    settings = [str(epochs) for epochs in (0, *KEPT_EPOCHS)]
    for dataset in SOURCES:
        runs = {method: estimates.runs(partial(linear, method, dataset)) for method in METHODS}
        initial = _initial(estimates.runs(partial(linear, "random", dataset)))
        lines = {METHOD_NAMES[method]: sweep([initial, *_means(each)]) for method, each in runs.items() if each}
        if lines:
            title = DATASET_NAMES[dataset]
            last = ", ".join(f"{name} {_last(line.value):.3f}" for name, line in lines.items())
            figure = draw_sweep(lines, settings, "epochs of pre-training", title, "validation")
            shows = f"Validation AUC on {title} by epochs of pre-training; the last values: {last}"
            drawn.append((f"figure-learning-{dataset}", figure, shows))
    return drawn


def _means(runs: Runs) -> list[Mean | None]:
    """Return the mean validation AUC of the kept encoders over the runs that lasted so long."""
    found = []
    for epochs in KEPT_EPOCHS:
        kept = [run.by_epochs[epochs] for run in runs.values() if epochs in run.by_epochs]
        found.append(_mean([float(each["validation_auc"]) for each in kept]))
    return found


def _initial(runs: Runs) -> Mean | None:
    return _mean([float(run.result["validation_auc"]) for run in runs.values() if "validation_auc" in run.result])


def _mean(values: list[float]) -> Mean | None:
    """Return the mean without an interval, or None without values."""
    return Mean(value := fmean(values), value, value, tuple(values)) if values else None


def _last(values: Floats) -> float:
    return float(values[np.isfinite(values)][-1])
