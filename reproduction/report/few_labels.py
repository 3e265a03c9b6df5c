"""Table and figure of the recommended encoder with few labelled patients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from clocs.drawing.panels import draw_sweep
from reproduction.beyond import LABELLED_PATIENTS, few_frozen, few_tuned, from_scratch
from reproduction.paper_numbers import SOURCES
from reproduction.report.estimates import Estimates, Mean, restrict_to_common_seeds
from reproduction.report.gallery import NamedFigures, sweep
from reproduction.report.page import DASH, DATASET_NAMES, Entry, Table, auc_cell

ALL: Final = "all"
COUNTS: Final = (*LABELLED_PATIENTS, None)
"""Numbers of labelled patients. None: all."""
FEW_LABELS: Final = {
    "recommended encoder, linear": few_frozen,
    "recommended encoder, fine-tuned": few_tuned,
    "from scratch": from_scratch,
}


def few_labels_table(estimates: Estimates) -> Table:
    """Return AUC per recording by labelled patients, and the number that training from scratch needs to match it."""
    rows = []
    for dataset in SOURCES:
        lines = _lines(estimates, dataset)
        rows += [(Entry(f"{DATASET_NAMES[dataset]}: {name}"), *map(auc_cell, line)) for name, line in lines.items()]
        for name in ("linear", "fine-tuned"):
            needed = (labels_needed(mean, lines["from scratch"]) for mean in lines[f"recommended encoder, {name}"])
            label = f"{DATASET_NAMES[dataset]}: patients from scratch needs to equal {name}"
            rows.append((Entry(label), *map(Entry, needed)))
    return Table(("AUC per recording", *(f"{count:,}" for count in LABELLED_PATIENTS), ALL), tuple(rows))


def labels_needed(aim: Mean | None, scratch: Sequence[Mean | None]) -> str:
    """Return the number of patients at which training from scratch reaches an AUC, by log-linear interpolation."""
    known = [(count, mean.value) for count, mean in zip(COUNTS, scratch, strict=True) if mean is not None]
    if aim is None or not known:
        return DASH
    reached = next((index for index, (_, value) in enumerate(known) if value >= aim.value), None)
    if reached is None:
        last, _ = known[-1]
        return "more than exist" if last is None else f"over {last:,}"
    count, value = known[reached]
    if reached == 0:
        return ALL if count is None else f"{count:,} or fewer"
    before, lower = known[reached - 1]
    if count is None or before is None:
        return f"{before:,} to {ALL}"
    fraction = (aim.value - lower) / (value - lower)
    return f"{before * (count / before) ** fraction:,.0f}"


def _lines(estimates: Estimates, dataset: str) -> dict[str, list[Mean | None]]:
    """Return means over ``COUNTS`` by method, over common seeds: results depend on the patients that a seed draws."""
    lines: dict[str, list[Mean | None]] = {name: [] for name in FEW_LABELS}
    for count in COUNTS:
        runs = {
            name: estimates.results.seeds(partial(kind, dataset, patients=count)) for name, kind in FEW_LABELS.items()
        }
        for name, same in restrict_to_common_seeds(runs).items():
            lines[name].append(estimates.mean(same, "recording"))
    return lines


def few_labels_panels(estimates: Estimates) -> NamedFigures:
    """Return a figure for each dataset."""
    drawn: NamedFigures = []
    settings = [*(f"{count:,}" for count in LABELLED_PATIENTS), ALL]
    for dataset in SOURCES:
        lines = {name: sweep(line) for name, line in _lines(estimates, dataset).items() if any(line)}
        if lines:
            title = DATASET_NAMES[dataset]
            figure = draw_sweep(lines, settings, "patients with labels", f"{title}, AUC per recording")
            drawn.append((f"figure-few-labels-{dataset}", figure, f"{title}: test AUC by patients with labels"))
    return drawn
