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
    """What a run's metrics say of its epochs."""
    if not Path(run).exists():
        raise StoreError(f"there is no {run}; runs are folders, and '*' is expanded by the shell unless it is quoted")
    if not (Path(run) / METRICS).exists():
        raise StoreError(f"{run} is no run: there is no {METRICS}")
    epochs = finished_epochs(Path(run))
    if not epochs:
        raise StoreError(f"{run}: no epoch is finished yet")
    columns = ("epoch", "train_loss", "validation_loss", "effective_rank")
    return LearningCurve(*(np.array([line[name] for line in epochs]) for name in columns))


def draw_runs(runs: Sequence[str | os.PathLike[str]], out: Path, title: str = "") -> None:
    """A column for each run: losses above, effective rank of the embeddings below."""
    names = [Path(run).name for run in runs]
    short = [name.rpartition("-")[0] for name in names]  # without the hash, where that tells them apart
    whole = [os.fspath(run) for run in runs]
    labels = next((tried for tried in (short, names) if len(set(tried)) == len(tried) and all(tried)), whole)
    curves = (learning_curve(run) for run in runs)
    draw_learning_curves(dict(zip(labels, curves, strict=True)), out, title)
