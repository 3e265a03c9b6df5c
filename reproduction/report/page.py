"""A page of the report before it is Markdown or HTML: each number is formatted once, for both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from clocs.metrics.bootstrap import Interval
from reproduction.paper_numbers import Condition
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


Mark = Literal["", "best", "holds", "fails", "open", "missing"]


@dataclass(frozen=True)
class Entry:
    """Of a table: what is read first, and what stands beside it in smaller print."""

    text: str
    detail: str = ""
    mark: Mark = ""


@dataclass(frozen=True)
class Table:
    """Rows under titles. The first column names its row."""

    titles: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Text:
    """A paragraph; ``code`` and [links](...) as in Markdown."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True)
class Points:
    """A list."""

    items: tuple[str, ...]
    kind: Literal["points"] = "points"


@dataclass(frozen=True)
class Heading:
    """Of a section of a page."""

    text: str
    depth: Literal[2, 3] = 2
    kind: Literal["heading"] = "heading"


@dataclass(frozen=True)
class Picture:
    """A panel: a file beside the page, and what it shows for those who cannot see it."""

    file: str
    shows: str


@dataclass(frozen=True)
class Panels:
    """Pictures side by side, or below each other on a small screen."""

    pictures: tuple[Picture, ...]
    kind: Literal["panels"] = "panels"


Block = Table | Text | Points | Heading | Panels


@dataclass(frozen=True)
class Page:
    """One of the report's pages."""

    name: str
    title: str
    blocks: tuple[Block, ...]


def signed(value: float) -> str:
    """A difference of AUCs: ``+0.097``."""
    return f"{value:+.3f}".replace("-", "−")


def ends(interval: Interval, *, difference: bool = False) -> str:
    """``0.942 to 0.953``; empty where they are not known."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return ""
    low, high = ((signed(end) if difference else f"{end:.3f}") for end in (interval.low, interval.high))
    return f"{low} to {high}"


def auc_cell(mean: Mean | None, *, best: bool = False) -> Entry:
    """A mean AUC with its deviation over seeds, where there are several, and its interval over patients."""
    if mean is None:
        return Entry(DASH, mark="missing")
    spread = "" if mean.deviation is None else f" ± {mean.deviation:.3f}"
    return Entry(f"{mean.value:.3f}{spread}", ends(mean), "best" if best else "")


def value_entry(values: Mapping[str, float | None] | None) -> Entry:
    """A value between 0 and 1 with its interval, as a result's JSON has it."""
    if values is None or values["value"] is None:
        return Entry(DASH, mark="missing")
    value, low, high = (math.nan if (end := values[name]) is None else end for name in ("value", "low", "high"))
    return Entry(f"{value:.3f}", ends(Interval(value, low, high)))


def difference_cell(difference: Interval | None) -> Entry:
    """A difference with its interval."""
    if difference is None:
        return Entry(DASH, mark="missing")
    return Entry(signed(difference.value), ends(difference, difference=True))


def p_text(p: float | None) -> str:
    """``0.03``; ``< 0.001``; a dash where there is none."""
    if p is None or math.isnan(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def arrow(condition: Condition) -> str:
    """Where an encoder was trained and judged: ``Chapman → Cardiology``."""
    evaluated = DATASET_NAMES[condition.evaluation]
    source = condition.pretraining
    return evaluated if source in (None, condition.evaluation) else f"{DATASET_NAMES[source]} → {evaluated}"


def hours(seconds: float) -> str:
    """A time for people, of one core."""
    if seconds < 5400:
        return f"{max(seconds / 60, 1):.0f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 100 * 3600 else f"{seconds / 3600:,.0f} h"


def counted(number: int, one: str, many: str = "") -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(words: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
