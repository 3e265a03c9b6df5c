"""Pairs of rows of the same patient and of different patients: their distances, and telling them apart.

Distances within a patient and between patients are those of figure 6 and appendix G of the paper. Verification gives
the equal error rate of a threshold on the cosine. Of many pairs, as many as are wanted are drawn once.
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
from clocs.metrics.bootstrap import Interval, bootstrap_metrics
from clocs.metrics.ranking import Floats, OperatingPoints
from clocs.similarity.segments import Ints, Segments, Vectors

Pairs = tuple[Ints, Ints]
"""(pairs,) twice: the rows on either side."""
MAX_PAIRS: Final = 100_000
"""Pairs of a kind that are measured. A share of one half is then known to 0.0016, and patients differ by more."""
PAIRS_PER_BLOCK: Final = 16_384
"""Pairs whose vectors are held at once."""
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


def same_patient_pairs(
    patient: Ints,
    *,
    exclude_within: Ints | None = None,
    balance_patients: bool = False,
    max_pairs: int = MAX_PAIRS,
    seed: int = 0,
) -> Pairs:
    """Two rows of the same patient each; of more than ``max_pairs``, so many drawn without repetition.

    ``exclude_within``: (N,) rows of the same value, such as a recording, make no pair. ``balance_patients``: of each patient as many are
    drawn, or all that there are, so that nobody's long recording leaves no room for the others.
    """
    order = np.lexsort((np.zeros_like(patient) if exclude_within is None else exclude_within, patient)).astype(np.int64)
    start = _run_starts(patient[order])
    until = np.arange(len(order)) if exclude_within is None else _run_starts(patient[order], exclude_within[order])
    before = np.append(0, np.cumsum(until - start))  # a row makes pairs with its patient's rows above it
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
    """Places of so many, in order and each once; of more than ``max_pairs``, a draw."""
    return np.sort(random.choice(total, max_pairs, replace=False)) if total > max_pairs else np.arange(total)


def _run_starts(*columns: Ints) -> Ints:
    """(N,) of each row, the first of the rows up to it that are like it, and each other, in all columns."""
    changes = np.append(True, np.any([column[1:] != column[:-1] for column in columns], axis=0))[: len(columns[0])]
    return np.maximum.accumulate(np.where(changes, np.arange(len(changes)), 0))


def different_patient_pairs(patient: Ints, *, max_pairs: int = MAX_PAIRS, seed: int = 0) -> Pairs:
    """Two rows of different patients each; of more than ``max_pairs``, so many drawn, each by itself."""
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
    """How many patients there are, and: how often each is drawn -> what each pair weighs, own ones first.

    An own pair is drawn with its patient, another with both of its patients. ``balance_patients``: patients weigh the same, however
    many rows each has; else pairs do, so that a patient with many rows has most of them.
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
    """Euclidean distances between embeddings, as they are: not brought to unit length."""

    intra: Floats
    """(n,) between embeddings of the same patient."""
    inter: Floats
    """(m,) between embeddings of different patients."""
    separation: Interval
    """How probably an inter-patient distance is the longer one (the AUC): 0.5 where the two are alike, 1 where they do
    not overlap. The interval, 95 %, is over patients."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "intra": _summary(self.intra),
            "inter": _summary(self.inter),
            "separation": self.separation.as_dict(),
        }

    def histogram(self, bins: int = 60) -> dict[str, list[float]]:
        """Counts of both kinds between the same edges, from 0 on."""
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
    """Of embeddings (N, E) of leads and frames, with their patients (N,).

    Of more than ``max_pairs`` pairs of a kind so many are drawn, once by the seed; no matrix of all distances is held.
    """
    intra, inter = (
        same_patient_pairs(patient, max_pairs=max_pairs, seed=seed),
        different_patient_pairs(patient, max_pairs=max_pairs, seed=seed),
    )
    if not len(intra[0]) or not len(inter[0]):
        raise ConfigError("distances need a patient with two embeddings, and two patients")
    lengths = pair_distances(values, *intra), pair_distances(values, *inter)
    return Distances(*lengths, _separation(patient, intra, inter, np.concatenate(lengths), replicates))


def pair_distances(values: npt.NDArray[np.floating], first: Ints, second: Ints) -> Floats:
    """(pairs,) Euclidean distance between rows ``first`` and ``second`` of (N, E)."""
    found = np.empty(len(first))
    for begin in range(0, len(first), PAIRS_PER_BLOCK):
        place = slice(begin, begin + PAIRS_PER_BLOCK)
        found[place] = np.linalg.norm(values[first[place]] - values[second[place]], axis=1)
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
    """Equal error rate between genuine pairs (one patient) and impostor pairs (two), as JSON; None without either.

    Patients weigh the same, however many segments each has. ``across_recordings``: genuine pairs are of two recordings.
    The interval, 95 %, is over patients.
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
    """(pairs,) cosine between rows of unit length (N, E)."""
    found = np.empty(len(pairs[0]))
    for begin in range(0, len(found), PAIRS_PER_BLOCK):
        first, second = (side[begin : begin + PAIRS_PER_BLOCK] for side in pairs)
        found[begin : begin + PAIRS_PER_BLOCK] = np.einsum("ne,ne->n", values[first], values[second])
    return found
