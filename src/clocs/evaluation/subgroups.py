"""Metrics by sex and by age group."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.scoring import Adjust, pool_outputs
from clocs.metrics.bootstrap import bootstrap_intervals
from clocs.store.store import Store

AGE_EDGES = (0, 18, 40, 60, 75, 200)
"""Edges of the age groups in years."""
MIN_RECORDINGS = 30
"""Recordings that a group needs for an AUC."""


def compute_subgroup_metrics(
    scores: ModelOutputs, store: Store, *, adjust: Adjust | None = None
) -> dict[str, dict[str, Any]]:
    """Compute the macro AUC per recording of each group, with intervals.

    Args:
        scores: Class probabilities of a test part.
        store: The store, for age and sex.
        adjust: Calibration of the mean probabilities of recordings.

    Returns:
        By group, the number of recordings and the AUC, or None for fewer than 30 recordings. The macro average is
        over the classes with positive and negative recordings in the group.
    """
    rows = pool_outputs(scores, scores.record, adjust)
    table = store.table(["age", "sex"])
    age = np.array([np.nan if value is None else value for value in table.column("age").to_pylist()], float)
    sex = np.array([value or "unknown" for value in table.column("sex").to_pylist()])
    groups = {name: sex[rows.record] == name for name in ("female", "male", "unknown")}
    for low, high in pairwise(AGE_EDGES):
        name = f"age {low} and over" if high == AGE_EDGES[-1] else f"age {low} to {high - 1}"
        groups[name] = (age[rows.record] >= low) & (age[rows.record] < high)
    metrics = {}
    for name, members in groups.items():
        if not members.any():
            continue
        part = rows.select(np.flatnonzero(members))
        enough = len(part.values) >= MIN_RECORDINGS
        interval = bootstrap_intervals(part.truth, part.values, part.patient).macro_auc.as_dict() if enough else None
        metrics[name] = {"recordings": len(part.values), "auc": interval}
    return metrics
