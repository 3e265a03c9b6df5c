"""Tests of normal ranges: whom they hold for, and where values are."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

import clocs
from clocs.measurements.normal_ranges import NormalRange, normal_ranges
from clocs.measurements.results import NAMES, Measurements


def nothing() -> Measurements:
    return replace(clocs.measure(np.zeros((1, 5000), np.float32), 500, ["II"]), regular=True)


@pytest.mark.parametrize("age", [None, 0.5, 17.9])
def test_children_and_patients_of_unknown_age_have_none(age: float | None) -> None:
    assert normal_ranges(nothing(), age, "female") == {}


def test_adults_have_ranges_with_sources() -> None:
    found = normal_ranges(nothing(), 18.0, "male")
    assert set(found) < set(NAMES)
    assert all("20" in one.source for one in found.values())
    assert normal_ranges(nothing(), 18.0, "female")["qtc_bazett"].high == found["qtc_bazett"].high + 10  # type: ignore[operator]


def test_what_cannot_be_judged_has_no_range() -> None:
    """Paced QRS and QT, QTc of an irregular rhythm or of unknown sex."""
    assert set(normal_ranges(replace(nothing(), paced=True), 50, "male")) == {"heart_rate"}
    corrected = {"qtc_bazett", "qtc_fridericia"}
    assert not corrected & set(normal_ranges(replace(nothing(), regular=False), 50, "male"))
    assert not corrected & set(normal_ranges(nothing(), 50, None))


@pytest.mark.parametrize(
    ("value", "position"), [(119.9, "below"), (120.0, "within"), (200.0, "within"), (200.1, "above")]
)
def test_limits_are_inside(value: float, position: Literal["below", "within", "above"]) -> None:
    assert NormalRange(120.0, 200.0, "").position(value) == position
    assert NormalRange(None, None, "").position(value) == "within"
