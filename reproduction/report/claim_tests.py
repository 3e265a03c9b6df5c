"""Statistical tests of claims, and the rule by which a claim gets a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from clocs.metrics.significance import Effect, sign_test
from reproduction.cells import Level
from reproduction.report.estimates import Choice, Estimates, Seeded
from reproduction.report.page import count_text

SIGNIFICANCE_LEVEL: Final = 0.05
"""Significance level of one-sided p-values."""
MIN_SEEDS: Final = 3
"""Number of seeds that both sides of a comparison need for a verdict."""
Verdict = Literal["holds", "does not hold", "undecided", "too few seeds", "depends on the choice of epoch", "not done"]


@dataclass(frozen=True)
class Difference:
    """A difference that a claim says to be above zero."""

    label: str
    effect: Effect | None
    """The difference with its interval over seeds and patients. None: not measured."""
    seeds: int
    """Number of seeds that both sides have."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of the test of a claim, for one level and one choice of encoder."""

    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    """Differences that the claim is about."""
    count: str = ""
    """Number of experiments in which the claim is true, in words."""


@dataclass(frozen=True)
class Pair:
    """Two evaluations. The claim is that the first has the higher AUC."""

    label: str
    first: Seeded
    second: Seeded

    def difference(self, estimates: Estimates, level: Level, choice: Choice) -> Difference:
        """Return the difference over the seeds that both sides have."""
        first, second = (estimates.runs(cell, choice) for cell in (self.first, self.second))
        effect = estimates.difference(first, second, level)
        return Difference(self.label, effect, len(first.keys() & second.keys()))


def agreed_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on which all choices of the encoder agree."""
    first, *others = verdicts
    return first if all(other == first for other in others) else "depends on the choice of epoch"


def evaluate_pairs(estimates: Estimates, level: Level, choice: Choice, pairs: Sequence[Pair]) -> Outcome:
    """Test whether the first evaluation of every pair is above the second."""
    return evaluate_differences([pair.difference(estimates, level, choice) for pair in pairs])


def evaluate_differences(differences: Sequence[Difference]) -> Outcome:
    """Test whether all differences are above zero.

    The claim holds if all are above zero, each by p < 0.05 (intersection-union test). It does not hold if at least one
    is below zero, by p < 0.05 divided by their number. Differences of fewer than three seeds decide nothing.
    """
    known = [each for each in differences if each.effect is not None]
    enough = [each.effect for each in known if each.effect is not None and each.seeds >= MIN_SEEDS]
    verdict: Verdict
    if any(effect.p_below * len(differences) < SIGNIFICANCE_LEVEL for effect in enough):
        verdict = "does not hold"
    elif len(known) < len(differences):
        verdict = "not done"
    elif len(enough) < len(differences):
        verdict = "too few seeds"
    else:
        verdict = "holds" if all(effect.p_above < SIGNIFICANCE_LEVEL for effect in enough) else "undecided"
    return Outcome(verdict, tuple(differences))


@dataclass(frozen=True)
class Contest:
    """A comparison of means, which is won if the best of the methods is above the best of the baselines."""

    methods: tuple[Seeded, ...]
    baselines: tuple[Seeded, ...]

    def result(self, estimates: Estimates, level: Level, choice: Choice) -> tuple[bool, int] | None:
        """Return whether it is won, and the smallest number of seeds; None if an evaluation is missing."""
        sides = [[estimates.auc(cell, level, choice) for cell in side] for side in (self.methods, self.baselines)]
        known = [[mean for mean in side if mean is not None] for side in sides]
        if [len(side) for side in known] != [len(side) for side in sides]:
            return None
        first, second = (max(mean.value for mean in side) for side in known)
        return first > second, min(len(mean.by_seed) for side in known for mean in side)


def evaluate_wins(
    estimates: Estimates, level: Level, choice: Choice, contests: Sequence[Contest], stated: int = 0
) -> Outcome:
    """Test the number of contests that are won, by the sign test.

    The claim holds with at least the stated number of wins, and more than chance explains. It does not hold if at most
    half are won.

    Args:
        estimates: Our results.
        level: Level of the AUC.
        choice: Encoder of the pre-training.
        contests: Contests that the claim is about.
        stated: Number of wins in the paper. 0: the paper states no number.
    """
    known = [result for each in contests if (result := each.result(estimates, level, choice)) is not None]
    wins = sum(won for won, _ in known)
    if len(known) < len(contests):
        count = f"in {wins} of {count_text(len(known), 'experiment')}, of {len(contests)} that the claim is about"
        return Outcome("not done", count=count if known else "")
    seeds = min(seeds for _, seeds in known)
    count = f"in {wins} of {count_text(len(known), 'experiment')}, with {count_text(seeds, 'seed')} or more"
    return Outcome(_count_verdict(wins, len(known), seeds, stated), count=count)


def _count_verdict(wins: int, total: int, seeds: int, stated: int) -> Verdict:
    if seeds < MIN_SEEDS:
        return "too few seeds"
    if wins >= stated and sign_test(wins, total) < SIGNIFICANCE_LEVEL:
        return "holds"
    return "does not hold" if wins <= total / 2 else "undecided"
