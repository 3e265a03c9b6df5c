"""Retrieval scores: label agreement of neighbors, and retrieval of a patient's own segments.

Precision at k is reported beside its chance level. For retrieval, a segment is the query, and the patient's other
segments are ranked among those of all patients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.metrics.bootstrap import bootstrap_metrics
from clocs.metrics.ranking import Bools, Floats, macro_average
from clocs.metrics.resampling import MIN_PATIENTS
from clocs.similarity.segments import Ints, Segments, unit_length

NUM_NEIGHBORS: Final = 10
MIN_QUERIES: Final = 30
"""Minimum number of patients for statistics; with fewer, only ranks are reported."""
QUERIES_PER_BLOCK: Final = 256
"""Queries per block of cosines."""


def neighbor_agreement(
    values: npt.NDArray[np.floating],
    labels: Bools,
    classes: Sequence[str],
    *,
    k: int = NUM_NEIGHBORS,
    replicates: int = 1000,
) -> dict[str, Any]:
    """Return the precision at k of neighbors' labels.

    The precision of a class is the share of a patient's k nearest others, by cosine, with the same class. It is
    averaged over the patients with the class. ``macro`` averages over classes. ``micro`` averages over patients, after
    averaging over the labels of each. ``chance`` is the prevalence without the query. The 95 % intervals are over query
    patients. They are omitted for classes with fewer than 3 patients, and for averages over fewer than 30 queries.

    Args:
        values: Embeddings of patients, shape (P, E).
        labels: Labels of patients, shape (P, K).
        classes: Names of the K classes.
        k: Number of neighbors.
        replicates: Number of bootstrap replicates.

    Returns:
        A JSON-compatible dictionary.
    """
    shares = neighbor_label_shares(values, labels, k)
    others = (labels.sum(0) - 1) / (len(labels) - 1)
    measures = _measures(labels, shares)
    found = bootstrap_metrics(measures, len(labels), replicates=replicates)
    queries = int(labels.any(1).sum())
    enough = [*(labels.sum(0) >= MIN_PATIENTS), queries >= MIN_QUERIES, queries >= MIN_QUERIES]
    *each, over_classes, over_patients = (
        one if many else replace(one, low=np.nan, high=np.nan) for one, many in zip(found, enough, strict=True)
    )
    expected = _measures(labels, np.broadcast_to(others, labels.shape))(np.ones(len(labels)))
    by_class = {
        name: {
            "patients": int(labels[:, column].sum()),
            "precision": each[column].as_dict(),
            "chance": _nan_to_none(expected[column]),
        }
        for column, name in enumerate(classes)
    }
    return {
        "k": k,
        "patients": len(labels),
        "queries": queries,
        "macro": over_classes.as_dict(),
        "micro": over_patients.as_dict(),
        "chance": {"macro": _nan_to_none(expected[-2]), "micro": _nan_to_none(expected[-1])},
        "classes": by_class,
    }


def neighbor_label_shares(values: npt.NDArray[np.floating], labels: Bools, k: int) -> Floats:
    """Return the share of each patient's k nearest others that have each class, shape (P, K).

    Ties for the last neighbors are resolved by averaging over all choices.
    """
    if not 0 < k < len(values):
        raise ConfigError(f"Expected k from 1 to {len(values) - 1} for {len(values)} patients, got {k}.")
    vectors, truth = unit_length(values), labels.astype(np.float64)
    shares = np.empty(labels.shape)
    for begin in range(0, len(vectors), QUERIES_PER_BLOCK):
        rows = np.arange(begin, min(begin + QUERIES_PER_BLOCK, len(vectors)))
        cosine = vectors[rows] @ vectors.T
        cosine[rows - begin, rows] = -np.inf
        last = np.partition(cosine, -k, axis=1)[:, -k, None]
        nearer, tied = cosine > last, cosine == last
        weight = (k - nearer.sum(1)) / tied.sum(1)
        shares[rows] = (nearer @ truth + weight[:, None] * (tied @ truth)) / k
    return shares


def _measures(labels: Bools, shares: Floats) -> Callable[[Floats], Floats]:
    """Return a function from bootstrap counts (P,) to the precision of each class, their mean, and the mean over
    patients."""
    has, agreeing, queries = labels.astype(np.float64), labels * shares, labels.any(1).astype(np.float64)
    own = agreeing.sum(1) / np.maximum(labels.sum(1), 1)

    def measure(times: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            each, micro = (times @ agreeing) / (times @ has), (times @ own) / (times @ queries)
        return np.array([*each, macro_average(each), micro])

    return measure


def _nan_to_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def retrieve_own_segments(
    segments: Segments, *, across_recordings: bool = False, replicates: int = 1000
) -> dict[str, Any] | None:
    """Measure how well a patient's first segment retrieves another segment of the patient among all segments.

    Ranks depend on the number of segments.

    Args:
        segments: Segments of all patients.
        across_recordings: Search only in the patient's other recordings.
        replicates: Number of bootstrap replicates for the 95 % intervals over query patients.

    Returns:
        A JSON-compatible dictionary, or None if no patient has another segment. ``chance`` is for a random order. With
        fewer than ``MIN_QUERIES`` patients it has individual ranks instead of statistics.
    """
    query = _queries(segments, across_recordings)
    if not len(query):
        return None
    rank, own, others = rank_own_segments(segments, query, across_recordings=across_recordings)
    found: dict[str, Any] = {"patients": len(query), "segments": len(segments)}
    if len(query) < MIN_QUERIES:
        examples = zip(segments.patient[query].tolist(), rank.tolist(), strict=True)
        return {**found, "examples": [{"patient": patient, "rank": own_rank} for patient, own_rank in examples]}
    achieved = np.stack([rank <= 1, rank <= 10, 1 / rank])
    first, ten, reciprocal = bootstrap_metrics(
        lambda times: np.asarray(achieved @ times / times.sum()), len(query), replicates=replicates
    )
    return {
        **found,
        "rank_1": first.as_dict(),
        "rank_10": ten.as_dict(),
        "mean_reciprocal_rank": reciprocal.as_dict(),
        "median_rank": float(np.median(rank)),
        "chance": {f"rank_{k}": float(_chance(own, others, k).mean()) for k in (1, 10)},
    }


def rank_own_segments(segments: Segments, query: Ints, *, across_recordings: bool = False) -> tuple[Floats, Ints, Ints]:
    """Return rank of the best own segment, number of own segments and number of others, each of shape (Q,).

    Rank 1 means that no other patient's segment is as near. A tie adds half a rank.
    """
    rank, own_count, other_count = np.empty(len(query)), np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    for begin in range(0, len(query), QUERIES_PER_BLOCK):
        block = slice(begin, begin + QUERIES_PER_BLOCK)
        cosine = segments.values[query[block]] @ segments.values.T
        own, other = _own_and_other(segments, query[block], across_recordings)
        best = np.where(own, cosine, -np.inf).max(1)[:, None]
        rank[block] = 1 + (other & (cosine > best)).sum(1) + (other & (cosine == best)).sum(1) / 2
        own_count[block], other_count[block] = own.sum(1), other.sum(1)
    return rank, own_count, other_count


def _queries(segments: Segments, across_recordings: bool) -> Ints:
    """Return the first segment of each patient with another segment to retrieve."""
    first = np.unique(segments.patient, return_index=True)[1].astype(np.int64)
    unit = segments.record if across_recordings else np.arange(len(segments))
    pairs = np.unique(np.stack([segments.patient, unit]), axis=1)
    several = np.unique(pairs[0], return_counts=True)[1] > 1
    return np.asarray(first[several])


def _own_and_other(segments: Segments, query: Ints, across_recordings: bool) -> tuple[Bools, Bools]:
    """Return masks (Q, S) of the segments to retrieve and of those of other patients."""
    same = segments.patient[query][:, None] == segments.patient
    unit = segments.record if across_recordings else np.arange(len(segments))
    return same & (unit[query][:, None] != unit), ~same


def _chance(own: Ints, others: Ints, k: int) -> Floats:
    """Return the probability (Q,) that a random order has one of ``own`` segments among the first k."""
    missed = np.ones(len(own))
    for taken in range(k):
        missed *= np.maximum(others - taken, 0) / np.maximum(own + others - taken, 1)
    return np.asarray(1 - missed)
