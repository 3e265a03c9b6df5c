"""The claims of sections 6.2, 6.3, 6.4 and 6.6 of the paper, as tests on our results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from reproduction.cells import LEVELS, Level
from reproduction.experiments import FEWER_LABELS, METHODS, TRANSFERS, finetuned, linear
from reproduction.paper_numbers import SOURCES, Claim, paper
from reproduction.report.claim_tests import (
    Contest,
    Outcome,
    Pair,
    evaluate_pairs,
    evaluate_wins,
)
from reproduction.report.distances import evaluate_distances
from reproduction.report.estimates import CHOICES, Choice, Estimates, Seeded
from reproduction.report.page import (
    DATASET_NAMES,
    METHOD_NAMES,
    transfer_label,
)

Test = Callable[[Estimates, Level, Choice], Outcome]
ONE_CHOICE: Final[tuple[Choice, ...]] = ("lowest loss",)


@dataclass(frozen=True)
class ClaimTest:
    """A claim of the paper, and its test."""

    says: str
    """The claim."""
    section: str
    """Section of the paper."""
    line: int
    """Line of the paper's source."""
    evaluate: Test
    """Test of the claim on our results."""
    note: str = ""
    """Remark for readers."""
    choices: tuple[Choice, ...] = CHOICES
    """Encoders of a run that it is tested on."""
    levels: tuple[Level, ...] = LEVELS
    """Levels of the AUC that it is tested on."""

    @property
    def location(self) -> str:
        """Section and line in the paper."""
        return location_text(self.section, self.line)


def location_text(section: str, line: int) -> str:
    """Format the location of a claim in the paper."""
    return f"{f'section {section}' if section else 'abstract'}, line {line}"


def claim_tests() -> tuple[ClaimTest, ...]:
    """Return the tests of all claims."""
    return (*_linear(), *_transfer(), _labels(), _distances())


def _claim(name: str) -> Claim:
    (claim,) = (each for each in paper().claims if each.id == name)
    return claim


def _linear() -> list[ClaimTest]:
    """Return the tests of claims about table 1."""
    both, always = _claim("linear-both"), _claim("linear-always")
    chapman = _claim("linear-chapman")
    return [
        ClaimTest(
            "CMSC is above SimCLR on Chapman.",
            chapman.section,
            chapman.line,
            _linear_pairs(["cmsc"], ["simclr"], SOURCES[:1]),
            "The paper's difference: 0.158.",
        ),
        ClaimTest(both.says, both.section, both.line, _linear_pairs(["cmsc"], ["simclr", "byol"], SOURCES)),
        ClaimTest(
            always.says,
            always.section,
            always.line,
            _linear_pairs(["cmsc", "cmlc", "cmsmlc"], ["simclr"], SOURCES),
            "Here with 4 leads, E = 128 and half of the labels. The paper's own tables contradict it for CMLC.",
        ),
    ]


def _linear_pairs(firsts: Sequence[str], seconds: Sequence[str], datasets: Iterable[str]) -> Test:
    pairs = [
        Pair(
            f"{METHOD_NAMES[first]} − {METHOD_NAMES[second]}, {DATASET_NAMES[dataset]}",
            partial(linear, first, dataset),
            partial(linear, second, dataset),
        )
        for dataset in datasets
        for first in firsts
        for second in seconds
    ]
    return partial(evaluate_pairs, pairs=tuple(pairs))


def _transfer() -> list[ClaimTest]:
    """Return the tests of claims about table 2."""
    over_random = [
        Contest((_tuned(method, *transfer),), (_tuned("random", *transfer),))
        for transfer in TRANSFERS
        for method in METHODS
    ]
    either = [
        Contest(
            (_tuned("cmsc", *transfer), _tuned("cmsmlc", *transfer)),
            (_tuned("byol", *transfer), _tuned("simclr", *transfer)),
        )
        for transfer in TRANSFERS
    ]
    below = [_transfer_pair(first, "cmlc", *transfer) for transfer in TRANSFERS for first in ("cmsc", "cmsmlc")]
    cardiology = _claim("transfer-cardiology")
    tests: list[tuple[Claim, str, Test, str]] = [
        (
            _claim("transfer-over-random"),
            "",
            partial(evaluate_wins, contests=tuple(over_random)),
            "In the paper's own table 2 it is so in 19 of 36.",
        ),
        (_claim("transfer-either"), "", partial(evaluate_wins, contests=tuple(either), stated=len(either)), ""),
        (
            cardiology,
            "CMSMLC is above SimCLR, from Chapman to Cardiology.",
            partial(evaluate_pairs, pairs=(_transfer_pair("cmsmlc", "simclr", "chapman", "cardiology"),)),
            "The paper's difference: 0.041.",
        ),
        (_claim("cmlc-below"), "", partial(evaluate_pairs, pairs=tuple(below)), ""),
    ]
    return [
        ClaimTest(says or claim.says, claim.section, claim.line, test, note, ONE_CHOICE)
        for claim, says, test, note in tests
    ]


def _tuned(method: str, source: str, target: str, label_fraction: float = 0.5) -> Seeded:
    return partial(finetuned, method, source, target, label_fraction=label_fraction)


def _transfer_pair(first: str, second: str, source: str, target: str) -> Pair:
    label = f"{METHOD_NAMES[first]} − {METHOD_NAMES[second]}, {transfer_label(source, target)}"
    return Pair(label, _tuned(first, source, target), _tuned(second, source, target))


def _labels() -> ClaimTest:
    """Return the test of the claim about figure 4."""
    claim = _claim("less-labels")
    pairs = [
        Pair(
            f"CMSC with a quarter of the labels − random weights with all, {transfer_label(source, target)}",
            _tuned("cmsc", source, target, 0.25),
            _tuned("random", source, target, 1.0),
        )
        for source, target in FEWER_LABELS
    ]
    note = "By test AUC; the paper shows validation AUC."
    return ClaimTest(
        claim.says, claim.section, claim.line, partial(evaluate_pairs, pairs=tuple(pairs)), note, ONE_CHOICE
    )


def _distances() -> ClaimTest:
    """Return the test of the claim about figure 6."""
    return ClaimTest(
        "Distances within a patient are shorter than between patients after CMSC, and the two are further apart than "
        "after SimCLR.",
        "6.6",
        330,
        evaluate_distances,
        "On validation patients. Separation is the probability that a distance between patients is the longer one. Its "
        "difference is treated as of different patients, so the interval may be too wide.",
        ONE_CHOICE,
        LEVELS[:1],
    )
