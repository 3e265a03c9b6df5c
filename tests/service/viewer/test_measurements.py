"""Measurements: their table, and the median beat with its marks."""

from __future__ import annotations

import math

from tests.service.viewer.conftest import Visit


def test_measurements_come_with_spread_range_and_marks(visit: Visit) -> None:
    page = visit.page
    with page.expect_response("**/api/v1/measure") as answered:
        visit.open()
    found = answered.value.json()
    page.wait_for_selector("#measurements[aria-busy=false] .measurements")
    rows = page.locator(".measurements tbody tr").all_inner_texts()
    assert len(rows) == len(found["values"])
    for text, item in zip(rows, found["values"], strict=True):
        assert text.lower().startswith(item["title"].lower())
        if item["value"] is None:
            assert item["reason"][1:] in text
            continue
        assert str(math.floor(item["value"] + 0.5)) in text
        assert ("up to" in text) == (item["high"] is not None and item["low"] is None)
    assert page.locator(".beat-mark").count() == len(found["beat"]["marks"]) >= 2
    assert page.locator(".beat-trace").count() == len(found["beat"]["samples"])


def test_values_outside_their_range_are_marked_in_words(visit: Visit) -> None:
    page = visit.enter()
    shown = page.evaluate("""async () => {
        const { showMeasurements } = await import("/viewer/measurements.js");
        const place = document.createElement("div");
        const one = { name: "pr_interval", title: "PR", unit: "ms", value: 240, beat_spread: 4, lead_spread: null };
        const values = [{ ...one, reason: "", low: 120, high: 200, position: "above", source: "A guideline" }];
        showMeasurements(place, { values, regular: true, num_beats: 9, paced: true, beat: null });
        return place.textContent;
    }""")
    for words in ("Paced.", "9 beats, regular", "240 ms above", "± 4", "120 to 200", "A guideline"):
        assert words in shown
