"""Saved scores of evaluations, and comparison of evaluations patient by patient."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.storage.files import write_bytes
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.scoring import LEVELS, RECORDING_LEVELS, outputs_by_level
from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.calibration import reliability
from clocs.metrics.class_metrics import ClassMetrics
from clocs.metrics.intervals import Difference
from clocs.metrics.ranking import roc_curves
from clocs.training.runs import read_config

FILE = "scores.npz"


def save_scores(folder: Path, scores: ModelOutputs) -> None:
    """Write scores with their labels to the folder of an evaluation."""
    raw = io.BytesIO()
    np.savez_compressed(
        raw,
        scores=scores.values,
        truth=scores.truth,
        record=scores.record,
        patient=scores.patient,
        classes=np.array(scores.classes),
    )
    write_bytes(folder / FILE, raw.getvalue())


def load_scores(folder: Path) -> ModelOutputs:
    """Read the scores of an evaluation.

    Raises:
        StoreError: The folder is not that of an evaluation.
        IntegrityError: The file is damaged.
    """
    path = folder / FILE
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as saved:
            classes = tuple(str(name) for name in saved["classes"])
            return ModelOutputs(saved["scores"], saved["truth"], saved["record"], saved["patient"], classes)
    except OSError as error:
        raise StoreError(f"{folder} has no finished evaluation: {error}") from error
    except Exception as error:  # numpy raises many types for damaged bytes
        raise IntegrityError(f"{path}: cannot be read: {error!r:.200}. Evaluate again into another folder.") from error


def compare(first: list[Path], second: list[Path], *, replicates: int = 1000) -> dict[str, Difference]:
    """Compute the difference in macro AUC between two sets of evaluations, with intervals over patients.

    Args:
        first: Folders of evaluations that differ only by their seed.
        second: Folders of the evaluations to subtract.
        replicates: Bootstrap replicates of the intervals.

    Returns:
        First minus second, by level.

    Raises:
        ConfigError: The evaluations have different stores, splits, frames or patients.
    """
    data = {_data_hashes(folder) for folder in (*first, *second)}
    if len(data) != 1:
        raise ConfigError("These evaluations have different stores or splits. Compare evaluations of the same data.")
    sides = [[load_scores(folder) for folder in folders] for folders in (first, second)]
    are_frames = all(_levels(folder) == LEVELS for folder in (*first, *second))
    return differences(*sides, levels=LEVELS if are_frames else RECORDING_LEVELS, replicates=replicates)


def differences(
    first: Sequence[ModelOutputs],
    second: Sequence[ModelOutputs],
    *,
    levels: Sequence[str] = LEVELS,
    replicates: int = 1000,
) -> dict[str, Difference]:
    """Compute the differences of :func:`compare` from scores.

    Args:
        first: Scores of evaluations that differ only by their seed.
        second: Scores to subtract, of the same patients.
        levels: Levels to compare.
        replicates: Bootstrap replicates of the intervals.
    """
    sides = [[dict(outputs_by_level(run)) for run in side] for side in (first, second)]
    result = {}
    for level in levels:
        a, b = ([run[level] for run in side] for side in sides)
        _check_rows(a, b)
        metrics = [
            [ClassMetrics(run.truth, run.values, run.patient, names=("auc",)) for run in side] for side in (a, b)
        ]
        drawn = bootstrap(metrics[0], replicates=replicates)
        result[level] = drawn.difference(bootstrap(metrics[1], replicates=replicates, draws_of=drawn), "auc")
    return result


def _check_rows(first: list[ModelOutputs], second: list[ModelOutputs]) -> None:
    """Raise an error if runs of one side have different rows, or the sides have different patients."""
    for one, *rest in (first, second):
        if not all(np.array_equal(one.record, run.record) and np.array_equal(one.truth, run.truth) for run in rest):
            raise ConfigError("Evaluations of one side must have the same frames. Pass runs that differ by their seed.")
    if not np.array_equal(np.unique(first[0].patient), np.unique(second[0].patient)):
        raise ConfigError("Some patients have frames on one side only. Compare evaluations of the same patients.")


def draw_scores(folder: Path, out: Path, level: str = "recording") -> list[Path]:
    """Draw ROC curves and a reliability diagram of an evaluation.

    Args:
        folder: Folder of the evaluation.
        out: Folder to write the pictures to.
        level: ``frame``, ``recording`` or ``patient``.

    Returns:
        The paths of the pictures.
    """
    from clocs.drawing.curves import draw_reliability, draw_roc

    by_level = {name: rows for name, rows in outputs_by_level(load_scores(folder)) if name in _levels(folder)}
    if level not in by_level:
        raise ConfigError(f"Unknown level '{level}'. Levels: {', '.join(by_level)}.")
    rows = by_level[level]
    paths = [out / f"{kind}-{level}.png" for kind in ("roc", "reliability")]
    draw_roc(dict(zip(rows.classes, roc_curves(rows.truth, rows.values), strict=True)), paths[0])
    measured = reliability(rows.truth, rows.values)
    draw_reliability(
        rows.classes, measured.edges, measured.count, measured.mean_probability, measured.observed, paths[1]
    )
    return paths


def _levels(folder: Path) -> tuple[str, ...]:
    """Return the levels of an evaluation. Probes of recordings have no frames."""
    try:
        representation = read_config(folder).get("representation", "frames")
    except OSError as error:
        raise StoreError(f"{folder} has no finished evaluation: {error}") from error
    return LEVELS if representation == "frames" else RECORDING_LEVELS


def _data_hashes(folder: Path) -> tuple[str, str]:
    try:
        config = read_config(folder)
        return config["store_sha256"], config["split_sha256"]
    except (OSError, KeyError) as error:
        raise StoreError(f"{folder} has no finished evaluation: {error}") from error
