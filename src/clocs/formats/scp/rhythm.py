"""The rhythm of an SCP-ECG record: sections 2 to 6 to samples, with everything that compression took out put back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import unpack
from clocs.formats.channels import Channel, gain_from_resolution
from clocs.formats.lead_codes import CALCULATED_LEADS, LEADS
from clocs.formats.scp.huffman import Decoder, read_tables
from clocs.formats.scp.record import Record, Section

SPARE_BYTES: Final = 4 << 20
"""Samples may take four times their section plus this."""
PADDING: Final = 8
"""Bytes that may follow on what was announced: samples have at most one."""
MAX_RELATIVE_SPAN: Final = 16
"""Leads recorded one after another may span so many times the longest of them."""
FIRST_VERSION_WITHOUT_BIMODAL: Final = 30
"""From version 3.0 on, the flag of bimodal compression is reserved."""
MAX_FACTOR: Final = 8
MIN_SAMPLES_PER_BEAT: Final = 8
"""Samples for each heartbeat, at least: a sixth of a second at 50 Hz."""
MAX_OVERLAP: Final = 4
"""Zones of heartbeats may cover the longest lead so many times."""

DigitalValues = npt.NDArray[np.integer[Any]]


class LeadSpan(NamedTuple):
    """A lead of section 3: its number and its samples, counted from 1."""

    number: int
    first: int
    last: int

    @property
    def num_samples(self) -> int:
        return self.last - self.first + 1


class Beat(NamedTuple):
    """A heartbeat of section 4: where the reference beat was taken off, and where all samples are kept."""

    kind: int
    first: int
    fiducial: int
    last: int
    protected: tuple[int, int] = (1, 0)


@dataclass(frozen=True)
class DecodedLeads:
    """Section 5 or 6: the scale, and each lead's numbers."""

    nanovolts: int
    microseconds: int
    leads: list[npt.NDArray[np.int16]]


@dataclass(frozen=True)
class Rhythm:
    """What a record holds, ready for a recording."""

    channels: list[Channel]
    sampling_rate: float
    declared: int
    notes: list[str]


def read_rhythm(record: Record) -> Rhythm:
    """Read the rhythm, never the reference beat alone."""
    spans, subtracted = _lead_spans(record.required_section(3, "the leads").body, record.name)
    section = record.required_section(6, "the rhythm")
    huffman = record.section(2)
    decoder = Decoder(read_tables(huffman.body, record.name), record.name) if huffman else None
    beats, length, fiducial = _read_beats(record)
    if subtracted and not beats:
        raise FormatError(f"{record.name}: names no heartbeats in section 4, where its reference beat was taken off")
    reference = _read_reference_beat(record, spans, decoder, length) if subtracted or _is_bimodal(section) else None
    decimation = _decimation(section.body, reference, record.name)
    _check_claim(sum(span.num_samples for span in spans), section.body, record.name)
    _check_beats(beats, spans, record.name)
    counts = [_num_stored(span, beats, decimation) for span in spans]
    read = _decode_section(section, 6, counts, decoder, record.name)
    if (decimation > 1 or subtracted) and any(
        len(lead) < count for lead, count in zip(read.leads, counts, strict=True)
    ):
        raise FormatError(f"{record.name}: a lead ends before its last sample, and its heartbeats cannot be put back")
    notes = []
    leads: list[DigitalValues] = list(read.leads)
    if decimation > 1:
        notes.append(f"stored at 1/{decimation} of the rate outside the heartbeats, and interpolated there")
        leads = [_interpolate(lead, span, beats, decimation) for lead, span in zip(leads, spans, strict=True)]
    step = read.nanovolts
    if subtracted and reference:
        step = math.gcd(read.nanovolts, reference.nanovolts)
        leads = [
            _add_reference_beat(
                lead, span, beats, fiducial, beat, (read.nanovolts // step, reference.nanovolts // step)
            )
            for lead, span, beat in zip(leads, spans, reference.leads, strict=True)
        ]
    interval = reference.microseconds if reference and decimation > 1 else read.microseconds
    short = sum(len(lead) < span.num_samples for lead, span in zip(leads, spans, strict=True))
    notes += [f"{short} leads hold fewer samples than announced"] if short else []
    channels = _align_leads(spans, leads, gain_from_resolution(step, "nV", record.name), record.name, notes)
    return Rhythm(channels, _rate(interval, record.name), max(span.num_samples for span in spans), notes)


def _lead_spans(body: bytes, name: str) -> tuple[list[LeadSpan], bool]:
    """The leads of section 3, and whether the reference beat was taken off them."""
    count, flags = unpack("<BB", body, 0, name)
    found = []
    for entry in range(count):
        first, last, number = unpack("<IIB", body, 2 + 9 * entry, name)
        if last < max(first, 1):
            raise FormatError(f"{name}: a lead from sample {first} to {last} is none")
        found.append(LeadSpan(number, max(first, 1), last))  # some count from 0, and up to one beyond the last
    if not found:
        raise FormatError(f"{name}: section 3 names no lead")
    return found, bool(flags & 1)


def _is_bimodal(section: Section) -> bool:
    return section.protocol < FIRST_VERSION_WITHOUT_BIMODAL and len(section.body) > 5 and section.body[5] == 1


def _read_beats(record: Record) -> tuple[list[Beat], int, int]:
    """The heartbeats of section 4, the reference beat's length in ms, and its fiducial sample from 1."""
    section = record.section(4)
    if section is None:
        return [], 0, 0
    length, fiducial, count = unpack("<HHH", section.body, 0, record.name)
    whole = 6 + 22 * count <= len(section.body)
    found = []
    for entry in range(count if 6 + 14 * count <= len(section.body) else 0):
        kind, first, middle, last = unpack("<HIII", section.body, 6 + 14 * entry, record.name)
        begin, end = unpack("<II", section.body, 6 + 14 * count + 8 * entry, record.name) if whole else (1, 0)
        found.append(Beat(kind, first, middle, last, (begin, end)))
    return found, length, fiducial


def _check_beats(beats: Sequence[Beat], spans: Sequence[LeadSpan], name: str) -> None:
    """Heartbeats that no lead has room for would be added up for hours."""
    first, last = min(span.first for span in spans), max(span.last for span in spans)
    covered = sum(max(0, min(beat.last, last) - max(beat.first, first) + 1) for beat in beats)
    longest = max(span.num_samples for span in spans)
    if len(beats) * MIN_SAMPLES_PER_BEAT > longest or covered > MAX_OVERLAP * longest:
        raise FormatError(f"{name}: {len(beats)} heartbeats are more than {longest} samples have room for")


def _read_reference_beat(
    record: Record, spans: Sequence[LeadSpan], decoder: Decoder | None, length: int
) -> DecodedLeads:
    """The reference beat of section 5."""
    section = record.required_section(5, "the reference beat that was taken off the rhythm, or gives its rate")
    _, interval = unpack("<HH", section.body, 0, record.name)
    num_samples = round(1000 * length / interval) if interval else 0
    return _decode_section(section, 5, [num_samples] * len(spans), decoder, record.name)


def _decimation(body: bytes, reference: DecodedLeads | None, name: str) -> int:
    """How many samples one outside the heartbeats stands for: the rhythm's interval over the reference beat's."""
    if reference is None:
        return 1
    _, interval = unpack("<HH", body, 0, name)
    ratio = interval / reference.microseconds if reference.microseconds else 0.0
    decimation = round(ratio)
    if not 1 <= decimation <= MAX_FACTOR or abs(ratio - decimation) > 0.01:
        raise FormatError(f"{name}: intervals of {interval} and {reference.microseconds} us do not go together")
    return decimation


def _segments(span: LeadSpan, beats: Sequence[Beat]) -> Iterator[tuple[bool, int]]:
    """The lead in turn outside and inside of protected zones: whether inside, and how many samples."""
    at = span.first
    for first, last in sorted(beat.protected for beat in beats):
        first, last = max(first, at), min(last, span.last)
        if first <= last:
            yield False, first - at
            yield True, last - first + 1
            at = last + 1
    yield False, span.last - at + 1


def _num_stored(span: LeadSpan, beats: Sequence[Beat], decimation: int) -> int:
    """How many samples are stored of a lead: outside the zones one for so many, and the rest of them as it is."""
    if decimation == 1:
        return span.num_samples
    return sum(
        length if inside else length // decimation + length % decimation for inside, length in _segments(span, beats)
    )


def _interpolate(stored: DigitalValues, span: LeadSpan, beats: Sequence[Beat], decimation: int) -> DigitalValues:
    """A lead at its full rate; a sample that stands for several is the one in their middle."""
    full = np.zeros(span.num_samples, np.int32)
    at, taken = 0, 0
    for inside, length in _segments(span, beats):
        groups = 0 if inside else length // decimation
        if groups:
            middles = np.arange(groups) * decimation + decimation // 2
            values = np.interp(np.arange(groups * decimation), middles, stored[taken : taken + groups])
            full[at : at + groups * decimation] = np.rint(values)
        rest = length - groups * decimation
        full[at + groups * decimation : at + length] = stored[taken + groups : taken + groups + rest]
        at, taken = at + length, taken + groups + rest
    return full


def _add_reference_beat(
    residual: DigitalValues,
    span: LeadSpan,
    beats: Sequence[Beat],
    fiducial: int,
    beat: DigitalValues,
    scales: tuple[int, int],
) -> DigitalValues:
    """A lead with the reference beat put back at every heartbeat of its kind, both in steps of one size."""
    full = residual.astype(np.int64) * scales[0]
    added = beat.astype(np.int64) * scales[1]
    for zone in beats:
        start = zone.fiducial - fiducial + 1  # the sample that the reference beat's first one belongs to
        first, last = max(zone.first, span.first, start), min(zone.last, span.last, start + len(added) - 1)
        if zone.kind == 0 and first <= last:
            full[first - span.first : last - span.first + 1] += added[first - start : last - start + 1]
    return full


def _decode_section(
    section: Section, number: int, counts: list[int], decoder: Decoder | None, name: str
) -> DecodedLeads:
    body = section.body
    nanovolts, interval, order = unpack("<HHB", body, 0, name)
    if order > 2:
        raise FormatError(f"{name}: section {number} holds differences of order {order}; 0, 1 and 2 there are")
    sizes = list(unpack(f"<{len(counts)}H", body, 6, name))
    _check_claim(sum(counts), body, name)
    data = body[6 + 2 * len(counts) :]
    leads, surplus = _read_huffman(data, sizes, counts, decoder) if decoder else _read_plain(data, sizes, counts)
    if number == 6 and surplus > PADDING:
        raise FormatError(f"{name}: holds {surplus} bytes more of a lead or of leads than it announces")
    if decoder and number == 6 and any(len(lead) < count for lead, count in zip(leads, counts, strict=True)):
        raise FormatError(f"{name}: the Huffman code of a lead ends before its last sample; the file is damaged")
    return DecodedLeads(nanovolts, interval, [_integrate(lead, order) for lead in leads])


def _check_claim(num_samples: int, body: bytes, name: str) -> None:
    if 2 * num_samples > 4 * len(body) + SPARE_BYTES:
        raise FormatError(f"{name}: claims {num_samples} samples, more than {len(body)} bytes are trusted to hold")


def _read_plain(data: bytes, sizes: list[int], counts: list[int]) -> tuple[list[npt.NDArray[np.int16]], int]:
    """16-bit samples, and the bytes beyond. A lead of over 64 KiB overflows its count of bytes: its samples give it."""
    expected = [2 * count for count in counts]
    if sum(sizes) != len(data) and sum(expected) in (len(data), len(data) - 1):
        sizes = expected
    leads, at = [], 0
    for size, count in zip(sizes, counts, strict=True):
        piece = data[at : at + min(size, 2 * count)]
        leads.append(np.frombuffer(piece[: len(piece) // 2 * 2], "<i2").astype(np.int16))
        at += size
    surplus = [size - 2 * count for size, count in zip(sizes, counts, strict=True)]
    return leads, max(len(data) - at, *surplus)


def _read_huffman(
    data: bytes, sizes: list[int], counts: list[int], decoder: Decoder
) -> tuple[list[npt.NDArray[np.int16]], int]:
    """Huffman-coded numbers, each lead from the first table on, and bytes beyond them, unless a count overflowed."""
    overflows = sum(sizes) + (1 << 16) <= len(data)
    leads, at, surplus = [], 0, 0
    for size, count in zip(sizes, counts, strict=True):
        lead, used = decoder.decode(data[at:] if overflows else data[at : at + size], count)
        leads.append(lead)
        at += size + (max(used - size, 0) + 0xFFFF & ~0xFFFF if overflows else 0)
        surplus = max(surplus, size - used)
    return leads, 0 if overflows else max(surplus, len(data) - at)


def _integrate(values: npt.NDArray[np.int16], order: int) -> npt.NDArray[np.int16]:
    """Samples from their differences, in the 16 bits that encoders have, so that what overflowed there comes back."""
    if order == 1:
        return np.cumsum(values, dtype=np.int16)
    if order == 2 and len(values) > 1:
        slopes = values.copy()
        slopes[1:2] -= values[:1]  # the first two are samples
        slopes[1:] = np.cumsum(slopes[1:], dtype=np.int16)
        return np.cumsum(slopes, dtype=np.int16)
    return values


def _rate(interval: int, name: str) -> float:
    """Hz. An interval is rounded to whole microseconds: 1667 means 600 Hz."""
    if not interval:
        raise FormatError(f"{name}: a sampling interval of 0 us is none")
    whole = round(1e6 / interval)
    return float(whole) if whole and round(1e6 / whole) == interval else 1e6 / interval


def _align_leads(
    spans: Sequence[LeadSpan], leads: Sequence[DigitalValues], gain: float, name: str, notes: list[str]
) -> list[Channel]:
    """Leads on one time axis; where one was not recorded, its samples are missing."""
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
    notes += [f"{calculated} leads are said to be calculated from others"] if calculated else []
    return [_align_lead(span, lead, first, num_total, gain) for span, lead in zip(spans, leads, strict=True)]


def _align_lead(span: LeadSpan, lead: DigitalValues, first: int, num_total: int, gain: float) -> Channel:
    name = LEADS.get(span.number) or CALCULATED_LEADS.get(span.number, "ECG")
    if len(lead) == num_total:
        return Channel(name, lead, gain)
    at = span.first - first
    steps = np.zeros(num_total, lead.dtype)
    steps[at : at + len(lead)] = lead
    missing = np.ones(num_total, np.bool_)
    missing[at : at + len(lead)] = False
    return Channel(name, steps, gain, missing=missing)
