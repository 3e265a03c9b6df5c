"""Distances within and between patients, for figure 6 and appendix G.

A cell has ``Distances.as_dict`` of ``similarity.scoring.pairs`` in ``result.distances``, and a ``histogram`` with its
``edges`` (bins + 1,) and the counts ``intra`` and ``inter`` (bins,).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clocs.metrics.bootstrap import Interval
from clocs.metrics.significance import independent_difference, intersection_union_p_value
from reproduction.cells import EPOCHS, Evaluation, Level
from reproduction.report.claim_tests import SIGNIFICANCE_LEVEL, Outcome
from reproduction.report.estimates import Estimates
from reproduction.report.page import METHOD_NAMES, interval_text, signed_text
from reproduction.report.results import FinishedCell, Results

SOURCE = "physionet2020"
"""The paper's dataset for these figures."""


@dataclass(frozen=True)
class MeasuredDistances:
    """Distances of one encoder's embeddings."""

    method: str
    dataset: str
    embedding_dim: int
    seed: int
    values: Mapping[str, Any]

    @property
    def separation(self) -> Interval:
        """Probability that a distance between patients is longer than one within a patient."""
        return Interval(**self.values["separation"])

    @property
    def title(self) -> str:
        """Title of a panel."""
        return f"{METHOD_NAMES[self.method]}, E = {self.embedding_dim}"


def measured_distances(results: Results) -> list[MeasuredDistances]:
    """Return all distances by the preset ``paper``, ordered by method, E and seed."""
    found = [_measured(each) for each in results.finished if "distances" in each.result]
    order = list(METHOD_NAMES)
    kept = [each for each in found if each is not None]
    return sorted(kept, key=lambda each: (order.index(each.method), each.embedding_dim, each.dataset, each.seed))


def _measured(found: FinishedCell) -> MeasuredDistances | None:
    start = found.cell.start if isinstance(found.cell, Evaluation) else None
    if start is None or start.preset != "paper" or start.max_epochs != EPOCHS:
        return None
    if start.options or start.config or found.cell.config:
        return None
    return MeasuredDistances(start.method, start.dataset, start.embedding_dim, start.seed, found.result["distances"])


def evaluate_distances(estimates: Estimates, level: Level) -> Outcome:
    """Test the claim at E = 128 on PhysioNet 2020, for the first common seed. Distances have no level."""
    known = {
        (each.method, each.seed): each
        for each in measured_distances(estimates.results)
        if (each.dataset, each.embedding_dim) == (SOURCE, 128)
    }
    both = [seed for method, seed in known if method == "cmsc" and ("simclr", seed) in known]
    if not both:
        return Outcome("", None, "not enough results yet")
    cmsc, simclr = (known[method, both[0]].separation for method in ("cmsc", "simclr"))
    half = Interval(0.5, 0.5, 0.5)
    tested = [independent_difference(cmsc, half), independent_difference(cmsc, simclr)]
    p = intersection_union_p_value([each.p_above for each in tested])
    fails = any(each.p_below * len(tested) < SIGNIFICANCE_LEVEL for each in tested)
    measured = (
        f"CMSC {cmsc.value:.3f} ({interval_text(cmsc)}), SimCLR {simclr.value:.3f} ({interval_text(simclr)}); "
        f"difference {signed_text(tested[1].value)} ({interval_text(tested[1], difference=True)})"
    )
    return Outcome(measured, p, "does not hold" if fails else "holds" if p < SIGNIFICANCE_LEVEL else "undecided")
