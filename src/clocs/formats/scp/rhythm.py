"""Decode the rhythm of an SCP-ECG record from sections 2 to 6: Huffman codes, differences, and reference beats."""

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
"""Number of bytes that the samples may take in addition to four times the size of their section."""
PADDING: Final = 8
"""Maximum number of bytes after the declared samples."""
MAX_RELATIVE_SPAN: Final = 16
"""Maximum duration of all leads, as a multiple of the longest lead. Leads may be recorded one after another."""
FIRST_VERSION_WITHOUT_BIMODAL: Final = 30
"""Version, times ten, from which the flag of bimodal compression is reserved."""
MAX_FACTOR: Final = 8
"""Maximum decimation outside the heartbeats."""
MIN_SAMPLES_PER_BEAT: Final = 8
"""Minimum number of samples per heartbeat: a sixth of a second at 50 Hz."""
MAX_OVERLAP: Final = 4
"""Maximum number of samples in all heartbeats, as a multiple of the longest lead."""

DigitalValues = npt.NDArray[np.integer[Any]]


class LeadSpan(NamedTuple):
    """A lead of section 3. Samples count from 1."""

    number: int
    """Number of the lead in ``lead_codes``."""
    first: int
    """First sample."""
    last: int
    """Last sample."""

    @property
    def num_samples(self) -> int:
        return self.last - self.first + 1


class Beat(NamedTuple):
    """A heartbeat of section 4. Samples count from 1."""

    kind: int
    """Type of the beat. The reference beat was subtracted from beats of type 0."""
    first: int
    """First sample from which the reference beat was subtracted."""
    fiducial: int
    """Sample that is aligned with the fiducial point of the reference beat."""
    last: int
    """Last sample from which the reference beat was subtracted."""
    protected: tuple[int, int] = (1, 0)
    """First and last sample of the zone that is stored at the full sampling rate."""


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
    beats, length, fiducial = _read_beats(record)
    if is_subtracted and not beats:
        raise FormatError(f"{record.name}: section 4 does not list the heartbeats that lack the reference beat")
    reference = _read_reference_beat(record, spans, decoder, length) if is_subtracted or _is_bimodal(section) else None
    decimation = _decimation(section.body, reference, record.name)
    _check_claim(sum(span.num_samples for span in spans), section.body, record.name)
    _check_beats(beats, spans, record.name)
    counts = [_num_stored(span, beats, decimation) for span in spans]
    decoded = _decode_section(section, 6, counts, decoder, record.name)
    is_short = any(len(lead) < count for lead, count in zip(decoded.leads, counts, strict=True))
    if is_short and (decimation > 1 or is_subtracted):
        raise FormatError(f"{record.name}: a lead ends before its last sample, so it cannot be decompressed")
    notes = []
    leads: list[DigitalValues] = list(decoded.leads)
    if decimation > 1:
        notes.append(f"stored at 1/{decimation} of the rate outside the heartbeats, and interpolated there")
        leads = [_interpolate(lead, span, beats, decimation) for lead, span in zip(leads, spans, strict=True)]
    resolution = decoded.nanovolts
    if is_subtracted and reference:
        resolution = math.gcd(decoded.nanovolts, reference.nanovolts)
        scales = (decoded.nanovolts // resolution, reference.nanovolts // resolution)
        leads = [
            _add_reference_beat(lead, span, beats, fiducial, beat, scales)
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


def _read_beats(record: Record) -> tuple[list[Beat], int, int]:
    """Return the heartbeats of section 4, the length of the reference beat in ms, and its fiducial sample from 1."""
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
    """Raise an error if the heartbeats do not fit in the leads. Otherwise adding them could take hours."""
    first, last = min(span.first for span in spans), max(span.last for span in spans)
    covered = sum(max(0, min(beat.last, last) - max(beat.first, first) + 1) for beat in beats)
    longest = max(span.num_samples for span in spans)
    if len(beats) * MIN_SAMPLES_PER_BEAT > longest or covered > MAX_OVERLAP * longest:
        raise FormatError(f"{name}: {len(beats)} heartbeats do not fit in {longest} samples")


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


def _segments(span: LeadSpan, beats: Sequence[Beat]) -> Iterator[tuple[bool, int]]:
    """Iterate over the segments outside and inside of protected zones: whether inside, and the number of samples."""
    start = span.first
    for first, last in sorted(beat.protected for beat in beats):
        first, last = max(first, start), min(last, span.last)
        if first <= last:
            yield False, first - start
            yield True, last - first + 1
            start = last + 1
    yield False, span.last - start + 1


def _num_stored(span: LeadSpan, beats: Sequence[Beat], decimation: int) -> int:
    """Return the number of stored samples of a lead. Complete groups outside the protected zones are decimated."""
    if decimation == 1:
        return span.num_samples
    return sum(
        length if inside else length // decimation + length % decimation for inside, length in _segments(span, beats)
    )


def _interpolate(stored: DigitalValues, span: LeadSpan, beats: Sequence[Beat], decimation: int) -> DigitalValues:
    """Return a lead at its full sampling rate. A decimated sample is the middle one of its group."""
    full = np.zeros(span.num_samples, np.int32)
    start, num_used = 0, 0
    for inside, length in _segments(span, beats):
        groups = 0 if inside else length // decimation
        if groups:
            middles = np.arange(groups) * decimation + decimation // 2
            values = np.interp(np.arange(groups * decimation), middles, stored[num_used : num_used + groups])
            full[start : start + groups * decimation] = np.rint(values)
        rest = length - groups * decimation
        full[start + groups * decimation : start + length] = stored[num_used + groups : num_used + groups + rest]
        start, num_used = start + length, num_used + groups + rest
    return full


def _add_reference_beat(
    residual: DigitalValues,
    span: LeadSpan,
    beats: Sequence[Beat],
    fiducial: int,
    beat: DigitalValues,
    scales: tuple[int, int],
) -> DigitalValues:
    """Add the reference beat to a lead at every heartbeat of type 0, after scaling both to one resolution."""
    full = residual.astype(np.int64) * scales[0]
    added = beat.astype(np.int64) * scales[1]
    for zone in beats:
        start = zone.fiducial - fiducial + 1  # Sample that is aligned with the first one of the reference beat.
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
