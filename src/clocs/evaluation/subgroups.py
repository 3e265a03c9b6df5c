"""Whether a classifier is as good for everyone: results by sex and by age."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.scoring import Adjust, pool_outputs
from clocs.metrics.bootstrap import bootstrap_intervals
from clocs.store.store import Store

AGES = (0, 18, 40, 60, 75, 200)
"""Years, from one to before the next."""
FEWEST = 30
"""Recordings below which a group says nothing."""


def compute_subgroup_metrics(
    scores: ModelOutputs, store: Store, *, adjust: Adjust | None = None
) -> dict[str, dict[str, Any]]:
    """Macro AUC per recording of each group, with intervals; over the classes that both occur and lack in it.

    ``adjust``: as of ``compute_metrics``.
    """
    rows = pool_outputs(scores, scores.record, adjust)
    table = store.table(["age", "sex"])
    age = np.array([np.nan if value is None else value for value in table.column("age").to_pylist()], float)
    sex = np.array([value or "unknown" for value in table.column("sex").to_pylist()])
    groups = {name: sex[rows.record] == name for name in ("female", "male", "unknown")}
    for low, high in pairwise(AGES):
        name = f"age {low} and over" if high == AGES[-1] else f"age {low} to {high - 1}"
        groups[name] = (age[rows.record] >= low) & (age[rows.record] < high)
    found = {}
    for name, chosen in groups.items():
        if not chosen.any():
            continue
        part = rows.pick(np.flatnonzero(chosen))
        enough = len(part.values) >= FEWEST
        interval = bootstrap_intervals(part.truth, part.values, part.patient).macro_auc.as_dict() if enough else None
        found[name] = {"recordings": len(part.values), "auc": interval}
    return found
