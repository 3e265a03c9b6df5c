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
        f"Trials for what to recommend: each changes something in the first, and is judged by linear evaluation on "
        f"validation patients of {DATASET_NAMES[DATASET]} alone, half of the training labels, one seed. The same "
        "patients choose the regularization and the epoch, so the values are a little too good, for all alike. The "
        "test part was opened for the three that were recommended one after the other ('three datasets, long', 'three "
        "datasets in turns, principal components' and the last), and chose none of them. "
        f"Unless said otherwise {STEPS} steps. With one seed, small differences may be chance. "
        f"{count_text(len(rows), 'trial')} of {len(TRIALS)} are done."
    )
    return Page("search", "The search for what to recommend", (Text(text), Table(TITLES, tuple(rows))))


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
