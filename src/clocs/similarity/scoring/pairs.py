"""Distances between embeddings of the same patient and of different patients, and verification of patients.

Distances within and between patients are those of figure 6 and appendix G of the paper. Verification reports the equal
error rate of a threshold on the cosine. Large sets of pairs are sampled once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.metrics.bootstrap import bootstrap_metrics
from clocs.metrics.intervals import Interval
from clocs.metrics.ranking import Floats, OperatingPoints
from clocs.similarity.segments import Ints, Segments, Vectors

Pairs = tuple[Ints, Ints]
"""Rows on either side of each pair, two arrays of shape (pairs,)."""
MAX_PAIRS: Final = 100_000
"""Maximum number of pairs per type. It gives a share of one half a standard error of 0.0016, below the variation
between patients."""
PAIRS_PER_BLOCK: Final = 16_384
"""Pairs per block of vectors."""
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


def same_patient_pairs(
    patient: Ints,
    *,
    exclude_within: Ints | None = None,
    balance_patients: bool = False,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
) -> Pairs:
    """Return pairs of rows of the same patient.

    Args:
        patient: Patient of each row, shape (N,).
        exclude_within: Group of each row, such as its recording, shape (N,). Rows of the same group form no pair.
        balance_patients: Sample the same number of pairs per patient, so that long recordings do not dominate.
        max_pairs: Maximum number of pairs, sampled without replacement.
        seed: Seed of the sample.

    Returns:
        Rows on either side of each pair.
    """
    order = np.lexsort((np.zeros_like(patient) if exclude_within is None else exclude_within, patient)).astype(np.int64)
    start = _run_starts(patient[order])
    until = np.arange(len(order)) if exclude_within is None else _run_starts(patient[order], exclude_within[order])
    before = np.append(0, np.cumsum(until - start))  # each row is paired with the patient's earlier rows
    total, random = int(before[-1]), generator(seed, "own pairs")
    if total <= max_pairs:
        chosen = np.arange(total)
    elif balance_patients:
        ends = np.append(before[np.unique(start)], total)
        quota = max(1, max_pairs // int(np.count_nonzero(np.diff(ends))))
        chosen = np.concatenate(
            [begin + _sample_positions(end - begin, quota, random) for begin, end in pairwise(ends.tolist())]
        )
    else:
        chosen = _sample_positions(total, max_pairs, random)
    row = np.searchsorted(before[1:], chosen, "right")
    return order[start[row] + chosen - before[row]], order[row]


def _sample_positions(total: int, max_pairs: int, random: np.random.Generator) -> Ints:
    """Return sorted positions below ``total``, sampled without replacement if there are more than ``max_pairs``."""
    return np.sort(random.choice(total, max_pairs, replace=False)) if total > max_pairs else np.arange(total)


def _run_starts(*columns: Ints) -> Ints:
    """Return the start of each row's run of equal values in all columns, shape (N,)."""
    changes = np.append(True, np.any([column[1:] != column[:-1] for column in columns], axis=0))[: len(columns[0])]
    return np.maximum.accumulate(np.where(changes, np.arange(len(changes)), 0))


def different_patient_pairs(patient: Ints, *, max_pairs: int = MAX_PAIRS, seed: int = 0) -> Pairs:
    """Return pairs of rows of different patients, sampled with replacement if there are more than ``max_pairs``."""
    rows = len(patient)
    if rows * (rows - 1) // 2 <= max_pairs:
        first, second = (side.astype(np.int64) for side in np.triu_indices(rows, 1))
        apart = patient[first] != patient[second]
        return first[apart], second[apart]
    if (patient == patient[0]).all():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    random, drawn = generator(seed, "other pairs"), np.empty((2, 0), np.int64)
    while drawn.shape[1] < max_pairs:
        more = random.integers(0, rows, (2, max_pairs))
        drawn = np.concatenate([drawn, more[:, patient[more[0]] != patient[more[1]]]], axis=1)
    return drawn[0, :max_pairs], drawn[1, :max_pairs]


def pair_weights(
    patient: Ints, own: Pairs, other: Pairs, *, balance_patients: bool = False
) -> tuple[int, Callable[[Floats], Floats]]:
    """Return the number of patients, and a function from bootstrap counts of patients to weights of pairs.

    Same-patient pairs come first. A pair is weighted by the counts of its patients. With ``balance_patients`` all
    patients have equal weight; otherwise all pairs have.
    """
    _, member, rows = np.unique(patient, return_inverse=True, return_counts=True)
    mine, (one, two) = member[own[0]], (member[side] for side in other)
    if not balance_patients:
        return len(rows), lambda times: np.concatenate([times[mine], times[one] * times[two]])
    pairs = np.bincount(mine, minlength=len(rows))[mine]
    return len(rows), lambda times: np.concatenate(
        [times[mine] / pairs, times[one] * times[two] / (rows[one] * rows[two])]
    )


@dataclass(frozen=True)
class Distances:
    """Euclidean distances between embeddings, which are not scaled to unit length."""

    intra: Floats
    """Distances between embeddings of the same patient, shape (n,)."""
    inter: Floats
    """Distances between embeddings of different patients, shape (m,)."""
    separation: Interval
    """AUC of distance for separating the two: 0.5 for equal distributions, 1 if they do not overlap. The 95 %
    interval is over patients."""

    def as_dict(self) -> dict[str, Any]:
        """Return the distances as a JSON-compatible summary."""
        return {
            "intra": _summary(self.intra),
            "inter": _summary(self.inter),
            "separation": self.separation.as_dict(),
        }

    def histogram(self, bins: int = 60) -> dict[str, list[float]]:
        """Return the counts of both distances between common bin edges."""
        edges = np.linspace(0.0, max(self.intra.max(), self.inter.max()), bins + 1)
        counts = {name: np.histogram(getattr(self, name), edges)[0].tolist() for name in ("intra", "inter")}
        return {"edges": edges.tolist(), **counts}


def patient_distances(
    values: npt.NDArray[np.floating],
    patient: Ints,
    *,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
    replicates: int = 1000,
) -> Distances:
    """Measure distances between embeddings within and between patients.

    Args:
        values: Embeddings of leads and frames, shape (N, E).
        patient: Patient of each embedding, shape (N,).
        max_pairs: Maximum number of pairs per type.
        seed: Seed of the sampled pairs.
        replicates: Number of bootstrap replicates.

    Returns:
        Both sets of distances, and their separation.

    Raises:
        ConfigError: No patient has two embeddings, or there is only one patient.
    """
    intra, inter = (
        same_patient_pairs(patient, max_pairs=max_pairs, seed=seed),
        different_patient_pairs(patient, max_pairs=max_pairs, seed=seed),
    )
    if not len(intra[0]) or not len(inter[0]):
        raise ConfigError("Distances need at least one patient with two embeddings, and at least two patients.")
    lengths = pair_distances(values, *intra), pair_distances(values, *inter)
    return Distances(*lengths, _separation(patient, intra, inter, np.concatenate(lengths), replicates))


def pair_distances(values: npt.NDArray[np.floating], first: Ints, second: Ints) -> Floats:
    """Return the Euclidean distances (pairs,) between rows ``first`` and ``second`` of (N, E)."""
    found = np.empty(len(first))
    for begin in range(0, len(first), PAIRS_PER_BLOCK):
        block = slice(begin, begin + PAIRS_PER_BLOCK)
        found[block] = np.linalg.norm(values[first[block]] - values[second[block]], axis=1)
    return found


def _separation(patient: Ints, intra: Pairs, inter: Pairs, lengths: Floats, replicates: int) -> Interval:
    ranked = OperatingPoints(np.arange(len(lengths)) >= len(intra[0]), lengths)
    patients, weight = pair_weights(patient, intra, inter)
    return bootstrap_metrics(lambda times: np.array([ranked.auc(weight(times))]), patients, replicates=replicates)[0]


def _summary(lengths: Floats) -> dict[str, Any]:
    return {
        "pairs": len(lengths),
        "mean": float(lengths.mean()),
        "standard_deviation": float(lengths.std()),
        "quantiles": {f"{share:g}": float(np.quantile(lengths, share)) for share in QUANTILES},
    }


def verify_patients(
    segments: Segments,
    *,
    across_recordings: bool = False,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
    replicates: int = 1000,
) -> dict[str, Any] | None:
    """Return the equal error rate between genuine pairs (one patient) and impostor pairs (two patients).

    Patients have equal weight, whatever their number of segments.

    Args:
        segments: Segments of patients.
        across_recordings: Genuine pairs come from two recordings.
        max_pairs: Maximum number of pairs per type.
        seed: Seed of the sampled pairs.
        replicates: Number of bootstrap replicates for the 95 % interval over patients.

    Returns:
        A JSON-compatible dictionary, or None if there are no pairs of one type.
    """
    exclude_within = segments.record if across_recordings else None
    genuine = same_patient_pairs(
        segments.patient, exclude_within=exclude_within, balance_patients=True, max_pairs=max_pairs, seed=seed
    )
    impostor = different_patient_pairs(segments.patient, max_pairs=max_pairs, seed=seed)
    if not len(genuine[0]) or not len(impostor[0]):
        return None
    cosine = np.concatenate([pair_cosines(segments.values, pairs) for pairs in (genuine, impostor)])
    points = OperatingPoints(np.arange(len(cosine)) < len(genuine[0]), cosine)
    patients, weight = pair_weights(segments.patient, genuine, impostor, balance_patients=True)
    error_rate = bootstrap_metrics(
        lambda times: np.array([points.equal_error_rate(weight(times))]), patients, replicates=replicates
    )[0]
    return {
        "equal_error_rate": error_rate.as_dict(),
        "genuine_pairs": len(genuine[0]),
        "impostor_pairs": len(impostor[0]),
    }


def pair_cosines(values: Vectors, pairs: Pairs) -> Floats:
    """Return the cosines (pairs,) between rows of unit length (N, E)."""
    found = np.empty(len(pairs[0]))
    for begin in range(0, len(found), PAIRS_PER_BLOCK):
        first, second = (side[begin : begin + PAIRS_PER_BLOCK] for side in pairs)
        found[begin : begin + PAIRS_PER_BLOCK] = np.einsum("ne,ne->n", values[first], values[second])
    return found
