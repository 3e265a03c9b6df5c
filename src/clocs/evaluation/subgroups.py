"""Metrics by the values of a column, such as sex, age or device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.scoring import pool_outputs
from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.class_metrics import ClassMetrics
from clocs.store.extra_columns import match_values
from clocs.store.store import Store

AGE_EDGES: Final = (0, 18, 40, 60, 75, 200)
"""Edges of the age groups in years."""
MIN_RECORDINGS: Final = 30
"""Recordings that a group needs for an AUC."""
MAX_VALUES: Final = 20
"""Number of different values above which numbers are grouped by quarters, and rare texts are joined to ``other``."""
Masks = dict[str, npt.NDArray[np.bool_]]


def compute_subgroup_metrics(
    scores: ModelOutputs, store: Store, columns: Sequence[str] = ("sex", "age")
) -> dict[str, dict[str, Any]]:
    """Compute the macro AUC per recording of each group, with intervals.

    Args:
        scores: Class probabilities of a test part.
        store: The store.
        columns: Columns of the store. Each value of a column is a group; ages and numbers with many values are
            grouped by ranges.

    Returns:
        By group, the number of recordings and the AUC, or None for fewer than 30 recordings. The macro average is
        over the classes with positive and negative recordings in the group.

    Raises:
        ConfigError: A column is unknown.
    """
    rows = pool_outputs(scores, scores.record)
    metrics = {}
    for column in columns:
        cells = store.table(column).column(0).take(pa.array(rows.record))
        for name, members in _groups(column, cells).items():
            if not members.any():
                continue
            part = rows.select(np.flatnonzero(members))
            enough = len(part.values) >= MIN_RECORDINGS
            metrics[name] = {"recordings": len(part.values), "auc": _macro_auc(part) if enough else None}
    return metrics


def _macro_auc(rows: ModelOutputs) -> dict[str, float | None]:
    drawn = bootstrap(ClassMetrics(rows.truth, rows.values, rows.patient, names=("auc",)))
    return drawn.macro("auc").as_dict()


def _groups(column: str, cells: pa.ChunkedArray) -> Masks:
    """Return a mask (N,) of each group of a column."""
    if column == "age":
        return _ranges(column, _numbers(cells), AGE_EDGES)
    if pa.types.is_list(cells.type):
        values = [value for row in cells.to_pylist() for value in set(row or ())]
    else:
        values = [value for value in cells.to_pylist() if value not in (None, "")]
    counts = Counter(values)
    if len(counts) > MAX_VALUES and (pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type)):
        groups = _quarters(column, _numbers(cells))
    else:
        common = sorted(value for value, _ in counts.most_common(MAX_VALUES))
        groups = {_label(column, value): match_values(column, cells, value) for value in common}
    known = np.logical_or.reduce([*groups.values(), np.zeros(len(cells), bool)])
    absent = match_values(column, cells, None) if not pa.types.is_list(cells.type) else ~known
    if pa.types.is_string(cells.type):
        absent = absent | match_values(column, cells, "")
    return groups | {_label(column, "other"): ~known & ~absent, _label(column, "unknown"): absent & ~known}


def _label(column: str, value: Any) -> str:
    """Return the name of a group. Those of sex need no column."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if column == "sex" else f"{column} {text}"


def _numbers(cells: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in cells.to_pylist()], np.float64)


def _ranges(column: str, values: npt.NDArray[np.float64], edges: Sequence[float]) -> Masks:
    """Return groups of whole numbers from each edge up to the next one, which is excluded."""
    groups = {}
    for low, high in pairwise(edges):
        name = f"{column} {low} and over" if high == edges[-1] else f"{column} {low} to {high - 1}"
        groups[name] = (values >= low) & (values < high)
    return groups


def _quarters(column: str, values: npt.NDArray[np.float64]) -> Masks:
    """Return four groups of numbers of about equal size."""
    edges = np.unique(np.nanquantile(values, [0, 0.25, 0.5, 0.75, 1]))
    groups = {}
    for number, (low, high) in enumerate(pairwise(edges.tolist())):
        is_last = number == len(edges) - 2
        name = f"{column} {low:g} to {high:g}" if is_last else f"{column} {low:g} to below {high:g}"
        groups[name] = (values >= low) & ((values <= high) if is_last else (values < high))
    return groups
