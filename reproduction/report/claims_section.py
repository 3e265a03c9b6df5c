"""The section of claims: verdicts, measured differences, and contradictions in the paper's own tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from reproduction.cells import Level
from reproduction.paper_numbers import Claim, paper
from reproduction.report.claim_tests import Outcome, agreed_verdict
from reproduction.report.claims import ClaimTest, claim_tests, location_text
from reproduction.report.estimates import Choice, Estimates
from reproduction.report.page import Block, Entry, Points, Table, Text, difference_cell

HOW: Final = (
    "A difference is measured on the same test patients and over the seeds that both sides have. Its 95 % interval "
    "covers patients (drawn again 1,000 times with all their frames) and seeds (Student's t, degrees of freedom by "
    "Welch and Satterthwaite). p-values are one-sided and not corrected for the number of claims.",
    "A claim **holds** if all of its differences are above zero by p < 0.05. It **does not hold** if one of them is "
    "below zero by p < 0.05 divided by their number. Otherwise it is **undecided**.",
    "A count of experiments is compared with chance by the sign test. The claim does not hold if at most half are won.",
    "**Too few seeds**: a comparison has fewer than three seeds on one side. **Depends on the choice of epoch**: the "
    "two encoders of a run give different verdicts. **Not done**: a result is missing.",
    "Fine-tuning and distances start from the encoder of the lowest loss, so that they have one verdict.",
)


def claims_blocks(estimates: Estimates) -> list[Block]:
    """Return the rules of the verdicts, and each claim with its verdicts and measured differences."""
    blocks: list[Block] = [Points(HOW)]
    for test in claim_tests():
        found = {
            (level, choice): test.evaluate(estimates, level, choice) for level in test.levels for choice in test.choices
        }
        verdicts = {
            level: agreed_verdict(found[level, choice].verdict for choice in test.choices) for level in test.levels
        }
        counts = {level: found[level, test.choices[0]].count for level in test.levels}
        about = f"**{test.says}** {test.location[0].upper()}{test.location[1:]}. {test.note}".strip()
        sentences = (about, _by_level("Measured", counts), _by_level("Verdict", verdicts, "**"))
        blocks.append(Text(" ".join(filter(None, sentences))))
        if any(each.effect is not None for outcome in found.values() for each in outcome.differences):
            blocks.append(_differences_table(test, found))
    return blocks


def _by_level(word: str, texts: Mapping[Level, str], mark: str = "") -> str:
    """Return a sentence with a text for each level, once if all are the same."""
    if not any(texts.values()):
        return ""
    if len(set(texts.values())) == 1:
        levels = f" per {' and per '.join(texts)}" if len(texts) > 1 else ""
        return f"{word}{levels}: {mark}{next(iter(texts.values()))}{mark}."
    return f"{word} {'; '.join(f'per {level}: {mark}{text}{mark}' for level, text in texts.items())}."


def _differences_table(test: ClaimTest, found: Mapping[tuple[Level, Choice], Outcome]) -> Table:
    """Return a row for each difference of a claim, with a column for each level and choice of encoder."""
    columns = [outcome.differences for outcome in found.values()]
    rows = []
    for differences in zip(*columns, strict=True):
        first = differences[0]
        entries = [Entry("not done") if each.effect is None else difference_cell(each.effect) for each in differences]
        rows.append((Entry(first.label), *entries, Entry(str(first.seeds))))
    levels = {level: f"per {level}" if len(test.levels) > 1 else "difference" for level in test.levels}
    titles = [levels[level] + (f", {choice}" if len(test.choices) > 1 else "") for level, choice in found]
    return Table(("", *titles, "seeds"), tuple(rows))


def contradictions_blocks() -> list[Block]:
    """Return the claims that the paper's own tables contradict."""
    wrong = [claim for claim in paper().claims if claim.holds is False]
    rows = tuple(
        (Entry(claim.says), Entry(location_text(claim.section, claim.line)), Entry(_numbers(claim), claim.note))
        for claim in wrong
    )
    text = (
        f"Of the {len(paper().claims)} sentences of the paper that state a number, {len(wrong)} disagree with the "
        "paper's own tables:"
    )
    return [Text(text), Table(("claim", "location", "stated, and found in the tables"), rows)]


def _numbers(claim: Claim) -> str:
    values = []
    for number in claim.numbers:
        if number.holds is False and number.value is not None:
            found = ", ".join(f"{value:g}" for value in number.found)
            values.append(f"{number.what}: {number.value:g}, found {found}")
    return "; ".join(values)
