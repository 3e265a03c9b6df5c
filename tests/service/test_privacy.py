"""Coarse ages, and opaque handles that expire."""

from __future__ import annotations

import re
from datetime import date, timedelta

import numpy as np
import pytest

from clocs.core.errors import OptionError
from clocs.formats.demographics import age_at
from clocs.service import privacy as module
from clocs.service.privacy import Handles, age_range, coarse_age


@pytest.mark.parametrize(
    ("age", "shown"),
    [(None, None), (0.0, 0.0), (0.3, 3 / 12), (1.9, 22 / 12), (2.9, 2.0), (63.7, 63.0), (90.0, 90.0), (104.0, 90.0)],
)
def test_ages_are_completed_years_or_months(age: float | None, shown: float | None) -> None:
    assert coarse_age(age) == shown


def test_coarse_ages_stay_unchanged() -> None:
    """All ages that two dates can give, up to 90."""
    birth = date(1920, 5, 17)
    ages = {age_at(birth, birth + timedelta(days)) for days in range(0, 365 * 90, 15)}
    assert len(ages) == 24 + 88
    assert all(coarse_age(age) == age == coarse_age(age and float(np.float32(age))) for age in ages)


@pytest.mark.parametrize(
    ("first", "last", "within", "without"),
    [
        (60, 60, (60.0, 60.9), (59.9, 61.0)),
        (None, 0, (0.0, 0.9), (1.0,)),
        (80, None, (80.0, 104.0), (79.9,)),
        (90, 90, (90.0, 104.0), (89.9,)),
        (95, None, (90.0, 104.0), (89.9,)),
        (None, 120, (0.0, 104.0), ()),
        (63.4, 63.5, (63.0, 63.9), (62.9, 64.0)),
        (0.5, None, (0.0, 104.0), ()),
    ],
)
def test_an_age_range_contains_the_ages_shown_in_it(
    first: float | None, last: float | None, within: tuple[float, ...], without: tuple[float, ...]
) -> None:
    """A range reveals neither who above 90 is older nor any fraction of a year."""
    band = age_range(first, last)
    assert band is not None
    assert all(band[0] <= age <= band[1] for age in within)
    assert not any(band[0] <= age <= band[1] for age in without)


def test_no_age_range_is_none_and_a_reversed_one_is_rejected() -> None:
    assert age_range(None, None) is None
    with pytest.raises(OptionError, match="ascending order, got 80 to 20"):
        age_range(80, 20)


def test_a_handle_leads_back_to_its_record_and_shows_nothing_of_it() -> None:
    handles = Handles()
    handle = handles.create("patient-0017")
    assert re.fullmatch(r"p-[0-9a-f]{20}", handle)
    assert handles.create("patient-0017") == handle
    assert handles.record(handle) == "patient-0017"
    assert handles.create("patient-0018") != handle


def test_another_service_gives_other_handles_and_knows_none_of_these() -> None:
    first, second = Handles(), Handles()
    handle = first.create("r1")
    assert second.create("r1") != handle
    assert second.record(handle) is None


def test_the_least_recently_used_handles_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HANDLES", 3)
    handles = Handles()
    given = [handles.create(f"r{number}") for number in range(3)]
    handles.create("r0")
    handles.create("r3")
    assert [handles.record(handle) for handle in given] == ["r0", None, "r2"]


def test_a_requested_handle_counts_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HANDLES", 3)
    handles = Handles()
    given = [handles.create(f"r{number}") for number in range(3)]
    handles.record(given[0])
    handles.create("r3")
    assert [handles.record(handle) for handle in given] == ["r0", None, "r2"]
