"""Blocks of a report page, which are rendered as Markdown, and formats of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from clocs.metrics.intervals import Interval
from reproduction.report.estimates import Mean

DASH: Final = "–"
METHOD_NAMES: Final = {
    "random": "random weights",
    "supervised": "supervised",
    "mtssl": "MT-SSL",
    "byol": "BYOL",
    "simclr": "SimCLR",
    "cmsc": "CMSC",
    "cmlc": "CMLC",
    "cmsmlc": "CMSMLC",
}
DATASET_NAMES: Final = {
    "chapman": "Chapman",
    "physionet2020": "PhysioNet 2020",
    "physionet2017": "PhysioNet 2017",
    "cardiology": "Cardiology",
}


@dataclass(frozen=True)
class Entry:
    """A table entry: its text, and a detail in parentheses."""

    text: str
    detail: str = ""


@dataclass(frozen=True)
class Table:
    """A table. The first column has the names of the rows."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Text:
    """A paragraph; ``code`` and [links](...) as in Markdown."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Heading:
    """The heading of a section."""

    text: str
    depth: Literal[2, 3] = 2


@dataclass(frozen=True)
class Picture:
    """A picture file beside the page, with its description."""

    file: str
    shows: str


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side, or below each other on a small screen."""

    pictures: tuple[Picture, ...]


Block = Table | Text | Points | Heading | Pictures


@dataclass(frozen=True)
class Page:
    """A page of the report."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def signed_text(value: float, decimals: int = 3) -> str:
    """Format a difference: ``+0.097``."""
    return f"{value:+.{decimals}f}".replace("-", "−")


def interval_text(interval: Interval, *, difference: bool = False) -> str:
    """Format the ends of an interval: ``0.942 to 0.953``; empty if they are unknown."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return ""
    low, high = ((signed_text(end) if difference else f"{end:.3f}") for end in (interval.low, interval.high))
    return f"{low} to {high}"


def mean_text(mean: Mean) -> str:
    """Format a mean AUC with its standard deviation over seeds: ``0.921 ± 0.052``."""
    return f"{mean.value:.3f}" + ("" if mean.deviation is None else f" ± {mean.deviation:.3f}")


def auc_cell(mean: Mean | None) -> Entry:
    """Return a mean AUC with its deviation over seeds and its interval over patients."""
    return Entry(DASH) if mean is None else Entry(mean_text(mean), interval_text(mean))


def value_entry(values: Mapping[str, float | None] | None) -> Entry:
    """Return a value between 0 and 1 with its interval, from the JSON of a result."""
    if values is None or values["value"] is None:
        return Entry(DASH)
    value, low, high = (math.nan if (end := values[name]) is None else end for name in ("value", "low", "high"))
    return Entry(f"{value:.3f}", interval_text(Interval(value, low, high)))


def difference_cell(difference: Interval | None) -> Entry:
    """Return a difference with its interval."""
    if difference is None:
        return Entry(DASH)
    return Entry(signed_text(difference.value), interval_text(difference, difference=True))


def transfer_label(source: str, target: str) -> str:
    """Format the datasets of pre-training and evaluation: ``Chapman → Cardiology``."""
    return f"{DATASET_NAMES[source]} → {DATASET_NAMES[target]}"


def duration_text(seconds: float) -> str:
    """Format a duration: ``5 min`` or ``2.5 h``."""
    if seconds < 5400:
        return f"{max(seconds / 60, 1):.0f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 100 * 3600 else f"{seconds / 3600:,.0f} h"


def count_text(number: int, one: str, many: str = "") -> str:
    """Format a count: ``1 seed``, ``3 seeds``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def join_words(words: Iterable[str]) -> str:
    """Join words: ``a, b and c``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
