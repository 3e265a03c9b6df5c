"""Restore the heartbeats of an SCP-ECG record: decimation between them, and subtraction of the reference beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import unpack
from clocs.formats.channels import DigitalValues
from clocs.formats.scp.record import Record

MIN_SAMPLES_PER_BEAT: Final = 8
"""Minimum number of samples per heartbeat: a sixth of a second at 50 Hz."""
MAX_OVERLAP: Final = 4
"""Maximum number of samples in all heartbeats, as a multiple of the longest lead."""


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


def read_beats(record: Record) -> tuple[list[Beat], int, int]:
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


def check_beats(beats: Sequence[Beat], spans: Sequence[LeadSpan], name: str) -> None:
    """Raise an error if the heartbeats do not fit in the leads. Otherwise adding them could take hours."""
    first, last = min(span.first for span in spans), max(span.last for span in spans)
    covered = sum(max(0, min(beat.last, last) - max(beat.first, first) + 1) for beat in beats)
    longest = max(span.num_samples for span in spans)
    if len(beats) * MIN_SAMPLES_PER_BEAT > longest or covered > MAX_OVERLAP * longest:
        raise FormatError(f"{name}: {len(beats)} heartbeats do not fit in {longest} samples")


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


def num_stored(span: LeadSpan, beats: Sequence[Beat], decimation: int) -> int:
    """Return the number of stored samples of a lead. Complete groups outside the protected zones are decimated."""
    if decimation == 1:
        return span.num_samples
    return sum(
        length if inside else length // decimation + length % decimation for inside, length in _segments(span, beats)
    )


def interpolate(stored: DigitalValues, span: LeadSpan, beats: Sequence[Beat], decimation: int) -> DigitalValues:
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


def add_reference_beat(
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
