"""Summary of a benchmark: macro averages of every row, and differences to the best untrained control."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from clocs.metrics.replicates import Replicates, difference_interval

DIGITS: Final = 5
"""Decimals of a summary."""
Row = dict[str, Any]


def summarize(cells: Sequence[Row]) -> list[Row]:
    """Return the cells of a benchmark without bootstrap replicates, with differences to the best control.

    Args:
        cells: Results of all cells, see :func:`clocs.evaluation.benchmark.cells.run_cell`.

    Returns:
        The cells in the same order. A row has ``macro`` averages and, with all labels, the AUC of each class. A row of
        an encoder has ``minus_control``: the difference to the best control of the same task, selection and label
        fraction, with an interval over test patients.
    """
    return [{**cell, "rows": [_summary(row, cell, cells) for row in cell["rows"]]} for cell in cells]


def with_best_controls(rows: Sequence[Row]) -> list[Row]:
    """Return summaries that are compared with the best control of all of them.

    A later call may bring a better control than the one that a row was compared with. Summaries have no replicates, so
    such a difference has no interval.

    Args:
        rows: Summaries of cells of all calls, see :func:`summarize`.
    """
    return [{**row, "rows": [_with_best_control(line, row, rows) for line in row["rows"]]} for row in rows]


def task_of(cell: Row) -> tuple[str, str, tuple[str, ...]]:
    """Return store, task and leads of a row; rows that share them are compared."""
    return cell["cell"]["dataset"], cell["cell"]["task"], tuple(cell["cell"].get("leads", ()))


def main_metric(kind: str) -> str:
    """Return the metric that sorts the tables of a kind of task."""
    return "mae" if kind == "regression" else "auc"


def _summary(row: Row, cell: Row, cells: Sequence[Row]) -> Row:
    scores = row.get("scores")
    if scores is None:
        return row
    recording, metric = scores["recording"], main_metric(cell["task"]["kind"])
    found = {key: value for key, value in row.items() if key != "scores"}
    found["absent_classes"] = max(scores["untrained"], default=0)
    found["macro"] = recording["macro"]
    found["macro_by_patient"] = {metric: scores["patient"]["macro"][metric]}
    if "classes" in recording:
        found["macro_common"] = {**recording["macro_common"], "classes": recording["common_classes"]}
        if row["label_fraction"] == 1:
            found["auc_by_class"] = {name: by_metric["auc"] for name, by_metric in recording["classes"].items()}
    if not cell["encoder"]["control"]:
        found["minus_control"] = _minus_control(row, cell, cells)
    return {key: _rounded(value) for key, value in found.items()}


def _with_best_control(line: Row, cell: Row, rows: Sequence[Row]) -> Row:
    """Return a line of a summary with the difference to the best control; itself if that is the one it states."""
    metric = main_metric(cell["task"]["kind"])
    if cell["encoder"]["control"] or _value(line, metric) is None:
        return line
    found, stated = _best_control(line, cell, rows), line.get("minus_control") or {}
    if found is None or (stated.get("control"), stated.get("features")) == (found[0], found[1]["features"]):
        return line
    name, best = found
    difference = round(_value(line, metric) - _value(best, metric), DIGITS)
    about = {"control": name, "features": best["features"], "value": difference, "low": None, "high": None}
    return {**line, "minus_control": about}


def _minus_control(row: Row, cell: Row, cells: Sequence[Row]) -> Row | None:
    """Return the difference of a row to the best control, which is named; None without a control."""
    metric = main_metric(cell["task"]["kind"])
    found = _best_control(row, cell, cells)
    if found is None:
        return None
    name, best = found
    value = _value(row, metric) - _value(best, metric)
    replicates = [side["scores"]["replicates"][metric] for side in (row, best)]
    about = {"control": name, "features": best["features"], "value": value, "low": None, "high": None}
    if None in replicates:
        return about
    first, second = ([Replicates.from_dict(run) for run in side] for side in replicates)
    return about | difference_interval(value, first, second).as_dict()


def _best_control(row: Row, cell: Row, cells: Sequence[Row]) -> tuple[str, Row] | None:
    """Return the name and row of the best control that a row is compared with; None if there is none."""
    metric = main_metric(cell["task"]["kind"])
    better = min if metric == "mae" else max
    controls = _controls(row, cell, cells)
    return better(controls, key=lambda control: _value(control[1], metric), default=None)


def _controls(row: Row, cell: Row, cells: Sequence[Row]) -> Iterator[tuple[str, Row]]:
    """Iterate over names and rows of the controls that a row is compared with."""
    for other in cells:
        if other["encoder"]["control"] and task_of(other) == task_of(cell):
            for candidate in other["rows"]:
                is_same = all(candidate[key] == row[key] for key in ("label_fraction", "selection"))
                if is_same and _value(candidate, main_metric(cell["task"]["kind"])) is not None:
                    yield other["encoder"]["name"], candidate


def _value(row: Row, metric: str) -> Any:
    """Return the macro average of a row of a cell or of its summary; None if nothing was fitted."""
    macro = row["scores"]["recording"]["macro"] if "scores" in row else row.get("macro")
    return None if macro is None else macro[metric]["value"]


def _rounded(value: Any) -> Any:
    """Return a JSON value with all its numbers rounded."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
