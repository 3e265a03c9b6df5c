"""Are two segments of the same patient? The equal error rate of a threshold on their cosine."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from clocs.metrics.bootstrap import bootstrap_measures
from clocs.metrics.ranking import Floats, OperatingPoints
from clocs.similarity.judgement.pairs import MOST_PAIRS, Pairs, other_pairs, own_pairs, pair_weights
from clocs.similarity.segments import Segments, Vectors

CHUNK: Final = 16_384
"""Pairs whose vectors are held at once."""


def verify_patients(
    segments: Segments,
    *,
    across_recordings: bool = False,
    most: int = MOST_PAIRS,
    seed: int = 0,
    replicates: int = 1000,
) -> dict[str, Any] | None:
    """Equal error rate between genuine pairs (one patient) and impostor pairs (two), as JSON; None without either.

    Patients weigh the same, however many segments each has. ``across_recordings``: genuine pairs are of two recordings.
    The interval, 95 %, is over patients.
    """
    apart = segments.record if across_recordings else None
    genuine = own_pairs(segments.patient, apart=apart, even=True, most=most, seed=seed)
    impostor = other_pairs(segments.patient, most=most, seed=seed)
    if not len(genuine[0]) or not len(impostor[0]):
        return None
    cosine = np.concatenate([pair_cosines(segments.values, pairs) for pairs in (genuine, impostor)])
    points = OperatingPoints(np.arange(len(cosine)) < len(genuine[0]), cosine)
    patients, weight = pair_weights(segments.patient, genuine, impostor, even=True)
    rate = bootstrap_measures(
        lambda times: np.array([points.equal_error_rate(weight(times))]), patients, replicates=replicates
    )[0]
    return {
        "equal_error_rate": rate.as_dict(),
        "genuine_pairs": len(genuine[0]),
        "impostor_pairs": len(impostor[0]),
    }


def pair_cosines(values: Vectors, pairs: Pairs) -> Floats:
    """(pairs,) cosine between rows of unit length (N, E)."""
    found = np.empty(len(pairs[0]))
    for begin in range(0, len(found), CHUNK):
        first, second = (side[begin : begin + CHUNK] for side in pairs)
        found[begin : begin + CHUNK] = np.einsum("ne,ne->n", values[first], values[second])
    return found
