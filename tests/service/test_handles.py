"""Handles say nothing and are forgotten in time."""

from __future__ import annotations

import re

import pytest

from clocs.service import handles as module
from clocs.service.handles import Handles


def test_a_handle_leads_back_to_its_record_and_shows_nothing_of_it() -> None:
    handles = Handles()
    handle = handles.give("patient-0017")
    assert re.fullmatch(r"p-[0-9a-f]{20}", handle)
    assert handles.give("patient-0017") == handle
    assert handles.record(handle) == "patient-0017"
    assert handles.give("patient-0018") != handle


def test_another_service_gives_other_handles_and_knows_none_of_these() -> None:
    first, second = Handles(), Handles()
    handle = first.give("r1")
    assert second.give("r1") != handle
    assert second.record(handle) is None


def test_the_longest_unused_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    handles = Handles()
    given = [handles.give(f"r{number}") for number in range(3)]
    handles.give("r0")
    handles.give("r3")
    assert [handles.record(handle) for handle in given] == ["r0", None, "r2"]


def test_one_that_is_asked_for_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 3)
    handles = Handles()
    given = [handles.give(f"r{number}") for number in range(3)]
    handles.record(given[0])
    handles.give("r3")
    assert [handles.record(handle) for handle in given] == ["r0", None, "r2"]
