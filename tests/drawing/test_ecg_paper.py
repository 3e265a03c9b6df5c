"""ECG paper is to scale and complete, and marks missing samples and unknown scales."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from clocs.core.errors import ConfigError, LeadError, MissingExtraError
from clocs.core.recording import Recording, missing_value
from clocs.drawing.ecg_paper import draw_recording
from clocs.drawing.figure import save_figure
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads


def make(
    leads: tuple[str, ...] = STANDARD_LEADS, seconds: float = 10.0, sampling_rate: float = 500.0, size: float = 0.5
) -> Recording:
    """Return sharp beats of a different height in each lead, alternately inverted, with an offset."""
    time = np.arange(round(seconds * sampling_rate)) / sampling_rate
    beat = np.exp(-0.5 * (((time % 0.8) - 0.4) / 0.012) ** 2)
    heights = np.array([(size + 0.1 * row) * (-1) ** row for row in range(len(leads))])
    return Recording(
        digital=np.rint(1000 * heights[:, None] * beat + 40).astype(np.int16),
        gain=np.full(len(leads), 1000.0),
        baseline=np.zeros(len(leads), np.int32),
        sampling_rate=sampling_rate,
        leads=leads,
        record_id="r1",
        patient_id="p1",
        age=63.0,
        sex="female",
        labels=("SR", "LBBB"),
    )


def axes_of(figure: Figure) -> Axes:
    (axes,) = figure.axes
    return axes


def traces(figure: Figure) -> dict[str, Line2D]:
    return {str(line.get_label()): line for line in axes_of(figure).lines if not str(line.get_label()).startswith("_")}


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize("leads", [STANDARD_LEADS, ("II", "V2", "aVL", "aVR"), ("II",)])
@pytest.mark.parametrize("seconds", [10.0, 4.3])
def test_paper_is_to_scale(leads: tuple[str, ...], seconds: float) -> None:
    figure = draw_recording(make(leads), seconds=seconds)
    pixels_per_mm = figure.dpi / 25.4
    zero, one = axes_of(figure).transData.transform([(0, 0), (1, 1)])
    assert (one - zero) / pixels_per_mm == pytest.approx([25.0, 10.0], rel=1e-9)


def test_the_grid_has_thin_lines_every_1_mm_and_bold_lines_every_5_mm() -> None:
    figure = draw_recording(make(("II",)))
    grids = [item for item in axes_of(figure).collections if isinstance(item, LineCollection)]
    spacing = {}
    for grid in grids:
        ends = np.array([axes_of(figure).transData.transform(path.vertices) for path in grid.get_paths()])
        vertical = np.unique(np.round(ends[np.ptp(ends[:, :, 0], axis=1) < 1e-6][:, 0, 0] / figure.dpi * 25.4, 6))
        horizontal = np.unique(np.round(ends[np.ptp(ends[:, :, 1], axis=1) < 1e-6][:, 0, 1] / figure.dpi * 25.4, 6))
        spacing[float(np.ravel(grid.get_linewidth())[0])] = [
            *np.unique(np.diff(vertical).round(3)),
            *np.unique(np.diff(horizontal).round(3)),
        ]
    thin, thick = sorted(spacing)
    assert spacing[thin] == [1.0, 1.0]
    assert spacing[thick] == [5.0, 5.0]


def test_every_lead_is_drawn_with_its_own_samples() -> None:
    recording = make()
    drawn = traces(draw_recording(recording))
    assert tuple(drawn) == recording.leads
    for lead, signal in zip(recording.leads, recording.signal, strict=True):
        x, y = (np.asarray(values, dtype=float) for values in drawn[lead].get_data())
        np.testing.assert_allclose(x, np.arange(recording.num_samples) / recording.sampling_rate)
        np.testing.assert_allclose(y - y[0], signal - signal[0], atol=1e-5)


def test_strips_do_not_overlap() -> None:
    drawn = list(traces(draw_recording(make(size=1.5))).values())
    for upper, lower in itertools.pairwise(drawn):
        assert np.min(np.asarray(upper.get_ydata()) - np.asarray(lower.get_ydata())) >= 0.19


def test_larger_beats_get_more_paper() -> None:
    small, large = draw_recording(make(size=0.2)), draw_recording(make(size=2.0))
    assert large.get_figheight() > small.get_figheight() + 1
    low, high = axes_of(large).get_ylim()
    assert all(low < np.min(line.get_ydata()) and np.max(line.get_ydata()) < high for line in axes_of(large).lines)


def test_a_lead_with_artifacts_is_cut_off_with_a_note() -> None:
    recording = make(("I", "II", "V1"))
    digital = recording.digital.copy()
    digital[1, 1000:1100] = 20_000
    figure = draw_recording(replace(recording, digital=digital))
    assert figure.get_figheight() * 25.4 < 250
    assert "cut off: II" in texts(figure)
    assert "cut off" not in texts(draw_recording(recording))


def test_derived_leads_have_a_star_and_the_notice_is_below() -> None:
    recording = add_derived_leads(make(("I", "II", "V1")))
    figure = draw_recording(recording, notice="For research.")
    names = [text.get_text() for text in axes_of(figure).texts]
    assert {"I", "II", "V1", "III*", "aVR*", "aVL*", "aVF*"} <= set(names)
    assert texts(figure).endswith("* follows from I and II\nFor research.")
    assert "*" not in texts(draw_recording(recording, leads=("I", "V1")))


def test_the_footer_fits_narrow_paper() -> None:
    """Line breaks keep it above the lower edge and below the seconds."""
    recording = add_derived_leads(make(("I", "II", "V1"), seconds=4.0, size=4.5))
    figure = draw_recording(recording, notice="For research. Not a medical device; not a diagnosis.")
    figure.canvas.draw()
    box = figure.texts[-1].get_window_extent()
    seconds = next(text for text in axes_of(figure).texts if text.get_text() == "1 s").get_window_extent()
    assert box.x1 <= figure.bbox.x1
    assert 0 <= box.y0 < box.y1 < seconds.y0


def test_leads_can_be_chosen_and_ordered() -> None:
    assert tuple(traces(draw_recording(make(), leads=("V5", "I")))) == ("V5", "I")


def test_an_unknown_lead_is_rejected() -> None:
    with pytest.raises(LeadError, match="V9"):
        draw_recording(make(), leads=("II", "V9"))


def test_a_part_of_a_long_recording() -> None:
    recording = make(("ECG",), seconds=60.0, sampling_rate=300.0)
    figure = draw_recording(recording, start=20.3, seconds=5.0)
    y = np.asarray(traces(figure)["ECG"].get_ydata(), dtype=float)
    expected = recording.signal[0, 6090:7590]
    np.testing.assert_allclose(y - y[0], expected - expected[0], atol=1e-5)
    assert "20.3 to 25.3 s of 60 s" in texts(figure)
    labels = [text.get_text() for text in axes_of(figure).texts]
    assert {"21 s", "25 s"} <= set(labels)
    assert "20 s" not in labels


def test_seconds_none_draws_to_the_end_and_short_recordings_are_complete() -> None:
    assert len(np.asarray(traces(draw_recording(make(("II",), 14.0), seconds=None))["II"].get_ydata())) == 7000
    assert len(np.asarray(traces(draw_recording(make(("II",), 3.0)))["II"].get_ydata())) == 1500


@pytest.mark.parametrize("values", [{"start": 10.0}, {"start": -1.0}, {"seconds": 0.0}, {"seconds": 500.0}])
def test_invalid_parts_are_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        draw_recording(make(("II",)), **values)


def test_missing_samples_leave_a_marked_gap() -> None:
    recording = make(("I", "II"))
    digital = recording.digital.copy()
    digital[1, 1000:1500] = missing_value(np.int16)
    digital[1, 2000] = missing_value(np.int16)
    figure = draw_recording(replace(recording, digital=digital))
    drawn = traces(figure)
    missing = np.isnan(np.asarray(drawn["II"].get_ydata(), dtype=float))
    assert not np.isnan(np.asarray(drawn["I"].get_ydata(), dtype=float)).any()
    assert np.flatnonzero(missing).tolist() == [*range(1000, 1500), 2000]
    (bands,) = (item for item in axes_of(figure).collections if isinstance(item, PolyCollection))
    seconds = [np.asarray(path.vertices, dtype=float)[:, 0] for path in bands.get_paths()]
    spans = [(float(x.min()), float(x.max())) for x in seconds]
    assert spans[0] == pytest.approx((2.0, 3.0))
    assert spans[1][0] == pytest.approx(4.0)
    assert spans[1][1] > 4.01


def test_a_lead_without_samples_has_its_name() -> None:
    recording = make(("I", "II"))
    digital = recording.digital.copy()
    digital[0] = missing_value(np.int16)
    figure = draw_recording(replace(recording, digital=digital))
    assert "I" in [text.get_text() for text in axes_of(figure).texts]
    assert np.isnan(np.asarray(traces(figure)["I"].get_ydata(), dtype=float)).all()


def test_header_and_footer() -> None:
    written = texts(draw_recording(make()))
    for part in ("r1", "patient p1", "63 y", "female", "SR, LBBB", "10 s", "25 mm/s   10 mm/mV   500 Hz"):
        assert part in written
    bare = texts(draw_recording(replace(make(), age=None, sex=None, labels=(), patient_id="")))
    assert " y" not in bare
    assert "None" not in bare
    assert "Mine" in texts(draw_recording(make(), title="Mine"))


def test_each_strip_has_a_pulse_of_one_millivolt_and_a_fifth_of_a_second() -> None:
    figure = draw_recording(make())
    pulses = [line for line in axes_of(figure).lines if line.get_label() == "_1 mV"]
    assert len(pulses) == 12
    for pulse in pulses:
        x, y = (np.asarray(values, dtype=float) for values in pulse.get_data())
        assert np.ptp(y) == pytest.approx(1.0)
        assert np.ptp(x[y > y.mean()]) == pytest.approx(0.2)


def test_raw_steps_are_drawn_without_a_scale() -> None:
    recording = make(("ECG",))
    raw = replace(recording, unit="adu", gain=np.ones(1), digital=(recording.digital * 7 + 300).astype(np.int16))
    figure = draw_recording(raw)
    assert "raw steps (adu), amplitude not to scale" in texts(figure)
    assert "mm/mV" not in texts(figure)
    assert [line.get_label() for line in axes_of(figure).lines] == ["ECG"]
    y = np.asarray(traces(figure)["ECG"].get_ydata(), dtype=float)
    assert 1.0 < np.ptp(y) < 4.0
    assert np.corrcoef(y, raw.digital[0])[0, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("extension", ["png", "pdf", "svg"])
def test_equal_recordings_give_equal_files(tmp_path: Path, extension: str) -> None:
    for name in ("a", "b"):
        save_figure(draw_recording(make()), tmp_path / f"{name}.{extension}", dpi=60)
    save_figure(draw_recording(make(size=0.6)), tmp_path / f"c.{extension}", dpi=60)
    first, second, third = ((tmp_path / f"{name}.{extension}").read_bytes() for name in "abc")
    assert first == second
    assert first != third
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.{extension}" for name in "abc"]


def test_an_unknown_image_format_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.png"):
        save_figure(draw_recording(make()), tmp_path / "a.docx")


@pytest.mark.usefixtures("without_matplotlib")
def test_the_error_without_matplotlib_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_recording(make())


def test_importing_it_does_not_import_matplotlib() -> None:
    code = "import sys, clocs.drawing.ecg_paper; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dollar_signs_in_ids_and_labels_are_text(tmp_path: Path) -> None:
    """Matplotlib would read text between two dollar signs as a formula."""
    made = replace(make(("II",), seconds=2.5), record_id="a$_$b", labels=("$^$",))
    save_figure(draw_recording(made), tmp_path / "ecg.svg")
    assert "<!-- a$_$b -->" in (tmp_path / "ecg.svg").read_text()
