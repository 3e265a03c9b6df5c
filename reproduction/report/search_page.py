"""The page of the search: all trials, including those that did not help."""

from __future__ import annotations

from typing import Final

from clocs.core.hashes import canonical_json
from reproduction.cells import LEVELS
from reproduction.report.page import (
    DASH,
    DATASET_NAMES,
    Entry,
    Page,
    Table,
    Text,
    count_text,
    duration_text,
    value_entry,
)
from reproduction.report.results import Results
from reproduction.search import DATASET, STEPS, TRIALS, trial

TITLES: Final = ("trial", "changed", "per frame", "per recording", "steps", "time of one core")


def search_page(results: Results) -> Page:
    """Return the page of all trials, in the order in which they were run."""
    rows = [row for name in TRIALS if (row := _row(results, name)) is not None]
    text = (
        "This page is for researchers who want to know how the settings of `clocs-small` were chosen. A trial changes "
        f"the listed settings of the first one, trains for {STEPS} steps unless the table says otherwise, and is "
        f"judged by a linear classifier on validation patients of {DATASET_NAMES[DATASET]}, with half of the training "
        "labels and one seed. The same patients select regularization and epoch, so all values are a little too good. "
        "With one seed, small differences may be chance. Test patients selected no trial. They only serve to report "
        "the three encoders that were shipped one after the other: 'three datasets, long', 'three datasets in turns, "
        f"principal components' and the last. {count_text(len(rows), 'trial')} of {len(TRIALS)} are done."
    )
    return Page("search", "Search for the settings of clocs-small", (Text(text), Table(TITLES, tuple(rows))))


def _row(results: Results, name: str) -> tuple[Entry, ...] | None:
    cell = trial(name)
    if cell.start is None or (judged := results.get(cell)) is None or (trained := results.get(cell.start)) is None:
        return None
    seconds = results.training_seconds(cell.start)
    found = [judged.auc(level) for level in LEVELS]
    changed = canonical_json(TRIALS[name]).decode()
    return (
        Entry(name),
        Entry(f"`{' '.join(changed.split())}`" if TRIALS[name] else DASH),
        *map(value_entry, found),
        Entry(f"{trained.result['steps']:,}"),
        Entry(DASH if seconds is None else duration_text(seconds)),
    )
