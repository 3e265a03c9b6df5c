"""Bar charts of an archive."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from clocs.drawing.archive import MAX_BARS, draw_archive

COUNTS = {f"format {number}": 100 - number for number in range(20)}


def lengths(axes: Axes) -> list[float]:
    return [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]


def test_each_panel_has_its_bars_and_its_total(tmp_path: Path) -> None:
    panels = {"formats": COUNTS, "rates": {"500 Hz": 3, "250 Hz": 7}, "faults": {}}
    figure = draw_archive(panels, tmp_path / "archive.png")
    formats, rates, faults, empty = figure.axes
    assert lengths(rates) == [7, 3]
    assert [label.get_text() for label in rates.get_yticklabels()] == ["250 Hz", "500 Hz"]
    assert len(formats.patches) == MAX_BARS
    assert sum(lengths(formats)) == sum(COUNTS.values())
    assert formats.get_yticklabels()[-1].get_text() == "9 others"
    assert formats.get_title(loc="left") == f"formats: {sum(COUNTS.values()):,}"
    assert [text.get_text() for text in faults.texts] == ["none"]
    assert not empty.axison
    assert (tmp_path / "archive.png").read_bytes().startswith(b"\x89PNG")


def test_faults_have_another_color() -> None:
    stored, faults = draw_archive({"rates": {"500 Hz": 1}, "faults": {"flat": 1}}).axes
    assert stored.patches[0].get_facecolor() != faults.patches[0].get_facecolor()
