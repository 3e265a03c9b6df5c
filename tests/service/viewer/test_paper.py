"""The ECG paper: scale, panning, zooming and calipers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from clocs.signals.leads import STANDARD_LEADS
from tests.service.viewer.conftest import PHONE, Visit

PIXELS = "() => document.getElementById('paper').toDataURL()"
SQUARE_WAVE = """async ([gain, speed, scale]) => {
    const { stackedSheet } = await import("/viewer/sheet.js");
    const { drawSheet } = await import("/viewer/paper.js");
    const rate = 500;
    const values = Float32Array.from({ length: 10 * rate }, (_, at) => (at % rate < rate / 2 ? 0 : 1));
    const recording = { rate, shown: 10, samples: values.length, calibrated: true, leads: [{ name: "", values }] };
    const sheet = stackedSheet(recording, { gain, speed });
    sheet.timed = false;
    const size = { width: Math.ceil(sheet.width * scale), height: Math.ceil(sheet.height * scale) };
    const canvas = Object.assign(document.createElement("canvas"), size);
    const white = "#ffffff";
    const colours = { desk: white, paper: white, "grid-fine": white, "grid-bold": white, trace: "#000000" };
    drawSheet(canvas.getContext("2d"), sheet, { scale, x: 0, y: 0 }, size, colours, 1);
    const { data } = canvas.getContext("2d").getImageData(0, 0, size.width, size.height);
    const dark = (x, y) => data[4 * (y * size.width + x)] < 128;
    const levels = [];  // rows with at least half a second of ink, right of the pulse
    for (let y = 0; y < size.height; y += 1) {
        let ink = 0;
        for (let x = Math.round(15 * scale); x < size.width; x += 1) ink += dark(x, y);
        if (ink > 2 * speed * scale) levels.push(y);
    }
    const edges = [];  // columns of ink at half height: where the wave goes up or down
    const middle = Math.round((levels[0] + levels.at(-1)) / 2);
    for (let x = Math.round(15 * scale) + 2; x < size.width; x += 1) {
        if (dark(x, middle) && !dark(x - 1, middle)) edges.push(x);
    }
    return { height: levels.at(-1) - levels[0], edges };
}"""


def test_a_millivolt_and_a_second_have_their_length(visit: Visit) -> None:
    """A square wave of 1 mV and 1 Hz: so many mm high, an edge every half second."""
    page = visit.enter()
    for gain, speed, scale in ((10, 25, 4), (5, 25, 8), (20, 50, 3)):
        found: dict[str, Any] = page.evaluate(SQUARE_WAVE, [gain, speed, scale])
        assert found["height"] == pytest.approx(gain * scale, abs=3)
        steps = [after - before for before, after in zip(found["edges"], found["edges"][1:], strict=False)]
        assert len(steps) == 18
        assert sum(steps) / len(steps) == pytest.approx(speed / 2 * scale, abs=0.2)


LARGER = "(size) => parseInt(document.querySelector('.tool-size').textContent) > size"


def size_of(page: Page) -> int:
    return int(page.inner_text(".tool-size").removesuffix(" %"))


def test_keys_and_buttons_enlarge_and_move(visit: Visit) -> None:
    page = visit.open()
    page.focus("#paper")
    at_first, size = page.evaluate(PIXELS), size_of(page)
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert size_of(page) == pytest.approx(size * 1.25**2, abs=1)
    page.evaluate("drawn()")
    larger = page.evaluate(PIXELS)
    page.keyboard.press("ArrowRight")
    page.evaluate("drawn()")
    assert len({at_first, larger, page.evaluate(PIXELS)}) == 3
    page.keyboard.press("0")
    page.evaluate("drawn()")
    assert page.evaluate(PIXELS) == at_first
    page.click("[aria-label=Smaller]")
    assert size_of(page) < size


def test_the_wheel_scrolls_the_page_until_the_paper_is_clicked_and_then_it_can_be_dragged(visit: Visit) -> None:
    page = visit.open()
    size = size_of(page)
    page.hover("#paper")
    page.mouse.wheel(0, 200)
    page.wait_for_function("() => scrollY > 0")
    assert size_of(page) == size
    page.click("#paper")
    page.mouse.wheel(0, -300)
    page.wait_for_function(LARGER, arg=size)
    before = page.evaluate(PIXELS)
    page.locator("#paper").scroll_into_view_if_needed()
    box = page.locator("#paper").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 400, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 250, box["y"] + 120, steps=4)
    page.mouse.up()
    page.evaluate("drawn()")
    assert page.evaluate(PIXELS) != before


@pytest.mark.parametrize("visit", [{"viewport": {"width": 390, "height": 844}, "has_touch": True}], indirect=True)
def test_two_fingers_enlarge(visit: Visit) -> None:
    page = visit.open()
    size, box = size_of(page), page.locator("#paper").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    hand = page.context.new_cdp_session(page)
    for step, kind in ((30, "touchStart"), (45, "touchMove"), (60, "touchMove")):
        fingers = [{"x": x - step, "y": y, "id": 0}, {"x": x + step, "y": y, "id": 1}]
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    hand.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.wait_for_function(LARGER, arg=1.8 * size)
    assert size_of(page) == pytest.approx(2 * size, rel=0.1)


def test_calipers_are_switched_by_a_key_and_measure_by_keys(visit: Visit) -> None:
    """At 25 mm/s a millimetre is 40 ms; at 10 mm/mV it is 0.1 mV.

    C moves the focus to a line; there it works as on the paper, and the focus comes back.
    """
    page = visit.open()
    page.focus("#paper")
    page.keyboard.press("c")
    assert page.evaluate("document.activeElement.ariaLabel") == "First time line"
    page.keyboard.press("Control+c")
    assert page.is_visible(".calipers")
    page.keyboard.press("c")
    assert page.is_hidden(".calipers")
    assert page.evaluate("document.activeElement.id") == "paper"
    page.keyboard.press("c")
    reading = page.locator(".caliper-readout")
    assert reading.inner_text().split("   ") == ["800 ms", "75 / min", "1.00 mV"]
    page.focus("[aria-label='Second time line']")
    for _ in range(5):
        page.keyboard.press("Shift+ArrowRight")
    page.focus("[aria-label='Second voltage line']")
    page.keyboard.press("Shift+ArrowDown")
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    assert reading.inner_text().split("   ") == ["1000 ms", "60 / min", "1.15 mV"]
    assert page.get_attribute("[aria-label='Second time line']", "aria-valuetext") == reading.inner_text()
    page.click("button:has-text('Repeat')")
    assert page.locator(".caliper-repeats line").count() >= 7


def test_raw_steps_are_drawn_but_not_measured_in_millivolt(visit: Visit, tmp_path: Path) -> None:
    visit.watch.expected.add(422)
    rows = "\n".join(str(1000 if at % 500 < 40 else at % 7) for at in range(5000))
    (tmp_path / "steps.csv").write_text(f'# clocs ECG 2\n# sampling_rate: 500\n# unit: "adu"\nII\n{rows}\n')
    page = visit.open(tmp_path / "steps.csv")
    assert "raw units: amplitude not to scale" in page.inner_text("#paper-scale")
    page.click("button:has-text('Calipers')")
    assert page.inner_text(".caliper-readout").split("   ") == ["800 ms", "75 / min"]


def test_a_caliper_line_is_dragged(visit: Visit) -> None:
    page = visit.open()
    page.click("button:has-text('Calipers')")
    line = page.locator("[aria-label='Second time line']").bounding_box()
    assert line is not None
    x, y = line["x"] + line["width"] / 2, line["y"] + line["height"] * 0.8
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y, steps=3)
    page.mouse.up()
    pixels_a_second = size_of(page) / 100 * 96 / 25.4 * 25
    milliseconds = int(page.inner_text(".caliper-readout").split(" ms")[0])
    assert milliseconds == pytest.approx(800 + 60 / pixels_a_second * 1000, abs=12)


def test_switches_change_the_paper_and_its_description(visit: Visit) -> None:
    page = visit.open()
    assert "25 mm/s · 10 mm/mV · 500 Hz" in page.inner_text("#paper-scale")
    page.check("#paper-tools input[value='20']", force=True)
    page.check("#paper-tools input[value='50']", force=True)
    assert "50 mm/s · 20 mm/mV" in page.inner_text("#paper-scale")
    page.evaluate("drawn()")
    before = page.evaluate(PIXELS)
    page.check("#paper-tools input[value=stacked]", force=True)
    page.evaluate("drawn()")
    assert page.evaluate(PIXELS) != before


NAMES = """() => {
    const { fillText } = CanvasRenderingContext2D.prototype;
    window.names = [];
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const { e, f } = this.getTransform();
        window.names.push([text, (x + e) / this.canvas.width, (y + f) / this.canvas.height]);
        return fillText.call(this, text, x, y);
    };
}"""
"""Keeps the texts that are drawn, with their places as fractions of the canvas."""


@pytest.mark.parametrize("visit", [PHONE], indirect=True, ids=["390"])
def test_fit_shows_all_leads_on_a_phone(visit: Visit) -> None:
    page = visit.open()
    assert page.is_checked("#paper-tools input[value=narrow]")
    page.evaluate(NAMES)
    for layout in ("narrow", "standard"):
        page.check(f"#paper-tools input[value={layout}]", force=True)
        page.click("[aria-label=Larger]")
        page.evaluate("drawn()")
        page.evaluate("window.names = []")
        page.click("button:has-text('Fit')")
        page.evaluate("drawn()")
        places = {name.rstrip("*"): (x, y) for name, x, y in page.evaluate("window.names")}
        assert set(STANDARD_LEADS) <= places.keys()
        assert all(0 <= x < 1 and 0 <= y < 1 for x, y in places.values()), places


def test_a_long_recording_has_pages(visit: Visit, originals: Path, samples: Callable[..., list[Path]]) -> None:
    """CPSC's A0001 lasts 15 s: its last page shows the last ten."""
    page = visit.open(*samples(originals, "cpsc2018/Training_WFDB/A0001.hea", "cpsc2018/Training_WFDB/A0001.mat"))
    assert "0 to 10 of 15 s" in page.inner_text("#paper-tools")
    page.focus("#paper")
    page.keyboard.press("PageDown")
    assert "5 to 15 of 15 s" in page.inner_text("#paper-tools")
    assert page.is_disabled("[aria-label=Later]")
    page.check("#paper-tools input[value=narrow]", force=True)
    assert "5 to 10 of 15 s" in page.inner_text("#paper-tools")
    page.click("[aria-label=Later]")
    assert "10 to 15 of 15 s" in page.inner_text("#paper-tools")
    assert page.is_disabled("[aria-label=Later]")


@pytest.mark.parametrize("visit", [{"device_scale_factor": 2}], indirect=True)
def test_the_paper_has_every_pixel_of_a_fine_screen(visit: Visit) -> None:
    page = visit.open()
    wide, shown = page.evaluate(
        "[document.getElementById('paper').width, document.getElementById('paper').clientWidth]"
    )
    assert wide == 2 * shown
