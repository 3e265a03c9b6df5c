"""The paper's tables with our numbers beside its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clocs.metrics.bootstrap import Interval
from reproduction.cells import LEVELS, Level
from reproduction.paper_numbers import Condition, Result, paper, results_of
from reproduction.paper_numbers import results as paper_results
from reproduction.report.estimates import Estimates, Mean
from reproduction.report.missing_cells import status_sentence
from reproduction.report.page import (
    DASH,
    METHOD_NAMES,
    Block,
    Entry,
    Heading,
    Page,
    Table,
    Text,
    auc_cell,
    count_text,
    difference_cell,
    transfer_label,
)
from reproduction.report.results import condition

SELF_SUPERVISED: Final = ("mtssl", "byol", "simclr", "cmsc", "cmlc", "cmsmlc")
TITLES: Final = (
    "",
    f"the paper, {paper().seeds} seeds, per frame",
    "ours, per frame",
    "ours − the paper",
    "ours, per recording",
    "seeds",
)
HOW_TO_READ: Final = (
    "Macro AUC on test patients. **Per frame** is the paper's way: every lead and frame by itself. **Per recording** "
    "is the mean of a recording's leads and frames, which is what someone with an ECG in hand would use. Behind ± is "
    "the standard deviation over seeds, in brackets the 95 % interval over patients. The interval of a difference from "
    "the paper is ours: of the paper's, only the deviation over seeds is known, and its test patients are others. In "
    "bold: the best of the self-supervised methods."
)


def tables_page(estimates: Estimates) -> Page:
    """Return the page of tables 1 and 2, and of results of the appendix."""
    blocks: list[Block] = [Text(HOW_TO_READ)]
    for number, name in ((1, "table1"), (2, "table2")):
        blocks += [
            Heading(f"Table {number}. {paper().tables[number - 1].shows}"),
            Text(f"{_place(number)} E = 128, four leads. {status_sentence(estimates.results, name)}"),
        ]
        for column in columns(number):
            blocks += [Heading(transfer_label(column[-1]), 3), column_table(estimates, column, number)]
    return Page("tables", "Tables", (*blocks, *_appendix(estimates)))


def columns(number: int) -> list[list[Condition]]:
    """Return the experiments of each column of table 1 or 2, beginning with random weights."""
    found: dict[int, list[Condition]] = {}
    for result in paper_results(table=number):
        found.setdefault(result.column, []).append(result.condition)
    if number == 1:  # the paper leaves random weights out
        return [[condition("random", column[0].evaluation), *column] for column in found.values()]
    return list(found.values())


def column_table(estimates: Estimates, column: Sequence[Condition], number: int) -> Table:
    """Return one column of the paper's table as a table."""
    best = {level: best_method(estimates, column, level) for level in LEVELS}
    rows = []
    for each in column:
        frame, recording = (estimates.auc(each, level) for level in LEVELS)
        rows.append(
            (
                Entry(METHOD_NAMES[each.method]),
                paper_cell(each, number),
                auc_cell(frame, best=each.method == best["frame"]),
                difference_cell(from_paper(frame, each)),
                auc_cell(recording, best=each.method == best["recording"]),
                Entry(str(len(frame.by_seed)) if frame else DASH),
            )
        )
    return Table(TITLES, tuple(rows))


def best_method(estimates: Estimates, column: Sequence[Condition], level: Level) -> str | None:
    """Return the best self-supervised method of a column, or None if one is missing."""
    rivals = [each for each in column if each.method in SELF_SUPERVISED]
    found = {each.method: mean.value for each in rivals if (mean := estimates.auc(each, level)) is not None}
    return max(found, key=lambda method: found[method]) if len(found) == len(rivals) else None


def paper_cell(each: Condition, number: int) -> Entry:
    """Return the printed value of an experiment in a table of the paper."""
    printed = [result for result in results_of(each) if result.table == number]
    if not printed:
        return Entry(DASH)
    return Entry(printed[0].printed, mark="best" if printed[0].bold else "")


def from_paper(ours: Mean | None, each: Condition) -> Interval | None:
    """Return the difference from the paper's value."""
    printed = results_of(each)
    if ours is None or not printed:
        return None
    value = printed[0].value
    return Interval(ours.value - value, ours.low - value, ours.high - value)


def _appendix(estimates: Estimates) -> list[Block]:
    """Return results that only tables of the appendix have."""
    rows = []
    shown = {each for number in (1, 2) for column in columns(number) for each in column}
    order = list(METHOD_NAMES)
    for each in sorted(estimates.results.conditions, key=lambda each: (transfer_label(each), order.index(each.method))):
        printed = [result for result in results_of(each) if result.table > 2]
        if each in shown or not printed:
            continue
        frame, recording = (estimates.auc(each, level) for level in LEVELS)
        assert frame is not None
        rows.append(
            (
                Entry(_where(printed)),
                Entry(transfer_label(each) if each.pretraining else f"→ {transfer_label(each)}"),
                Entry(_varied(each)),
                Entry(METHOD_NAMES[each.method]),
                paper_cell(each, printed[0].table),
                auc_cell(frame),
                difference_cell(from_paper(frame, each)),
                auc_cell(recording),
                Entry(str(len(frame.by_seed))),
            )
        )
    if not rows:
        return [Heading("The appendix"), Text("Of tables 7 to 24, nothing beyond tables 1 and 2 is done yet.")]
    text = f"{count_text(len(rows), 'result')} that stand in tables 7 to 24 alone."
    titles = ("table", "data", "E, F", "", *TITLES[1:])
    return [
        Heading("The appendix"),
        Text(text),
        Table(titles, tuple(sorted(rows, key=lambda row: row[0].text.zfill(3)))),
    ]


def _where(printed: Sequence[Result]) -> str:
    return f"{printed[0].table}{printed[0].part}"


def _varied(each: Condition) -> str:
    decay = f", decay {each.decay:g}" if each.decay not in (None, 0.9) else ""
    return f"{each.embedding_dim}, {each.label_fraction:g}{decay}"


def _place(number: int) -> str:
    table = paper().tables[number - 1]
    return f"Section {table.section}, line {table.line} of the source."
