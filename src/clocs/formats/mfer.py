"""Read MFER (ISO 22077-1) of Japanese devices: definitions as tag, length and value, and the samples they describe."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.byte_fields import make_identity
from clocs.formats.channels import MAX_CHANNELS, SKEW_NOTE, Channel, gain_from_resolution, recording_from_channels
from clocs.formats.demographics import MAX_AGE, Demographics, Sex, age_at
from clocs.formats.lead_codes import LEADS
from clocs.formats.reading import Format

NAME: Final = "mfer"
ORDER, CODING, BLOCK, CHANNELS, SEQUENCES, WAVEFORM, LEAD, TYPE = 0x01, 0x03, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0A
INTERVAL, RESOLUTION, OFFSET, COMPRESSION, MISSING_VALUE, SAMPLES, ATTRIBUTES = 0x0B, 0x0C, 0x0D, 0x0E, 0x12, 0x1E, 0x3F
PREAMBLE, END = 0x40, 0x80
PATIENT_NAME, PATIENT_ID, AGE, SEX, DATETIME, UNIQUE_ID = 0x81, 0x82, 0x83, 0x84, 0x85, 0x87
NOTE, MANUFACTURER, EVENT, SKEW, MESSAGE = 0x16, 0x17, 0x41, 0x43, 0x86
PADDING: Final = re.compile(rb"\0*")
MAX_DEFINITIONS: Final = 100_000
MAX_FRAMES: Final = 1000
TYPES: Final = {0: "i2", 1: "u2", 2: "i4", 3: "u1", 4: "u2", 5: "i1"}
"""Integer types by code. Code 4 contains status bits, not a signal."""
VOLT, HERTZ, SECONDS = 0, 0, 1
ECG_WAVEFORMS: Final = range(1, 9)
DOMINANT_BEAT: Final = 9
MONITOR_LEADS: Final = range(4166, 4170)
"""Codes of the channels ECG 1 to 4 of a Holter."""
SEXES: Final[dict[int, Sex]] = {1: "male", 2: "female"}
EVENT_TEXT_OFFSET: Final = 10

Endian = Literal["big", "little"]


@dataclass(frozen=True)
class _Frame:
    """A block of samples, with the definitions that apply to it."""

    order: Endian
    """Byte order."""
    common_tags: dict[int, bytes]
    """Definitions for all channels, by tag."""
    channel_tags: dict[int, dict[int, bytes]]
    """Definitions for single channels, by channel and tag."""
    start: int
    """Offset of the first byte of the samples."""
    stop: int
    """Offset after the last byte of the samples."""

    def value(self, channel: int, tag: int) -> bytes:
        shared = self.common_tags.get(tag, b"") if tag != LEAD or channel == 0 else b""
        return self.channel_tags.get(channel, {}).get(tag, shared)

    def number(self, channel: int, tag: int, default: int, *, signed: bool = False) -> int:
        value = self.value(channel, tag)
        return int.from_bytes(value[:4], self.order, signed=signed) if value else default

    def scaled(self, channel: int, tag: int) -> tuple[int, float] | None:
        """Return the code of a unit and a number in this unit, which is stored as mantissa and power of ten."""
        value = self.value(channel, tag)
        if len(value) < 3:
            return None
        power = int.from_bytes(value[1:2], "big", signed=True)
        return value[0], int.from_bytes(value[2:6], self.order, signed=True) * 10.0**power

    def waveform(self, channel: int) -> int:
        """Return the waveform code of two bytes. A description may follow it."""
        return int.from_bytes(self.value(channel, WAVEFORM)[:2], self.order)

    @property
    def channels(self) -> int:
        return self.number(-1, CHANNELS, 1)


@dataclass
class _Contents:
    frame: _Frame | None = None
    """Longest frame that is not an averaged beat."""
    frames: int = 0
    """Number of frames."""
    metadata: list[tuple[int, bytes, Endian, str]] = field(default_factory=list)
    """Definitions that do not describe samples: tag, value, byte order and text encoding."""

    def texts(self, tag: int, skipped: int = 0) -> list[str]:
        return [_text(value[skipped:], coding) for found, value, _, coding in self.metadata if found == tag]


def _matches(head: bytes, source: Source, name: str) -> bool:
    return head[:1] == bytes([PREAMBLE]) and head[2:6] == b"MFR "


def _definitions(raw: bytes, offset: int, stop: int, name: str) -> Iterator[tuple[int, int, int, int]]:
    """Iterate over tag, channel (-1 for all channels), and start and end offset of the value of each definition."""
    while offset < stop and raw[offset] != END:
        tag, channel, offset = raw[offset], -1, offset + 1
        if tag == 0:
            offset = PADDING.match(raw, offset).end()  # type: ignore[union-attr]  # It also matches no bytes.
            continue
        if tag == ATTRIBUTES:
            channel, offset = 0, offset + 1
            while offset <= stop:
                channel = channel << 7 | raw[offset - 1] & 0x7F
                if raw[offset - 1] < 0x80 or channel > MAX_CHANNELS:
                    break
                offset += 1
        length = raw[offset] if offset < stop else 0
        offset += 1
        if length == 0x80 or length > 0x84:
            raise FormatError(f"{name}: a length of {length & 0x7F} bytes at byte {offset} is not supported")
        if length > 0x80:
            count = length & 0x7F
            length, offset = int.from_bytes(raw[offset : offset + count], "big"), offset + count
        if offset + length > stop:
            raise FormatError(f"{name}: breaks off; {length} bytes at {offset} are beyond its {stop}")
        yield tag, channel, offset, offset + length
        offset += length


def _contents(raw: bytes, name: str) -> _Contents:
    found = _Contents()
    order: Endian = "big"
    coding = "ascii"
    common_tags: dict[int, bytes] = {}
    channel_tags: dict[int, dict[int, bytes]] = {}
    for number, (tag, channel, start, stop) in enumerate(_definitions(raw, 0, len(raw), name)):
        if number >= MAX_DEFINITIONS or found.frames >= MAX_FRAMES:
            raise FormatError(f"{name}: more than {MAX_DEFINITIONS} definitions or {MAX_FRAMES} frames are not read")
        if tag == SAMPLES:
            _keep_longest(found, _Frame(order, common_tags, channel_tags, start, stop))
        elif tag == ATTRIBUTES:
            nested = channel_tags.setdefault(channel, {})
            nested.update({inner: raw[first:last] for inner, _, first, last in _definitions(raw, start, stop, name)})
        elif tag == ORDER:
            order = "little" if raw[start:stop] == b"\1" else "big"
        elif tag == CODING:
            coding = _codec(raw[start:stop])
        elif tag < PREAMBLE and tag not in (NOTE, MANUFACTURER):
            common_tags[tag] = raw[start:stop]
            channel_tags = {} if tag == CHANNELS else channel_tags
        else:
            found.metadata.append((tag, raw[start:stop], order, coding))
    return found


def _keep_longest(found: _Contents, frame: _Frame) -> None:
    if frame.waveform(-1) == DOMINANT_BEAT:
        return
    found.frames += 1
    if found.frame is None or frame.stop - frame.start > found.frame.stop - found.frame.start:
        channel_tags = {channel: dict(tags) for channel, tags in frame.channel_tags.items()}
        found.frame = replace(frame, common_tags=dict(frame.common_tags), channel_tags=channel_tags)


def _codec(value: bytes) -> str:
    try:
        return codecs.lookup(value.decode("ascii", "replace").strip("\0 ")).name
    except (LookupError, ValueError):
        return "ascii"


def _text(value: bytes, coding: str) -> str:
    try:
        text = value.decode(coding)
    except (UnicodeError, LookupError):
        text = value.decode("latin-1")
    return text.partition("\0")[0].strip()


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    contents = _contents(raw, name)
    if contents.frame is None:
        raise FormatError(f"{name}: no frame of samples; an averaged beat is not a recording")
    channels, sampling_rate, declared, notes = _channels(raw, contents.frame, name)
    notes += [f"left out {contents.frames - 1} shorter frames"] if contents.frames > 1 else []
    skews = [value for tag, value, _, _ in contents.metadata if tag == SKEW]
    skews += [tags[SKEW] for tags in contents.frame.channel_tags.values() if SKEW in tags]
    notes += [SKEW_NOTE] if any(map(any, skews)) else []
    return recording_from_channels(
        channels,
        sampling_rate,
        raw,
        name,
        NAME,
        demographics=_demographics(contents),
        num_declared_samples=declared,
        notes=notes,
    )


def _channels(raw: bytes, frame: _Frame, name: str) -> tuple[list[Channel], float, int | None, list[str]]:
    """Return the ECG channels of the most common sampling rate, this rate, the declared length, and notes."""
    layout, size = _channel_layout(frame, name)
    num_sequences = (frame.stop - frame.start) // size
    if (frame.stop - frame.start) % size:
        raise FormatError(f"{name}: its samples are not complete sequences of {size} bytes; the file is damaged")
    declared = frame.number(-1, SEQUENCES, 0)
    data = np.frombuffer(raw, np.uint8, num_sequences * size, frame.start).reshape(num_sequences, size)
    leads = {channel: lead for channel in layout if (lead := _lead(frame, channel))}
    if not leads:
        raise FormatError(f"{name}: none of its {len(layout)} channels is an ECG")
    rates = {channel: _rate(frame, channel, name) for channel in leads}
    sampling_rate = max(rates.values(), key=lambda rate: (list(rates.values()).count(rate), rate))
    kept = [channel for channel in leads if rates[channel] == sampling_rate]
    notes = [f"left out {len(layout) - len(leads)} channels that are not ECG"] if len(layout) > len(leads) else []
    notes += [f"left out {len(leads) - len(kept)} ECG channels of other rates"] if len(leads) > len(kept) else []
    channels = [_channel(data, frame, channel, layout[channel], leads[channel], name) for channel in kept]
    num_declared_samples = declared * frame.number(kept[0], BLOCK, 1) if declared else None
    return channels, sampling_rate, num_declared_samples, notes


def _channel_layout(frame: _Frame, name: str) -> tuple[dict[int, tuple[int, int, str]], int]:
    """Return start, end and type of each channel within a sequence, and the length of a sequence in bytes."""
    if frame.number(-1, COMPRESSION, 0):
        raise FormatError(f"{name}: compressed MFER is not supported")
    if not 1 <= frame.channels <= MAX_CHANNELS:
        raise FormatError(f"{name}: {frame.channels} channels; expected 1 to {MAX_CHANNELS}")
    layout, start = {}, 0
    for channel in range(frame.channels):
        code = frame.number(channel, TYPE, 0)
        if code not in TYPES:
            raise FormatError(f"{name}: samples of MFER type {code} are not supported; supported: {sorted(TYPES)}")
        end = start + frame.number(channel, BLOCK, 1) * np.dtype(TYPES[code]).itemsize
        layout[channel] = (start, end, TYPES[code])
        start = end
    if not 0 < start <= frame.stop - frame.start:
        raise FormatError(
            f"{name}: breaks off; a sequence has {start} bytes, but only {frame.stop - frame.start} bytes follow"
        )
    return layout, start


def _lead(frame: _Frame, channel: int) -> str | None:
    """Return the lead of a channel, or None if it is not an ECG."""
    resolution = frame.scaled(channel, RESOLUTION)
    code = int.from_bytes(frame.value(channel, LEAD)[:2], frame.order)
    if resolution is None or resolution[0] != VOLT or not frame.number(channel, BLOCK, 1):
        return None
    if code in LEADS:
        return LEADS[code]
    return "ECG" if code in MONITOR_LEADS or frame.waveform(channel) in ECG_WAVEFORMS else None


def _rate(frame: _Frame, channel: int, name: str) -> float:
    unit, number = frame.scaled(channel, INTERVAL) or (-1, 0.0)
    if unit not in (HERTZ, SECONDS) or number <= 0:
        raise FormatError(f"{name}: a channel states no sampling rate in Hz and no interval in seconds")
    # Rounding removes floating-point errors: 4 * 10**-3 is not exactly 0.004.
    return number if unit == HERTZ else float(f"{1 / number:.12g}")


def _channel(
    data: npt.NDArray[np.uint8], frame: _Frame, channel: int, layout: tuple[int, int, str], lead: str, name: str
) -> Channel:
    first, last, kind = layout
    dtype: np.dtype[np.integer[Any]] = np.dtype(("<" if frame.order == "little" else ">") + kind)
    digital = np.ascontiguousarray(data[:, first:last]).view(dtype).reshape(-1)
    _, resolution = frame.scaled(channel, RESOLUTION) or (VOLT, 0.0)
    signed = dtype.kind == "i"
    missing_marker = frame.value(channel, MISSING_VALUE)
    missing = (
        digital == int.from_bytes(missing_marker[: dtype.itemsize], frame.order, signed=signed)
        if missing_marker
        else None
    )
    offset = frame.number(channel, OFFSET, 0, signed=True)
    return Channel(lead, digital, gain_from_resolution(resolution, "V", name), -offset, missing)


def _demographics(contents: _Contents) -> Demographics:
    birth, acquired = _birth(contents), _acquired(contents)
    stated = next((value[0] for tag, value, _, _ in contents.metadata if tag == AGE and value), 255)
    sex = next((value[0] for tag, value, _, _ in contents.metadata if tag == SEX and value), 0)
    age = float(stated) if stated <= MAX_AGE else age_at(birth, acquired.date() if acquired else None)
    return Demographics(age, SEXES.get(sex))


def _birth(contents: _Contents) -> date | None:
    """Return the date of birth, which follows the age in years and days."""
    for tag, value, order, _ in contents.metadata:
        if tag == AGE and len(value) >= 7:
            try:
                return date(int.from_bytes(value[3:5], order), value[5], value[6])
            except ValueError:
                return None
    return None


def _acquired(contents: _Contents) -> datetime | None:
    for tag, value, order, _ in contents.metadata:
        if tag == DATETIME and len(value) >= 7:
            try:
                return datetime(int.from_bytes(value[:2], order), *value[2:7])
            except ValueError:
                return None
    return None


def _read_identity(source: Source, name: str) -> Identity:
    contents = _contents(source.read(name), name)
    birth, acquired = _birth(contents), _acquired(contents)
    manufacturers = [text.split("^") for text in contents.texts(MANUFACTURER)]
    return make_identity(
        patient_name=contents.texts(PATIENT_NAME),
        patient_id=contents.texts(PATIENT_ID),
        birth_date=[birth.isoformat() if birth else ""],
        acquired=[acquired.isoformat() if acquired else ""],
        device_serial=[parts[3] for parts in manufacturers if len(parts) > 3],
        order=contents.texts(UNIQUE_ID),
        free_text=[*contents.texts(NOTE), *contents.texts(MESSAGE), *contents.texts(EVENT, EVENT_TEXT_OFFSET)],
    )


MFER = Format(NAME, "MFER (ISO 22077) of Nihon Kohden and others", _matches, _read, _read_identity)
