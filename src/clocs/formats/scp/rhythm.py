"""Decode the rhythm of an SCP-ECG record from sections 2 to 6: Huffman codes, differences, and reference beats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import unpack
from clocs.formats.channels import Channel, DigitalValues, gain_from_resolution
from clocs.formats.lead_codes import CALCULATED_LEADS, LEADS
from clocs.formats.scp.beats import (
    LeadSpan,
    add_reference_beat,
    check_beats,
    interpolate,
    num_stored,
    read_beats,
)
from clocs.formats.scp.huffman import Decoder, read_tables
from clocs.formats.scp.record import Record, Section

SPARE_BYTES: Final = 4 << 20
"""Number of bytes that the samples may take in addition to four times the size of their section."""
PADDING: Final = 8
"""Maximum number of bytes after the declared samples."""
MAX_RELATIVE_SPAN: Final = 16
"""Maximum duration of all leads, as a multiple of the longest lead. Leads may be recorded one after another."""
FIRST_VERSION_WITHOUT_BIMODAL: Final = 30
"""Version, times ten, from which the flag of bimodal compression is reserved."""
MAX_FACTOR: Final = 8
"""Maximum decimation outside the heartbeats."""


@dataclass(frozen=True)
class DecodedLeads:
    """Decoded leads of section 5 or 6."""

    nanovolts: int
    """Size of one digital unit."""
    microseconds: int
    """Sampling interval."""
    leads: list[npt.NDArray[np.int16]]
    """Digital values of each lead."""


@dataclass(frozen=True)
class Rhythm:
    """Decoded rhythm of a record."""

    channels: list[Channel]
    """Channels of equal length."""
    sampling_rate: float
    """Sampling rate in Hz."""
    num_declared_samples: int
    """Length of the longest lead in section 3."""
    notes: list[str]
    """Notes on how the record was decoded."""


def read_rhythm(record: Record) -> Rhythm:
    """Decode the rhythm of a record. A reference beat alone is not a rhythm."""
    spans, is_subtracted = _lead_spans(record.required_section(3, "the leads").body, record.name)
    section = record.required_section(6, "the rhythm")
    huffman = record.section(2)
    decoder = Decoder(read_tables(huffman.body, record.name), record.name) if huffman else None
    beats, length, fiducial = read_beats(record)
    if is_subtracted and not beats:
        raise FormatError(f"{record.name}: section 4 does not list the heartbeats that lack the reference beat")
    reference = _read_reference_beat(record, spans, decoder, length) if is_subtracted or _is_bimodal(section) else None
    decimation = _decimation(section.body, reference, record.name)
    _check_claim(sum(span.num_samples for span in spans), section.body, record.name)
    check_beats(beats, spans, record.name)
    counts = [num_stored(span, beats, decimation) for span in spans]
    decoded = _decode_section(section, 6, counts, decoder, record.name)
    is_short = any(len(lead) < count for lead, count in zip(decoded.leads, counts, strict=True))
    if is_short and (decimation > 1 or is_subtracted):
        raise FormatError(f"{record.name}: a lead ends before its last sample, so it cannot be decompressed")
    notes = []
    leads: list[DigitalValues] = list(decoded.leads)
    if decimation > 1:
        notes.append(f"stored at 1/{decimation} of the rate outside the heartbeats, and interpolated there")
        leads = [interpolate(lead, span, beats, decimation) for lead, span in zip(leads, spans, strict=True)]
    resolution = decoded.nanovolts
    if is_subtracted and reference:
        resolution = math.gcd(decoded.nanovolts, reference.nanovolts)
        scales = (decoded.nanovolts // resolution, reference.nanovolts // resolution)
        leads = [
            add_reference_beat(lead, span, beats, fiducial, beat, scales)
            for lead, span, beat in zip(leads, spans, reference.leads, strict=True)
        ]
    interval = reference.microseconds if reference and decimation > 1 else decoded.microseconds
    num_short = sum(len(lead) < span.num_samples for lead, span in zip(leads, spans, strict=True))
    notes += [f"{num_short} leads hold fewer samples than declared"] if num_short else []
    channels = _align_leads(spans, leads, gain_from_resolution(resolution, "nV", record.name), record.name, notes)
    return Rhythm(channels, _rate(interval, record.name), max(span.num_samples for span in spans), notes)


def _lead_spans(body: bytes, name: str) -> tuple[list[LeadSpan], bool]:
    """Return the leads of section 3, and whether the reference beat was subtracted from them."""
    count, flags = unpack("<BB", body, 0, name)
    spans = []
    for entry in range(count):
        first, last, number = unpack("<IIB", body, 2 + 9 * entry, name)
        if last < max(first, 1):
            raise FormatError(f"{name}: a lead from sample {first} to {last} is invalid")
        spans.append(LeadSpan(number, max(first, 1), last))  # Some writers count from 0, with an exclusive end.
    if not spans:
        raise FormatError(f"{name}: section 3 lists no leads")
    return spans, bool(flags & 1)


def _is_bimodal(section: Section) -> bool:
    return section.protocol < FIRST_VERSION_WITHOUT_BIMODAL and len(section.body) > 5 and section.body[5] == 1


def _read_reference_beat(
    record: Record, spans: Sequence[LeadSpan], decoder: Decoder | None, length: int
) -> DecodedLeads:
    """Decode the reference beat of section 5."""
    section = record.required_section(5, "the reference beat")
    _, interval = unpack("<HH", section.body, 0, record.name)
    num_samples = round(1000 * length / interval) if interval else 0
    return _decode_section(section, 5, [num_samples] * len(spans), decoder, record.name)


def _decimation(body: bytes, reference: DecodedLeads | None, name: str) -> int:
    """Return the decimation outside the heartbeats: the sampling interval of the rhythm over that of the beat."""
    if reference is None:
        return 1
    _, interval = unpack("<HH", body, 0, name)
    ratio = interval / reference.microseconds if reference.microseconds else 0.0
    decimation = round(ratio)
    if not 1 <= decimation <= MAX_FACTOR or abs(ratio - decimation) > 0.01:
        raise FormatError(f"{name}: intervals of {interval} and {reference.microseconds} us do not match")
    return decimation


def _decode_section(
    section: Section, number: int, counts: list[int], decoder: Decoder | None, name: str
) -> DecodedLeads:
    body = section.body
    nanovolts, interval, order = unpack("<HHB", body, 0, name)
    if order > 2:
        raise FormatError(f"{name}: section {number} holds differences of order {order}; expected 0, 1 or 2")
    sizes = list(unpack(f"<{len(counts)}H", body, 6, name))
    _check_claim(sum(counts), body, name)
    data = body[6 + 2 * len(counts) :]
    leads, surplus = _read_huffman(data, sizes, counts, decoder) if decoder else _read_plain(data, sizes, counts)
    if number == 6 and surplus > PADDING:
        raise FormatError(f"{name}: holds {surplus} bytes more than it declares")
    if decoder and number == 6 and any(len(lead) < count for lead, count in zip(leads, counts, strict=True)):
        raise FormatError(f"{name}: the Huffman code of a lead ends before its last sample; the file is damaged")
    return DecodedLeads(nanovolts, interval, [_integrate(lead, order) for lead in leads])


def _check_claim(num_samples: int, body: bytes, name: str) -> None:
    if 2 * num_samples > 4 * len(body) + SPARE_BYTES:
        raise FormatError(f"{name}: claims {num_samples} samples, more than {len(body)} bytes are trusted to hold")


def _read_plain(data: bytes, sizes: list[int], counts: list[int]) -> tuple[list[npt.NDArray[np.int16]], int]:
    """Return 16-bit samples, and the number of surplus bytes.

    The declared size of a lead overflows at 64 KiB; its number of samples is then used instead.
    """
    expected = [2 * count for count in counts]
    if sum(sizes) != len(data) and sum(expected) in (len(data), len(data) - 1):
        sizes = expected
    leads, start = [], 0
    for size, count in zip(sizes, counts, strict=True):
        chunk = data[start : start + min(size, 2 * count)]
        leads.append(np.frombuffer(chunk[: len(chunk) // 2 * 2], "<i2").astype(np.int16))
        start += size
    surplus = [size - 2 * count for size, count in zip(sizes, counts, strict=True)]
    return leads, max(len(data) - start, *surplus)


def _read_huffman(
    data: bytes, sizes: list[int], counts: list[int], decoder: Decoder
) -> tuple[list[npt.NDArray[np.int16]], int]:
    """Decode Huffman codes. Return the leads, and the number of surplus bytes unless a declared size overflows."""
    overflows = sum(sizes) + (1 << 16) <= len(data)
    leads, start, surplus = [], 0, 0
    for size, count in zip(sizes, counts, strict=True):
        lead, used = decoder.decode(data[start:] if overflows else data[start : start + size], count)
        leads.append(lead)
        start += size + (max(used - size, 0) + 0xFFFF & ~0xFFFF if overflows else 0)
        surplus = max(surplus, size - used)
    return leads, 0 if overflows else max(surplus, len(data) - start)


def _integrate(values: npt.NDArray[np.int16], order: int) -> npt.NDArray[np.int16]:
    """Integrate differences in 16 bits, so that an overflow of the encoder is reversed."""
    if order == 1:
        return np.cumsum(values, dtype=np.int16)
    if order == 2 and len(values) > 1:
        slopes = values.copy()
        slopes[1:2] -= values[:1]  # The first two values are samples.
        slopes[1:] = np.cumsum(slopes[1:], dtype=np.int16)
        return np.cumsum(slopes, dtype=np.int16)
    return values


def _rate(interval: int, name: str) -> float:
    """Return the sampling rate in Hz. Intervals are rounded to microseconds, so 1667 means 600 Hz."""
    if not interval:
        raise FormatError(f"{name}: a sampling interval of 0 us is invalid")
    whole = round(1e6 / interval)
    return float(whole) if whole and round(1e6 / whole) == interval else 1e6 / interval


def _align_leads(
    spans: Sequence[LeadSpan], leads: Sequence[DigitalValues], gain: float, name: str, notes: list[str]
) -> list[Channel]:
    """Align the leads on one time axis. Samples outside the span of a lead are missing."""
    first = min(span.first for span in spans)
    ends = [span.first + len(lead) for span, lead in zip(spans, leads, strict=True)]
    num_total = max(ends) - first
    if num_total > MAX_RELATIVE_SPAN * max(map(len, leads)) or num_total * len(leads) > MAX_RELATIVE_SPAN * sum(
        map(len, leads)
    ):
        raise FormatError(f"{name}: its leads are too far apart to belong together")
    if any(span.first != first or end != max(ends) for span, end in zip(spans, ends, strict=True)):
        notes.append("its leads do not cover the same time; the rest is missing")
    calculated = sum(span.number in CALCULATED_LEADS for span in spans)
    notes += [f"{calculated} leads are stated to be calculated from others"] if calculated else []
    return [_align_lead(span, lead, first, num_total, gain) for span, lead in zip(spans, leads, strict=True)]


def _align_lead(span: LeadSpan, lead: DigitalValues, first: int, num_total: int, gain: float) -> Channel:
    name = LEADS.get(span.number) or CALCULATED_LEADS.get(span.number, "ECG")
    if len(lead) == num_total:
        return Channel(name, lead, gain)
    start = span.first - first
    digital = np.zeros(num_total, lead.dtype)
    digital[start : start + len(lead)] = lead
    missing = np.ones(num_total, np.bool_)
    missing[start : start + len(lead)] = False
    return Channel(name, digital, gain, missing=missing)
