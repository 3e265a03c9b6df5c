"""Simulated cohorts with a known AUC."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.class_metrics import ClassMetrics
from clocs.metrics.intervals import Interval

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def make_cohort(
    random: np.random.Generator,
    patients: int = 40,
    frames: int = 3,
    *,
    classes: int = 2,
    shift: float = 1.0,
    shared: float = 0.6,
) -> tuple[Bools, Floats, Ints]:
    """Return labels, scores and patients of rows.

    Each class has 30 % of the patients. Scores have variance 1, of which patients share ``shared``.
    """
    labels = random.random((patients, classes)) < 0.3
    labels[0], labels[1] = True, False
    patient = np.repeat(np.arange(patients), frames)
    means = shift * labels + math.sqrt(shared) * random.normal(size=labels.shape)
    scores = means[patient] + math.sqrt(1 - shared) * random.normal(size=(len(patient), classes))
    return labels[patient], scores, patient


def true_auc(shift: float) -> float:
    """Return the AUC of normal scores with variance 1 and a difference of means of ``shift``."""
    return NormalDist().cdf(shift / math.sqrt(2))


def auc_interval(truth: Bools, scores: Floats, patients: Ints, *, replicates: int, seed: int) -> Interval:
    """Return the 95 % interval of the macro AUC."""
    metrics = ClassMetrics(truth, scores, patients, names=("auc",))
    return bootstrap(metrics, replicates=replicates, seed=seed).macro("auc")
