"""A query and its neighbours are drawn to scale and aligned at a beat."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wfdb.processing
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from clocs.core.errors import ConfigError, LeadError, MissingExtraError
from clocs.core.recording import Recording
from clocs.drawing.figure import save_figure
from clocs.drawing.neighbors import SECONDS_BEFORE_BEAT, draw_neighbors, first_beat
from clocs.formats import read


def make(
    first: float, leads: tuple[str, ...] = ("II", "V2", "aVL"), sampling_rate: float = 500.0, seconds: float = 10.0
) -> Recording:
    """Return a sharp beat every 0.9 s from a first time, each with a slow wave after it."""
    time = np.arange(round(seconds * sampling_rate)) / sampling_rate
    phase = (time - first + 0.45) % 0.9 - 0.45
    beat = np.exp(-0.5 * (phase / 0.012) ** 2) + 0.3 * np.exp(-0.5 * ((phase - 0.25) / 0.05) ** 2)
    return Recording(
        digital=np.rint(1000 * beat * np.arange(1, len(leads) + 1)[:, None]).astype(np.int16),
        gain=np.full(len(leads), 1000.0),
        baseline=np.zeros(len(leads), np.int32),
        sampling_rate=sampling_rate,
        leads=leads,
        record_id=f"at {first}",
    )


def traces(figure: Figure) -> list[Line2D]:
    (axes,) = figure.axes
    return [line for line in axes.lines if not str(line.get_label()).startswith("_")]


def peak_seconds(line: Line2D) -> float:
    """Return the time of the peak near the alignment."""
    x, y = (np.asarray(values, float) for values in line.get_data())
    near = np.abs(x - SECONDS_BEFORE_BEAT) < 0.3
    return float(x[near][np.argmax(y[near])])


def test_recordings_are_to_scale_and_aligned() -> None:
    recordings = [make(0.7), make(0.51, sampling_rate=250.0), make(0.2, seconds=9.0)]
    figure = draw_neighbors(recordings, ["query", "one", "two"], seconds=6.0)
    (axes,) = figure.axes
    zero, unit = axes.transData.transform([(0, 0), (1, 1)])
    assert (unit - zero) / (figure.dpi / 25.4) == pytest.approx([25.0, 10.0], rel=1e-9)
    drawn = traces(figure)
    assert [line.get_label() for line in drawn] == ["II", "V2"] * 3
    for line in drawn:
        assert peak_seconds(line) == pytest.approx(SECONDS_BEFORE_BEAT, abs=0.03)
        assert np.ptp(np.asarray(line.get_xdata(), float)) == pytest.approx(6.0, abs=0.01)
    heights = [float(np.ptp(np.asarray(line.get_ydata(), float))) for line in drawn]
    assert heights == pytest.approx([1.0, 2.0] * 3, abs=0.05)
    levels = [float(np.median(np.asarray(line.get_ydata(), float))) for line in drawn]
    assert levels == sorted(levels, reverse=True)
    low, high = axes.get_ylim()
    assert all(low < np.min(line.get_ydata()) and np.max(line.get_ydata()) < high for line in drawn)


def test_captions_are_above_their_recordings() -> None:
    figure = draw_neighbors([make(0.7)] * 3, ["query", "first", "second"], title="Patients like this one")
    (axes,) = figure.axes
    heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
    drawn = traces(figure)
    tops = [float(np.max(np.asarray(line.get_ydata(), float))) for line in drawn[::2]]
    for caption, top in zip(("query", "first", "second"), tops, strict=True):
        assert heights[caption] > top
    assert heights["first"] < float(np.min(np.asarray(drawn[1].get_ydata(), float)))
    written = "\n".join(text.get_text() for text in figure.texts)
    assert "Patients like this one" in written
    assert "aligned at the first QRS complex" in written


@pytest.mark.parametrize("first", [0.53, 0.9, 0.45])
@pytest.mark.parametrize("sampling_rate", [250.0, 500.0])
def test_the_first_beat_is_found(first: float, sampling_rate: float) -> None:
    expected = first if first >= SECONDS_BEFORE_BEAT else first + 0.9
    assert first_beat(make(first, sampling_rate=sampling_rate)) == pytest.approx(expected, abs=0.025)


def test_a_spike_does_not_hide_beats() -> None:
    recording = make(0.7)
    digital = recording.digital.copy()
    digital[:, 3000:3003] = 30_000
    assert first_beat(replace(recording, digital=digital)) == pytest.approx(0.7, abs=0.025)


def test_a_recording_without_beats_is_drawn_from_its_start() -> None:
    flat = replace(make(0.7), digital=np.zeros((3, 5000), np.int16))
    assert first_beat(flat) is None
    assert first_beat(make(0.7, seconds=1.0)) is None
    x = np.asarray(traces(draw_neighbors([flat, make(0.7)], ["a", "b"]))[0].get_xdata(), float)
    assert x[0] == 0


@pytest.mark.parametrize("record", ["1", "10", "11", "12"])
def test_real_beats(originals: Path, record: str) -> None:
    """Compare with the XQRS detector of wfdb on the same lead."""
    recording = read(originals / "ludb" / "data" / f"{record}.hea").select(("II",))
    beats = wfdb.processing.xqrs_detect(recording.signal[0].astype(float), recording.sampling_rate, verbose=False)
    beats = beats[beats >= SECONDS_BEFORE_BEAT * recording.sampling_rate] / recording.sampling_rate
    assert first_beat(recording) == pytest.approx(beats[0], abs=0.06)


def test_leads_must_be_common_to_all_recordings() -> None:
    drawn = traces(draw_neighbors([make(0.7), make(0.8)], ["a", "b"], leads=("aVL",)))
    assert [line.get_label() for line in drawn] == ["aVL", "aVL"]
    with pytest.raises(LeadError):
        draw_neighbors([make(0.7), make(0.8)], ["a", "b"], leads=("V6",))
    with pytest.raises(LeadError, match="no lead in common"):
        draw_neighbors([make(0.7), make(0.8, leads=("ECG",))], ["a", "b"])
    with pytest.raises(ConfigError, match="seconds"):
        draw_neighbors([make(0.7)], ["a"], seconds=0)


def test_equal_input_gives_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_figure(draw_neighbors([make(0.7), make(0.9)], ["query", "one"]), tmp_path / f"{name}.png", dpi=60)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.usefixtures("without_matplotlib")
def test_the_error_without_matplotlib_names_the_extra() -> None:
    with pytest.raises(MissingExtraError, match=r"clocs\[plot\]"):
        draw_neighbors([make(0.7)], ["query"])
