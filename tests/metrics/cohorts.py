"""Made-up cohorts whose true AUC is known."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

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
    """Labels of whole patients, 30 % of each class; scores of variance 1, of which ``shared`` is the patient's own."""
    labels = random.random((patients, classes)) < 0.3
    labels[0], labels[1] = True, False
    who = np.repeat(np.arange(patients), frames)
    own = shift * labels + math.sqrt(shared) * random.normal(size=labels.shape)
    return labels[who], own[who] + math.sqrt(1 - shared) * random.normal(size=(len(who), classes)), who


def true_auc(shift: float) -> float:
    """Of normal scores with variance 1 and means ``shift`` apart."""
    return NormalDist().cdf(shift / math.sqrt(2))
