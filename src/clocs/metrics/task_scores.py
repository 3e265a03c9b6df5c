"""All metrics of one task on its test recordings: the content of one row of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.metrics.bootstrap import Bootstrap, Metrics, bootstrap
from clocs.metrics.challenges import Challenge
from clocs.metrics.class_metrics import CALIBRATION, EXCLUSIVE, RANKING, THRESHOLDED, ClassMetrics
from clocs.metrics.pooling import pool, pool_truth
from clocs.metrics.ranking import Bools, Floats
from clocs.metrics.regression import RegressionMetrics
from clocs.metrics.resampling import Patients
from clocs.metrics.thresholds import Thresholds, confusion_matrix, highest_score

Kind = Literal["multi-label", "multi-class", "binary", "regression"]
Scores = npt.NDArray[np.floating]
Runs = Scores | Sequence[Scores]

MIN_POSITIVES: Final = 10
"""Minimum number of positive test recordings of a class for the second macro average."""


def score_task(
    kind: Kind,
    truth_or_values: Bools | Scores,
    scores: Runs,
    patients: Patients,
    *,
    validation: tuple[Bools, Runs] | None = None,
    untrained: Bools | Sequence[Bools] | None = None,
    classes: Sequence[str] | None = None,
    challenge: Challenge | None = None,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Compute all metrics of a task per recording and per patient, with intervals over patients.

    Thresholds are chosen on validation recordings and applied to test recordings and to the mean scores of patients. A
    patient has every class of their recordings, and the mean of the values of a regression.

    Args:
        kind: ``multi-label``, ``multi-class``, ``binary`` or ``regression``.
        truth_or_values: Labels of test recordings, of shape (N, K), (N,) for a binary task; values of shape (N,) for a
            regression. A recording has exactly one class of a multi-class task.
        scores: Scores or predicted values in the same shape, or a sequence of them for several runs, for example one
            for each draw of labels. Metrics are averaged over runs, and intervals are over patients and runs together.
            Calibration is measured if all scores are between 0 and 1.
        patients: Patient of each recording, of shape (N,).
        validation: Labels and scores of validation recordings, for the thresholds; scores of each run if there are
            several. None: there are no metrics of thresholds.
        untrained: Classes without a labelled training positive, of shape (K,), or a sequence of them for each run.
            Their AUC is 0.5, and they are never predicted.
        classes: Names of the classes; None for ``"0"`` to ``"K-1"``.
        challenge: Score of a challenge to compute per recording, see :mod:`clocs.metrics.challenges`.
        replicates: Number of bootstrap replicates.
        level: Confidence level.
        seed: Seed of the bootstrap.

    Returns:
        The metrics for JSON. ``recording`` and ``patient`` have intervals of ``macro`` averages, of ``macro_common``
        averages over classes with at least ``MIN_POSITIVES`` positive recordings, and of each of the ``classes``, with
        positives and the threshold of each run. ``confusion`` has the recordings of each class (rows) and answered
        class (columns) of a multi-class task, added up over runs. ``replicates`` has the macro averages per recording
        on each draw of patients, for :func:`clocs.metrics.replicates.difference_interval`.

    Raises:
        ValueError: Shapes do not match, or a recording of a multi-class task has not exactly one class.

    Example:
        >>> random = np.random.default_rng(0)
        >>> age = random.normal(60, 15, 100)
        >>> row = score_task("regression", age, age + random.normal(0, 5, 100), np.arange(100))
        >>> sorted(row["recording"]["macro"])
        ['mae', 'r2']
    """
    runs = _as_list(scores)
    chosen: list[Thresholds] | None = None
    masks: list[Bools] = []
    by_level: dict[str, Sequence[Metrics]]
    if kind == "regression":
        by_level = _regression_levels(np.asarray(truth_or_values, np.float64), runs, patients)
    else:
        truth, runs = _as_classes(kind, truth_or_values), [_as_columns(run) for run in runs]
        masks = _masks(untrained, len(runs), truth.shape[1])
        chosen = None if validation is None else _choose_thresholds(kind, validation, masks)
        by_level = _class_levels(kind, truth, runs, patients, chosen, masks, challenge)
    names = _class_names(classes, by_level["recording"][0].truth.shape[1])
    result: dict[str, Any] = {"kind": kind, "runs": len(runs), "num_replicates": replicates, "level": level}
    result["untrained"] = [int(mask.sum()) for mask in masks]
    common = by_level["recording"][0].truth.sum(axis=0) >= MIN_POSITIVES
    for name, metrics in by_level.items():
        drawn = bootstrap(metrics, replicates=replicates, seed=seed)
        result[name] = _summary(drawn, metrics[0], names, common, chosen, level)
        if name == "recording":
            result["replicates"] = _stored(drawn)
    if kind == "multi-class":
        answers = (highest_score(run, untrained=mask) for run, mask in zip(runs, masks, strict=True))
        confusion = sum(confusion_matrix(by_level["recording"][0].truth, each) for each in answers)
        result["recording"]["confusion"] = np.asarray(confusion).tolist()
    return result


def _regression_levels(values: Floats, runs: Sequence[Scores], patients: Patients) -> dict[str, Sequence[Metrics]]:
    recordings = [RegressionMetrics(values, run, patients) for run in runs]
    pooled = []
    for run in runs:
        groups, means = pool(np.stack([values, run], axis=1), patients)
        pooled.append(RegressionMetrics(means[:, 0], means[:, 1], groups))
    return {"recording": recordings, "patient": pooled}


def _class_levels(
    kind: Kind,
    truth: Bools,
    runs: Sequence[Scores],
    patients: Patients,
    chosen: Sequence[Thresholds] | None,
    masks: Sequence[Bools],
    challenge: Challenge | None,
) -> dict[str, Sequence[Metrics]]:
    are_probabilities = all(run.min(initial=0.0) >= 0 and run.max(initial=1.0) <= 1 for run in runs)
    names = (*RANKING, *(() if chosen is None else THRESHOLDED), *(CALIBRATION if are_probabilities else ()))
    groups, pooled_truth = pool_truth(truth, patients)
    recordings, pooled = [], []
    for index, (run, mask) in enumerate(zip(runs, masks, strict=True)):
        thresholds = None if chosen is None else chosen[index]
        extra = EXCLUSIVE if kind == "multi-class" else ()
        recordings.append(
            ClassMetrics(
                truth,
                run,
                patients,
                names=(*names, *extra),
                thresholds=thresholds,
                untrained=mask,
                challenge=challenge,
            )
        )
        means = pool(run, patients)[1]
        pooled.append(ClassMetrics(pooled_truth, means, groups, names=names, thresholds=thresholds, untrained=mask))
    return {"recording": recordings, "patient": pooled}


def _summary(
    drawn: Bootstrap,
    metrics: Metrics,
    names: Sequence[str],
    common: Bools,
    chosen: Sequence[Thresholds] | None,
    level: float,
) -> dict[str, Any]:
    """Return the metrics of one level for JSON."""
    options: dict[str, Any] = {"level": level, "resample_runs": True}
    of_classes = [name for name, value in drawn.values.items() if value.ndim == 2]
    summary: dict[str, Any] = {
        "rows": len(metrics.truth),
        "patients": drawn.resampler.size,
        "macro": {name: drawn.macro(name, **options).as_dict() for name in drawn.values},
    }
    if not names:
        return summary
    positives, by_class = metrics.truth.sum(axis=0), {name: drawn.classes(name, **options) for name in of_classes}
    summary["common_classes"] = int(common.sum())
    summary["macro_common"] = {name: drawn.macro(name, classes=common, **options).as_dict() for name in of_classes}
    summary["classes"] = {
        label: {
            "positives": int(positives[column]),
            "thresholds": None if chosen is None else [run.as_list()[column] for run in chosen],
            **{name: intervals[column].as_dict() for name, intervals in by_class.items()},
        }
        for column, label in enumerate(names)
    }
    return summary


def _stored(drawn: Bootstrap) -> dict[str, list[dict[str, Any]] | None]:
    """Return the replicates of the macro averages for JSON, one for each run; None if a class is too rare."""
    stored = {name: drawn.replicates(name) for name in drawn.values}
    return {name: None if runs is None else [run.as_dict() for run in runs] for name, runs in stored.items()}


def _choose_thresholds(kind: Kind, validation: tuple[Bools, Runs], masks: Sequence[Bools]) -> list[Thresholds]:
    truth, scores = _as_classes(kind, validation[0]), _as_list(validation[1])
    if len(scores) != len(masks):
        raise ValueError(f"Expected validation scores of {len(masks)} runs, got {len(scores)}.")
    return [Thresholds.fit(truth, _as_columns(run), untrained=mask) for run, mask in zip(scores, masks, strict=True)]


def _as_list(scores: Runs) -> list[Scores]:
    """Return the scores of each run. An array of one or two dimensions is one run."""
    return [scores] if isinstance(scores, np.ndarray) and scores.ndim < 3 else [np.asarray(run) for run in scores]


def _as_columns(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values[:, None] if values.ndim == 1 else values


def _as_classes(kind: Kind, truth: npt.NDArray[Any]) -> Bools:
    """Return labels of shape (N, K)."""
    columns = _as_columns(np.asarray(truth))
    if kind == "binary" and columns.shape[1] != 1:
        raise ValueError(f"Expected labels of shape (N,) or (N, 1) of a binary task, got {columns.shape}.")
    if kind == "multi-class" and not (columns.sum(axis=1) == 1).all():
        raise ValueError("Expected exactly one class per row of a multi-class task. Leave out other recordings.")
    return columns


def _masks(untrained: Bools | Sequence[Bools] | None, num_runs: int, num_classes: int) -> list[Bools]:
    """Return the untrained classes of each run, of shape (K,) each."""
    found = np.zeros(num_classes, np.bool_) if untrained is None else np.asarray(untrained, np.bool_)
    if found.shape not in ((num_classes,), (num_runs, num_classes)):
        raise ValueError(
            f"Expected untrained of shape ({num_classes},) or ({num_runs}, {num_classes}), got {found.shape}."
        )
    return list(np.broadcast_to(found, (num_runs, num_classes)))


def _class_names(classes: Sequence[str] | None, num_classes: int) -> tuple[str, ...]:
    if classes is not None and len(classes) != num_classes:
        raise ValueError(f"Expected {num_classes} names of classes, got {len(classes)}.")
    return tuple(map(str, range(num_classes) if classes is None else classes))
