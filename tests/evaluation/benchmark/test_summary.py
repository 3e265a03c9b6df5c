"""Summaries of a benchmark: differences to the best control, also of later calls."""

from __future__ import annotations

from typing import Any

import pytest

from clocs.evaluation.benchmark.summary import with_best_controls

KERNELS = {"control": "random kernels", "features": "embedding", "value": 0.05, "low": 0.02, "high": 0.08}


def cell(name: str, value: float | None, control: str = "", **changes: Any) -> dict[str, Any]:
    """Return the summary of a cell with one row."""
    row = {"features": "embedding", "label_fraction": 1.0, "selection": "validation"}
    row["macro"] = {metric: {"value": value} for metric in ("auc", "mae")}
    about = {"cell": {"dataset": "made-up", "task": "pair"}, "task": {"kind": "multi-label"}}
    encoder = {"name": name, "control": control}
    return {**about, "encoder": encoder, "rows": [{**row, **changes}]}


def differences(*rows: dict[str, Any]) -> dict[str, Any]:
    """Return the difference of each encoder's row."""
    found = with_best_controls(rows)
    return {row["encoder"]["name"]: row["rows"][0].get("minus_control") for row in found}


def test_a_better_control_of_a_later_call_replaces_the_one_that_is_stated() -> None:
    encoder, kernels = cell("mine", 0.95, minus_control=KERNELS), cell("random kernels", 0.90, "random kernels")
    assert differences(encoder, kernels)["mine"] == KERNELS, "the interval is kept"
    better = cell("mine, untrained", 0.91, "untrained")
    found = differences(encoder, kernels, better)
    about = {"control": "mine, untrained", "features": "embedding", "low": None, "high": None}
    assert found["mine"] == about | {"value": pytest.approx(0.04)}
    assert found["random kernels"] is None, "a control is not compared"


def test_a_row_without_a_control_gets_that_of_a_later_call() -> None:
    found = differences(cell("mine", 0.95, minus_control=None), cell("random kernels", 0.90, "random kernels"))
    assert (found["mine"]["control"], found["mine"]["value"]) == ("random kernels", pytest.approx(0.05))
    assert differences(cell("mine", 0.95, minus_control=None)) == {"mine": None}


def test_the_best_control_of_a_regression_has_the_smallest_error() -> None:
    rows = [
        cell("mine", 7.0),
        cell("random kernels", 9.0, "random kernels"),
        cell("mine, untrained", 11.0, "untrained"),
    ]
    for row in rows:
        row["task"]["kind"] = "regression"
    assert differences(*rows)["mine"]["control"] == "random kernels"


@pytest.mark.parametrize("value", [None, 0.97])
def test_other_label_fractions_and_rows_without_a_value_are_not_compared(value: float | None) -> None:
    other = cell("random kernels", value, "random kernels", **({} if value is None else {"label_fraction": 0.1}))
    assert differences(cell("mine", 0.95), other)["mine"] is None
    assert differences(cell("mine", None), cell("random kernels", 0.9, "random kernels"))["mine"] is None
