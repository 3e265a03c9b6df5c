"""Whether a claim holds: what was measured for it, a p-value, a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from clocs.metrics.significance import Effect, intersection_union_p_value, sign_test
from reproduction.cells import Level
from reproduction.paper_numbers import Condition
from reproduction.report.estimates import Estimates
from reproduction.report.page import METHOD_NAMES, arrow, counted, ends, signed

LEVEL: Final = 0.05
"""Of p-values: below it, chance is not taken for the reason."""
Verdict = Literal["holds", "does not hold", "undecided", "not enough results yet"]
SHOWN: Final = 3
"""Differences that are listed one by one."""


@dataclass(frozen=True)
class Outcome:
    """Of one claim at one level."""

    measured: str
    p: float | None
    """That what was measured, or more, comes by chance; None: nothing to tell it from."""
    verdict: Verdict


@dataclass(frozen=True)
class Pair:
    """The first is claimed to be above the second."""

    first: Condition
    second: Condition

    @property
    def label(self) -> str:
        """What tells the two apart, and on which data."""
        sides, usual = (self.first, self.second), {"embedding_dim": 128, "label_fraction": 0.5}
        names, shared = [_named(each) for each in sides], ""
        for mark, field in (("E", "embedding"), ("F", "label_fraction")):
            values = [getattr(each, field) for each in sides]
            if values[0] != values[1]:
                names = [f"{name} at {mark} = {value:g}" for name, value in zip(names, values, strict=True)]
            elif values[0] != usual[field]:
                shared += f", {mark} = {values[0]:g}"
        place = self.first if self.first.pretraining else self.second
        return f"{names[0]} − {names[1]}, {arrow(place)}{shared}"


def _named(each: Condition) -> str:
    """A method, with its augmentations where it does not come with some of its own."""
    steps = each.augmentations if each.method != "mtssl" else None
    return METHOD_NAMES[each.method] + (f" with {' then '.join(steps)}" if steps else "")


def judge_pairs(estimates: Estimates, level: Level, pairs: Sequence[Pair]) -> Outcome:
    """Whether every first is above its second.

    Holds: all are, by the intersection-union test. Does not hold: at least one is below, with a p-value that is
    small even for the smallest of so many (Bonferroni). Else undecided, or not enough results. So a claim about many
    may be undecided where one about the least of them alone is not.
    """
    found = [(pair, estimates.above(pair.first, pair.second, level)) for pair in pairs]
    known = [(pair, tested) for pair, tested in found if tested is not None]
    sure = [tested for _, tested in known if not math.isnan(tested.p_above)]
    measured = _summary(known, len(pairs))
    below = any(tested.p_below * len(pairs) < LEVEL for tested in sure)
    if below or len(sure) == len(pairs):
        p = intersection_union_p_value([tested.p_above for tested in sure])
        return Outcome(measured, p, "does not hold" if below else "holds" if p < LEVEL else "undecided")
    return Outcome(measured, None, "not enough results yet")


def _summary(known: Sequence[tuple[Pair, Effect]], wanted: int) -> str:
    if not known:
        return f"nothing yet of {counted(wanted, 'comparison')}"
    part = "" if len(known) == wanted else f" ({len(known)} of {wanted} comparisons)"
    if len(known) <= SHOWN:
        return "; ".join(_difference(pair, tested) for pair, tested in known) + part
    above = sum(tested.value > 0 for _, tested in known)
    sure = sum(tested.low > 0 for _, tested in known)
    least = min(known, key=lambda each: each[1].value)
    return f"above in {above} of {len(known)}, in {sure} beyond the interval; the least: {_difference(*least)}{part}"


def _difference(pair: Pair, tested: Effect) -> str:
    interval = ends(tested, difference=True)
    return f"{pair.label}: {signed(tested.value)}" + (f" ({interval})" if interval else "")


@dataclass(frozen=True)
class Contest:
    """One experiment of a count: won where the best of some methods is above the best of others."""

    some: tuple[Condition, ...]
    others: tuple[Condition, ...]
    every: bool = False
    """Won only where all of the some are above."""


def judge_count(
    estimates: Estimates, level: Level, contests: Sequence[Contest], *, chance: float, stated: int | None
) -> Outcome:
    """In how many experiments a contest is won, against what chance would give methods that are all alike.

    ``stated``: the paper's number of wins, None where it says "most". Holds: as many wins or more, and more than chance
    explains. Does not hold: fewer, and too few for the paper's share; where that is all, one that was lost for sure.
    Experiments share patients and encoders, so that the p-value is too small if anything.
    """
    results = [won for contest in contests if (won := _won(estimates, level, contest)) is not None]
    wins, known = sum(results), len(results)
    if not known:
        return Outcome(f"nothing yet of {counted(len(contests), 'experiment')}", None, "not enough results yet")
    p = sign_test(wins, known, chance)
    measured = f"in {wins} of {counted(known, 'experiment')}"
    if known < len(contests):
        return Outcome(f"{measured}, of {len(contests)} that the claim is about", p, "not enough results yet")
    if stated == known and wins < known:
        lost = any(_p_lost(estimates, level, contest) * known < LEVEL for contest in contests)
        return Outcome(measured, p, "does not hold" if lost else "undecided")
    return Outcome(measured, p, _count_verdict(wins, known, p, stated))


def _won(estimates: Estimates, level: Level, contest: Contest) -> bool | None:
    sides = [[estimates.auc(each, level) for each in side] for side in (contest.some, contest.others)]
    values = [[mean.value for mean in side if mean is not None] for side in sides]
    if [len(side) for side in values] != [len(side) for side in sides]:
        return None
    return (min if contest.every else max)(values[0]) > max(values[1])


def _p_lost(estimates: Estimates, level: Level, contest: Contest) -> float:
    """That those who would have had to win came out so far below by chance; 1 where nobody can tell."""

    def reached(each: Condition) -> float:
        mean = estimates.auc(each, level)
        return -math.inf if mean is None else mean.value

    first = (min if contest.every else max)(contest.some, key=reached)
    tested = estimates.above(first, max(contest.others, key=reached), level)
    return 1.0 if tested is None or math.isnan(tested.p_below) else tested.p_below


def _count_verdict(wins: int, known: int, p: float, stated: int | None) -> Verdict:
    if stated is None:
        return "holds" if p < LEVEL else "does not hold" if wins <= known / 2 else "undecided"
    if wins >= stated:
        return "holds" if p < LEVEL else "undecided"
    too_few = 1 - sign_test(wins + 1, known, stated / known)
    return "does not hold" if too_few < LEVEL else "undecided"
