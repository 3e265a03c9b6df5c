"""Recordings from channels: types, units, names and invalid channels."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.formats.channels import MAX_CHANNELS, Channel, gain_from_resolution, millivolts, recording_from_channels
from clocs.formats.demographics import Demographics


def channel(
    lead: str = "I", digital_values: tuple[int, ...] = (1, 2, 3), gain: float = 200.0, baseline: int = 0
) -> Channel:
    return Channel(lead, np.array(digital_values, np.int64), gain, baseline)


def read_example(
    *channels: Channel, sampling_rate: float = 500.0, name: str = "in/rec.1.xml", declared: int | None = None
) -> Recording:
    return recording_from_channels(
        channels,
        sampling_rate,
        b"raw",
        name,
        "form",
        num_declared_samples=declared,
        notes=["message"],
        demographics=Demographics(5.0, "male"),
    )


@given(st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=1, max_size=20))
def test_digital_values_of_any_size_are_unchanged(digital_values: list[int]) -> None:
    recording = read_example(
        channel(digital_values=tuple(digital_values)), channel("II", tuple(range(len(digital_values))))
    )
    assert recording.digital.tolist() == [digital_values, list(range(len(digital_values)))]
    wide = max(digital_values) > 2**15 - 1 or min(digital_values) < -(2**15) + 1
    assert recording.digital.dtype == (np.int32 if wide else np.int16)
    assert not np.isnan(recording.physical()).any()


def test_fields_of_the_recording() -> None:
    recording = read_example(channel("avr"), channel("avr", baseline=4), channel("", gain=-1.0), declared=7)
    assert recording.leads == ("aVR", "aVR 2", "ECG")
    assert (recording.gain.tolist(), recording.baseline.tolist()) == ([200.0, 200.0, -1.0], [0, 4, 0])
    assert (recording.record_id, recording.age, recording.sex, recording.patient_id) == ("rec.1", 5.0, "male", "")
    about = recording.provenance
    assert (about.source, about.format, about.num_declared_samples, about.notes) == (
        "in/rec.1.xml",
        "form",
        7,
        ("message",),
    )
    assert about.sha256 == hashlib.sha256(b"raw").hexdigest()


@pytest.mark.parametrize(("declared", "kept"), [(None, None), (0, None), (-3, None), (10**12, 10**12), (10**30, None)])
def test_implausible_declared_length_is_ignored(declared: int | None, kept: int | None) -> None:
    assert read_example(channel(), declared=declared).provenance.num_declared_samples == kept


@pytest.mark.parametrize(
    ("channels", "sampling_rate", "message"),
    [
        ((), 500.0, "0 leads"),
        ((channel(),) * (MAX_CHANNELS + 1), 500.0, "257 leads"),
        ((channel(),), 0.0, "rate of 0 Hz"),
        ((channel(),), float("nan"), "rate of nan Hz"),
        ((channel(),), 1e9, "rate of 1e\\+09 Hz"),
        ((channel(), channel("II", (1,))), 500.0, "differ in length, 1 to 3"),
        ((channel(digital_values=()),), 500.0, "holds no sample"),
        ((channel(gain=0.0),), 500.0, "a gain of 0 per mV"),
        ((channel(gain=float("inf")),), 500.0, "a gain of inf per mV"),
        ((channel(baseline=2**31),), 500.0, "out of range"),
        ((channel(digital_values=(2**31,)),), 500.0, "do not fit 32 bits"),
    ],
)
def test_invalid_channels_are_rejected(channels: tuple[Channel, ...], sampling_rate: float, message: str) -> None:
    with pytest.raises(FormatError, match=rf"rec\.1\.xml: .*{message}"):
        read_example(*channels, sampling_rate=sampling_rate)


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        ("uV", 1e-3),
        ("µV", 1e-3),
        ("MICROVOLTS", 1e-3),
        (" mv ", 1.0),
        ("V", 1e3),
        ("nV", 1e-6),
        ("mm", None),
        ("", None),
    ],
)
def test_size_of_units_in_millivolt(unit: str, size: float | None) -> None:
    assert millivolts(unit) == size


def test_gain_from_resolution() -> None:
    assert gain_from_resolution(5, "uV", "x") == pytest.approx(200.0)
    assert gain_from_resolution(-2.5, "uV", "x") == pytest.approx(-400.0)
    for step, unit in ((0.0, "uV"), (1.0, "kg"), (float("nan"), "uV"), (1e-300, "uV"), (1e300, "V")):
        with pytest.raises(FormatError, match=r"x: a resolution of .* is not a voltage"):
            gain_from_resolution(step, unit, "x")


def test_long_lead_name_is_truncated() -> None:
    assert read_example(channel("L" * 1000)).leads == ("L" * 40,)


def test_missing_samples_are_marked_without_a_wider_type() -> None:
    digital_values = np.array([1, -(2**15), 3], np.int16)
    recording = read_example(Channel("I", digital_values, 200.0, missing=digital_values == -(2**15)), channel("II"))
    assert recording.digital.dtype == np.int16
    assert np.isnan(recording.physical()).tolist() == [[False, True, False], [False] * 3]
    assert read_example(Channel("I", digital_values, 200.0)).digital.tolist() == [[1, -(2**15), 3]], (
        "a valid value unless it is marked as missing"
    )


@pytest.mark.parametrize(
    ("name", "record_id"), [("1.2.840.113619", "1.2.840.113619"), ("a/b.c.dcm", "b.c"), ("a", "a")]
)
def test_record_id_from_file_name(name: str, record_id: str) -> None:
    assert read_example(channel(), name=name).record_id == record_id
