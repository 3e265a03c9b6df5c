"""Metrics of class probabilities per frame, recording and patient, with confidence intervals over patients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.evaluation.model_outputs import ModelOutputs
from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.calibration import brier_score, expected_calibration_error
from clocs.metrics.class_metrics import ClassMetrics
from clocs.metrics.pooling import pool, pool_truth

LEVELS = ("frame", "recording", "patient")
"""``frame``: every lead and frame by itself, as in the paper. Others: the mean over a recording or a patient."""
RECORDING_LEVELS = LEVELS[1:]
"""Levels of classifiers of whole recordings."""


def outputs_by_level(scores: ModelOutputs) -> Iterator[tuple[str, ModelOutputs]]:
    """Iterate over the levels, with the scores of each."""
    for level, groups in zip(LEVELS, (None, scores.record, scores.patient), strict=True):
        yield level, scores if groups is None else pool_outputs(scores, groups)


def pool_outputs(scores: ModelOutputs, groups: npt.NDArray[np.int64]) -> ModelOutputs:
    """Average the values of each group.

    Args:
        scores: N rows.
        groups: Group of each row, (N,).

    Returns:
        One row a group, by ascending group.
    """
    unique, values = pool(scores.values, groups)
    first = np.unique(groups, return_index=True)[1]
    assert np.array_equal(groups[first], unique)
    truth = pool_truth(scores.truth, groups)[1]
    return ModelOutputs(values.astype(np.float32), truth, scores.record[first], scores.patient[first], scores.classes)


def compute_metrics(scores: ModelOutputs, *, levels: Sequence[str] = LEVELS, replicates: int = 1000) -> dict[str, Any]:
    """Compute AUC, average precision and calibration of class probabilities.

    Args:
        scores: Class probabilities of a test part.
        levels: Levels to compute.
        replicates: Bootstrap replicates of the intervals.

    Returns:
        Metrics by level as JSON: macro averages, and those of each class.
    """
    return {level: _level_metrics(rows, replicates) for level, rows in outputs_by_level(scores) if level in levels}


def _level_metrics(rows: ModelOutputs, replicates: int) -> dict[str, Any]:
    drawn = bootstrap(ClassMetrics(rows.truth, rows.values, rows.patient), replicates=replicates)
    areas, precisions = drawn.classes("auc"), drawn.classes("average_precision")
    errors, squares = expected_calibration_error(rows.truth, rows.values), brier_score(rows.truth, rows.values)
    classes = {
        name: {
            "auc": areas[column].as_dict(),
            "average_precision": precisions[column].as_dict(),
            "positives": int(rows.truth[:, column].sum()),
            "calibration_error": float(errors[column]),
            "brier": float(squares[column]),
        }
        for column, name in enumerate(rows.classes)
    }
    return {
        "auc": drawn.macro("auc").as_dict(),
        "average_precision": drawn.macro("average_precision").as_dict(),
        "calibration_error": float(errors.mean()),
        "rows": len(rows.truth),
        "patients": len(np.unique(rows.patient)),
        "classes": classes,
    }


def format_interval(interval: dict[str, float | None]) -> str:
    """Format an interval of a result: ``0.947 (0.942 to 0.953)``."""
    value, low, high = (interval[key] for key in ("value", "low", "high"))
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else "")
