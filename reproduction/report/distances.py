"""Distances within and between patients, for figure 6.

A cell has ``Distances.as_dict`` of ``similarity.scoring.pairs`` in ``result.distances``, and a ``histogram`` with its
``edges`` (bins + 1,) and the counts ``intra`` and ``inter`` (bins,).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.drawing.panels import draw_histograms
from clocs.metrics.intervals import Interval
from clocs.metrics.significance import Effect, independent_difference, patient_and_seed_effect
from reproduction.cells import Level
from reproduction.experiments import COMPARED, distances
from reproduction.report.claim_tests import Difference, Outcome, evaluate_differences
from reproduction.report.estimates import Choice, Estimates
from reproduction.report.gallery import NamedFigures
from reproduction.report.page import METHOD_NAMES
from reproduction.report.results import Results

MOST_PAIRS: Final = 0.995
"""Fraction of the pairs between patients that the axis covers."""
EQUAL: Final = Interval(0.5, 0.5, 0.5)
"""Separation of distances that do not differ."""
Floats = npt.NDArray[np.floating]


def evaluate_distances(estimates: Estimates, level: Level, choice: Choice) -> Outcome:
    """Test that CMSC separates patients, and more than SimCLR. Distances have no level and one choice of encoder."""
    cmsc, simclr = (_separations(estimates.results, method) for method in ("cmsc", "simclr"))
    both = sorted(cmsc.keys() & simclr.keys())
    sides = {
        "separation by CMSC − 0.5": [independent_difference(cmsc[seed], EQUAL) for seed in cmsc],
        "separation by CMSC − by SimCLR": [independent_difference(cmsc[seed], simclr[seed]) for seed in both],
    }
    return evaluate_differences([Difference(label, _effect(each), len(each)) for label, each in sides.items()])


def _separations(results: Results, method: str) -> dict[int, Interval]:
    """Return the probability that a distance between patients exceeds one within a patient, by seed."""
    runs = results.seeds(partial(distances, method))
    return {seed: Interval(**run.result["distances"]["separation"]) for seed, run in runs.items()}


def _effect(by_seed: list[Effect]) -> Effect | None:
    """Return the mean over seeds. All seeds have the same patients, so their interval does not shrink with seeds."""
    if not by_seed:
        return None
    value = fmean(each.value for each in by_seed)
    margin = fmean((each.high - each.low) / 2 for each in by_seed)
    return patient_and_seed_effect(Interval(value, value - margin, value + margin), [each.value for each in by_seed])


def distance_figures(results: Results) -> NamedFigures:
    """Return the histograms of the first seed of each method, with a common axis."""
    runs = {METHOD_NAMES[method]: results.get(distances(method, 0)) for method in COMPARED}
    found = {name: run.result["distances"] for name, run in runs.items() if run is not None}
    bins = {name: _histogram(each["histogram"]) for name, each in found.items()}
    reach = max((_reach(edges, inter) for edges, _, inter in bins.values()), default=None)
    drawn: NamedFigures = []
    for name, each in found.items():
        means = (each["intra"]["mean"], each["inter"]["mean"])
        shows = f"{name}: mean distance {means[0]:.3g} within patients, {means[1]:.3g} between patients"
        drawn.append((f"figure-6-{name.lower()}", draw_histograms(*bins[name], means, name, reach), shows))
    return drawn


def _histogram(stored: Mapping[str, Any]) -> tuple[Floats, Floats, Floats]:
    edges, intra, inter = (np.asarray(stored[kind], float) for kind in ("edges", "intra", "inter"))
    return edges, intra, inter


def _reach(edges: Floats, inter: Floats) -> float:
    """Return the distance that a fraction ``MOST_PAIRS`` of the pairs do not exceed."""
    return float(edges[1:][np.searchsorted(np.cumsum(inter), MOST_PAIRS * inter.sum())])
