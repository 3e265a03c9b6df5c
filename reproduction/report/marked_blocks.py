"""Marked blocks of Markdown pages, which are filled from the results.

A block is ``<!-- results:table1 -->`` ... ``<!-- /results -->``, on separate lines or within a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import Final

from clocs.core.errors import ConfigError
from reproduction.cells import LEVELS
from reproduction.experiments import LONGER
from reproduction.paper_numbers import SOURCES, Method
from reproduction.report.beyond_page import encoder_table
from reproduction.report.claims import ClaimTest, transfer_over_random
from reproduction.report.claims_page import claims_table
from reproduction.report.encoders_page import (
    audit_table,
    audit_text,
    classes_table,
    distances_table,
    groups_table,
    linear_table,
    neighbours_table,
    neighbours_text,
)
from reproduction.report.estimates import Estimates
from reproduction.report.extra_experiments import cmsc_above_simclr
from reproduction.report.few_labels import few_labels_table
from reproduction.report.learning import learning_table
from reproduction.report.missing_cells import status_sentence
from reproduction.report.page import DASH, Entry, Table, auc_cell, transfer_label
from reproduction.report.rendering import markdown_table
from reproduction.report.results import Results, condition
from reproduction.report.runs_page import limits
from reproduction.report.tables_page import column_table, columns

MARKED: Final = re.compile(r"(<!-- results:(?P<name>[\w-]+) -->)(?P<text>.*?)(<!-- /results -->)", re.DOTALL)
USUAL, LONG = LONGER
"""Maximum numbers of epochs on Chapman."""
OPENING: Final = re.compile(r"<!-- results:|<!-- /results -->")


def fill(text: str, estimates: Estimates, name: str = "page") -> str:
    """Return a page with all marked blocks filled again, and the rest unchanged."""
    if len(OPENING.findall(text)) != 2 * len(MARKED.findall(text)):
        raise ConfigError(f"{name}: a mark '<!-- results:NAME -->' needs '<!-- /results -->' after it, and none within")

    def replaced(found: re.Match[str]) -> str:
        content = _content(found["name"], estimates, name)
        around = "\n" if "\n" in content or found["text"].startswith("\n") else ""
        return f"{found[1]}{around}{content}{around}{found[4]}"

    return MARKED.sub(replaced, text)


def _content(block: str, estimates: Estimates, name: str) -> str:
    if block not in BLOCKS:
        near = get_close_matches(block, BLOCKS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise ConfigError(f"{name}: no block '{block}'; there are {', '.join(BLOCKS)}.{hint}")
    return BLOCKS[block](estimates)


def _table(number: int) -> Callable[[Estimates], str]:
    """Return a function that formats the finished part of a table of the paper."""

    def made(estimates: Estimates) -> str:
        rows = []
        for column in columns(number):
            for row in column_table(estimates, column, number).rows:
                method, paper, frame, _, recording, seeds = row
                if frame.mark == "missing":
                    continue
                rows.append((method, Entry(transfer_label(column[-1])), frame, recording, seeds, paper))
        titles = ("encoder", "data", "AUC per frame", "AUC per recording", "seeds", "the paper, per frame")
        return f"{markdown_table(Table(titles, tuple(rows)))}\n\n{status_sentence(estimates.results, f'table{number}')}"

    return made


def _claims(estimates: Estimates) -> str:
    table = claims_table(estimates)
    kept = [(Entry(row[0].text), row[1], row[2]) for row in table.rows if row[2].mark != "missing"]
    missing = len(table.rows) - len(kept)
    tail = f"{missing} more of the paper's claims wait for results."
    return f"{markdown_table(Table(table.titles[:3], tuple(kept)))}\n\n{tail}" if kept else tail


def _measured(claim_test: ClaimTest) -> Callable[[Estimates], str]:
    """Return a function that formats the measured values of a claim."""

    def made(estimates: Estimates) -> str:
        found = [claim_test.evaluate(estimates, level).measured or "not yet known" for level in LEVELS]
        return " and ".join(f"{values} per {level}" for values, level in zip(found, LEVELS, strict=True))

    return made


def _limits(estimates: Estimates) -> str:
    return "\n".join(f"- {limit}" for limit in limits(estimates.results))


def _auc(method: Method, epochs: int = USUAL) -> Callable[[Estimates], str]:
    """Return a function that formats the AUC on Chapman per frame and per recording."""
    experiment = condition(method, "chapman", None if method == "random" else "chapman")

    def made(estimates: Estimates) -> str:
        means = [estimates.with_max_epochs(epochs).auc(experiment, level) for level in LEVELS]
        return ", ".join(auc_cell(mean).text for mean in means)

    return made


def _plain(made: Callable[[Estimates], Table], columns: int | None = None) -> Callable[[Estimates], str]:
    """Return a function that formats a table, or its first columns, without rows that have no result."""

    def filled(estimates: Estimates) -> str:
        table = made(estimates)
        rows = tuple(row[:columns] for row in table.rows if any(entry.text != DASH for entry in row[1:columns]))
        return markdown_table(Table(table.titles[:columns], rows)) if rows else "No results yet."

    return filled


def _complete(made: Callable[[Results], Table]) -> Callable[[Estimates], str]:
    """Return a function that formats a complete table."""
    return lambda estimates: markdown_table(made(estimates.results))


def _learning(estimates: Estimates) -> str:
    """Return the picture and the table of the learning curves, for a page of ``docs/``."""
    table = learning_table(estimates.results)
    if not table.rows:
        return "No results yet."
    picture = "![Losses and effective rank on Chapman, epoch by epoch](results/images/figure-learning.svg)"
    return f"{picture}\n\n{markdown_table(table)}"


def _text_and_table(
    text: Callable[[Results, str], str], made: Callable[[Results, str], Table], dataset: str
) -> Callable[[Estimates], str]:
    """Return a function that formats a sentence and a table about a dataset."""
    return lambda estimates: f"{text(estimates.results, dataset)}\n\n{markdown_table(made(estimates.results, dataset))}"


BLOCKS: Final[dict[str, Callable[[Estimates], str]]] = {
    "table1": _table(1),
    "table2": _table(2),
    "claims": _claims,
    "transfer-over-random": _measured(transfer_over_random()),
    "limits": _limits,
    "cmsc-above-simclr": partial(cmsc_above_simclr, epochs=USUAL),
    "cmsc-above-simclr-longer": partial(cmsc_above_simclr, epochs=LONG),
    "auc-cmsc": _auc("cmsc"),
    "auc-cmsc-longer": _auc("cmsc", LONG),
    "auc-simclr": _auc("simclr"),
    "auc-simclr-longer": _auc("simclr", LONG),
    "auc-random": _auc("random"),
    "recommended": _plain(encoder_table, columns=4),
    "few-labels": _plain(few_labels_table),
    "learning": _learning,
    "encoders-linear": _complete(linear_table),
    **{f"neighbours-{dataset}": _text_and_table(neighbours_text, neighbours_table, dataset) for dataset in SOURCES},
    "neighbours-classes": _complete(classes_table),
    "distances": _complete(distances_table),
    "groups": _complete(groups_table),
    **{f"audit-{dataset}": _text_and_table(audit_text, audit_table, dataset) for dataset in SOURCES},
}
