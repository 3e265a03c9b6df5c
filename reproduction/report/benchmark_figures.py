"""Figures of the benchmark: AUC by the share of labels that is used, and by leads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from clocs.drawing.panels import Sweep, draw_sweep
from clocs.evaluation.benchmark.embedders import EMBEDDING
from clocs.evaluation.benchmark.summary import main_metric, task_of
from clocs.inference.classification import format_set
from reproduction.report.gallery import NamedFigures

Row = dict[str, Any]
METRIC: Final = "auc"
TITLES: Final = {"ptbxl": "PTB-XL", "physionet2020": "CPSC 2018", "chapman": "Chapman"}


def benchmark_figures(rows: Sequence[Row]) -> NamedFigures:
    """Return the figures of a benchmark.

    Args:
        rows: Summaries of finished cells, see :func:`clocs.evaluation.benchmark.summary.summarize`.

    Returns:
        For each task a figure by label fraction, and one by leads, where there are several.
    """
    classified = [row for row in rows if main_metric(row["task"]["kind"]) == METRIC and _intervals(row)]
    names = sorted(set(map(_name, classified)))
    return [*_by_labels(classified, names), *_by_leads(classified, names)]


def _name(row: Row) -> str:
    """Return the name of an encoder or control without its leads."""
    return str(row["encoder"]["name"]).removesuffix(f", {format_set(task_of(row)[2])}")


def _by_labels(rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, Any, str]]:
    for key in dict.fromkeys(map(task_of, rows)):
        cells = [row for row in rows if task_of(row) == key]
        fractions = sorted({row["label_fraction"] for cell in cells for row in cell["rows"]})
        if len(fractions) < 2 or key[2]:
            continue
        lines = {cell["encoder"]["name"]: _sweep(_intervals(cell).get(part) for part in fractions) for cell in cells}
        settings = [f"{part:.0%}" for part in fractions]
        yield _figure("labels", key, lines, names, settings, "training patients with labels")


def _by_leads(rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, Any, str]]:
    for dataset, task in dict.fromkeys(task_of(row)[:2] for row in rows):
        cells = {}
        for row in rows:
            leads = task_of(row)[2]
            if task_of(row)[:2] == (dataset, task) and 1.0 in _intervals(row):
                cells[_name(row), leads] = _intervals(row)[1.0]
        sets = sorted({leads for _, leads in cells}, key=lambda leads: -len(leads) if leads else -np.inf)
        if len(sets) < 2:
            continue
        chosen = dict.fromkeys(name for name, leads in cells if leads)
        lines = {name: _sweep(cells.get((name, leads)) for leads in sets) for name in chosen}
        settings = [format_set(leads) if leads else "all leads" for leads in sets]
        yield _figure("leads", (dataset, task), lines, names, settings, "leads, with all labels")


def _figure(
    kind: str, key: Sequence[Any], lines: dict[str, Sweep], names: Sequence[str], settings: Sequence[str], label: str
) -> tuple[str, Any, str]:
    dataset, task = key[:2]
    title = f"{TITLES.get(dataset, dataset)}: {task}"
    figure = draw_sweep(dict(sorted(lines.items())), settings, label, title, names=names)
    return f"figure-{kind}-{dataset}-{task}", figure, f"{title}, test AUC by {label}"


def _intervals(cell: Row) -> dict[float, Row]:
    """Return the AUC of the frozen embedding, with its interval, by label fraction."""
    return {
        row["label_fraction"]: row["macro"][METRIC]
        for row in cell["rows"]
        if row["features"] == EMBEDDING and row["selection"] == "validation" and "macro" in row
    }


def _sweep(intervals: Iterable[Row | None]) -> Sweep:
    none = dict.fromkeys(("value", "low", "high"), np.nan)
    found = [each or none for each in intervals]
    value, low, high = (np.array([each[key] for each in found], float) for key in ("value", "low", "high"))
    return Sweep(value, low, high)
