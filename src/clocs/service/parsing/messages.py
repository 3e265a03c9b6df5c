"""How the service and its parsing processes talk: a length, JSON, and raw bytes. Never pickle."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Annotated, Any, BinaryIO, Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.recording import Provenance, Recording
from clocs.service.parsing.confinement import Confinement

HEAD: Final = struct.Struct("<II")
"""Lengths of the JSON and of the raw bytes."""
MOST_JSON: Final = 1 << 20
MOST_RAW: Final = 64 << 20
MOST_LEADS: Final = 256
MOST_VALUES: Final = 1 << 23
"""Samples over all leads that leave a parsing process: twelve leads of ten minutes at 1 kHz, and some more."""

Message = tuple[dict[str, Any], bytes]


class WireError(Exception):
    """The other side says what it cannot mean; it is not trusted any further."""


class Start(BaseModel):
    """What a parsing process is given once."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory_bytes: int
    cpu_seconds: float
    confinement: Confinement


class Ask(BaseModel):
    """One upload to parse; its files follow as raw bytes, one after another."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    files: tuple[tuple[str, int], ...]
    """Names and bytes."""
    want: Literal["recording", "beginning", "png", "pdf"]
    """A whole recording, or refused if too long; its beginning; its beginning drawn."""
    seconds: float
    """The longest recording, or how much of it."""


class Told(BaseModel):
    """A recording's own words; its samples follow as raw bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    leads: Annotated[tuple[str, ...], Field(min_length=1, max_length=MOST_LEADS)]
    gain: tuple[float, ...]
    baseline: tuple[int, ...]
    dtype: Literal["int16", "int32"]
    num_samples: int = Field(ge=1, le=MOST_VALUES)
    sampling_rate: float = Field(gt=0)
    unit: Literal["mV", "adu"]
    age: float | None
    sex: Literal["female", "male"] | None
    provenance: Provenance
    seconds: float = Field(gt=0)
    """Of the whole recording, of which the samples may be the beginning."""


class Failure(BaseModel):
    """Why an upload was not parsed, in words that are safe to repeat."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    error: Literal["FormatError", "LeadError", "SignalError", "MissingExtraError", "MemoryError", "unexpected"]
    message: str = Field(max_length=4000)
    place: str = Field(default="", max_length=200)
    """Of an unexpected error: its type and where in the code."""


class Answer(BaseModel):
    """What a parsing process says to an ``Ask``: a recording, a drawing (raw bytes alone) or a failure.

    The first one says that it is ready, or why it could not be confined.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    told: Told | None = None
    failure: Failure | None = None


def told_of(recording: Recording, seconds: float) -> tuple[Told, bytes]:
    """What is sent of a recording; its ids, site and labels are not."""
    told = Told(
        leads=recording.leads,
        gain=tuple(recording.gain.tolist()),
        baseline=tuple(recording.baseline.tolist()),
        dtype="int16" if recording.digital.dtype == np.int16 else "int32",
        num_samples=recording.num_samples,
        sampling_rate=recording.sampling_rate,
        unit=recording.unit,
        age=recording.age,
        sex=recording.sex,
        provenance=recording.provenance,
        seconds=seconds,
    )
    return told, recording.digital.tobytes()


def recording_of(told: Told, raw: bytes) -> Recording:
    """The recording as it was sent; lengths that do not fit are refused."""
    values = np.frombuffer(raw, told.dtype)
    if values.size != len(told.leads) * told.num_samples:
        raise WireError("samples do not fit the leads")
    try:
        return Recording(
            digital=values.reshape(len(told.leads), told.num_samples),
            gain=np.array(told.gain, np.float64),
            baseline=np.array(told.baseline, np.int32),
            sampling_rate=told.sampling_rate,
            leads=told.leads,
            unit=told.unit,
            age=told.age,
            sex=told.sex,
            provenance=told.provenance,
        )
    except (ValueError, OverflowError) as error:
        raise WireError("not a recording") from error


def packed(body: BaseModel, raw_bytes: int = 0) -> bytes:
    """The beginning of a message, after which its raw bytes follow."""
    text = body.model_dump_json().encode()
    return HEAD.pack(len(text), raw_bytes) + text


def read_message(stream: BinaryIO) -> Message | None:
    """The next message of a blocking stream; None at its end."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    json_bytes, raw_bytes = HEAD.unpack(head)
    text, raw = stream.read(json_bytes), stream.read(raw_bytes)
    return (_parsed(text), raw) if len(raw) == raw_bytes else None


async def receive_message(stream: asyncio.StreamReader) -> Message:
    """The next message; one that is too long is refused before it is read."""
    json_bytes, raw_bytes = _lengths(await stream.readexactly(HEAD.size))
    text = await stream.readexactly(json_bytes)
    return _parsed(text), await stream.readexactly(raw_bytes)


def _lengths(head: bytes) -> tuple[int, int]:
    json_bytes, raw_bytes = HEAD.unpack(head)
    if json_bytes > MOST_JSON or raw_bytes > MOST_RAW:
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
