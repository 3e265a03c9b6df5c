"""Distances within a patient and between patients: the paper's figure 6 and its appendix G."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.metrics.bootstrap import Interval, bootstrap_measures
from clocs.metrics.ranking import Floats, OperatingPoints
from clocs.similarity.judgement.pairs import MOST_PAIRS, Pairs, other_pairs, own_pairs, pair_weights
from clocs.similarity.segments import Ints

CHUNK: Final = 16_384
"""Pairs whose vectors are held at once."""
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


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
    most: int = MOST_PAIRS,
    seed: int = 0,
    replicates: int = 1000,
) -> Distances:
    """Of embeddings (N, E) of leads and frames, with their patients (N,).

    Of more than ``most`` pairs of a kind so many are drawn, once by the seed; no matrix of all distances is held.
    """
    intra, inter = own_pairs(patient, most=most, seed=seed), other_pairs(patient, most=most, seed=seed)
    if not len(intra[0]) or not len(inter[0]):
        raise ConfigError("distances need a patient with two embeddings, and two patients")
    lengths = pair_distances(values, *intra), pair_distances(values, *inter)
    return Distances(*lengths, _separation(patient, intra, inter, np.concatenate(lengths), replicates))


def pair_distances(values: npt.NDArray[np.floating], first: Ints, second: Ints) -> Floats:
    """(pairs,) Euclidean distance between rows ``first`` and ``second`` of (N, E)."""
    found = np.empty(len(first))
    for begin in range(0, len(first), CHUNK):
        place = slice(begin, begin + CHUNK)
        found[place] = np.linalg.norm(values[first[place]] - values[second[place]], axis=1)
    return found


def _separation(patient: Ints, intra: Pairs, inter: Pairs, lengths: Floats, replicates: int) -> Interval:
    ranked = OperatingPoints(np.arange(len(lengths)) >= len(intra[0]), lengths)
    patients, weight = pair_weights(patient, intra, inter)
    return bootstrap_measures(lambda times: np.array([ranked.auc(weight(times))]), patients, replicates=replicates)[0]


def _summary(lengths: Floats) -> dict[str, Any]:
    return {
        "pairs": len(lengths),
        "mean": float(lengths.mean()),
        "standard_deviation": float(lengths.std()),
        "quantiles": {f"{share:g}": float(np.quantile(lengths, share)) for share in QUANTILES},
    }
