"""The page of claims: tests of the paper's claims on our results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clocs.metrics.significance import rank_agreement
from reproduction.cells import LEVELS
from reproduction.experiments import LONGER
from reproduction.paper_numbers import Claim, paper, results_of
from reproduction.report.claim_tests import Outcome, Verdict
from reproduction.report.claims import ClaimTest, all_claim_tests, linear_claim_tests
from reproduction.report.estimates import Estimates
from reproduction.report.extra_experiments import cmsc_above_simclr
from reproduction.report.page import (
    DASH,
    Block,
    Entry,
    Heading,
    Mark,
    Page,
    Points,
    Table,
    Text,
    p_text,
    transfer_label,
)
from reproduction.report.tables_page import SELF_SUPERVISED, columns

MARKS: Final[dict[Verdict, Mark]] = {
    "holds": "holds",
    "does not hold": "fails",
    "undecided": "open",
    "not enough results yet": "missing",
}
HOW: Final = (
    "A difference is tested on the same test patients, drawn again 1,000 times with all their frames, and over the "
    "seeds that both sides have. With several seeds the spread over seeds is added (Student's t, degrees of freedom by "
    "Welch and Satterthwaite); with one seed a p-value speaks for other patients, not for other seeds.",
    "A claim about several comparisons holds only if each of them does: its p-value is the largest of theirs (the "
    "intersection-union test). It does not hold if one is below zero by p < 0.05 divided by their number.",
    "A count (in x of n experiments) is held against what chance would give if all methods were alike, by the sign "
    "test. Experiments share patients and encoders, so that these p-values are too small if anything.",
    "All p-values are one-sided and not corrected for the number of claims on this page.",
)


def claims_page(estimates: Estimates) -> Page:
    """Return the page: claims, the order of methods, and contradictions in the paper."""
    blocks: tuple[Block, ...] = (
        Points((*HOW, _length(estimates))),
        claims_table(estimates),
        *_after_longer(estimates),
        Heading("The order of methods"),
        *_orders(estimates),
        Heading("What the paper's own tables say"),
        *_contradictions(),
    )
    return Page("claims", "Claims", blocks)


def _length(estimates: Estimates) -> str:
    short, long = (cmsc_above_simclr(estimates, max_epochs) for max_epochs in LONGER)
    return (
        f"Pre-training ends after {LONGER[0]} epochs at most, and its length can decide a verdict: on Chapman, CMSC "
        f"minus SimCLR is {short}; after {LONGER[1]} epochs it is {long} ([Our questions](ours.md))."
    )


def _after_longer(estimates: Estimates) -> list[Block]:
    """Return the claims about table 1 after longer pre-training."""
    text = f"The claims about table 1 by pre-trainings of at most {LONGER[1]} epochs, as far as these are done."
    table = claims_table(estimates.with_max_epochs(LONGER[1]), linear_claim_tests())
    return [Heading(f"After {LONGER[1]} epochs"), Text(text), table]


def outcomes(estimates: Estimates, claim_tests: Sequence[ClaimTest]) -> list[tuple[ClaimTest, Outcome, Outcome]]:
    """Return the outcome of each claim per frame and per recording."""
    found = []
    for claim_test in claim_tests:
        frame, recording = (claim_test.evaluate(estimates, level) for level in LEVELS)
        found.append((claim_test, frame, recording))
    return found


def claims_table(estimates: Estimates, claim_tests: Sequence[ClaimTest] | None = None) -> Table:
    """Return a table with a row for each claim: measured values, p-values and verdicts. None: all claims."""
    rows = []
    for claim_test, frame, recording in outcomes(estimates, all_claim_tests() if claim_tests is None else claim_tests):
        detail = f"{location_of(claim_test)}. {claim_test.note}".strip()
        rows.append((Entry(claim_test.says, detail), *_outcome_entries(frame), *_outcome_entries(recording)))
    return Table(("claim", "measured, per frame", "verdict", "measured, per recording", "verdict"), tuple(rows))


def location_of(claim_test: ClaimTest | Claim) -> str:
    """Return section and line of a claim in the paper."""
    where = f"section {claim_test.section}" if claim_test.section else "abstract"
    return f"{where}, line {claim_test.line}"


def _outcome_entries(outcome: Outcome) -> tuple[Entry, Entry]:
    detail = "" if outcome.p is None else f"p {_equal(p_text(outcome.p))}"
    return Entry(outcome.measured or DASH), Entry(outcome.verdict, detail, MARKS[outcome.verdict])


def _equal(text: str) -> str:
    return text if text.startswith("<") else f"= {text}"


def _orders(estimates: Estimates) -> list[Block]:
    """Compare the order of the self-supervised methods with the paper's, for each column."""
    rows = []
    for number in (1, 2):
        for column in columns(number):
            rivals = [each for each in column if each.method in SELF_SUPERVISED]
            values = []
            for level in LEVELS:
                means = [estimates.auc(each, level) for each in rivals]
                ours = [mean.value for mean in means if mean is not None]
                if len(ours) < len(rivals):
                    values += [Entry(DASH, mark="missing"), Entry(DASH)]
                    continue
                tau, p = rank_agreement([results_of(each)[0].value for each in rivals], ours)
                values += [Entry(f"{tau:+.2f}".replace("-", "−")), Entry(p_text(p))]
            rows.append((Entry(f"table {number}, {transfer_label(rivals[0])}"), *values))
    text = (
        "Kendall's tau between the paper's and our AUCs of the six self-supervised methods: 1 for the same order, 0 "
        "for none in common, −1 for the reverse. A dash: not all six are done."
    )
    titles = ("column", "tau, per frame", "p", "tau, per recording", "p")
    return [Text(text), Table(titles, tuple(rows))]


def _contradictions() -> list[Block]:
    """List claims that the paper's own tables contradict."""
    wrong = [claim for claim in paper().claims if claim.holds is False]
    rows = tuple((Entry(claim.says), Entry(location_of(claim)), Entry(_numbers(claim), claim.note)) for claim in wrong)
    text = (
        f"Of the {len(paper().claims)} sentences of the paper that state a number, {len(wrong)} are not borne out by "
        "the paper's own tables:"
    )
    return [Text(text), Table(("claim", "place", "said, and found in the tables"), rows)]


def _numbers(claim: Claim) -> str:
    values = []
    for number in claim.numbers:
        if number.holds is False and number.value is not None:
            found = ", ".join(f"{value:g}" for value in number.found)
            values.append(f"{number.what}: {number.value:g}, found {found}")
    return "; ".join(values)
