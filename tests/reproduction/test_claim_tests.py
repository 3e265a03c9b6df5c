"""Verdicts by hand, and claims on results of the factory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from clocs.metrics.significance import Effect
from reproduction.cells import Evaluation, Level
from reproduction.experiments import EXPERIMENTS, linear
from reproduction.report.claim_tests import (
    Contest,
    Difference,
    Verdict,
    agreed_verdict,
    evaluate_differences,
    evaluate_wins,
)
from reproduction.report.claims import claim_tests
from reproduction.report.estimates import CHOICES, Choice, Estimates, Mean, Seeded
from reproduction.report.results import Results, Runs
from tests.conftest import ROOT
from tests.reproduction.results_factory import method_of, write_results


def difference(value: float, p: float, seeds: int = 3) -> Difference:
    return Difference("A − B", Effect(value, value - 0.01, value + 0.01, p), seeds)


MISSING = Difference("A − B", None, 0)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (difference(0.1, 0.001), difference(0.05, 0.04), "holds"),
        (difference(0.1, 0.001), difference(0.02, 0.06), "undecided"),
        (difference(0.1, 0.001), difference(-0.02, 0.97), "undecided"),  # 0.03 is not below 0.05 / 2
        (difference(0.1, 0.001), difference(-0.05, 0.98), "does not hold"),
        (difference(0.1, 0.001), difference(0.1, 0.001, seeds=2), "too few seeds"),
        (difference(0.1, 0.001), difference(-0.5, 0.999, seeds=2), "too few seeds"),
        (difference(-0.5, 0.999), difference(0.1, 0.001, seeds=1), "does not hold"),  # one that fails is enough
        (difference(0.1, 0.001), MISSING, "not done"),
        (difference(-0.5, 0.999), MISSING, "does not hold"),
        (MISSING, MISSING, "not done"),
        (difference(0.1, float("nan")), difference(0.1, 0.001), "undecided"),  # without replicates
    ],
)
def test_verdicts_of_differences(first: Difference, second: Difference, verdict: str) -> None:
    assert evaluate_differences([first, second]).verdict == verdict


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (["holds", "holds"], "holds"),
        (["does not hold", "does not hold"], "does not hold"),
        (["holds", "does not hold"], "depends on the choice of epoch"),
        (["holds", "undecided"], "depends on the choice of epoch"),
        (["too few seeds", "too few seeds"], "too few seeds"),
        (["holds"], "holds"),
    ],
)
def test_a_verdict_needs_both_choices_of_the_encoder(verdicts: list[Verdict], expected: str) -> None:
    assert agreed_verdict(verdicts) == expected


class Known:
    """Estimates by hand: AUC and number of seeds of each evaluation."""

    def __init__(self, values: Mapping[Seeded, tuple[float, int]]) -> None:
        self._values = values

    def auc(self, cell: Seeded, level: Level, choice: Choice) -> Mean | None:
        if cell not in self._values:
            return None
        value, seeds = self._values[cell]
        return Mean(value, value, value, (value,) * seeds)


def evaluation(seed: int) -> Evaluation:
    return linear("cmsc", "chapman", seed)


LOW, HIGH, TIE, FEW, NONE = (lambda seed: evaluation(seed) for _ in range(5))
KNOWN = cast(Estimates, Known({LOW: (0.7, 3), HIGH: (0.9, 3), TIE: (0.7, 4), FEW: (0.8, 2)}))
WON, LOST = Contest((LOW, HIGH), (TIE,)), Contest((LOW,), (TIE,))


@pytest.mark.parametrize(
    ("contests", "stated", "count", "verdict"),
    [
        ([WON] * 6, 6, "in 6 of 6 experiments, with 3 seeds or more", "holds"),
        ([WON] * 4, 4, "in 4 of 4 experiments, with 3 seeds or more", "undecided"),  # so few that chance explains it
        ([WON] * 5 + [LOST], 6, "in 5 of 6 experiments, with 3 seeds or more", "undecided"),
        ([WON] * 3 + [LOST] * 3, 0, "in 3 of 6 experiments, with 3 seeds or more", "does not hold"),
        ([WON] * 5 + [Contest((FEW,), (LOW,))], 0, "in 6 of 6 experiments, with 2 seeds or more", "too few seeds"),
        ([WON, Contest((NONE,), (LOW,))], 0, "in 1 of 1 experiment, of 2 that the claim is about", "not done"),
        ([Contest((NONE,), (LOW,))], 0, "", "not done"),
    ],
)
def test_verdicts_of_counts(contests: list[Contest], stated: int, count: str, verdict: str) -> None:
    found = evaluate_wins(KNOWN, "frame", "lowest loss", contests, stated)
    assert (found.count, found.verdict) == (count, verdict)


# --- the claims of the paper


def verdicts(folder: Path, start: str, level: Level = "frame") -> dict[Choice, Verdict]:
    (test,) = (each for each in claim_tests() if each.says.startswith(start))
    estimates = Estimates(Results(folder))
    return {choice: test.evaluate(estimates, level, choice).verdict for choice in test.choices}


@pytest.mark.parametrize(
    ("simclr", "kept", "expected"),
    [
        (0.01, 0.01, ("holds", "holds")),
        (4.0, 4.0, ("does not hold", "does not hold")),
        (0.01, 4.0, ("holds", "does not hold")),
    ],
)
def test_a_claim_is_tested_by_both_encoders(
    tmp_path: Path, simclr: float, kept: float, expected: tuple[Verdict, Verdict]
) -> None:
    """CMSC has 0.7 throughout, SimCLR so much at its lowest loss and after 25 epochs."""
    cells = [linear(method, "chapman", seed) for method in ("cmsc", "simclr") for seed in range(3)]
    write_results(
        tmp_path,
        cells,
        lambda cell: 0.7 if method_of(cell) == "cmsc" else simclr,
        lambda cell: {25: 1.0 if method_of(cell) == "cmsc" else kept / simclr},
    )
    assert tuple(verdicts(tmp_path, "CMSC is above SimCLR").values()) == expected


def test_two_seeds_are_too_few(tmp_path: Path) -> None:
    write_results(tmp_path, [linear(method, "chapman", seed) for method in ("cmsc", "simclr") for seed in range(2)])
    assert set(verdicts(tmp_path, "CMSC is above SimCLR").values()) == {"too few seeds"}


def test_verdicts_on_complete_results(complete: Path) -> None:
    """Table 1 has three seeds, table 2 has one, figure 4 has two."""
    assert set(verdicts(complete / "results", "CMSC is above BYOL").values()) == {"holds"}
    for start in ("With few exceptions", "CMSC or CMSMLC", "CMSMLC is above", "CMLC is", "CMSC with", "Distances"):
        assert verdicts(complete / "results", start) == {"lowest loss": "too few seeds"}


class Asked(Known):
    """Estimates that remember the evaluations they are asked for."""

    def __init__(self) -> None:
        super().__init__({})
        self.results = self
        self.keys: set[str] = set()

    def runs(self, cell: Seeded, choice: Choice = "lowest loss") -> Runs:
        self.keys.add(cell(0).key)
        return {}

    seeds = runs

    def auc(self, cell: Seeded, level: Level, choice: Choice) -> Mean | None:
        self.keys.add(cell(0).key)
        return None

    def difference(self, *_: Any) -> None:
        return None


def test_claims_use_cells_of_the_experiments() -> None:
    """A slip in a cell would make a claim wait for ever."""
    asked = Asked()
    for test in claim_tests():
        for choice in CHOICES:
            assert test.evaluate(cast(Estimates, asked), "frame", choice).verdict == "not done"
    names = ("table1", "table2", "figure4", "figure6")
    known = {cell.key for name in names for cell in EXPERIMENTS[name].cells(range(1))}
    assert asked.keys <= known
    assert len(asked.keys) > 40


def test_reworded_claims_have_their_location_in_the_paper() -> None:
    """The others come from the paper's numbers, which have a test of their own."""
    path = Path(os.environ.get("CLOCS_PAPER", ROOT.parent / "shared" / "paper" / "clocs.tex"))
    if not path.exists():
        pytest.skip(f"no LaTeX source of the paper at {path}; set CLOCS_PAPER to where it is")
    (test,) = (each for each in claim_tests() if each.says.startswith("Distances within a patient"))
    line = path.read_text(encoding="utf-8").splitlines()[test.line - 1]
    assert "the intra-patient distances are lower than those found in SimCLR" in line
