"""Previews reproduce the recording to half a step."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from clocs.core.recording import Recording, missing_value
from clocs.service.replies import preview_json
from clocs.service.schemas import Preview
from tests.conftest import make_recording


def shown(recording: Recording) -> Preview:
    return Preview.model_validate_json(preview_json(recording, recording.seconds))


def test_values_are_those_of_the_recording() -> None:
    recording = make_recording(("I", "II", "aVR"), num_samples=700)
    found = shown(recording)
    assert [lead.name for lead in found.leads] == ["I", "II", "aVR"]
    assert found.signal.scale == {"I": 0.001, "II": 0.001, "aVR": 0.001}
    for lead, row in zip(recording.leads, recording.physical(), strict=True):
        assert np.abs(np.array(found.signal.samples[lead]) * found.signal.scale[lead] - row).max() <= 0.0005 + 1e-6


def test_an_artefact_in_one_lead_leaves_the_others_fine() -> None:
    recording = make_recording(("I", "II"), num_samples=600)
    digital = recording.digital.astype(np.int32)
    digital[0, 5] = 400 * recording.gain[0]
    found = shown(replace(recording, digital=digital))
    assert found.signal.scale["I"] > 0.01
    assert found.signal.scale["II"] == 0.001


def test_a_missing_sample_is_marked() -> None:
    recording = make_recording(("I",), num_samples=600)
    digital = recording.digital.copy()
    digital[0, 5] = missing_value(digital.dtype)
    found = shown(replace(recording, digital=digital))
    assert found.signal.samples["I"][5] == found.signal.missing
    assert found.signal.samples["I"].count(found.signal.missing) == 1


@pytest.mark.parametrize(("unit", "peak"), [("mV", 30.0), ("mV", 400.0), ("adu", 30_000.0), ("adu", 8_000_000.0)])
def test_large_values_get_a_coarser_scale(unit: str, peak: float) -> None:
    values = np.array([[-peak, 0, peak / 2, peak]])
    gain = 1000.0 if unit == "mV" else 1.0
    recording = replace(
        make_recording(("I",), num_samples=4),
        digital=np.rint(values * gain).astype(np.int32),
        gain=np.array([gain]),
        unit=unit,  # type: ignore[arg-type]
    )
    found = shown(recording)
    numbers = np.array(found.signal.samples["I"])
    assert found.signal.missing not in numbers
    assert np.abs(numbers).max() <= 32767
    scale = found.signal.scale["I"]
    assert np.abs(numbers * scale - values[0]).max() <= scale


def test_a_name_cannot_break_out_of_the_json() -> None:
    recording = replace(make_recording(("I",), num_samples=600), leads=('"]}<script>',))
    assert list(json.loads(preview_json(recording, 1.2))["signal"]["samples"]) == ['"]}<script>']
