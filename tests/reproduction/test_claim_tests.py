"""Verdicts by hand, and claims where the paper makes them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from clocs.metrics.significance import Effect
from reproduction.experiments import EXPERIMENTS
from reproduction.paper_numbers import Condition, results_of
from reproduction.report.claim_tests import MethodComparison, Pair, evaluate_pairs, evaluate_win_count
from reproduction.report.claims import CLOCS, SETS, all_claim_tests, augmented
from reproduction.report.estimates import Estimates, Mean
from reproduction.report.results import condition, condition_of
from tests.conftest import ROOT
from tests.reproduction.paper_grid import conditions

A, B, C, D = (condition(method, "chapman", "chapman") for method in ("cmsc", "cmlc", "cmsmlc", "simclr"))


class Known:
    """Estimates by hand: AUCs by condition, and differences with their p-values by pair."""

    results = SimpleNamespace(finished=())

    def __init__(self, aucs: dict[Condition, float] | None = None, above: dict[Any, Any] | None = None) -> None:
        self._aucs, self._above = aucs or {}, above or {}

    def auc(self, each: Condition, level: str, preset: str = "paper") -> Mean | None:
        value = self._aucs.get(each)
        return None if value is None else Mean(value, value, value, (value,))

    def above(self, first: Condition, second: Condition, level: str) -> Effect | None:
        told = self._above.get((first, second))
        return None if told is None else Effect(told[0], told[0] - 0.01, told[0] + 0.01, told[1])


def known(**told: Any) -> Estimates:
    return cast(Estimates, Known(**told))


PAIRS = [Pair(A, D), Pair(B, D)]


@pytest.mark.parametrize(
    ("first", "second", "verdict", "p"),
    [
        ((0.1, 0.001), (0.05, 0.04), "holds", 0.04),
        ((0.1, 0.001), (0.02, 0.06), "undecided", 0.06),
        ((0.1, 0.001), (-0.01, 0.9), "undecided", 0.9),
        ((0.1, 0.001), (-0.02, 0.97), "undecided", 0.97),  # 0.03 is not below 0.05 / 2
        ((0.1, 0.001), (-0.05, 0.98), "does not hold", 0.98),
        ((0.1, 0.001), None, "not enough results yet", None),
        (None, (-0.05, 0.98), "does not hold", 0.98),  # one that fails is enough
        (None, None, "not enough results yet", None),
        ((0.1, float("nan")), (0.1, 0.001), "not enough results yet", None),  # its scores were not kept
    ],
)
def test_pairs(first: Any, second: Any, verdict: str, p: float | None) -> None:
    found = evaluate_pairs(known(above={(A, D): first, (B, D): second}), "frame", PAIRS)
    assert (found.verdict, found.p) == (verdict, p)


def test_the_outcome_has_the_measured_differences() -> None:
    found = evaluate_pairs(known(above={(A, D): (0.1, 0.001)}), "frame", PAIRS)
    assert found.measured == "CMSC − SimCLR, Chapman: +0.100 (+0.090 to +0.110) (1 of 2 comparisons)"
    many = [Pair(A, D), Pair(B, D), Pair(C, D), Pair(A, B)]
    told = {(A, D): (0.1, 0.01), (B, D): (0.005, 0.1), (C, D): (-0.02, 0.9), (A, B): (0.2, 0.01)}
    found = evaluate_pairs(known(above=told), "frame", many)
    assert found.measured.startswith(
        "above in 3 of 4, in 2 beyond the interval; the least: CMSMLC − SimCLR, Chapman: −0.020"
    )


@pytest.mark.parametrize(
    ("pair", "label"),
    [
        (
            Pair(
                condition("cmsc", "cardiology", "chapman", label_fraction=0.25, protocol="finetune"),
                condition("random", "cardiology", label_fraction=1.0, protocol="finetune"),
            ),
            "CMSC at F = 0.25 − random weights at F = 1, Chapman → Cardiology",
        ),
        (
            Pair(
                *(
                    condition(name, "cardiology", "chapman", label_fraction=0.25, embedding_dim=64)
                    for name in ("cmsc", "cmlc")
                )
            ),
            "CMSC − CMLC, Chapman → Cardiology, E = 64, F = 0.25",
        ),
        (
            Pair(augmented("cmsc", ("flip_time",)), augmented("simclr", ("gaussian_noise", "spec_augment_time"))),
            "CMSC with flip_time − SimCLR with gaussian_noise then spec_augment_time, Chapman",
        ),
    ],
)
def test_labels_of_pairs_name_the_difference(pair: Pair, label: str) -> None:
    assert pair.label == label


VALUES = {A: 0.9, B: 0.7, C: 0.8, D: 0.75}


@pytest.mark.parametrize(
    ("comparison", "won"),
    [
        (MethodComparison((B, C), (D,)), True),  # the best of them is above
        (MethodComparison((B, C), (D,), all_methods=True), False),  # not all are
        (MethodComparison((A, C), (B, D), all_methods=True), True),
        (MethodComparison((D,), (D,)), False),  # a tie is no win
    ],
)
def test_comparisons_are_won_or_lost(comparison: MethodComparison, won: bool) -> None:
    found = evaluate_win_count(known(aucs=VALUES), "frame", [comparison], chance=0.5, stated=1)
    assert found.measured == f"in {int(won)} of 1 experiment"


@pytest.mark.parametrize(
    ("wins", "trials", "chance", "stated", "verdict", "p"),
    [
        (6, 6, 0.5, 6, "holds", 1 / 64),
        (4, 4, 0.5, 4, "undecided", 1 / 16),  # as stated, but so few that chance explains it
        (5, 6, 0.5, 5, "undecided", 7 / 64),
        (1, 6, 0.5, 5, "does not hold", 63 / 64),
        (6, 6, 0.5, None, "holds", 1 / 64),
        (3, 6, 0.5, None, "does not hold", 42 / 64),
        (4, 6, 0.5, None, "undecided", 22 / 64),
    ],
)
def test_counts(wins: int, trials: int, chance: float, stated: int | None, verdict: str, p: float) -> None:
    comparisons = [MethodComparison((A,), (D,))] * wins + [MethodComparison((D,), (A,))] * (trials - wins)
    found = evaluate_win_count(known(aucs=VALUES), "frame", comparisons, chance=chance, stated=stated)
    assert found.verdict == verdict
    assert found.p == pytest.approx(p)


@pytest.mark.parametrize(
    ("p_above", "verdict"),
    [(0.999, "does not hold"), (0.99, "undecided"), (float("nan"), "undecided"), (None, "undecided")],
)
def test_one_significant_loss_refutes_a_claim_about_all(p_above: float | None, verdict: str) -> None:
    """Of six: its p-value times six is to be below 0.05."""
    comparisons = [MethodComparison((A,), (D,))] * 5 + [MethodComparison((D, B), (C, A))]
    above = {} if p_above is None else {(D, A): (-0.15, p_above)}
    found = evaluate_win_count(known(aucs=VALUES, above=above), "frame", comparisons, chance=0.5, stated=6)
    assert (found.measured, found.verdict) == ("in 5 of 6 experiments", verdict)


def test_a_count_waits_for_all_experiments() -> None:
    comparisons = [MethodComparison((A,), (D,)), MethodComparison((A,), (condition("byol", "chapman", "chapman"),))]
    found = evaluate_win_count(known(aucs=VALUES), "frame", comparisons, chance=0.5, stated=2)
    assert found.verdict == "not enough results yet"
    assert found.measured == "in 1 of 1 experiment, of 2 that the claim is about"
    nothing = evaluate_win_count(known(), "frame", comparisons, chance=0.5, stated=2)
    assert (nothing.measured, nothing.p) == ("nothing yet of 2 experiments", None)


def test_without_results_every_claim_waits() -> None:
    for claim_test in all_claim_tests():
        assert claim_test.evaluate(known(), "frame").verdict == "not enough results yet"


class Asked(Known):
    """Notes what claims want to know."""

    def __init__(self) -> None:
        super().__init__()
        self.conditions: set[Condition] = set()

    def auc(self, each: Condition, level: str, preset: str = "paper") -> Mean | None:
        self.conditions.add(each)
        return Mean(0.5, 0.4, 0.6, (0.5,))

    def above(self, first: Condition, second: Condition, level: str) -> Effect | None:
        self.conditions |= {first, second}
        return Effect(0.1, 0.0, 0.2, 0.02)


def test_claims_use_experiments_that_exist() -> None:
    """Of the paper's grid, or of ours: a slip in a condition would make a claim wait for ever."""
    asked = Asked()
    for claim_test in all_claim_tests():
        claim_test.evaluate(cast(Estimates, asked), "frame")
    cells = [cell for name in ("table1", "figure3") for cell in EXPERIMENTS[name].cells(range(1))]
    ours = {condition_of(cell) for cell in cells}
    missing = asked.conditions - set(conditions()) - ours
    assert not missing
    assert {augmented(method, names) for method in ("cmsc", "simclr") for names in SETS} <= ours | set(conditions())
    assert len(asked.conditions) > 100


def test_counts_of_24_are_the_papers() -> None:
    """By its own tables, as ``test_paper_claims`` counts them; its text has 20 and 16 for the second and the last."""
    paper_aucs = {each: results_of(each)[0].value for each in conditions(figures=False)}
    found = [
        claim_test.evaluate(known(aucs=paper_aucs), "frame").measured
        for claim_test in all_claim_tests()
        if claim_test.says.startswith("CLOCS is above SimCLR in")
    ]
    assert found == [f"in {count} of 24 experiments" for count in (18, 21, 21, 17)]
    assert len(CLOCS) == 3


def test_the_papers_own_tables_give_the_counts_that_are_known_of_them() -> None:
    paper_aucs = {each: results_of(each)[0].value for each in conditions(figures=False)}
    told = {claim_test.says: claim_test.evaluate(known(aucs=paper_aucs), "frame") for claim_test in all_claim_tests()}
    over_random = told["With few exceptions, self-supervision helps over random weights."]
    assert (over_random.measured, over_random.verdict) == ("in 19 of 36 experiments", "undecided")
    below = told["CMLC is consistently below CMSC and CMSMLC."]
    assert (below.measured, below.verdict) == ("in 5 of 6 experiments", "undecided"), "no scores tell how sure"
    either = told["CMSC or CMSMLC is above BYOL and SimCLR, whichever the downstream dataset."]
    assert (either.measured, either.verdict) == ("in 6 of 6 experiments", "holds")


@pytest.mark.parametrize(
    ("start", "printed"),
    [
        ("The CLOCS methods are above", "our methods outperform the state-of-the-art methods, BYOL and SimCLR"),
        ("Distances within a patient", "the intra-patient distances are lower than those found in SimCLR"),
    ],
)
def test_reworded_claims_have_their_location_in_the_paper(start: str, printed: str) -> None:
    """The others come from the paper's numbers, which have a test of their own."""
    path = Path(os.environ.get("CLOCS_PAPER", ROOT.parent / "shared" / "paper" / "clocs.tex"))
    if not path.exists():
        pytest.skip(f"no LaTeX source of the paper at {path}; set CLOCS_PAPER to where it is")
    (claim_test,) = (each for each in all_claim_tests() if each.says.startswith(start))
    assert printed in path.read_text(encoding="utf-8").splitlines()[claim_test.line - 1]
