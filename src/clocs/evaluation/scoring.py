"""How good scores are: per frame, per recording and per patient, with intervals over patients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.evaluation.model_outputs import ModelOutputs
from clocs.metrics.bootstrap import bootstrap_intervals
from clocs.metrics.calibration import brier_score, expected_calibration_error
from clocs.metrics.pooling import pool, pool_truth

LEVELS = ("frame", "recording", "patient")
"""``frame``: every lead and frame by itself, as the paper reports. Else the mean of a recording's, or a patient's."""


Adjust = Callable[[npt.NDArray[np.floating]], npt.NDArray[np.floating]]
"""(G, K) means of probabilities to those of the wholes."""


def scores_by_level(scores: ModelOutputs, adjust: Adjust | None = None) -> Iterator[tuple[str, ModelOutputs]]:
    """The scores of each level."""
    for level, groups in zip(LEVELS, (None, scores.record, scores.patient), strict=True):
        yield level, scores if groups is None else pool_outputs(scores, groups, adjust)


def pool_outputs(scores: ModelOutputs, groups: npt.NDArray[np.int64], adjust: Adjust | None = None) -> ModelOutputs:
    """One row a group, its values averaged, and adjusted."""
    unique, values = pool(scores.values, groups)
    values = values if adjust is None else np.asarray(adjust(values))
    first = np.unique(groups, return_index=True)[1]
    assert np.array_equal(groups[first], unique)
    truth = pool_truth(scores.truth, groups)[1]
    return ModelOutputs(values.astype(np.float32), truth, scores.record[first], scores.patient[first], scores.classes)


def compute_metrics(scores: ModelOutputs, *, adjust: Adjust | None = None, replicates: int = 1000) -> dict[str, Any]:
    """Everything there is to say about the probabilities of a test part, as JSON."""
    return {level: _level(rows, replicates) for level, rows in scores_by_level(scores, adjust)}


def _level(rows: ModelOutputs, replicates: int) -> dict[str, Any]:
    found = bootstrap_intervals(rows.truth, rows.values, rows.patient, replicates=replicates).as_dict()
    errors, squares = expected_calibration_error(rows.truth, rows.values), brier_score(rows.truth, rows.values)
    classes = {
        name: {
            "auc": found["auc"][place],
            "average_precision": found["average_precision"][place],
            "positives": int(rows.truth[:, place].sum()),
            "calibration_error": float(errors[place]),
            "brier": float(squares[place]),
        }
        for place, name in enumerate(rows.classes)
    }
    return {
        "auc": found["macro_auc"],
        "average_precision": found["macro_average_precision"],
        "calibration_error": float(errors.mean()),
        "rows": len(rows.truth),
        "patients": len(np.unique(rows.patient)),
        "classes": classes,
    }


def format_interval(interval: dict[str, float | None]) -> str:
    """An interval of a result, for people: ``0.947 (0.942 to 0.953)``."""
    value, low, high = (interval[key] for key in ("value", "low", "high"))
    if value is None:
        return "-"
    return f"{value:.3f}" + (f" ({low:.3f} to {high:.3f})" if low is not None and high is not None else "")
