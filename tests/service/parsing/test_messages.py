"""Messages transfer recordings exactly, and reject everything else."""

from __future__ import annotations

import asyncio
import io
import struct
from dataclasses import replace

import numpy as np
import pytest

from clocs.core.recording import Recording, missing_value, to_int32
from clocs.core.stated_measurements import StatedMeasurements
from clocs.service.parsing.messages import (
    HEAD,
    MAX_JSON_BYTES,
    MAX_RAW_BYTES,
    ParsedRecording,
    ParseResponse,
    WireError,
    decode_recording,
    encode_recording,
    pack_message,
    read_message,
    receive_message,
)
from tests.conftest import make_recording


def sent(recording: Recording) -> tuple[ParsedRecording, bytes]:
    """A recording as it arrives, through the JSON."""
    told, raw = encode_recording(recording, recording.seconds)
    message = read_message(io.BytesIO(pack_message(ParseResponse(recording=told), len(raw)) + raw))
    assert message is not None
    arrived = ParseResponse.model_validate(message[0]).recording
    assert arrived is not None
    return arrived, message[1]


@pytest.mark.parametrize("wide", [False, True])
def test_a_recording_arrives_exactly(wide: bool) -> None:
    redact = make_recording(("I", "II", "V2"), num_samples=501, sampling_rate=333.25, labels=("AFIB",))
    digital = to_int32(redact.digital) if wide else redact.digital.copy()
    digital[1, 7] = missing_value(digital.dtype)
    recording = replace(
        redact,
        digital=digital,
        gain=np.array([1000.0, 1 / 3, 204.8]),
        baseline=np.array([0, -5, 77], np.int32),
        age=61.0,
        sex="female",
        site="a hospital",
        stated_measurements=StatedMeasurements(heart_rate=61.0, t_axis=-30.0),
        provenance=replace(redact.provenance, format="muse-xml", derived_leads=("II",), notes=("a note",)),
    )
    back = decode_recording(*sent(recording))
    assert np.array_equal(back.digital, recording.digital)
    assert back.digital.dtype == recording.digital.dtype
    assert np.array_equal(back.gain, recording.gain)
    assert np.array_equal(back.baseline, recording.baseline)
    assert (back.sampling_rate, back.leads, back.unit, back.age, back.sex) == (
        333.25,
        ("I", "II", "V2"),
        "mV",
        61.0,
        "female",
    )
    assert back.provenance == recording.provenance
    assert back.stated_measurements == recording.stated_measurements
    assert (back.record_id, back.patient_id, back.site, back.labels) == ("", "", "", ())
    told, _ = encode_recording(recording, recording.seconds, with_patient=True)
    assert told.patient_id == recording.patient_id != ""


def test_mismatched_lengths_are_rejected() -> None:
    told, raw = encode_recording(make_recording(("I",), num_samples=600), 1.2)
    for wrong in (raw[:-2], raw + raw):
        with pytest.raises(WireError):
            decode_recording(told, wrong)
    with pytest.raises(WireError):
        decode_recording(told.model_copy(update={"gain": (1.0, 2.0)}), raw)
    with pytest.raises(WireError):
        decode_recording(told.model_copy(update={"baseline": (2**40,)}), raw)


async def arrived(data: bytes) -> object:
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return await receive_message(stream)


@pytest.mark.parametrize(
    "data",
    [
        HEAD.pack(MAX_JSON_BYTES + 1, 0),
        HEAD.pack(2, MAX_RAW_BYTES + 1),
        HEAD.pack(2, 0) + b"[]",
        HEAD.pack(2, 0) + b"{x",
        HEAD.pack(4000, 0) + b"[" * 4000,
        struct.pack("<II", 2**32 - 1, 2**32 - 1),
    ],
    ids=["long JSON", "many bytes", "a list", "no JSON", "deep", "the longest"],
)
def test_invalid_messages_are_rejected(data: bytes) -> None:
    with pytest.raises(WireError):
        asyncio.run(arrived(data))


def test_a_stream_that_ends_is_noticed() -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        asyncio.run(arrived(HEAD.pack(20, 0) + b"{}"))
    assert read_message(io.BytesIO(b"")) is None
    message = pack_message(ParseResponse(), 10) + b"short"
    assert read_message(io.BytesIO(message)) is None
