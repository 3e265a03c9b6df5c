"""Measurements of simulated recordings with known intervals, and of signals without beats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

import clocs
from clocs.core.recording import Recording, quantize
from clocs.measurements.results import NAMES, Measurements
from clocs.signals.heart_vector import make_heart
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.simulation import GroundTruth, simulate

Array = npt.NDArray[np.float64]
LIMB = STANDARD_LEADS[:6]


def simulated(
    *labels: str,
    leads: tuple[str, ...] = STANDARD_LEADS,
    seconds: float = 10,
    sampling_rate: float = 500,
    noise: float = 0.5,
    seed: int = 0,
) -> tuple[Array, GroundTruth]:
    random = np.random.default_rng(seed)
    simulation = simulate(labels, make_heart(random), seconds, sampling_rate, random)
    return simulation.draw(leads, noise, random) / 1000, simulation.truth()


def assert_close(measured: Measurements, real: GroundTruth, limits: Mapping[str, float]) -> None:
    usual = np.array([kind == real.kinds[0] for kind in real.kinds])
    expected = {
        "pr_interval": 1000 * np.median(real.pr[usual]),
        "p_duration": 1000 * real.p_duration,
        "qrs_duration": 1000 * np.median(real.qrs[usual]),
        "qt_interval": 1000 * np.median(real.qt[usual]),
        "qrs_axis": real.qrs_axis,
        "t_axis": real.t_axis,
    }
    for name, limit in limits.items():
        value = getattr(measured, name).value
        assert value is not None, (name, getattr(measured, name).reason)
        assert abs(value - expected[name]) < limit, (name, value, expected[name])


@pytest.mark.parametrize("rhythm", ["SR", "SB"])
@pytest.mark.parametrize("seed", [1, 2])
def test_twelve_leads_have_the_simulated_intervals_and_axes(rhythm: str, seed: int) -> None:
    signal, real = simulated(rhythm, seed=seed)
    measured = clocs.measure(signal, 500, STANDARD_LEADS)
    limits = {"pr_interval": 20, "p_duration": 30, "qrs_duration": 20, "qt_interval": 30, "qrs_axis": 15, "t_axis": 15}
    assert_close(measured, real, limits)
    at = real.qrs_onsets / 500
    assert measured.heart_rate.value == pytest.approx(60 / np.diff(at).mean(), abs=1.5)
    assert measured.regular
    assert not measured.paced


@pytest.mark.parametrize(
    ("leads", "sampling_rate", "seconds"),
    [
        (("II",), 500, 10),
        (("II",), 100, 10),
        (("I", "II"), 250, 5),
        (LIMB, 1000, 5),
        (LIMB, 360, 10),
        (STANDARD_LEADS, 100, 10),
        (STANDARD_LEADS, 257, 60),
    ],
)
def test_any_leads_rates_and_lengths(leads: tuple[str, ...], sampling_rate: float, seconds: float) -> None:
    signal, real = simulated("SR", leads=leads, sampling_rate=sampling_rate, seconds=seconds, seed=4)
    measured = clocs.measure(signal, sampling_rate, leads)
    limits = {"pr_interval": 35, "qrs_duration": 30, "qt_interval": 40}
    assert_close(measured, real, limits | ({"qrs_axis": 20} if len(leads) > 1 else {}))
    assert (measured.qrs_axis.value is None) == (len(leads) == 1)
    assert (measured.qt_interval.lead_spread is None) == (len(leads) == 1)
    assert measured.qt_interval.beat_spread is not None


def test_corrected_intervals_follow_their_formulas() -> None:
    signal, _ = simulated("SB")
    measured = clocs.measure(signal, 500, STANDARD_LEADS)
    qt, interval = measured.qt_interval.value, 60 / (measured.heart_rate.value or 0)
    assert measured.qtc_bazett.value == pytest.approx(qt / interval**0.5)
    assert measured.qtc_fridericia.value == pytest.approx(qt / interval ** (1 / 3))


def test_wide_qrs_is_wider() -> None:
    narrow, _ = simulated("SR", seed=5)
    wide, real = simulated("SR", "LBBB", seed=5)
    measured = clocs.measure(wide, 500, STANDARD_LEADS)
    assert_close(measured, real, {"qrs_duration": 30})
    assert (measured.qrs_duration.value or 0) > (
        clocs.measure(narrow, 500, STANDARD_LEADS).qrs_duration.value or 0
    ) + 20


@pytest.mark.parametrize("seed", range(3))
def test_atrial_fibrillation_has_no_pr_interval(seed: int) -> None:
    signal, _ = simulated("AFIB", seed=seed)
    measured = clocs.measure(signal, 500, STANDARD_LEADS)
    assert measured.pr_interval.value is None
    assert measured.pr_interval.reason
    assert measured.qrs_duration.value is not None
    assert not measured.regular


def test_paced_beats_have_no_pr_interval() -> None:
    signal, _ = simulated("SR", "PACE")
    measured = clocs.measure(signal, 500, STANDARD_LEADS)
    assert measured.paced
    assert measured.pr_interval.reason == "pacing spikes"


def noise(num_leads: int) -> Array:
    return np.random.default_rng(0).normal(0, 0.2, (num_leads, 5000))


def hum(num_leads: int) -> Array:
    return 0.5 * np.sin(2 * np.pi * 50 * np.arange(5000) / 500 + np.arange(num_leads)[:, None])


def fibrillation_waves(num_leads: int) -> Array:
    time = np.arange(5000) / 500
    phase = 2 * np.pi * np.cumsum(5 + np.sin(2 * np.pi * 0.3 * time)) / 500
    size = 1 + 0.4 * np.sin(2 * np.pi * 0.4 * time)
    return 0.5 * size * np.sin(phase + 0.1 * np.arange(num_leads)[:, None])


@pytest.mark.parametrize("make", [noise, hum, fibrillation_waves])
@pytest.mark.parametrize("num_leads", [1, 6, 12])
def test_signals_without_beats_have_no_values(make: object, num_leads: int) -> None:
    measured = clocs.measure(make(num_leads), 500, STANDARD_LEADS[:num_leads])  # type: ignore[operator]
    assert all(value.value is None and value.reason for value in measured.values().values())


def test_flat_short_and_missing_signals_have_reasons() -> None:
    signal, _ = simulated("SR")
    assert clocs.measure(np.zeros((2, 5000)), 500, ("I", "II")).heart_rate.reason == "all leads are flat"
    assert clocs.measure(signal[:, :500], 500, STANDARD_LEADS).heart_rate.reason == "shorter than 2 s"
    assert clocs.measure(np.full((1, 5000), np.nan), 500).heart_rate.reason == "all leads are flat"


def test_a_noisy_lead_and_gaps_are_left_out() -> None:
    signal, real = simulated("SR", seed=1)
    signal[7] = np.random.default_rng(1).normal(0, 1.0, 5000)
    signal[8, :2000] = np.nan
    signal[0, 1000:1010] = np.nan
    measured = clocs.measure(signal, 500, STANDARD_LEADS)
    assert set(measured.leads) == set(STANDARD_LEADS) - {"V2", "V3"}
    assert_close(measured, real, {"qrs_duration": 20, "qt_interval": 30, "qrs_axis": 15})


def test_a_recording_equals_its_signal() -> None:
    signal, _ = simulated("SR", leads=("I", "II"))
    digital = quantize(signal)
    recording = Recording(digital, np.full(2, 1000.0), np.zeros(2, np.int32), 500, ("I", "II"))
    ours, same = clocs.measure(recording), clocs.measure(recording.signal, 500, ("I", "II"))
    assert ours.as_dict() == same.as_dict()
    assert set(NAMES) < set(ours.as_dict())


def test_marks_are_in_order() -> None:
    signal, _ = simulated("SR")
    beat = clocs.measure(signal, 500, STANDARD_LEADS).beat
    assert beat is not None
    marks = [beat.marks[name] for name in ("p_onset", "p_offset", "qrs_onset", "qrs_offset", "t_offset")]
    assert marks == sorted(marks)
    assert 0 <= marks[0] < marks[-1] < beat.signal.shape[1]


def test_sampling_rates_are_needed_and_at_least_100_hz() -> None:
    assert clocs.measure(np.zeros((1, 5000)), 50).heart_rate.reason == "sampling rate below 100 Hz"
    with pytest.raises(ValueError, match="sampling rate"):
        clocs.measure(np.zeros((1, 5000)))
