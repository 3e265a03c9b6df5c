"""Exported files are valid, true to scale and without identity."""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import pytest
from playwright.sync_api import Page, Route

import clocs
from tests.service.viewer.conftest import Visit

VIEWER = Path(clocs.__file__).parent / "service" / "viewer"


def saved(page: Page, kind: str) -> bytes:
    with page.expect_download() as download:
        page.click(f"#save-{kind}")
    assert download.value.suggested_filename == f"clocs-ecg.{kind}"
    return download.value.path().read_bytes()


@pytest.mark.parametrize("visit", [{"color_scheme": "dark"}], indirect=True)
def test_the_png_has_the_whole_sheet_on_white_whatever_the_theme(visit: Visit) -> None:
    """8 pixels per mm: ten seconds at 25 mm/s with margins are 270 + 12 mm."""
    page = visit.open()
    picture = matplotlib.image.imread(io.BytesIO(saved(page, "png")), format="png")
    assert picture.shape[1] == 8 * (270 + 12)
    assert (picture[0, :, :3] == 1).all()
    assert 0.01 < (picture[..., :3].sum(axis=2) < 1).mean() < 0.1


def test_the_json_has_what_is_shown_and_no_identity(
    visit: Visit, hospital_files: Path, samples: Callable[..., list[Path]]
) -> None:
    """The DICOM sample names its patient; its file name is an identity too."""
    (file,) = samples(hospital_files, "dicom/ecgtoolkit_Example.dcm")
    named = file.rename(file.with_name("Winterbottom_19501224.dcm"))
    page = visit.page
    with page.expect_response("**/api/v1/similar*") as answered:
        visit.open(named)
    page.click("button:has-text('Calipers')")
    text = saved(page, "json").decode()
    result = json.loads(text)
    assert result["recording"]["format"] == "dicom"
    assert len(result["recording"]["leads"]) == 12
    assert result["calipers"] == {"milliseconds": 800, "beats": 75, "millivolt": 1}
    assert sum(len(found["classes"]) for found in result["classes"]) == page.locator(".class-row").count()
    assert len(result["similar"]["neighbours"]) == 10
    assert "not a diagnosis" in result["notice"]
    assert "Winterbottom" not in text
    assert not any(item["handle"] in text for item in answered.value.json()["neighbours"])
    assert not {"handle", "patient_id", "record_id"} & set(result["similar"]["neighbours"][0])


def test_filters_hold_for_the_next_file_and_are_saved_with_what_they_found(visit: Visit) -> None:
    page = visit.open()
    page.select_option("#filters [name=label]", "AFIB")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    page.select_option("#filters [name=k]", "5")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    with page.expect_response("**/api/v1/similar?*") as answered:
        page.set_input_files("#file-input", VIEWER / "example.csv")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    assert {"label=AFIB", "k=5"} <= set(answered.value.url.partition("?")[2].split("&"))
    assert page.input_value("#filters [name=label]") == "AFIB"
    similar = json.loads(saved(page, "json"))["similar"]
    assert (similar["filters"]["label"], similar["filters"]["k"]) == ("AFIB", "5")
    assert len(similar["neighbours"]) == page.locator(".neighbour").count() <= 5
    assert all("AFIB" in one["labels"] for one in similar["neighbours"])


def test_results_that_are_not_there_are_not_saved(visit: Visit) -> None:
    """Not even the former ones, while others are searched for."""
    page = visit.open()
    held: list[Route] = []
    page.route("**/api/v1/similar*", lambda route: held.append(route))
    page.select_option("#filters [name=sex]", "female")
    assert json.loads(saved(page, "json"))["similar"] is None
    held[0].continue_()
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")


def test_a_minute_can_be_saved_as_pdf(visit: Visit, tmp_path: Path) -> None:
    rows = "\n".join(f"{(at % 250 < 10) * 1.0}" for at in range(60 * 250 + 100))
    (tmp_path / "long.csv").write_text(f"# clocs ECG 2\n# sampling_rate: 250\nII\n{rows}\n")
    visit.watch.expected.add(422)  # rectangles have no heartbeats, so no patient is like them
    page = visit.open(tmp_path / "long.csv")
    assert saved(page, "pdf").startswith(b"%PDF-")


def test_the_pdf_is_valid_and_does_not_say_how_the_file_was_named(
    visit: Visit, hospital_files: Path, samples: Callable[..., list[Path]]
) -> None:
    (file,) = samples(hospital_files, "muse/braveheart_example1.xml")
    page = visit.open(file.rename(file.with_name("Winterbottom_19501224.xml")))
    pdf = saved(page, "pdf")
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert re.search(rb"/MediaBox ?\[", pdf)
    streams = re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL)
    texts = [zlib.decompressobj().decompress(stream) for stream in streams if stream[:1] == b"\x78"]
    assert texts
    assert not any(b"Winterbottom" in part for part in [pdf, *texts])


def test_a_wrong_result_is_reported(visit: Visit) -> None:
    """The class and the verdict reach the service; the file does not."""
    page = visit.open()
    sent: list[str] = []
    page.on(
        "request", lambda request: sent.append(f"{request.method} {request.url} {request.post_data_buffer or b''!r}")
    )
    page.click(".verdict summary")
    page.select_option(".verdict [name=class]", index=1)
    chosen = page.input_value(".verdict [name=class]")
    page.select_option(".verdict [name=verdict]", "absent")
    page.click(".verdict button")
    page.wait_for_selector(f".verdict-message:has-text('Saved: {chosen} is not present.')")
    (request,) = sent
    assert re.fullmatch(rf"POST \S+/api/v1/verdicts\?request=[0-9a-f]{{16}}&class={chosen}&verdict=absent b''", request)


def test_sheets_and_fhir_have_what_was_typed_for_this_ecg(visit: Visit) -> None:
    page = visit.open()
    page.click("#print-panel summary")
    page.fill("#print-form [name=identifier]", "K 4711")
    page.fill("#print-form [name=order]", "A-12")
    page.select_option("#print-form [name=paper]", "letter")
    with page.expect_download() as download:
        page.click("#print-form button[value=print]")
    pdf = download.value.path().read_bytes()
    assert (download.value.suggested_filename, pdf[:5]) == ("clocs-ecg-sheets.pdf", b"%PDF-")
    assert b"/PrintScaling /None" in pdf
    (width,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", pdf)[:1]
    assert float(width) == pytest.approx(11 * 72)
    with page.expect_download() as download:
        page.click("#print-form button[value=fhir]")
    bundle = json.loads(download.value.path().read_text())
    assert "K 4711" in json.dumps(bundle)
    assert "A-12" in json.dumps(bundle)
    page.click("#open-another", trial=True)
    visit.open(VIEWER / "example.csv")
    assert page.input_value("#print-form [name=identifier]") == ""
    assert page.input_value("#print-form [name=order]") == ""
