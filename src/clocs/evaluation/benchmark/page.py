"""Page of a benchmark: one section a task, with tables in Markdown."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt

from clocs.core.storage.files import write_bytes
from clocs.evaluation.benchmark.embedders import EMBEDDING
from clocs.evaluation.benchmark.markdown_table import markdown_table
from clocs.evaluation.benchmark.published_tables import published_models, published_sources, published_tables
from clocs.evaluation.benchmark.summary import main_metric, task_of
from clocs.evaluation.benchmark.task_evaluation import PROTOCOL, Selection
from clocs.inference.classification import format_set

RESULTS: Final = "benchmark.json"
PAGE: Final = "benchmark.md"
SELECTED_BY: Final[dict[Selection, str]] = {
    "validation": "all labels of the validation part",
    "cross-validation": "cross-validation within the labelled recordings",
}
FURTHER: Final = {"average_precision": "average precision", "f1": "F1", "sensitivity": "sensitivity"} | {
    "specificity": "specificity",
    "calibration_error": "calibration error",
}
"""Further metrics by their name in a result."""
INTRODUCTION: Final = f"""# Benchmark

Protocol `{PROTOCOL}`. Linear models use frozen features of whole recordings, attentive ones frozen embeddings of frames
and leads. Fine-tuned networks, and those trained from scratch, average the logits of overlapping frames. Label
fractions draw patients. Values are means over draws of labels, with 95 % intervals over draws and test patients
together. "minus control" is the difference to the best untrained control of the same table with all labels, with an
interval over test patients; without one if the control is of another call.
"""


@dataclass(frozen=True)
class _Line:
    """One encoder or control with one set of features."""

    cell: dict[str, Any]
    features: str
    by_fraction: dict[float, dict[str, Any]]

    @property
    def way(self) -> str:
        return str(self.cell["cell"].get("way", "linear"))

    @property
    def name(self) -> str:
        seen = self.cell["encoder"]["seen"]
        was_seen = isinstance(seen, str) or (seen is not None and seen["train"] + seen["validation"] > 0)
        return f"{self.cell['encoder']['name']}{' *' if was_seen else ''}"

    @property
    def dimension(self) -> int:
        return int(next(iter(self.by_fraction.values()))["dimension"])

    def value(self, fraction: float, metric: str) -> float | None:
        found = self.by_fraction.get(fraction, {}).get("macro", {metric: {"value": None}})[metric]["value"]
        return None if found is None else float(found)


def make_page(rows: Sequence[dict[str, Any]], introduction: str = INTRODUCTION) -> str:
    """Return the tables of a benchmark.

    Args:
        rows: Summaries of finished cells, see :func:`clocs.evaluation.benchmark.summary.summarize`.
        introduction: Title and text before the sections.

    Returns:
        The page in Markdown, one section a store and task.
    """
    sources = published_sources(rows)
    sections = [introduction]
    for key in dict.fromkeys(map(task_of, rows)):
        sections.append(_section([row for row in rows if task_of(row) == key], sources))
    sections += [published_models(rows, sources), _costs(rows)]
    return "\n".join(filter(None, sections))


def write_pages(folder: Path) -> str:
    """Write the pages of a benchmark's results.

    Args:
        folder: Folder with ``benchmark.json``. It gets ``benchmark.md`` and ``benchmark.html``.

    Returns:
        The page in Markdown.
    """
    page = make_page(json.loads((folder / RESULTS).read_bytes())["rows"])
    write_bytes(folder / PAGE, page.encode())
    write_bytes((folder / PAGE).with_suffix(".html"), as_html(page).encode())
    return page


def as_html(page: str) -> str:
    """Return a page of Markdown as a document of its own."""
    body = MarkdownIt("commonmark").enable("table").render(page)
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
        "table{border-collapse:collapse;font-size:.9rem}td,th{border-bottom:1px solid #ddd;padding:.3rem .7rem;"
        "text-align:left;font-variant-numeric:tabular-nums}th{border-bottom:2px solid #888}"
    )
    head = f'<meta charset="utf-8"><title>{html.escape("clocs benchmark")}</title><style>{style}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}</body></html>\n'


def _section(rows: Sequence[dict[str, Any]], sources: Sequence[str]) -> str:
    """Return the section of a task."""
    dataset, task, leads = task_of(rows[0])
    about = rows[0]["task"]
    counts = " / ".join(f"{about['records'][part]:,}" for part in ("train", "validation", "test"))
    metric = main_metric(about["kind"])
    title = "Mean absolute error" if metric == "mae" else "Macro AUC"
    text = [
        f"## {dataset}: {task}{f', {format_set(leads)}' if leads else ''}\n",
        f"{about['title']}, {about['kind']}. Recordings in train / validation / test: {counts}.\n",
    ]
    selections = dict.fromkeys(row["selection"] for cell in rows for row in cell["rows"])
    tables = {
        selection: sorted(_lines(rows, selection), key=lambda line: _rank(line, metric)) for selection in selections
    }
    for number, (selection, lines) in enumerate(tables.items()):
        text.append(f"{title} per recording. Regularization or epoch by {SELECTED_BY[selection]}:\n")
        text.append(_main_table(lines, metric))
        text += filter(None, [_absent(lines)])
        if number == 0 and metric == "auc":
            text.append("With all labels:\n")
            text.append(_further_table(lines))
    if any(line.name.endswith("*") for line in _lines(rows, next(iter(selections)))):
        text.append("\\* Its training has seen training or validation recordings of this dataset.\n")
    positives = about["positives"]["test"]
    if positives:
        text.append(f"Test positives: {', '.join(f'{name} {count:,}' for name, count in positives.items())}.\n")
    if not leads:
        ours = [
            (line.name, auc)
            for line in tables.get("validation", [])
            if line.features == EMBEDDING and (auc := line.value(1.0, "auc")) is not None
        ]
        text += published_tables(about, task, ours, sources)
    return "\n".join(text)


def _costs(rows: Sequence[dict[str, Any]]) -> str:
    """Return a table of the minutes that each cell took, and their sums over tasks."""
    body, sums = [], dict[tuple[str, str], list[tuple[float, float]]]()
    for row in rows:
        who = row["encoder"]["name"], row["cell"].get("way", "linear")
        minutes = row["seconds_of_features"] / 60, (row["seconds"] - row["seconds_of_features"]) / 60
        sums.setdefault(who, []).append(minutes)
        body.append(_cost(f"{row['cell']['dataset']}: {row['cell']['task']}", who, minutes))
    for who, each in sums.items():
        if len(each) > 1:
            features, models = zip(*each, strict=True)
            body.append(_cost(f"{len(each)} tasks together", who, (sum(features), sum(models))))
    text = "Minutes by the clock. Features are computed once for all tasks of a store; later tasks read them.\n"
    head = ["task", "encoder", "way", "features", "models and intervals"]
    return f"## Cost\n\n{text}\n{markdown_table(head, body)}"


def _cost(tasks: str, who: tuple[str, str], minutes: tuple[float, float]) -> list[str]:
    return [tasks, *who, *(f"{each:.1f}" for each in minutes)]


def _lines(rows: Sequence[dict[str, Any]], selection: str) -> Iterator[_Line]:
    for cell in rows:
        found = [row for row in cell["rows"] if row["selection"] == selection]
        for features in dict.fromkeys(row["features"] for row in found):
            yield _Line(cell, features, {row["label_fraction"]: row for row in found if row["features"] == features})


def _rank(line: _Line, metric: str) -> float:
    """Return a sort key: the best value with the most labels comes first."""
    value = line.value(max(line.by_fraction), metric)
    return float("inf") if value is None else value if metric == "mae" else -value


def _main_table(lines: Sequence[_Line], metric: str) -> str:
    fractions = sorted({fraction for line in lines for fraction in line.by_fraction})
    most = fractions[-1]
    head = ["encoder", "way", "features", *(f"{fraction:.0%} of labels" for fraction in fractions), "minus control"]
    body = [
        [
            line.name,
            line.way,
            f"{line.features} ({line.dimension:,})",
            *(_cell(line.by_fraction.get(fraction), metric) for fraction in fractions),
            _difference(line.by_fraction.get(most)),
        ]
        for line in lines
    ]
    return markdown_table(head, body)


def _further_table(lines: Sequence[_Line]) -> str:
    most = max(fraction for line in lines for fraction in line.by_fraction)
    scored = [line for line in lines if "macro" in line.by_fraction.get(most, {})]
    if not scored:
        return ""
    first = scored[0].by_fraction[most]["macro"]
    metrics = [name for name in FURTHER if name in first]
    head = ["encoder", "AUC of classes with at least 10 positives", *(FURTHER[name] for name in metrics)]
    body = []
    for line in scored:
        found = line.by_fraction[most]
        common = found["macro_common"]
        values = [_format(found["macro"][name]) if name in found["macro"] else "" for name in metrics]
        who = f"{line.name}, {line.way}, {line.features}"
        body.append([who, f"{_format(common['auc'])}, {common['classes']} classes", *values])
    return markdown_table(head, body)


def _cell(row: dict[str, Any] | None, metric: str) -> str:
    if row is None:
        return ""
    if "macro" not in row:
        return "too few labels"
    return _interval(row["macro"][metric])


def _absent(lines: Sequence[_Line]) -> str:
    """Return how many classes had no labelled positive in a draw, by label fraction; nothing if none."""
    counts: dict[float, int] = {}
    for line in lines:
        for fraction, row in line.by_fraction.items():
            counts[fraction] = max(counts.get(fraction, 0), row.get("absent_classes", 0))
    found = [f"{count} with {fraction:.0%} of labels" for fraction, count in sorted(counts.items()) if count]
    return (
        f"Classes without a labelled positive in a draw, which count 0.5: at most {', '.join(found)}.\n"
        if found
        else ""
    )


def _difference(row: dict[str, Any] | None) -> str:
    found = (row or {}).get("minus_control")
    return "" if found is None else _interval(found, sign="+")


def _interval(interval: dict[str, float | None], sign: str = "") -> str:
    value, low, high = (interval[key] for key in ("value", "low", "high"))
    if value is None:
        return "-"
    digits = 1 if not sign and value >= 2 else 3  # years of age, for example
    if low is None or high is None:
        return f"{value:{sign}.{digits}f}"
    return f"{value:{sign}.{digits}f} ({low:{sign}.{digits}f} to {high:{sign}.{digits}f})"


def _format(interval: dict[str, float | None]) -> str:
    return "-" if interval["value"] is None else f"{interval['value']:.3f}"
