"""Computations of the viewer's modules, run in the browser."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import clocs
from clocs.core.sources.source import open_source
from clocs.datasets import DATASETS
from clocs.formats.reading import read
from clocs.inference.reliability import ReliabilityBin
from clocs.inference.results import ClassProbability
from tests.service.viewer.conftest import Service, visiting

BEATS = """async ({ rate, rows }) => {
    const { findBeats } = await import("/viewer/beats.js");
    const leads = rows.map((values, index) => ({ name: `${index}`, values: Float32Array.from(values) }));
    return findBeats({ rate, samples: rows[0].length, leads });
}"""
TYPICAL = """async ({ values, rate, beats, span }) => {
    const { cutBeats, typicalBeat } = await import("/viewer/beats.js");
    return [...typicalBeat(cutBeats(Float32Array.from(values), rate, beats, span))];
}"""
TRACK_RECORDS = """async (bins) => {
    const { trackRecord } = await import("/viewer/track-record.js");
    return bins.map(trackRecord);
}"""
MARKDOWN = """async (text) => {
    const { markdown } = await import("/viewer/markdown.js");
    return markdown(text, 2).map((node) => node.outerHTML);
}"""


@pytest.fixture(scope="module")
def page(service: Service, browser: Browser) -> Iterator[Page]:
    """One page for all tests: they import modules into it and leave it as it was."""
    with visiting(service, browser) as visit:
        yield visit.enter()


def made_up_beats(rate: float, at: np.ndarray[Any, Any], noise: float) -> np.ndarray[Any, Any]:
    """(2, samples): sharp complexes at known times, a T wave after each, wander and noise; one lead upside down."""
    time = np.arange(round(10 * rate)) / rate
    random = np.random.default_rng(5)
    one = 0.3 * np.sin(2 * np.pi * 0.3 * time) + noise * random.normal(size=time.size)
    for beat in at:
        one += np.exp(-0.5 * ((time - beat) / 0.012) ** 2) + 0.25 * np.exp(-0.5 * ((time - beat - 0.28) / 0.05) ** 2)
    return np.stack([one, -0.6 * one])


def test_beats_are_found_where_they_were_put(page: Page) -> None:
    """At rates and speeds from one end to the other, a little irregular."""
    for rate, beats_a_minute in ((250.0, 150), (500.0, 38), (500.0, 75), (1000.0, 100)):
        random = np.random.default_rng(beats_a_minute)
        at = np.cumsum(60 / beats_a_minute * random.uniform(0.85, 1.15, 40))
        at = at[at < 9.5]
        found = page.evaluate(BEATS, {"rate": rate, "rows": made_up_beats(rate, at, 0.01).tolist()})
        np.testing.assert_allclose(found, at, atol=0.02)


def test_no_beats_are_found_in_nothing(page: Page) -> None:
    assert page.evaluate(BEATS, {"rate": 500, "rows": [[0.0] * 5000]}) == []


def test_rows_keep_clear_of_each_other(page: Page) -> None:
    """A deep wave above a high one, at one place, a name beside them: 10 mm, 20 mm and 3 mm between, up to 5 mm."""
    zeros = page.evaluate("""async () => {
        const { arranged } = await import("/viewer/sheet.js");
        const wave = (height) => Float32Array.from({ length: 500 }, (_, at) => (at === 60 ? height : 0));
        const strip = (name, height) => ({ name, values: wave(height), rate: 500, from: 0, to: 1, x: 15 });
        const rows = [[strip("", -0.2), strip("I", -1)], [strip("", 2), strip("II", 0.1)]];
        return arranged(rows, { gain: 10, speed: 25, calibrated: true, from: 0, to: 1 }).strips.map((one) => one.zero);
    }""")
    assert zeros[2] - zeros[0] == 35


def test_what_goes_beyond_its_reach_is_named(page: Page) -> None:
    """40 mm: 4 mV at 10 mm/mV; only the stretch that is shown counts. The same words stand in the picture's footer."""
    said = page.evaluate("""async () => {
        const { stackedSheet, standardSheet, scaleWords, wrappedSheet } = await import("/viewer/sheet.js");
        const { sheetPicture } = await import("/viewer/exports.js");
        const names = ["I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6"];
        const peaks = { V3: [9, 4.5], V4: [1, -4.5], V5: [1, 3.9] };
        const lead = (name) => {
            const values = new Float32Array(10000);
            if (name in peaks) values[peaks[name][0] * 500] = peaks[name][1];
            return { name, values, derived: name === "aVR" };
        };
        const recording = { rate: 500, shown: 20, seconds: 20, calibrated: true, leads: names.map(lead) };
        const alone = { ...recording, leads: [lead("V3")] };
        const settings = { gain: 10, speed: 25 };
        const words = (sheet) => scaleWords(sheet, 500).join(" · ");
        const written = [];
        const { fillText } = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
            written.push(text);
            return fillText.call(this, text, ...place);
        };
        await sheetPicture(stackedSheet(recording, settings), recording, "Notice.");
        CanvasRenderingContext2D.prototype.fillText = fillText;
        return {
            all: words(stackedSheet(recording, settings)),
            small: words(stackedSheet(recording, { gain: 5, speed: 25 })),
            part: words(standardSheet(recording, settings)),
            rows: words(wrappedSheet(alone, settings)),
            footer: written.at(-1),
        };
    }""")
    assert said["all"] == "25 mm/s · 10 mm/mV · 500 Hz · beyond 40 mm, cut off: V3, V4 · * follows from I and II"
    assert "cut off" not in said["small"] + said["part"]
    assert said["rows"].endswith("cut off: V3")
    assert "beyond 40 mm, cut off: V3, V4   * follows from I and II   Notice." in said["footer"]


def test_ages_below_two_years_are_shown_in_months(page: Page) -> None:
    ages = [0.02, 1 / 12, 7 / 12, 1.99, 2, 63.7, 90, None]
    said = page.evaluate(
        "async (ages) => { const { age } = await import('/viewer/wording.js'); return ages.map(age); }", ages
    )
    assert said == ["under 1 month", "1 month", "7 months", "23 months", "2 years", "63 years", "90 years or more", ""]


def test_a_track_record_is_worded_as_python_does(page: Page) -> None:
    """But for the space before the sign; a share that is neither none nor all is never called so."""
    shares = [*(part / 16 for part in range(17)), *(part / 1000 for part in range(1, 1000, 7)), 0.0049, 0.9951]
    bins = [ReliabilityBin(0.3, 1.0, 1 + 400 * at, 0.6, share) for at, share in enumerate(shares)]
    said = page.evaluate(TRACK_RECORDS, [dataclasses.asdict(one) for one in bins])
    python = [ClassProbability("SR", "sinus rhythm", 0.6, 0.5, one).track_record for one in bins]
    assert [text.replace(" %", "%") for text in said] == python


def test_a_typical_beat_is_numpys_median(page: Page) -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=5000).astype(np.float32)
    beats = np.array([0.1, 1.0, 2.0, 3.002, 4.0, 9.9])
    span = {"before": 0.2, "after": 0.4}
    starts = np.rint(beats * 500).astype(int) - 100
    cut = [values[start : start + 301] for start in starts if start >= 0 and start + 301 <= 5000]
    wanted = np.median(np.stack(cut), axis=0)
    question = {"values": values.tolist(), "rate": 500, "beats": beats.tolist(), "span": span}
    np.testing.assert_allclose(page.evaluate(TYPICAL, question), wanted, atol=1e-6)


def test_cards_become_elements(page: Page) -> None:
    parts = ["---\nx: 1\n---\n# A `b`", "one\ntwo **three** [four](http://x)", "- i\n  j\n- k"]
    card = "\n\n".join([*parts, "| a | b |\n|---|:-:|\n| 1 | |", "```py\n<x>\n```"])
    heading, paragraph, items, table, code = page.evaluate(MARKDOWN, card)
    assert heading == "<h2>A <code>b</code></h2>"
    assert paragraph == "<p>one two <strong>three</strong> four</p>"
    assert items == "<ul><li>i j</li><li>k</li></ul>"
    assert '<th scope="col">a</th>' in table
    assert "<tr><td>1</td><td></td></tr>" in table
    assert code == '<pre tabindex="0"><code>&lt;x&gt;</code></pre>'


def test_the_example_is_a_made_up_patient_of_the_synthetic_dataset(tmp_path: Path) -> None:
    """Made anew, it is the same; this is how it was written, by ``clocs.write``."""
    shipped = Path(clocs.__file__).parent / "service" / "viewer" / "example.csv"
    kind = DATASETS.get("synthetic")
    options = kind.parse_options({"num_records": "11", "seed": "2020"})
    entry = list(kind.entries(open_source(tmp_path), options))[10]
    made = kind.load(open_source(tmp_path), entry, options)
    eight = made.select(("I", "II", "V1", "V2", "V3", "V4", "V5", "V6"))
    clocs.write(dataclasses.replace(eight, labels=()), tmp_path / "example.csv")
    again, known = read(tmp_path / "example.csv"), read(shipped)
    np.testing.assert_array_equal(known.digital, again.digital)
    assert (known.leads, known.sampling_rate, known.age, known.sex) == (
        again.leads,
        again.sampling_rate,
        again.age,
        again.sex,
    )
    assert known.labels == ()
