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
from clocs.formats.channels import Channel, gain_of
from clocs.formats.lead_codes import CALCULATED, LEADS
from clocs.formats.scp.huffman import Decoder, tables
from clocs.formats.scp.record import Record, Section

SPARE_BYTES: Final = 4 << 20
"""Samples may take four times their section plus this."""
PADDING: Final = 8
"""Bytes that may follow on what was announced: samples have at most one."""
MAX_SPAN: Final = 16
"""Leads recorded one after another may span so many times the longest of them."""
BIMODAL_UNTIL: Final = 30
"""From version 3.0 on, the flag of bimodal compression is reserved."""
MAX_FACTOR: Final = 8
MIN_BEAT: Final = 8
"""Samples for each heartbeat, at least: a sixth of a second at 50 Hz."""
MAX_OVERLAP: Final = 4
"""Zones of heartbeats may cover the longest lead so many times."""

Steps = npt.NDArray[np.integer[Any]]


class LeadPlace(NamedTuple):
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
class Coded:
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


def rhythm_of(record: Record) -> Rhythm:
    """Read the rhythm, never the reference beat alone."""
    places, subtracted = _places(record.needed(3, "the leads").body, record.name)
    coded = record.needed(6, "the rhythm")
    huffman = record.section(2)
    decoder = Decoder(tables(huffman.body, record.name), record.name) if huffman else None
    beats, length, fiducial = _beats(record)
    if subtracted and not beats:
        raise FormatError(f"{record.name}: names no heartbeats in section 4, where its reference beat was taken off")
    reference = _reference(record, places, decoder, length) if subtracted or _bimodal(coded) else None
    factor = _factor(coded.body, reference, record.name)
    _check_claim(sum(place.num_samples for place in places), coded.body, record.name)
    _check_beats(beats, places, record.name)
    counts = [_stored(place, beats, factor) for place in places]
    read = _coded(coded, 6, counts, decoder, record.name)
    if (factor > 1 or subtracted) and any(len(lead) < count for lead, count in zip(read.leads, counts, strict=True)):
        raise FormatError(f"{record.name}: a lead ends before its last sample, and its heartbeats cannot be put back")
    notes = []
    leads: list[Steps] = list(read.leads)
    if factor > 1:
        notes.append(f"stored at 1/{factor} of the rate outside the heartbeats, and interpolated there")
        leads = [_expanded(lead, place, beats, factor) for lead, place in zip(leads, places, strict=True)]
    step = read.nanovolts
    if subtracted and reference:
        step = math.gcd(read.nanovolts, reference.nanovolts)
        leads = [
            _restored(lead, place, beats, fiducial, beat, (read.nanovolts // step, reference.nanovolts // step))
            for lead, place, beat in zip(leads, places, reference.leads, strict=True)
        ]
    interval = reference.microseconds if reference and factor > 1 else read.microseconds
    short = sum(len(lead) < place.num_samples for lead, place in zip(leads, places, strict=True))
    notes += [f"{short} leads hold fewer samples than announced"] if short else []
    channels = _aligned(places, leads, gain_of(step, "nV", record.name), record.name, notes)
    return Rhythm(channels, _rate(interval, record.name), max(place.num_samples for place in places), notes)


def _places(body: bytes, name: str) -> tuple[list[LeadPlace], bool]:
    """The leads of section 3, and whether the reference beat was taken off them."""
    count, flags = unpack("<BB", body, 0, name)
    found = []
    for entry in range(count):
        first, last, number = unpack("<IIB", body, 2 + 9 * entry, name)
        if last < max(first, 1):
            raise FormatError(f"{name}: a lead from sample {first} to {last} is none")
        found.append(LeadPlace(number, max(first, 1), last))  # some count from 0, and up to one beyond the last
    if not found:
        raise FormatError(f"{name}: section 3 names no lead")
    return found, bool(flags & 1)


def _bimodal(section: Section) -> bool:
    return section.protocol < BIMODAL_UNTIL and len(section.body) > 5 and section.body[5] == 1


def _beats(record: Record) -> tuple[list[Beat], int, int]:
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


def _check_beats(beats: Sequence[Beat], places: Sequence[LeadPlace], name: str) -> None:
    """Heartbeats that no lead has room for would be added up for hours."""
    first, last = min(place.first for place in places), max(place.last for place in places)
    covered = sum(max(0, min(beat.last, last) - max(beat.first, first) + 1) for beat in beats)
    longest = max(place.num_samples for place in places)
    if len(beats) * MIN_BEAT > longest or covered > MAX_OVERLAP * longest:
        raise FormatError(f"{name}: {len(beats)} heartbeats are more than {longest} samples have room for")


def _reference(record: Record, places: Sequence[LeadPlace], decoder: Decoder | None, length: int) -> Coded:
    """The reference beat of section 5."""
    section = record.needed(5, "the reference beat that was taken off the rhythm, or gives its rate")
    _, interval = unpack("<HH", section.body, 0, record.name)
    num_samples = round(1000 * length / interval) if interval else 0
    return _coded(section, 5, [num_samples] * len(places), decoder, record.name)


def _factor(body: bytes, reference: Coded | None, name: str) -> int:
    """How many samples one outside the heartbeats stands for: the rhythm's interval over the reference beat's."""
    if reference is None:
        return 1
    _, interval = unpack("<HH", body, 0, name)
    ratio = interval / reference.microseconds if reference.microseconds else 0.0
    factor = round(ratio)
    if not 1 <= factor <= MAX_FACTOR or abs(ratio - factor) > 0.01:
        raise FormatError(f"{name}: intervals of {interval} and {reference.microseconds} us do not go together")
    return factor


def _stretches(place: LeadPlace, beats: Sequence[Beat]) -> Iterator[tuple[bool, int]]:
    """The lead in turn outside and inside of protected zones: whether inside, and how many samples."""
    at = place.first
    for first, last in sorted(beat.protected for beat in beats):
        first, last = max(first, at), min(last, place.last)
        if first <= last:
            yield False, first - at
            yield True, last - first + 1
            at = last + 1
    yield False, place.last - at + 1


def _stored(place: LeadPlace, beats: Sequence[Beat], factor: int) -> int:
    """How many samples are stored of a lead: outside the zones one for so many, and the rest of them as it is."""
    if factor == 1:
        return place.num_samples
    return sum(length if inside else length // factor + length % factor for inside, length in _stretches(place, beats))


def _expanded(stored: Steps, place: LeadPlace, beats: Sequence[Beat], factor: int) -> Steps:
    """A lead at its full rate; a sample that stands for several is the one in their middle."""
    full = np.zeros(place.num_samples, np.int32)
    at, taken = 0, 0
    for inside, length in _stretches(place, beats):
        groups = 0 if inside else length // factor
        if groups:
            middles = np.arange(groups) * factor + factor // 2
            values = np.interp(np.arange(groups * factor), middles, stored[taken : taken + groups])
            full[at : at + groups * factor] = np.rint(values)
        rest = length - groups * factor
        full[at + groups * factor : at + length] = stored[taken + groups : taken + groups + rest]
        at, taken = at + length, taken + groups + rest
    return full


def _restored(
    residual: Steps, place: LeadPlace, beats: Sequence[Beat], fiducial: int, beat: Steps, scales: tuple[int, int]
) -> Steps:
    """A lead with the reference beat put back at every heartbeat of its kind, both in steps of one size."""
    full = residual.astype(np.int64) * scales[0]
    added = beat.astype(np.int64) * scales[1]
    for zone in beats:
        start = zone.fiducial - fiducial + 1  # the sample that the reference beat's first one belongs to
        first, last = max(zone.first, place.first, start), min(zone.last, place.last, start + len(added) - 1)
        if zone.kind == 0 and first <= last:
            full[first - place.first : last - place.first + 1] += added[first - start : last - start + 1]
    return full


def _coded(section: Section, number: int, counts: list[int], decoder: Decoder | None, name: str) -> Coded:
    body = section.body
    nanovolts, interval, order = unpack("<HHB", body, 0, name)
    if order > 2:
        raise FormatError(f"{name}: section {number} holds differences of order {order}; 0, 1 and 2 there are")
    sizes = list(unpack(f"<{len(counts)}H", body, 6, name))
    _check_claim(sum(counts), body, name)
    data = body[6 + 2 * len(counts) :]
    leads, surplus = _huffman(data, sizes, counts, decoder) if decoder else _plain(data, sizes, counts)
    if number == 6 and surplus > PADDING:
        raise FormatError(f"{name}: holds {surplus} bytes more of a lead or of leads than it announces")
    if decoder and number == 6 and any(len(lead) < count for lead, count in zip(leads, counts, strict=True)):
        raise FormatError(f"{name}: the Huffman code of a lead ends before its last sample; the file is damaged")
    return Coded(nanovolts, interval, [_summed(lead, order) for lead in leads])


def _check_claim(num_samples: int, body: bytes, name: str) -> None:
    if 2 * num_samples > 4 * len(body) + SPARE_BYTES:
        raise FormatError(f"{name}: claims {num_samples} samples, more than {len(body)} bytes are trusted to hold")


def _plain(data: bytes, sizes: list[int], counts: list[int]) -> tuple[list[npt.NDArray[np.int16]], int]:
    """16-bit samples, and the bytes beyond. A lead of over 64 KiB overflows its count of bytes: its samples give it."""
    expected = [2 * count for count in counts]
    if sum(sizes) != len(data) and sum(expected) in (len(data), len(data) - 1):
        sizes = expected
    leads, at = [], 0
    for size, count in zip(sizes, counts, strict=True):
        piece = data[at : at + min(size, 2 * count)]
        leads.append(np.frombuffer(piece[: len(piece) // 2 * 2], "<i2").astype(np.int16))
        at += size
    beyond = [size - 2 * count for size, count in zip(sizes, counts, strict=True)]
    return leads, max(len(data) - at, *beyond)


def _huffman(
    data: bytes, sizes: list[int], counts: list[int], decoder: Decoder
) -> tuple[list[npt.NDArray[np.int16]], int]:
    """Huffman-coded numbers, each lead from the first table on, and bytes beyond them, unless a count overflowed."""
    overflows = sum(sizes) + (1 << 16) <= len(data)
    leads, at, beyond = [], 0, 0
    for size, count in zip(sizes, counts, strict=True):
        lead, used = decoder.decode(data[at:] if overflows else data[at : at + size], count)
        leads.append(lead)
        at += size + (max(used - size, 0) + 0xFFFF & ~0xFFFF if overflows else 0)
        beyond = max(beyond, size - used)
    return leads, 0 if overflows else max(beyond, len(data) - at)


def _summed(values: npt.NDArray[np.int16], order: int) -> npt.NDArray[np.int16]:
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


def _aligned(
    places: Sequence[LeadPlace], leads: Sequence[Steps], gain: float, name: str, notes: list[str]
) -> list[Channel]:
    """Leads on one time axis; where one was not recorded, its samples are missing."""
    first = min(place.first for place in places)
    ends = [place.first + len(lead) for place, lead in zip(places, leads, strict=True)]
    span = max(ends) - first
    if span > MAX_SPAN * max(map(len, leads)) or span * len(leads) > MAX_SPAN * sum(map(len, leads)):
        raise FormatError(f"{name}: its leads are too far apart to belong together")
    if any(place.first != first or end != max(ends) for place, end in zip(places, ends, strict=True)):
        notes.append("its leads do not cover the same time; the rest is missing")
    calculated = sum(place.number in CALCULATED for place in places)
    notes += [f"{calculated} leads are said to be calculated from others"] if calculated else []
    return [_placed(place, lead, first, span, gain) for place, lead in zip(places, leads, strict=True)]


def _placed(place: LeadPlace, lead: Steps, first: int, span: int, gain: float) -> Channel:
    name = LEADS.get(place.number) or CALCULATED.get(place.number, "ECG")
    if len(lead) == span:
        return Channel(name, lead, gain)
    at = place.first - first
    steps = np.zeros(span, lead.dtype)
    steps[at : at + len(lead)] = lead
    missing = np.ones(span, np.bool_)
    missing[at : at + len(lead)] = False
    return Channel(name, steps, gain, missing=missing)
