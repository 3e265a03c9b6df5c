"""Statistical tests of claims: measured value, p-value and verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from clocs.metrics.significance import Effect, intersection_union_p_value, sign_test
from reproduction.cells import Level
from reproduction.paper_numbers import Condition
from reproduction.report.estimates import Estimates
from reproduction.report.page import METHOD_NAMES, count_text, interval_text, signed_text, transfer_label

SIGNIFICANCE_LEVEL: Final = 0.05
"""Significance level of p-values."""
Verdict = Literal["holds", "does not hold", "undecided", "not enough results yet"]
MAX_LISTED: Final = 3
"""Maximum number of differences that are listed one by one."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of the test of a claim at one level."""

    measured: str
    """Measured values in words."""
    p: float | None
    """One-sided p-value. None: there are not enough results."""
    verdict: Verdict
    """Verdict on the claim."""


@dataclass(frozen=True)
class Pair:
    """Two experiments. The claim is that the first has the higher AUC."""

    first: Condition
    second: Condition

    @property
    def label(self) -> str:
        """Names of both experiments, and the data."""
        sides, usual = (self.first, self.second), {"embedding_dim": 128, "label_fraction": 0.5}
        names, shared = [_method_label(each) for each in sides], ""
        for mark, field in (("E", "embedding_dim"), ("F", "label_fraction")):
            values = [getattr(each, field) for each in sides]
            if values[0] != values[1]:
                names = [f"{name} at {mark} = {value:g}" for name, value in zip(names, values, strict=True)]
            elif values[0] != usual[field]:
                shared += f", {mark} = {values[0]:g}"
        pretrained = self.first if self.first.pretraining else self.second
        return f"{names[0]} − {names[1]}, {transfer_label(pretrained)}{shared}"


def _method_label(each: Condition) -> str:
    """Return the name of a method, with augmentations that differ from its own."""
    steps = each.augmentations if each.method != "mtssl" else None
    return METHOD_NAMES[each.method] + (f" with {' then '.join(steps)}" if steps else "")


def evaluate_pairs(estimates: Estimates, level: Level, pairs: Sequence[Pair]) -> Outcome:
    """Test whether the first experiment of every pair is above the second.

    The claim holds if all are above, by the intersection-union test. It does not hold if at least one is below, by a
    p-value with Bonferroni correction. Otherwise it is undecided, or there are not enough results.
    """
    found = [(pair, estimates.above(pair.first, pair.second, level)) for pair in pairs]
    known = [(pair, tested) for pair, tested in found if tested is not None]
    sure = [tested for _, tested in known if not math.isnan(tested.p_above)]
    measured = _summary(known, len(pairs))
    below = any(tested.p_below * len(pairs) < SIGNIFICANCE_LEVEL for tested in sure)
    if below or len(sure) == len(pairs):
        p = intersection_union_p_value([tested.p_above for tested in sure])
        return Outcome(measured, p, "does not hold" if below else "holds" if p < SIGNIFICANCE_LEVEL else "undecided")
    return Outcome(measured, None, "not enough results yet")


def _summary(known: Sequence[tuple[Pair, Effect]], num_pairs: int) -> str:
    if not known:
        return f"nothing yet of {count_text(num_pairs, 'comparison')}"
    part = "" if len(known) == num_pairs else f" ({len(known)} of {num_pairs} comparisons)"
    if len(known) <= MAX_LISTED:
        return "; ".join(_difference(pair, tested) for pair, tested in known) + part
    above = sum(tested.value > 0 for _, tested in known)
    sure = sum(tested.low > 0 for _, tested in known)
    least = min(known, key=lambda each: each[1].value)
    return f"above in {above} of {len(known)}, in {sure} beyond the interval; the least: {_difference(*least)}{part}"


def _difference(pair: Pair, tested: Effect) -> str:
    interval = interval_text(tested, difference=True)
    return f"{pair.label}: {signed_text(tested.value)}" + (f" ({interval})" if interval else "")


@dataclass(frozen=True)
class MethodComparison:
    """A comparison of methods, which is won if the best method is above the best baseline."""

    methods: tuple[Condition, ...]
    """Experiments of the methods."""
    baselines: tuple[Condition, ...]
    """Experiments of the baselines."""
    all_methods: bool = False
    """True if all methods must be above the baselines, and not only the best."""


def evaluate_win_count(
    estimates: Estimates, level: Level, comparisons: Sequence[MethodComparison], *, chance: float, stated: int | None
) -> Outcome:
    """Test the number of comparisons that are won, by the sign test.

    The claim holds with at least the stated number of wins, and more than chance explains. It does not hold with
    significantly fewer wins; if all are stated, with one that is significantly lost. Comparisons share patients and
    encoders, so the p-value may be too small.

    Args:
        estimates: Our results.
        level: Level of the AUC.
        comparisons: Comparisons that the claim is about.
        chance: Probability of a win if all methods are equal.
        stated: Number of wins in the paper. None: the paper states "most".
    """
    results = [won for comparison in comparisons if (won := _won(estimates, level, comparison)) is not None]
    wins, known = sum(results), len(results)
    if not known:
        return Outcome(f"nothing yet of {count_text(len(comparisons), 'experiment')}", None, "not enough results yet")
    p = sign_test(wins, known, chance)
    measured = f"in {wins} of {count_text(known, 'experiment')}"
    if known < len(comparisons):
        return Outcome(f"{measured}, of {len(comparisons)} that the claim is about", p, "not enough results yet")
    if stated == known and wins < known:
        lost = any(_p_lost(estimates, level, comparison) * known < SIGNIFICANCE_LEVEL for comparison in comparisons)
        return Outcome(measured, p, "does not hold" if lost else "undecided")
    return Outcome(measured, p, _count_verdict(wins, known, p, stated))


def _won(estimates: Estimates, level: Level, comparison: MethodComparison) -> bool | None:
    sides = [[estimates.auc(each, level) for each in side] for side in (comparison.methods, comparison.baselines)]
    values = [[mean.value for mean in side if mean is not None] for side in sides]
    if [len(side) for side in values] != [len(side) for side in sides]:
        return None
    return (min if comparison.all_methods else max)(values[0]) > max(values[1])


def _p_lost(estimates: Estimates, level: Level, comparison: MethodComparison) -> float:
    """Return the p-value of a lost comparison, or 1 if it is unknown."""

    def auc(each: Condition) -> float:
        mean = estimates.auc(each, level)
        return -math.inf if mean is None else mean.value

    first = (min if comparison.all_methods else max)(comparison.methods, key=auc)
    tested = estimates.above(first, max(comparison.baselines, key=auc), level)
    return 1.0 if tested is None or math.isnan(tested.p_below) else tested.p_below


def _count_verdict(wins: int, known: int, p: float, stated: int | None) -> Verdict:
    if stated is None:
        return "holds" if p < SIGNIFICANCE_LEVEL else "does not hold" if wins <= known / 2 else "undecided"
    if wins >= stated:
        return "holds" if p < SIGNIFICANCE_LEVEL else "undecided"
    too_few = 1 - sign_test(wins + 1, known, stated / known)
    return "does not hold" if too_few < SIGNIFICANCE_LEVEL else "undecided"
