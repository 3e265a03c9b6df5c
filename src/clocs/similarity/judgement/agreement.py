"""Do neighbours have the same diagnosis? Precision at k, beside what a random neighbour would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.metrics.bootstrap import FEWEST, bootstrap_measures
from clocs.metrics.ranking import Bools, Floats, macro
from clocs.similarity.segments import unit_length

NEIGHBOURS: Final = 10
FEWEST_QUERIES: Final = 30
"""Patients for an interval of a mean over them."""
BLOCK: Final = 256
"""Queries whose cosines to everyone are held at once."""


def neighbour_agreement(
    values: npt.NDArray[np.floating],
    labels: Bools,
    classes: Sequence[str],
    *,
    k: int = NEIGHBOURS,
    replicates: int = 1000,
) -> dict[str, Any]:
    """Precision at k of the neighbours' labels, for patients (P, E) with labels (P, K), as JSON.

    A class's precision is the share of a patient's k nearest others (by cosine) who have the class too, mean over the
    patients who have it; ``macro`` is the mean over classes. ``micro`` is the mean over patients, where one with
    several labels has the mean over them, and one without is no query. ``chance`` is what random
    others give: prevalence without the query. Intervals, 95 %, are over query patients; the archive stays as it is.
    There are none for a class of fewer than 3 patients, nor for the means over fewer than 30 queries.
    """
    shares = neighbour_shares(values, labels, k)
    others = (labels.sum(0) - 1) / (len(labels) - 1)
    measures = _measures(labels, shares)
    found = bootstrap_measures(measures, len(labels), replicates=replicates)
    queries = int(labels.any(1).sum())
    enough = [*(labels.sum(0) >= FEWEST), queries >= FEWEST_QUERIES, queries >= FEWEST_QUERIES]
    *each, over_classes, over_patients = (
        one if many else replace(one, low=np.nan, high=np.nan) for one, many in zip(found, enough, strict=True)
    )
    expected = _measures(labels, np.broadcast_to(others, labels.shape))(np.ones(len(labels)))
    told = {
        name: {
            "patients": int(labels[:, place].sum()),
            "precision": each[place].as_dict(),
            "chance": _number(expected[place]),
        }
        for place, name in enumerate(classes)
    }
    return {
        "k": k,
        "patients": len(labels),
        "queries": queries,
        "macro": over_classes.as_dict(),
        "micro": over_patients.as_dict(),
        "chance": {"macro": _number(expected[-2]), "micro": _number(expected[-1])},
        "classes": told,
    }


def neighbour_shares(values: npt.NDArray[np.floating], labels: Bools, k: int) -> Floats:
    """(P, K) the share of each patient's k nearest others who have a class.

    Where others tie for the last places, it is the mean over all ways to choose among them.
    """
    if not 0 < k < len(values):
        raise ConfigError(f"{k} neighbours of {len(values)} patients: there must be at least one, and more patients")
    vectors, truth = unit_length(values), labels.astype(np.float64)
    shares = np.empty(labels.shape)
    for begin in range(0, len(vectors), BLOCK):
        rows = np.arange(begin, min(begin + BLOCK, len(vectors)))
        cosine = vectors[rows] @ vectors.T
        cosine[rows - begin, rows] = -np.inf
        last = np.partition(cosine, -k, axis=1)[:, -k, None]
        nearer, tied = cosine > last, cosine == last
        places = (k - nearer.sum(1)) / tied.sum(1)
        shares[rows] = (nearer @ truth + places[:, None] * (tied @ truth)) / k
    return shares


def _measures(labels: Bools, shares: Floats) -> Callable[[Floats], Floats]:
    """How often each patient is drawn (P,) -> precision of each class, macro and micro (K + 2,)."""
    has, agreeing, queries = labels.astype(np.float64), labels * shares, labels.any(1).astype(np.float64)
    own = agreeing.sum(1) / np.maximum(labels.sum(1), 1)

    def measure(times: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            each, micro = (times @ agreeing) / (times @ has), (times @ own) / (times @ queries)
        return np.array([*each, macro(each), micro])

    return measure


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
