"""Figure 6 and appendix G from the cells that measured distances.

Such a cell has an encoder (``start``) and, in ``result.distances``, what ``Distances.as_dict`` of
``similarity.scoring.pairs`` gives, with a ``histogram``: its ``edges`` (bins + 1,) and the counts ``intra`` and
``inter`` (bins,).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clocs.metrics.bootstrap import Interval
from clocs.metrics.significance import independent_difference, intersection_union_p_value
from reproduction.cells import EPOCHS, Evaluation, Level
from reproduction.report.claim_tests import LEVEL, Outcome
from reproduction.report.estimates import Estimates
from reproduction.report.page import METHOD_NAMES, ends, signed
from reproduction.report.results import Finished, Results

SOURCE = "physionet2020"
"""The paper's dataset for these figures."""


@dataclass(frozen=True)
class Measured:
    """Distances of one encoder's embeddings."""

    method: str
    dataset: str
    embedding_dim: int
    seed: int
    values: Mapping[str, Any]

    @property
    def separation(self) -> Interval:
        """How probably a distance between patients is the longer one."""
        return Interval(**self.values["separation"])

    @property
    def title(self) -> str:
        """For a panel."""
        return f"{METHOD_NAMES[self.method]}, E = {self.embedding_dim}"


def measured_distances(results: Results) -> list[Measured]:
    """All of the preset ``paper``, by method, E and seed."""
    found = [_measured(each) for each in results.finished if "distances" in each.result]
    order = list(METHOD_NAMES)
    kept = [each for each in found if each is not None]
    return sorted(kept, key=lambda each: (order.index(each.method), each.embedding_dim, each.dataset, each.seed))


def _measured(found: Finished) -> Measured | None:
    start = found.cell.start if isinstance(found.cell, Evaluation) else None
    if start is None or start.preset != "paper" or start.max_epochs != EPOCHS:
        return None
    if start.options or start.config or found.cell.config:
        return None
    return Measured(start.method, start.dataset, start.embedding_dim, start.seed, found.result["distances"])


def judge_distances(estimates: Estimates, level: Level) -> Outcome:
    """At E = 128 on PhysioNet 2020, for the first seed that SimCLR and CMSC both have. Distances know no level."""
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
    fails = any(each.p_below * len(tested) < LEVEL for each in tested)
    measured = (
        f"CMSC {cmsc.value:.3f} ({ends(cmsc)}), SimCLR {simclr.value:.3f} ({ends(simclr)}); "
        f"difference {signed(tested[1].value)} ({ends(tested[1], difference=True)})"
    )
    return Outcome(measured, p, "does not hold" if fails else "holds" if p < LEVEL else "undecided")
