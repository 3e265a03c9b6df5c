"""Simulated ECGs compared with a literal implementation, and their components."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clocs.signals.background import artifacts, fibrillation
from clocs.signals.heart_vector import (
    DOWER,
    P_WAVE,
    QRS,
    SHAPES,
    SPIKE,
    Beat,
    atrial_beat,
    frontal_axis,
    make_heart,
    vary_heart,
    ventricular_beat,
)
from clocs.signals.rhythms import PACED
from clocs.signals.simulation import BREATHING_SWING, Simulation, simulate

LEADS = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V6")


def bump(time: float, start: float, peak: float, end: float) -> float:
    if not start < time < end:
        return 0.0
    distance = (time - peak) / ((peak - start) if time < peak else (end - peak))
    return (1 - distance**2) ** 2


def vector(beat: Beat, time: float) -> list[float]:
    total = [0.0, 0.0, 0.0]
    for (start, peak, end), dipole in zip(beat.times, beat.dipoles, strict=True):
        for axis in range(3):
            total[axis] += dipole[axis] * bump(time, start, peak, end)
    return total


def literal(simulation: Simulation, lead: str, sample: int) -> float:
    """Return a source lead at one sample in microvolt, summed wave by wave."""
    row = {"I": 0, "II": 1, "V1": 2, "V6": 7}[lead]
    total = 0.0
    onsets = [
        (simulation.p[int(ectopic)], at)
        for at, ectopic in zip(simulation.beats.atrial, simulation.beats.atrial_ectopic, strict=True)
    ]
    onsets += [
        (simulation.ventricular[int(kind)], at)
        for at, kind in zip(simulation.beats.ventricular, simulation.beats.kinds, strict=True)
    ]
    for beat, at in onsets:
        seen = vector(beat, (sample - round(at * simulation.sampling_rate)) / simulation.sampling_rate)
        total += sum(simulation.heart.chest[row, axis] * seen[axis] for axis in range(3))
    for at, kind in zip(simulation.beats.ventricular, simulation.beats.kinds, strict=True):
        if kind == PACED and sample == round(at * simulation.sampling_rate) - 1:
            total += float(simulation.heart.chest[row] @ SPIKE)
    return total * 1000


@pytest.mark.parametrize("labels", [("SR",), ("PVC",), ("SR", "PAC", "RVH"), ("SB", "3AVB", "STE-INF"), ("ST", "PACE")])
def test_the_samples_are_the_sum_of_all_waves(labels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clocs.signals.simulation.BREATHING_SWING", 0.0)
    random = np.random.default_rng(3)
    simulation = simulate(labels, make_heart(random), seconds=3, sampling_rate=250, random=random)
    drawn = dict(zip(LEADS, simulation.draw(LEADS, 0.0, random).astype(float), strict=True))
    for lead in ("I", "II", "V1", "V6"):
        expected = [literal(simulation, lead, sample) for sample in range(0, 750, 3)]
        np.testing.assert_allclose(drawn[lead][::3], expected, atol=0.51)
    np.testing.assert_array_equal(drawn["III"], drawn["II"] - drawn["I"])


def test_amplitudes_vary_with_breathing_by_a_few_percent() -> None:
    random = np.random.default_rng(0)
    simulation = simulate(("SR",), make_heart(random), seconds=10, sampling_rate=500, random=random)
    (lead,) = simulation.draw(("II",), 0.0, random).astype(float)
    onsets = simulation.truth().qrs_onsets[:-1]
    peaks = np.array([np.abs(lead[at : at + 50]).max() for at in onsets])
    assert 0 < np.ptp(peaks) / peaks.mean() < 5 * BREATHING_SWING


def test_the_area_of_a_beat_is_the_integral_of_its_vector() -> None:
    beat = ventricular_beat(make_heart(np.random.default_rng(1)), SHAPES["LBBB"], interval=0.8)
    time = np.arange(0, beat.end, 1e-4)
    np.testing.assert_allclose(beat.area(slice(None)), beat.vector(time).sum(axis=1) * 1e-4, atol=1e-6)
    qrs = Beat(beat.times[QRS], beat.dipoles[QRS], beat.duration, beat.duration)
    np.testing.assert_allclose(beat.area(QRS), qrs.vector(time).sum(axis=1) * 1e-4, atol=1e-6)
    assert np.abs(qrs.vector(np.array([-0.001, beat.duration + 1e-6]))).max() == 0


def test_the_axis_is_the_direction_in_the_frontal_plane() -> None:
    for degrees in (-90.0, -30.0, 0.0, 45.0, 120.0):
        one, foot = math.cos(math.radians(degrees)), math.sin(math.radians(degrees)) * math.sqrt(3) / 2
        assert frontal_axis(np.array([one, foot + one / 2])) == pytest.approx(degrees)


def test_a_varied_heart_stays_closest_to_the_original() -> None:
    hearts = [make_heart(np.random.default_rng(seed)) for seed in range(12)]
    again = [vary_heart(heart, np.random.default_rng(100 + seed)) for seed, heart in enumerate(hearts)]
    time = np.arange(0, 0.4, 0.002)
    first, second = (
        np.stack([(heart.chest @ ventricular_beat(heart, SHAPES[""], 0.9).vector(time)).ravel() for heart in group])
        for group in (hearts, again)
    )
    distance = np.linalg.norm(first[:, None] - second[None], axis=2)
    assert (distance.argmin(axis=1) == np.arange(12)).all()
    assert (np.diag(distance) > 0).all()


def test_p_waves_point_left_and_down() -> None:
    for seed in range(50):
        heart = make_heart(np.random.default_rng(seed))
        assert -20 < frontal_axis(DOWER @ atrial_beat(heart, P_WAVE).area(slice(None))) < 110


def test_fibrillation_has_the_right_frequencies() -> None:
    waves = fibrillation(DOWER, 5000, 500, np.random.default_rng(0))
    power = np.abs(np.fft.rfft(waves, axis=1)) ** 2
    hertz = np.fft.rfftfreq(5000, 1 / 500)
    assert power[:, (hertz > 3) & (hertz < 11)].sum() > 0.95 * power.sum()


def test_all_recordings_have_noise_and_some_have_mains_hum() -> None:
    def has_hum(seed: int) -> bool:
        noise = artifacts(8, 5000, 500, (0.25, 0.0), np.random.default_rng(seed))
        assert 0.001 < np.diff(noise, axis=1).std() < 0.05
        power = np.abs(np.fft.rfft(noise, axis=1)) ** 2
        return bool(max(power[0, 500], power[0, 600]) > 50 * np.median(power[0, 400:700]))

    assert 0.1 < np.mean([has_hum(seed) for seed in range(100)]) < 0.4
