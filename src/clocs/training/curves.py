"""Learning curves of runs, drawn side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clocs.core.errors import StoreError
from clocs.drawing.curves import LearningCurve, draw_learning_curves
from clocs.training.runs import METRICS, finished_epochs


def learning_curve(run: str | os.PathLike[str]) -> LearningCurve:
    """Return the losses and effective ranks of a run's finished epochs.

    Raises:
        StoreError: There is no such run, or no finished epoch.
    """
    if not Path(run).exists():
        raise StoreError(f"{run} does not exist. Name the folder of a run; do not quote '*', which the shell expands.")
    if not (Path(run) / METRICS).exists():
        raise StoreError(f"{run} is not a run: it has no {METRICS}")
    epochs = finished_epochs(Path(run))
    if not epochs:
        raise StoreError(f"{run}: no epoch is finished yet")
    columns = ("epoch", "train_loss", "validation_loss", "effective_rank")
    return LearningCurve(*(np.array([line[name] for line in epochs]) for name in columns))


def draw_runs(runs: Sequence[str | os.PathLike[str]], out: Path, title: str = "") -> None:
    """Draw a column for each run: losses above, effective rank of the embeddings below."""
    names = [Path(run).name for run in runs]
    short = [name.rpartition("-")[0] for name in names]  # without the hash, if the names still differ
    paths = [os.fspath(run) for run in runs]
    labels = next((tried for tried in (short, names) if len(set(tried)) == len(tried) and all(tried)), paths)
    curves = (learning_curve(run) for run in runs)
    draw_learning_curves(dict(zip(labels, curves, strict=True)), out, title)
