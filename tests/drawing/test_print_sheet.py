"""Printed sheets have the size of the paper, and their traces are to scale, measured in the PDF."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.drawing.print_sheet import PAPERS, Paper, SheetText, arrange_traces, draw_sheets
from clocs.signals.leads import STANDARD_LEADS

POINTS_PER_MM = 72 / 25.4
TOLERANCE = 0.005
"""Largest relative error of a length on paper."""
RATE = 500
TEXT = SheetText("K-4711", "63 years", ("QRS: 90 ms", "QT: 400 ms"), ("90 %  sinus rhythm",), ("made by", "notice"))


def make(leads: tuple[str, ...] = ("II",), seconds: float = 10.0) -> Recording:
    """Return steps of 1 mV from 0.5 to 1 s of each second, and of 2 mV in the first of them."""
    time = np.arange(round(seconds * RATE)) / RATE
    steps = 1000 * (time % 1 >= 0.5) * np.where(time < 1, 2, 1)
    return Recording(
        digital=np.tile(steps, (len(leads), 1)).astype(np.int16),
        gain=np.full(len(leads), 1000.0),
        baseline=np.zeros(len(leads), np.int32),
        sampling_rate=RATE,
        leads=leads,
    )


def streams(pdf: bytes) -> list[bytes]:
    """Return the decompressed content of the pages of a PDF, without the glyphs, which set their width by ``d1``."""
    compressed = re.findall(rb"/FlateDecode.*?stream\n(.*?)\nendstream", pdf, re.DOTALL)
    return [content for content in map(zlib.decompress, compressed) if b" d1\n" not in content]


def paths(pdf: bytes) -> list[np.ndarray]:
    """Return the lines of all pages in mm from the lower left corner, (points, 2) each."""
    found: list[np.ndarray] = []
    for content in streams(pdf):
        points: list[tuple[float, float]] = []
        for x, y, operator in re.findall(rb"(-?[\d.]+) (-?[\d.]+) ([ml])\n", content):
            if operator == b"m" and points:
                found.append(np.array(points) / POINTS_PER_MM)
                points = []
            points.append((float(x), float(y)))
        found += [np.array(points) / POINTS_PER_MM] if points else []
    return found


def traces(pdf: bytes) -> list[np.ndarray]:
    """Return the lines with more points than grid, ruler and pulses have."""
    return [path for path in paths(pdf) if len(path) > 8]


@pytest.mark.parametrize("paper", ["a4", "letter"])
def test_a_trace_is_to_scale(paper: Paper) -> None:
    pdf = draw_sheets(make(), TEXT, paper=paper)
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf)
    size = np.array([float(side) for side in box]) / POINTS_PER_MM
    np.testing.assert_allclose(size, PAPERS[paper], atol=0.05)
    (trace,) = traces(pdf)
    x, y = trace.T
    assert np.ptp(x) == pytest.approx(25 * (10 - 1 / RATE), rel=TOLERANCE)
    rises = x[1:][np.diff(y) > 5]
    assert len(rises) == 10
    np.testing.assert_allclose(np.diff(rises), 25, rtol=TOLERANCE)
    assert np.ptp(y[x > x.min() + 30]) == pytest.approx(10, rel=TOLERANCE)
    assert np.ptp(y) == pytest.approx(20, rel=TOLERANCE)
    ruler = [path for path in paths(pdf) if len(path) == 2 and np.ptp(path[:, 0]) == pytest.approx(100, rel=TOLERANCE)]
    assert len(ruler) == 1
    assert ((trace > 0) & (trace < PAPERS[paper])).all()


def test_viewers_are_asked_not_to_scale() -> None:
    pdf = draw_sheets(make(), TEXT)
    start = int(re.findall(rb"startxref\n(\d+)\n%%EOF\n$", pdf)[0])
    number, at = re.match(rb"xref\n(\d+) 1\n(\d{10}) 00000 n \n", pdf[start:]).groups()  # type: ignore[union-attr]
    catalog = pdf[int(at) :].split(b"endobj")[0]
    assert catalog.startswith(number + b" 0 obj")
    assert b"/Type /Catalog" in catalog
    assert b"/ViewerPreferences << /PrintScaling /None >>" in catalog
    assert b"/CreationDate" not in pdf
    assert pdf == draw_sheets(make(), TEXT)


def test_twelve_leads_are_three_by_four_with_a_rhythm_strip() -> None:
    placed, unprinted = arrange_traces((*STANDARD_LEADS, "V7"))
    assert unprinted == ("V7",)
    assert [trace.lead for trace in placed if trace.row == 1] == ["II", "aVL", "V2", "V5"]
    assert [(trace.lead, trace.begin, trace.end) for trace in placed if trace.row == 3] == [("II", 0.0, 10.0)]
    assert {trace.end - trace.begin for trace in placed if trace.row < 3} == {2.5}
    drawn = traces(draw_sheets(make(STANDARD_LEADS), TEXT, paper="letter"))
    assert len(drawn) == 13
    lengths = sorted(np.ptp(trace[:, 0]) for trace in drawn)
    np.testing.assert_allclose(lengths, [62.5 - 0.05] * 12 + [250 - 0.05], rtol=TOLERANCE)


def test_long_recordings_are_printed_in_parts() -> None:
    recording = make(seconds=60)
    assert draw_sheets(recording, TEXT, seconds=200).count(b"/Type /Page ") == 6
    part = draw_sheets(recording, TEXT, start=5, seconds=12)
    assert part.count(b"/Type /Page ") == 2
    assert [round(float(np.ptp(trace[:, 0]))) for trace in traces(part)] == [250, 50]
    for options in ({"seconds": 201.0}, {"seconds": 0.0}, {"start": 60.0}):
        with pytest.raises(ConfigError):
            draw_sheets(recording, TEXT, **options)  # type: ignore[arg-type]


def test_text_is_not_a_formula() -> None:
    assert draw_sheets(make(), SheetText(heading="$\\frac{1}{0}$ $x")).startswith(b"%PDF")
