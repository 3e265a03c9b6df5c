"""Messages between the service and its parsing processes: lengths, JSON and raw bytes, never pickle."""

from __future__ import annotations

import asyncio
import json
import struct
from datetime import datetime
from typing import Annotated, Any, BinaryIO, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.recording import Provenance, Recording
from clocs.core.stated_measurements import StatedMeasurements, plausible_measurements
from clocs.drawing.print_sheet import Paper, SheetText
from clocs.service.parsing.confinement import Confinement

HEAD: Final = struct.Struct("<II")
"""Lengths of the JSON and of the raw bytes."""
MAX_JSON_BYTES: Final = 1 << 20
MAX_RAW_BYTES: Final = 64 << 20
MAX_LEADS: Final = 256
MAX_ID_LENGTH: Final = 1000
MAX_SAMPLES: Final = 1 << 23
"""Maximum number of samples over all leads: somewhat more than twelve leads of ten minutes at 1 kHz."""

Message = tuple[dict[str, Any], bytes]


class WireError(Exception):
    """An invalid message. Its sender is no longer trusted."""


class Start(BaseModel):
    """Settings that a parsing process receives once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_bytes: int
    cpu_seconds: float
    confinement: Confinement


class SheetRequest(BaseModel):
    """Range, paper and text of sheets to print."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    paper: Paper
    start: float
    seconds: float
    text: SheetText


class ParsedRecording(BaseModel):
    """Metadata of a recording. The samples follow as raw bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    leads: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_LEADS)]
    gain: tuple[float, ...]
    baseline: tuple[int, ...]
    dtype: Literal["int16", "int32"]
    num_samples: int = Field(ge=1, le=MAX_SAMPLES)
    sampling_rate: float = Field(gt=0)
    unit: Literal["mV", "adu"]
    age: float | None
    sex: Literal["female", "male"] | None
    stated_measurements: StatedMeasurements = StatedMeasurements()
    """Measurements that the file states."""
    provenance: Provenance
    patient_id: str = Field(default="", max_length=MAX_ID_LENGTH)
    """Id of the patient; empty unless it was requested."""
    acquired: datetime | None = None
    """Date and time of the recording; None unless it was requested."""
    seconds: float = Field(gt=0)
    """Duration of the whole recording in seconds; the samples may be its beginning."""


class ParseRequest(BaseModel):
    """A request to parse one upload, or to draw a recording. The files, or the samples, follow as raw bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: tuple[tuple[str, int], ...] = ()
    """Names and sizes in bytes of the upload's files."""
    recording: ParsedRecording | None = None
    """A recording that was read before, instead of files."""
    output: Literal["recording", "dated", "identified", "beginning", "png", "pdf", "sheets"]
    """Requested output: the whole recording, also with its time (``dated``), or with its time and its patient's id
    (``identified``); its beginning; a picture of its beginning; or sheets to print."""
    seconds: float
    """Maximum duration of a whole recording, or duration of the beginning, in seconds."""
    sheet: SheetRequest | None = None
    """Sheets to print."""


class Failure(BaseModel):
    """Reason why an upload was not parsed, safe to be sent to the client."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    error: Literal["FormatError", "LeadError", "SignalError", "MemoryError", "unexpected"]
    message: str = Field(max_length=4000)
    place: str = Field(default="", max_length=200)
    """Type and code location of an unexpected error."""


class ParseResponse(BaseModel):
    """Response to a ``ParseRequest``: a recording, a picture (raw bytes only) or a failure.

    The first response reports that the process is ready, or why it could not be confined.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    recording: ParsedRecording | None = None
    failure: Failure | None = None


def encode_recording(
    recording: Recording, seconds: float, *, with_patient: bool = False, with_time: bool = False
) -> tuple[ParsedRecording, bytes]:
    """Return metadata and samples of a recording, without site and labels; id of the patient and time if asked for."""
    metadata = ParsedRecording(
        leads=recording.leads,
        gain=tuple(recording.gain.tolist()),
        baseline=tuple(recording.baseline.tolist()),
        dtype="int16" if recording.digital.dtype == np.int16 else "int32",
        num_samples=recording.num_samples,
        sampling_rate=recording.sampling_rate,
        unit=recording.unit,
        age=recording.age,
        sex=recording.sex,
        stated_measurements=recording.stated_measurements,
        provenance=recording.provenance,
        patient_id=recording.patient_id if with_patient else "",
        acquired=recording.acquired if with_time else None,
        seconds=seconds,
    )
    return metadata, recording.digital.tobytes()


def decode_recording(metadata: ParsedRecording, raw: bytes) -> Recording:
    """Return the recording of a message.

    Raises:
        WireError: The metadata and the samples do not match.
    """
    values = np.frombuffer(raw, metadata.dtype)
    if values.size != len(metadata.leads) * metadata.num_samples:
        raise WireError("samples do not match the leads")
    try:
        return Recording(
            digital=values.reshape(len(metadata.leads), metadata.num_samples),
            gain=np.array(metadata.gain, np.float64),
            baseline=np.array(metadata.baseline, np.int32),
            sampling_rate=metadata.sampling_rate,
            leads=metadata.leads,
            unit=metadata.unit,
            age=metadata.age,
            sex=metadata.sex,
            stated_measurements=plausible_measurements(metadata.stated_measurements.values()),
            provenance=metadata.provenance,
            patient_id=metadata.patient_id,
            acquired=metadata.acquired,
        )
    except (ValueError, OverflowError) as error:
        raise WireError("not a recording") from error


def pack_message(body: BaseModel, raw_bytes: int = 0) -> bytes:
    """Return the head and JSON of a message; its raw bytes follow."""
    text = body.model_dump_json().encode()
    return HEAD.pack(len(text), raw_bytes) + text


def read_message(stream: BinaryIO) -> Message | None:
    """Read the next message from a blocking stream; None at its end."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    json_bytes, raw_bytes = HEAD.unpack(head)
    text, raw = stream.read(json_bytes), stream.read(raw_bytes)
    return (_parsed(text), raw) if len(raw) == raw_bytes else None


async def receive_message(stream: asyncio.StreamReader) -> Message:
    """Receive the next message. A message that is too long raises an error before it is read."""
    json_bytes, raw_bytes = _lengths(await stream.readexactly(HEAD.size))
    text = await stream.readexactly(json_bytes)
    return _parsed(text), await stream.readexactly(raw_bytes)


def _lengths(head: bytes) -> tuple[int, int]:
    json_bytes, raw_bytes = HEAD.unpack(head)
    if json_bytes > MAX_JSON_BYTES or raw_bytes > MAX_RAW_BYTES:
        raise WireError("a message is too long")
    return json_bytes, raw_bytes


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError("not JSON") from error
    if not isinstance(body, dict):
        raise WireError("not an object")
    return body
