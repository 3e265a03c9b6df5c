"""Does it show who trained an encoder? A threshold on how alike a record's own segments are.

Training pulls the segments of its own records together, so they may be more alike than those of records it never saw.
This is one simple attack, with one score and no other model to compare with: what it finds is a lower bound of what an
attacker can do. Finding nothing does not show that there is nothing.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from clocs.metrics.bootstrap import bootstrap_measures
from clocs.metrics.pooling import pool
from clocs.metrics.ranking import Floats, OperatingPoints
from clocs.similarity.segments import Ints, Segments

MOST_FALSE: Final = 0.01
"""False positive rate at which an attack is judged: few of those it accuses were not there."""


def infer_membership(members: Segments, others: Segments, *, replicates: int = 1000) -> dict[str, Any] | None:
    """How well own similarity tells records that trained an encoder from those it never saw, as JSON; a lower bound.

    ``auc``: 0.5 is guessing. ``true_positives``: share of the members' records above a threshold that at most a share
    ``false_positives`` of the others' is above; guessing finds ``chance``, which is more where the others are few.
    Intervals, 95 %, are over patients. None: a side has no record of two segments.
    """
    sides = [own_similarity(side) for side in (members, others)]
    if not all(len(score) for _, score in sides):
        return None
    score = np.concatenate([side[1] for side in sides])
    member = np.arange(len(score)) < len(sides[0][1])
    patient = np.concatenate([2 * side[0] + place for place, side in enumerate(sides)])
    known, owner = np.unique(patient, return_inverse=True)
    points = OperatingPoints(member, score)

    def measure(times: Floats) -> Floats:
        weights = times[owner]
        return np.array([points.auc(weights), points.true_positive_rate_at(MOST_FALSE, weights)])

    area, found = bootstrap_measures(measure, len(known), replicates=replicates)
    return {
        "score": "mean cosine between a record's own segments",
        "auc": area.as_dict(),
        "true_positives": found.as_dict(),
        "false_positives": MOST_FALSE,
        "chance": chance_at(MOST_FALSE, int((~member).sum())),
        "members": int(member.sum()),
        "others": int((~member).sum()),
        "mean_score": {"members": float(score[member].mean()), "others": float(score[~member].mean())},
    }


def chance_at(most_false: float, others: int) -> float:
    """The share of members that scores at random put above a threshold which at most so many of the others reach.

    The threshold is the highest of the others that is not allowed; a member is as likely above it as any of them.
    """
    return (math.floor(most_false * others + 1e-9) + 1) / (others + 1)


def own_similarity(segments: Segments) -> tuple[Ints, Floats]:
    """The patient of each record that has two segments or more, and the mean cosine over pairs of its segments."""
    _, first, count = np.unique(segments.record, return_index=True, return_counts=True)
    several = count > 1
    total = pool(segments.values, segments.record)[1] * count[:, None]
    squares = pool((segments.values.astype(np.float64) ** 2).sum(1, keepdims=True), segments.record)[1][:, 0] * count
    ordered_pairs = (total**2).sum(1) - squares  # the square of a sum, without that of each with itself
    return segments.patient[first][several], ordered_pairs[several] / (count * (count - 1))[several]
