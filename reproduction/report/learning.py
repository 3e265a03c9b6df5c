"""Learning curves of the paper's methods on Chapman: losses, effective rank and AUC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from clocs.drawing.curves import LearningCurve, draw_learning_curves
from reproduction.cells import LEVELS, Evaluation, Pretraining
from reproduction.experiments import METHODS
from reproduction.report.figures import NamedFigures
from reproduction.report.page import DASH, METHOD_NAMES, Entry, Table, value_entry
from reproduction.report.results import FinishedCell, Results

DATASET: Final = "chapman"


def learning_table(results: Results) -> Table:
    """Return loss, effective rank and AUC of a linear evaluation by method."""
    rows = []
    for name, start, trained in _trained(results):
        loss, rank = (trained.row["curves"][key] for key in ("validation_loss", "effective_rank"))
        judged = results.get(Evaluation(protocol="linear", start=start, dataset=DATASET))
        rows.append(
            (
                Entry(name),
                Entry(f"{loss[0]:.2f}, {min(loss):.2f}"),
                Entry(f"{rank[0]:.0f}, {rank[-1]:.0f}"),
                Entry(str(trained.result["epochs"])),
                *(Entry(DASH) if judged is None else value_entry(judged.auc(level)) for level in LEVELS),
            )
        )
    titles = ("validation loss, first and best epoch", "effective rank, first and last epoch", "epochs")
    return Table(("method", *titles, "AUC per frame", "AUC per recording"), tuple(rows))


def learning_curves(results: Results) -> NamedFigures:
    """Return a figure of losses and effective rank by epoch, with a column for each method."""
    curves = {}
    for name, _, trained in _trained(results):
        given = trained.row["curves"]
        values = (np.asarray(given[key]) for key in ("train_loss", "validation_loss", "effective_rank"))
        curves[name] = LearningCurve(np.arange(len(given["train_loss"])), *values)
    if not curves:
        return []
    shows = f"Losses and effective rank of {', '.join(curves)} on Chapman, epoch by epoch"
    return [("figure-learning", draw_learning_curves(curves), shows)]


def _trained(results: Results) -> Iterator[tuple[str, Pretraining, FinishedCell]]:
    """Iterate over the finished pre-trainings of the first seed."""
    for method in METHODS:
        start = Pretraining(method=method, dataset=DATASET)
        found = results.get(start)
        if found is not None:
            yield METHOD_NAMES[method], start, found
