"""Finding a patient again: one segment is the query, the patient's other ones are sought among everybody's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from clocs.metrics.bootstrap import bootstrap_measures
from clocs.metrics.ranking import Bools, Floats
from clocs.similarity.segments import Ints, Segments

FEWEST: Final = 30
"""Patients below whom there are examples, but no statistic."""
BLOCK: Final = 256
"""Queries whose cosines to all segments are held at once."""


def find_own_segments(
    segments: Segments, *, across_recordings: bool = False, replicates: int = 1000
) -> dict[str, Any] | None:
    """How well a patient's first segment finds another one of the same patient among all segments, as JSON.

    ``across_recordings``: in the patient's other recordings; the query's own recording takes no part. Intervals, 95 %,
    are over query patients; whom they are sought among stays as it is. ``chance`` is a random
    order. Ranks depend on how many segments there are. None: nobody has what is sought. With fewer
    than ``FEWEST`` patients there are ranks only, and no statistic.
    """
    query = _queries(segments, across_recordings)
    if not len(query):
        return None
    rank, own, others = own_ranks(segments, query, across_recordings=across_recordings)
    found: dict[str, Any] = {"patients": len(query), "segments": len(segments)}
    if len(query) < FEWEST:
        examples = zip(segments.patient[query].tolist(), rank.tolist(), strict=True)
        return {**found, "examples": [{"patient": patient, "rank": place} for patient, place in examples]}
    achieved = np.stack([rank <= 1, rank <= 10, 1 / rank])
    first, ten, reciprocal = bootstrap_measures(
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


def own_ranks(segments: Segments, query: Ints, *, across_recordings: bool = False) -> tuple[Floats, Ints, Ints]:
    """The rank of each query's best own segment, how many own ones it has, and among how many others: (Q,) each.

    Rank 1: no other patient's segment is as near. One that ties counts half a place.
    """
    rank, own_count, other_count = np.empty(len(query)), np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    for begin in range(0, len(query), BLOCK):
        place = slice(begin, begin + BLOCK)
        cosine = segments.values[query[place]] @ segments.values.T
        own, other = _sought(segments, query[place], across_recordings)
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


def _sought(segments: Segments, query: Ints, across_recordings: bool) -> tuple[Bools, Bools]:
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
