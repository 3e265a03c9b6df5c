"""The list of recordings, and the ECGs of one patient beside each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route

from tests.drawing.printed_text import printed_text
from tests.service.viewer.conftest import PHONE, RECORDS, Visit


def listed(visit: Visit) -> Page:
    """Return the page with the list of recordings."""
    page = visit.enter()
    page.click("#recordings-link")
    page.wait_for_selector("#recordings[aria-busy=false] tbody tr")
    return page


@pytest.mark.parametrize("visit", [{}, PHONE], indirect=True)
def test_recordings_are_listed_newest_first_by_pages(visit: Visit) -> None:
    with visit.page.expect_response("**/api/v1/recordings?*") as answered:
        page = listed(visit)
    found = answered.value.json()
    assert page.locator("#recordings tbody tr").count() == 50
    assert page.inner_text("#recordings tbody th >> nth=0").startswith("25 May 2024, 12:55")
    assert "2 ECGs" in page.inner_text("#recordings tbody tr >> nth=0")
    assert "No values yet: open it." in page.inner_text("#recordings tbody tr >> nth=0")
    assert not any(row["handle"] in page.content() for row in found["recordings"])
    for number, rows in ((2, 50), (3, RECORDS - 100)):
        page.click("#recordings button[aria-label=Older]")
        page.wait_for_selector(f"#recordings:has-text('page {number} of 3')")
        assert page.locator("#recordings tbody tr").count() == rows
    assert page.is_disabled("#recordings button[aria-label=Older]")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.check("#recordings input[value=stored]", force=True)
    page.wait_for_selector("#recordings:has-text('page 1 of 3')")


def test_values_and_reasons_come_from_the_table(visit: Visit) -> None:
    def answer(route: Route) -> None:
        body = route.fetch().json()
        first, second = body["recordings"][:2]
        values = {item["name"]: 60.6 for item in body["measurements"]} | {"pr_interval": None}
        first.update(gate="withheld", withheld="no clear beats <b>", measurements=values)
        second.update(gate="passed", classes=[{"name": "AFIB", "probability": 0.914}], measurements=values)
        body["shifted"] = True
        route.fulfill(body=json.dumps(body), content_type="application/json")

    visit.page.route("**/api/v1/recordings?*", answer)
    page = listed(visit)
    withheld, passed = page.locator("#recordings tbody tr").all()[:2]
    assert "Withheld: No clear beats <b>." in withheld.inner_text()
    assert withheld.locator("td").all_inner_texts()[1:4] == ["61", "–", "61"]
    assert "AFIB 91 %" in passed.inner_text()
    assert "Times are shifted by whole weeks" in page.inner_text("#recordings")


def test_ecgs_of_a_patient_are_compared_with_the_same_calipers(visit: Visit) -> None:
    page = listed(visit)
    page.click("#recordings tbody button >> nth=0")
    page.wait_for_selector("#classes:not(:has([aria-busy=true])) .class-row")
    page.wait_for_selector("#earlier[aria-busy=false] tbody tr")
    assert page.inner_text("#recording-facts").startswith("25 May 2024, 12:55 · ")
    own, earlier = page.locator("#earlier tbody tr").all()
    assert "this ECG" in own.inner_text()
    assert "1 day earlier" in earlier.inner_text()
    assert page.locator("#earlier .trend circle.is-open").count() == page.locator("#earlier .trend").count() > 1
    assert earlier.locator("td").all_inner_texts()[1].isdigit(), "measured now, because there is no table"
    earlier.locator("button").click()
    page.wait_for_selector("#comparison[open] canvas")
    assert page.inner_text("#comparison-title") == "This ECG and earlier ECG"
    assert "24 May 2024, 07:38 · 1 day earlier · heart rate" in page.inner_text("#comparison .is-other")
    assert page.is_checked("#comparison .check input"), "the difference is shaded"
    page.click("#comparison button:has-text('Calipers')")
    lines = page.locator("#comparison .caliper-line[aria-label='Second time line']")
    assert lines.count() == 2
    before = lines.nth(1).get_attribute("aria-valuenow")
    lines.nth(0).press("Shift+ArrowRight")
    first, second = (line.get_attribute("aria-valuenow") for line in lines.all())
    assert first == second != before
    readings = page.locator("#comparison .caliper-readout").all_inner_texts()
    assert readings[0] == readings[1]
    assert readings[0].startswith("840 ms")


def test_an_ecg_from_a_file_has_no_known_patient(visit: Visit) -> None:
    page = visit.open()
    assert "A file's patient is not known here" in page.inner_text("#earlier")


def test_an_ecg_of_the_list_is_searched_printed_and_saved(visit: Visit) -> None:
    """Its own patient is not among the similar ones; what is typed is gone when another ECG is opened."""
    page = listed(visit)
    with page.expect_response("**/similar?*") as answered:
        page.click("#recordings tbody button >> nth=0")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    assert "The index has this patient, who is left out." in page.inner_text("#neighbours")
    assert re.search(r"/recordings/r-\w+/similar\?k=10$", answered.value.url)
    with page.expect_response("**/similar?*") as filtered:
        page.select_option("#filters [name=sex]", "female")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    assert {item["sex"] for item in filtered.value.json()["neighbours"]} == {"female"}
    page.click(".neighbour button >> nth=0")
    page.wait_for_selector("#comparison[open] canvas")
    page.keyboard.press("Escape")
    page.click("#print-panel summary")
    page.fill("#print-form [name=identifier]", "K 4711")
    page.fill("#print-form [name=order]", "A-12")
    with page.expect_download() as printed:
        page.click("#print-form button[value=print]")
    assert printed_text(Path(printed.value.path()).read_bytes()).startswith("K 4711\n")
    with page.expect_download() as sent:
        page.click("#print-form button[value=fhir]")
    report = json.loads(Path(sent.value.path()).read_text())["entry"][0]["resource"]
    assert report["basedOn"] == [{"identifier": {"value": "A-12"}}]
    with page.expect_download() as saved:
        page.click("#save-pdf")
    assert Path(saved.value.path()).read_bytes().startswith(b"%PDF-")
    page.click("#recordings-link")
    page.click("#recordings tbody button >> nth=1")
    page.wait_for_selector("#earlier[aria-busy=false] tbody tr")
    assert page.input_value("#print-form [name=identifier]") == ""
    assert not page.is_visible("#print-time")
