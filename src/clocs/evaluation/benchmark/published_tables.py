"""Tables of published values in the page of a benchmark, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from clocs.evaluation.benchmark.markdown_table import markdown_table
from clocs.evaluation.benchmark.published_values import PublishedValue, published_values
from clocs.evaluation.benchmark.summary import task_of

WAYS: Final = ("linear", "attentive", "fine-tuned", "from scratch")


def published_sources(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the sources of all published values of a page, in the order of their numbers."""
    return list(dict.fromkeys(value.source for value in _all_values(rows)))


def published_tables(
    described: dict[str, Any], task: str, ours: Sequence[tuple[str, float]], sources: Sequence[str]
) -> list[str]:
    """Return a table of published values, and which of them ours are above if the test recordings are the same.

    Args:
        described: Description of the task in the row of a cell.
        task: Name of the task.
        ours: Name and macro AUC with all labels of each of our linear models.
        sources: Sources in the order of their numbers.
    """
    values = published_values(described["dataset"], task)
    if not values:
        return []
    models: dict[tuple[str, str], dict[str, PublishedValue]] = {}
    for value in values:
        models.setdefault((value.model, value.source), {})[value.way] = value
    ways = [way for way in WAYS if any(way in by_way for by_way in models.values())]
    body = []
    for (model, source), by_way in models.items():
        about = next(iter(by_way.values()))
        split = f"{about.split} ({1 + sources.index(source)})"
        body.append([model, *(_cell(by_way.get(way)) for way in ways), about.seen, split])
    text = [
        "Published macro AUC of other models, which the end of this page describes. Three values are of 1, 10 and "
        "100 % of the labels:\n",
        markdown_table(["model", *ways, "test recordings seen", "split (source)"], body),
    ]
    comparable = [value for value in values if value.is_comparable and value.way == "linear"]
    if described["published_split"] and comparable:
        text.append("".join(_comparison(name, auc, comparable) for name, auc in ours))
    return text


def published_models(rows: Iterable[dict[str, Any]], sources: Sequence[str]) -> str:
    """Return a section on the models with published values: their training data, their signals and the sources."""
    about: dict[tuple[str, str, str], list[int]] = {}
    for value in _all_values(rows):
        numbers = about.setdefault((value.model, value.trained_on, value.signals), [])
        number = 1 + sources.index(value.source)
        if number not in numbers:
            numbers.append(number)
    if not about:
        return ""
    body = [[*facts, ", ".join(map(str, sorted(numbers)))] for facts, numbers in sorted(about.items(), key=_by_name)]
    notes = "\n".join(f"{number}. {source}" for number, source in enumerate(sources, start=1))
    head = ["model", "trained on", "signals", "source"]
    return f"## Published models\n\n{markdown_table(head, body)}\nSources:\n\n{notes}\n"


def _by_name(item: tuple[tuple[str, str, str], list[int]]) -> tuple[str, list[int]]:
    return item[0][0].lower(), item[1]


def _all_values(rows: Iterable[dict[str, Any]]) -> Iterable[PublishedValue]:
    """Return the published values of all tasks in the order of the page; tasks of single leads have none."""
    for (_, task, leads), described in {task_of(row): row["task"] for row in rows}.items():
        if not leads:
            yield from published_values(described["dataset"], task)


def _comparison(name: str, ours: float, values: Sequence[PublishedValue]) -> str:
    """Return a sentence that says which published linear probes on the same test recordings are below ours."""
    below = [value.model for value in values if value.auc[1.0] < ours]
    names = f": {', '.join(below)}" if below else ""
    return f"- {name}, {ours:.3f}, is above {len(below)} of {len(values)} linear probes on the same folds{names}.\n"


def _cell(value: PublishedValue | None) -> str:
    return "" if value is None else " / ".join(f"{auc:.3f}" for _, auc in sorted(value.auc.items()))
