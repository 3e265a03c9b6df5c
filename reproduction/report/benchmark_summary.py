"""Small tables of the benchmark: of its main tasks for the README, and of all tasks for its page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from clocs.evaluation.benchmark.cells import Way
from clocs.evaluation.benchmark.page import RESULTS
from clocs.evaluation.benchmark.published_values import published_values
from clocs.evaluation.benchmark.scratch_networks import SCRATCH
from clocs.evaluation.benchmark.summary import task_of
from reproduction.report.page import DASH, Entry, Table
from reproduction.report.rendering import markdown_table
from reproduction.report.results import Results

Task = tuple[str, str]
MAIN_TASKS: Final[tuple[Task, ...]] = (
    ("ptbxl", "super"),
    ("physionet2020", "cpsc2018"),
    ("chapman", "chapman-rhythm"),
)
"""Tasks of the README."""
TASKS: Final[dict[Task, str]] = {
    ("ptbxl", "super"): "PTB-XL, superclasses",
    ("ptbxl", "sub"): "PTB-XL, 23 subclasses",
    ("ptbxl", "diagnostic"): "PTB-XL, 44 diagnoses",
    ("ptbxl", "form"): "PTB-XL, 19 forms",
    ("ptbxl", "rhythm"): "PTB-XL, 12 rhythms",
    ("ptbxl", "all"): "PTB-XL, all 71 statements",
    ("physionet2020", "cpsc2018"): "CPSC 2018, nine findings",
    ("chapman", "chapman-rhythm"): "Chapman, nine rhythms",
}
"""Titles of all tasks."""
FRACTIONS: Final = (0.01, 0.1, 1.0)
EMBEDDING: Final = "embedding"
SCRATCH_WAY: Final = "from scratch"

Row = tuple[Entry, ...]


def benchmark_text(results: Results, tasks: Sequence[Task] = MAIN_TASKS) -> str:
    """Return the table of linear probes on frozen embeddings, or a sentence if there are no results.

    Args:
        results: The results.
        tasks: Store and name of each task.
    """
    path = results.folder / RESULTS
    cells = json.loads(path.read_bytes())["rows"] if path.exists() else []
    rows = [row for key in tasks for row in _task_rows(key, cells)]
    if not rows:
        return "The benchmark is not done yet."
    return markdown_table(
        Table(("macro AUC", "encoder", *(f"{part:.0%} of labels" for part in FRACTIONS)), tuple(rows))
    )


def _task_rows(key: Task, cells: list[Any]) -> Iterator[Row]:
    """Return the rows of a task with all leads.

    They are the encoders, the best control with any features, networks trained from scratch, and the best published.
    """
    scored = [
        (cell["encoder"]["name"], bool(cell["cell"].get("control")), features, values)
        for cell in _cells_of(key, cells, "linear")
        for features, values in _by_features(cell).items()
    ]
    chosen = [
        (f"`{name}`", values) for name, control, features, values in scored if not control and features == EMBEDDING
    ]
    chosen.sort(key=lambda item: -item[1].get(1.0, {"value": 0.0})["value"])
    controls = [(name, values) for name, control, _, values in scored if control and 1.0 in values]
    if controls:
        name, values = max(controls, key=lambda item: item[1][1.0]["value"])
        chosen.append((f"best control: {name}", values))
    for cell in _cells_of(key, cells, SCRATCH_WAY):
        name = cell["encoder"]["name"].removeprefix(SCRATCH)
        chosen += [(f"{name}, trained from scratch", values) for values in _by_features(cell).values()]
    for number, (name, values) in enumerate(chosen):
        task = Entry(TASKS[key] if number == 0 else "")
        yield (task, Entry(name), *(_entry(values.get(fraction)) for fraction in FRACTIONS))
    published = [value for value in published_values(*key) if value.way == "linear"] if chosen else []
    if published:
        best = max(published, key=lambda value: value.auc[1.0])
        where = "same folds" if best.is_comparable else "another split"
        name = f"best published: {best.model}, {where}"
        auc = (f"{best.auc[fraction]:.3f}" if fraction in best.auc else DASH for fraction in FRACTIONS)
        yield (Entry(""), Entry(name), *map(Entry, auc))


def _cells_of(key: Task, cells: list[Any], way: Way) -> Iterator[Any]:
    """Iterate over the cells of a task with all leads and of one way."""
    for cell in cells:
        if task_of(cell) == (*key, ()) and cell["cell"].get("way", "linear") == way:
            yield cell


def _by_features(cell: Mapping[str, Any]) -> dict[str, dict[float, dict[str, float]]]:
    """Return the AUC by features and label fraction."""
    found: dict[str, dict[float, dict[str, float]]] = {}
    for row in cell["rows"]:
        if row["selection"] == "validation" and "macro" in row:
            found.setdefault(row["features"], {})[row["label_fraction"]] = row["macro"]["auc"]
    return found


def _entry(auc: Mapping[str, float] | None) -> Entry:
    return Entry(DASH) if auc is None else Entry(f"{auc['value']:.3f}", f"{auc['low']:.3f} to {auc['high']:.3f}")
