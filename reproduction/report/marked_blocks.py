"""Marked blocks of Markdown pages, which are filled from the results.

A block is ``<!-- results:learning -->`` ... ``<!-- /results -->``, on separate lines or within a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from clocs.core.errors import ConfigError
from reproduction.paper_numbers import SOURCES
from reproduction.report.benchmark_summary import benchmark_text
from reproduction.report.classifiers_table import classifiers_table
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
from reproduction.report.gallery import FOLDER
from reproduction.report.page import Table
from reproduction.report.paper_tables import table1
from reproduction.report.pretrainings import learning_figures, pretraining_table
from reproduction.report.rendering import markdown_table
from reproduction.report.results import Results

MARKED: Final = re.compile(r"(<!-- results:(?P<name>[\w-]+) -->)(?P<text>.*?)(<!-- /results -->)", re.DOTALL)
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


def _complete(made: Callable[[Results], Table]) -> Callable[[Estimates], str]:
    """Return a function that formats a complete table."""
    return lambda estimates: markdown_table(made(estimates.results))


def _learning(estimates: Estimates) -> str:
    """Return the learning curves and how runs on Chapman stopped, for a page in a folder of ``docs/``."""
    table = pretraining_table(estimates.results, "chapman")
    if not table.rows:
        return "These pre-trainings are not done yet."
    pictures = [f"![{shows}](../results/{FOLDER}/{name}.svg)" for name, _, shows in learning_figures(estimates)]
    return "\n".join([*pictures, "", markdown_table(table)])


def _text_and_table(
    text: Callable[[Results, str], str], made: Callable[[Results, str], Table], dataset: str
) -> Callable[[Estimates], str]:
    """Return a function that formats a sentence and a table about a dataset."""
    return lambda estimates: f"{text(estimates.results, dataset)}\n\n{markdown_table(made(estimates.results, dataset))}"


BLOCKS: Final[dict[str, Callable[[Estimates], str]]] = {
    "benchmark": lambda estimates: benchmark_text(estimates.results),
    "table1-chapman": lambda estimates: markdown_table(table1(estimates, "chapman", "frame")),
    "learning": _learning,
    "classifiers": lambda estimates: markdown_table(classifiers_table()),
    "encoders-linear": _complete(linear_table),
    **{f"neighbours-{dataset}": _text_and_table(neighbours_text, neighbours_table, dataset) for dataset in SOURCES},
    "neighbours-classes": _complete(classes_table),
    "distances": _complete(distances_table),
    "groups": _complete(groups_table),
    **{f"audit-{dataset}": _text_and_table(audit_text, audit_table, dataset) for dataset in SOURCES},
}
