"""Original files of every supported format, opened in the viewer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import FilePayload, Page, Route

from tests.service.viewer.conftest import Visit

ORIGINALS = {
    "chapman": ("chapman/ECGDataDenoised/MUSE_20180111_155115_19000.csv",),
    "ptbxl": ("ptbxl/records500/00000/00001_hr.hea", "ptbxl/records500/00000/00001_hr.dat"),
    "cpsc": ("cpsc2018/Training_WFDB/A0001.hea", "cpsc2018/Training_WFDB/A0001.mat"),
    "cinc": ("cinc2017/training2017/A00001.hea", "cinc2017/training2017/A00001.mat"),
}
BROKEN = "chapman/ECGDataDenoised/MUSE_20180113_180425_75000.csv"
"""Its chest leads have next to no samples."""
HOSPITAL = {
    "muse": "muse/braveheart_example1.xml",
    "aecg": "aecg/hl7_example_aecg.xml",
    "dicom": "dicom/ecgtoolkit_Example.dcm",
    "scp": "scp/ecgtoolkit_Example.scp",
}
FACTS = {
    "chapman": "12 leads · 10 s · 500 Hz · Chapman CSV",
    "ptbxl": "12 leads · 10 s · 500 Hz · WFDB",
    "cpsc": "12 leads · 15 s · 500 Hz · WFDB",
    "cinc": "1 lead · 30 s · 300 Hz · WFDB",
    "muse": "12 leads · 10 s · 500 Hz · GE MUSE XML",
    "aecg": "12 leads · 10 s · 500 Hz · HL7 aECG",
    "dicom": "12 leads · 10 s · 500 Hz · DICOM",
    "scp": "12 leads · 10 s · 500 Hz · SCP-ECG",
}
SLOW = ("chapman", "cpsc", "cinc", "aecg", "dicom", "scp")
"""Files that differ from others here in their format only. The tests of parsing read every format in each run."""
INK = """() => {
    const canvas = document.getElementById("paper");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let [dark, red] = [0, 0];
    for (let at = 0; at < data.length; at += 4) {
        if (data[at] + data[at + 1] + data[at + 2] < 200) dark += 1;
        if (data[at] - data[at + 2] > 20) red += 1;
    }
    return { dark, red, all: data.length / 4 };
}"""


def some_slow(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in names]


def assert_paper_is_drawn(page: Page) -> None:
    """Black traces on a red grid."""
    page.evaluate("drawn()")
    ink = page.evaluate(INK)
    assert ink["dark"] > 2000
    assert 0.1 < ink["red"] / ink["all"] < 0.6


def assert_everything_is_shown(page: Page, facts: str) -> None:
    assert facts in page.inner_text("#recording-facts")
    assert_paper_is_drawn(page)
    rows = page.locator(".class-row")
    assert rows.count() >= 4
    assert all("validation patient" in text for text in page.locator(".class-record").all_inner_texts())
    assert page.locator(".cannot li").count() > 0
    assert page.locator(".neighbour").count() == 10


@pytest.mark.parametrize("name", some_slow(ORIGINALS))
def test_a_published_record_is_drawn_classified_and_compared(
    visit: Visit, originals: Path, samples: Callable[..., list[Path]], name: str
) -> None:
    page = visit.open(*samples(originals, *ORIGINALS[name]))
    assert_everything_is_shown(page, FACTS[name])


@pytest.mark.parametrize("name", some_slow(HOSPITAL))
def test_a_hospital_file_is_drawn_classified_and_compared(
    visit: Visit, hospital_files: Path, samples: Callable[..., list[Path]], name: str
) -> None:
    page = visit.open(*samples(hospital_files, HOSPITAL[name]))
    assert_everything_is_shown(page, FACTS[name])


def test_patients_without_the_lead_of_an_ecg_are_not_compared_with_it(
    visit: Visit, originals: Path, samples: Callable[..., list[Path]]
) -> None:
    """CinC 2017 names its lead ECG; nobody in the archive has one of that name."""
    page = visit.open(*samples(originals, *ORIGINALS["cinc"]))
    said = page.inner_text("#neighbours")
    assert "not compared: no embedding of lead ECG." in said
    assert page.locator("#neighbours .neighbour").count() == 0


def test_lead_i_is_classified_and_searched_on_request(visit: Visit, tmp_path: Path) -> None:
    """A watch records lead I only. Classifiers have a set for it; a search finds recordings with this lead only."""
    visit.watch.expected.add(422)
    rows = "\n".join(f"{(at % 400 < 20) * 1.0 + (at % 7) / 100:.3f}" for at in range(15000))
    (tmp_path / "watch.csv").write_text(f"# clocs ECG 2\n# sampling_rate: 500\nI\n{rows}\n")
    page = visit.open(tmp_path / "watch.csv")
    said = page.inner_text("#neighbours")
    assert "has unsupported leads" in said
    assert "any_lead" not in said
    assert "any-lead" not in said
    page.click("#neighbours >> text=Use these leads anyway")
    page.wait_for_selector("#neighbours[aria-busy=false] >> text=not compared: no embedding of lead I.")
    page.wait_for_selector("#classes:not(:has([aria-busy=true])) .class-row")
    assert "Lead used: I." in page.inner_text("#classes")


def test_leads_that_are_not_fit_are_left_out_of_classes_and_the_refusal_of_a_search_is_explained(
    visit: Visit, originals: Path, samples: Callable[..., list[Path]]
) -> None:
    visit.watch.expected.add(422)
    page = visit.open(*samples(originals, BROKEN))
    assert "12 leads" in page.inner_text("#recording-facts")
    assert_paper_is_drawn(page)
    page.wait_for_selector("#classes:not(:has([aria-busy=true])) .class-row")
    assert "V2 not used: missing: 4979 of 5000 samples" in page.inner_text("#classes")
    assert page.locator("#neighbours .unfit").count() == 1
    said = page.inner_text("#neighbours")
    assert "V2 missing: 4979 of 5000 samples" in said
    assert "can still be read" in said


def test_noise_gets_reasons_and_no_probability(visit: Visit, tmp_path: Path) -> None:
    visit.watch.expected.add(422)
    noise = np.random.default_rng(0).normal(0, 0.3, (5000, 2)).tolist()
    rows = "\n".join(f"{one:.3f},{two:.3f}" for one, two in noise)
    (tmp_path / "noise.csv").write_text(f"# clocs ECG 2\n# sampling_rate: 500\nI,II\n{rows}\n")
    page = visit.open(tmp_path / "noise.csv")
    page.wait_for_selector("#classes:not(:has([aria-busy=true])) .withheld")
    said = page.inner_text("#classes")
    assert "No classes are given" in said
    assert "Heartbeats cannot be measured: no clear beats." in said
    assert "%" not in said
    assert page.locator(".class-row").count() == 0


@pytest.mark.parametrize("content", [b"", b"%PDF-1.4 \x00\x01\x02"])
def test_a_file_that_is_not_an_ecg_gives_advice(visit: Visit, tmp_path: Path, content: bytes) -> None:
    visit.watch.expected |= {400, 422}
    page = visit.enter()
    (tmp_path / "letter.txt").write_bytes(content)
    page.set_input_files("#file-input", tmp_path / "letter.txt")
    page.wait_for_selector("#opening-message .trouble")
    said = page.inner_text("#opening-message")
    assert "cannot" in said
    assert "Check that it is a complete ECG" in said or "Try again" in said
    assert page.is_hidden("#workspace")
    assert page.is_visible("#drop-zone")


def test_a_header_without_its_signal_gives_advice(
    visit: Visit, originals: Path, samples: Callable[..., list[Path]]
) -> None:
    visit.watch.expected.add(422)
    page = visit.enter()
    page.set_input_files("#file-input", samples(originals, "ptbxl/records500/00000/00001_hr.hea"))
    page.wait_for_selector("#opening-message .trouble")
    assert "needs its header (.hea) and its signal file" in page.inner_text("#opening-message")


DROP = """([name, kinds]) => {
    const carried = new DataTransfer();
    carried.items.add(new File(["no ECG"], name));
    return kinds.map((kind) => {
        const event = new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true });
        document.body.dispatchEvent(event);
        return event.defaultPrevented;
    });
}"""
SLOW_AND_LOST = """() => {
    const { arrayBuffer } = File.prototype;
    const released = new Promise((resolve) => { window.release = resolve; });
    File.prototype.arrayBuffer = async function () {
        if (this.name === "lost.txt") throw new DOMException("gone", "NotReadableError");
        if (this.name === "slow.txt") await released;
        const bytes = await arrayBuffer.call(this);
        window.read = (window.read ?? 0) + (this.name === "slow.txt");
        return bytes;
    };
}"""
"""Files of these names are read late, or not at all."""


def letter(name: str) -> FilePayload:
    return {"name": name, "mimeType": "text/plain", "buffer": b"no ECG"}


def test_the_last_of_several_quick_uploads_is_opened(visit: Visit) -> None:
    """Whichever way they come in; the earlier ones are read at last, and then not even sent."""
    page = visit.enter()
    page.evaluate(SLOW_AND_LOST)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/preview") else None)
    page.set_input_files("#file-input", letter("slow.txt"))
    page.evaluate(DROP, ["slow.txt", ["drop"]])
    visit.open()
    page.evaluate("release()")
    page.wait_for_function("() => window.read === 2")
    page.evaluate("drawn()")
    assert page.is_visible("#workspace")
    assert len(sent) == 1
    held: list[Route] = []
    page.route("**/viewer/example.csv", lambda route: held.append(route))
    page.evaluate("document.getElementById('open-example').click()")
    visit.watch.expected.add(422)
    page.evaluate(DROP, ["letter.txt", ["drop"]])
    page.wait_for_selector("#opening-message .trouble")
    with page.expect_event("requestfinished", lambda request: request.url.endswith("example.csv")):
        held[0].continue_()
    page.evaluate("drawn()")
    assert page.is_hidden("#workspace")
    assert page.locator("#opening-message[aria-busy=false] .trouble").count() == 1
    assert len(sent) == 2


def test_unreadable_drops_are_reported(visit: Visit, tmp_path: Path) -> None:
    page = visit.enter()
    page.evaluate(SLOW_AND_LOST)
    said = page.locator("#opening-message .trouble")
    page.set_input_files("#file-input", letter("lost.txt"))
    said.get_by_text("The file cannot be opened").wait_for()
    assert page.evaluate("document.getElementById('file-input').files.length") == 0, "it can be chosen again"
    carried = {"items": [], "files": [str(tmp_path)], "dragOperationsMask": 1}
    devtools = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        devtools.send("Input.dispatchDragEvent", {"type": kind, "x": 300, "y": 300, "data": carried})
    said.get_by_text("A folder cannot be opened").wait_for()
    visit.watch.expected.add(502)
    page.route("**/viewer/example.csv", lambda route: route.fulfill(status=502))
    page.click("#open-example")
    said.get_by_text("The example cannot be loaded").wait_for()
    assert "number below" not in said.inner_text()
    page.unroute("**/viewer/example.csv")
    page.evaluate("document.getElementById('comparison').showModal()")
    assert page.evaluate(DROP, ["letter.txt", ["dragover", "drop"]]) == [True, True], "else the browser opens it"
    assert page.is_hidden("#drop-cover")
    page.keyboard.press("Escape")
    assert "The example cannot be loaded" in said.inner_text(), "nothing is opened behind a dialog"
    visit.open()


def test_files_can_be_dropped_on_the_page(visit: Visit) -> None:
    """The drop is made in the page, from the example that the viewer ships."""
    page = visit.enter()
    page.evaluate("""async () => {
        const carried = new DataTransfer();
        const content = await (await fetch("/viewer/example.csv")).blob();
        carried.items.add(new File([content], "dropped.csv"));
        for (const kind of ["dragenter", "dragover", "drop"]) {
            const how = { dataTransfer: carried, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent(kind, how));
        }
    }""")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    assert "clocs CSV" in page.inner_text("#recording-facts")


def test_another_file_replaces_the_first(
    visit: Visit, hospital_files: Path, samples: Callable[..., list[Path]]
) -> None:
    """Not before it is chosen: who thinks better of it still has the first."""
    page = visit.open()
    with page.expect_file_chooser() as chooser:
        page.click("#open-another")
    assert page.is_visible("#workspace")
    chooser.value.set_files(samples(hospital_files, HOSPITAL["scp"]))
    page.wait_for_selector("#recording-facts:has-text('SCP-ECG')")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
