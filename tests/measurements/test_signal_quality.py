"""Tests of signal quality: waves without beats. Faults of leads are tested with the gate of classes."""

from __future__ import annotations

import numpy as np
import pytest

from clocs.measurements.signal_quality import MAX_WAVE_LEAKAGE, assess_signal, wave_leakage
from tests.signals.faulty_recordings import sinus_rhythm


@pytest.mark.parametrize("frequency", [3.0, 5.0, 8.0])
def test_a_sine_has_little_leakage(frequency: float) -> None:
    """Next to none: 1.5 s need not have whole periods, and half a period is rounded to samples."""
    wave = np.sin(2 * np.pi * frequency * np.arange(5000) / 500)
    assert wave_leakage(wave[None].astype(np.float32), 500) < 0.5 * MAX_WAVE_LEAKAGE


def test_beats_have_leakage() -> None:
    recording = sinus_rhythm()
    assert wave_leakage(recording.physical().astype(np.float32), recording.sampling_rate) > 1.5 * MAX_WAVE_LEAKAGE
    quality = assess_signal(recording)
    assert (quality.faults, quality.has_waves_only) == ({}, False)
    assert quality.measurements.heart_rate.value == pytest.approx(68, abs=2)


def test_excluded_leads_are_not_judged() -> None:
    recording = sinus_rhythm()
    assert assess_signal(recording, excluded=recording.leads).measurements.heart_rate.value is None
    assert assess_signal(recording, excluded=("V1",)).measurements.leads == tuple(
        lead for lead in recording.leads if lead != "V1"
    )
