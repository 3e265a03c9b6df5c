"""How the paper's methods learned on Chapman: losses, the rank of embeddings, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from clocs.drawing.curves import LearningCurve, draw_learning_curves
from reproduction.cells import LEVELS, Evaluation, Pretraining
from reproduction.experiments import METHODS
from reproduction.report.figures import Drawn
from reproduction.report.page import DASH, METHOD_NAMES, Entry, Table, value_entry
from reproduction.report.results import Finished, Results

DATASET: Final = "chapman"


def learning_table(results: Results) -> Table:
    """Methods by loss and rank of embeddings, and the AUC of a linear classifier with half of the labels."""
    rows = []
    for name, start, trained in _trained(results):
        loss, rank = (trained.row["curves"][key] for key in ("validation_loss", "effective_rank"))
        judged = results.of(Evaluation(protocol="linear", start=start, dataset=DATASET))
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


def learning_curves(results: Results) -> Drawn:
    """Losses and rank epoch by epoch, a column a method."""
    curves = {}
    for name, _, trained in _trained(results):
        given = trained.row["curves"]
        values = (np.asarray(given[key]) for key in ("train_loss", "validation_loss", "effective_rank"))
        curves[name] = LearningCurve(np.arange(len(given["train_loss"])), *values)
    if not curves:
        return []
    shows = f"Losses and effective rank of {', '.join(curves)} on Chapman, epoch by epoch"
    return [("figure-learning", draw_learning_curves(curves), shows)]


def _trained(results: Results) -> Iterator[tuple[str, Pretraining, Finished]]:
    """The first seed of each method of the paper that is done."""
    for method in METHODS:
        start = Pretraining(method=method, dataset=DATASET)
        found = results.of(start)
        if found is not None:
            yield METHOD_NAMES[method], start, found
