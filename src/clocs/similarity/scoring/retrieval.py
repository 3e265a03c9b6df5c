"""Retrieval: do neighbours have the same diagnosis, and is a patient found again?

Precision at k is held against what a random neighbour would give. To find a patient again, one segment is the query,
and the other segments of the patient are sought among those of everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.metrics.bootstrap import FEWEST, bootstrap_metrics
from clocs.metrics.ranking import Bools, Floats, macro_average
from clocs.similarity.segments import Ints, Segments, unit_length

NUM_NEIGHBORS: Final = 10
MIN_QUERIES: Final = 30
"""Patients for a statistic over them; of fewer there are ranks, but no mean and no interval."""
QUERIES_PER_BLOCK: Final = 256
"""Queries whose cosines to all others are held at once."""


def neighbor_agreement(
    values: npt.NDArray[np.floating],
    labels: Bools,
    classes: Sequence[str],
    *,
    k: int = NUM_NEIGHBORS,
    replicates: int = 1000,
) -> dict[str, Any]:
    """Precision at k of the neighbours' labels, for patients (P, E) with labels (P, K), as JSON.

    A class's precision is the share of a patient's k nearest others (by cosine) who have the class too, mean over the
    patients who have it; ``macro`` is the mean over classes. ``micro`` is the mean over patients, where one with
    several labels has the mean over them, and one without is no query. ``chance`` is what random
    others give: prevalence without the query. Intervals, 95 %, are over query patients; the archive stays as it is.
    There are none for a class of fewer than 3 patients, nor for the means over fewer than 30 queries.
    """
    shares = neighbor_label_shares(values, labels, k)
    others = (labels.sum(0) - 1) / (len(labels) - 1)
    measures = _measures(labels, shares)
    found = bootstrap_metrics(measures, len(labels), replicates=replicates)
    queries = int(labels.any(1).sum())
    enough = [*(labels.sum(0) >= FEWEST), queries >= MIN_QUERIES, queries >= MIN_QUERIES]
    *each, over_classes, over_patients = (
        one if many else replace(one, low=np.nan, high=np.nan) for one, many in zip(found, enough, strict=True)
    )
    expected = _measures(labels, np.broadcast_to(others, labels.shape))(np.ones(len(labels)))
    told = {
        name: {
            "patients": int(labels[:, place].sum()),
            "precision": each[place].as_dict(),
            "chance": _nan_to_none(expected[place]),
        }
        for place, name in enumerate(classes)
    }
    return {
        "k": k,
        "patients": len(labels),
        "queries": queries,
        "macro": over_classes.as_dict(),
        "micro": over_patients.as_dict(),
        "chance": {"macro": _nan_to_none(expected[-2]), "micro": _nan_to_none(expected[-1])},
        "classes": told,
    }


def neighbor_label_shares(values: npt.NDArray[np.floating], labels: Bools, k: int) -> Floats:
    """(P, K) the share of each patient's k nearest others who have a class.

    Where others tie for the last places, it is the mean over all ways to choose among them.
    """
    if not 0 < k < len(values):
        raise ConfigError(f"{k} neighbours of {len(values)} patients: there must be at least one, and more patients")
    vectors, truth = unit_length(values), labels.astype(np.float64)
    shares = np.empty(labels.shape)
    for begin in range(0, len(vectors), QUERIES_PER_BLOCK):
        rows = np.arange(begin, min(begin + QUERIES_PER_BLOCK, len(vectors)))
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
        return np.array([*each, macro_average(each), micro])

    return measure


def _nan_to_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def retrieve_own_segments(
    segments: Segments, *, across_recordings: bool = False, replicates: int = 1000
) -> dict[str, Any] | None:
    """How well a patient's first segment finds another one of the same patient among all segments, as JSON.

    ``across_recordings``: in the patient's other recordings; the query's own recording takes no part. Intervals, 95 %,
    are over query patients; whom they are sought among stays as it is. ``chance`` is a random
    order. Ranks depend on how many segments there are. None: nobody has what is sought. With fewer
    than ``MIN_QUERIES`` patients there are ranks only, and no statistic.
    """
    query = _queries(segments, across_recordings)
    if not len(query):
        return None
    rank, own, others = rank_own_segments(segments, query, across_recordings=across_recordings)
    found: dict[str, Any] = {"patients": len(query), "segments": len(segments)}
    if len(query) < MIN_QUERIES:
        examples = zip(segments.patient[query].tolist(), rank.tolist(), strict=True)
        return {**found, "examples": [{"patient": patient, "rank": place} for patient, place in examples]}
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
    """The rank of each query's best own segment, how many own ones it has, and among how many others: (Q,) each.

    Rank 1: no other patient's segment is as near. One that ties counts half a place.
    """
    rank, own_count, other_count = np.empty(len(query)), np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    for begin in range(0, len(query), QUERIES_PER_BLOCK):
        place = slice(begin, begin + QUERIES_PER_BLOCK)
        cosine = segments.values[query[place]] @ segments.values.T
        own, other = _own_and_other(segments, query[place], across_recordings)
        best = np.where(own, cosine, -np.inf).max(1)[:, None]
        rank[place] = 1 + (other & (cosine > best)).sum(1) + (other & (cosine == best)).sum(1) / 2
        own_count[place], other_count[place] = own.sum(1), other.sum(1)
    return rank, own_count, other_count


def _queries(segments: Segments, across_recordings: bool) -> Ints:
    """The first segment of each patient who has another one to be found."""
    first = np.unique(segments.patient, return_index=True)[1].astype(np.int64)
    unit = segments.record if across_recordings else np.arange(len(segments))
    pairs = np.unique(np.stack([segments.patient, unit]), axis=1)
    several = np.unique(pairs[0], return_counts=True)[1] > 1
    return np.asarray(first[several])


def _own_and_other(segments: Segments, query: Ints, across_recordings: bool) -> tuple[Bools, Bools]:
    """(Q, S) twice: what each query seeks, and what it may be mistaken for."""
    same = segments.patient[query][:, None] == segments.patient
    unit = segments.record if across_recordings else np.arange(len(segments))
    return same & (unit[query][:, None] != unit), ~same


def _chance(own: Ints, others: Ints, k: int) -> Floats:
    """(Q,) how probably a random order has one of ``own`` among the first k."""
    missed = np.ones(len(own))
    for taken in range(k):
        missed *= np.maximum(others - taken, 0) / np.maximum(own + others - taken, 1)
    return np.asarray(1 - missed)
