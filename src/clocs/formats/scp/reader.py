"""SCP-ECG files as a format."""

from __future__ import annotations

from typing import Final

from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources import Source
from clocs.formats.byte_fields import unpack
from clocs.formats.channels import recording_of
from clocs.formats.reading import Format
from clocs.formats.scp.person import identity_of, person_of
from clocs.formats.scp.record import Record, is_scp
from clocs.formats.scp.rhythm import rhythm_of

NAME: Final = "scp"


def _recognises(head: bytes, source: Source, name: str) -> bool:
    return is_scp(head)


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    record = Record(raw, name)
    rhythm = rhythm_of(record)
    return recording_of(
        rhythm.channels,
        rhythm.rate,
        raw,
        name,
        NAME,
        person=person_of(record),
        declared=rhythm.declared,
        heart_rate=_heart_rate(record),
        notes=[*rhythm.notes, *([] if record.intact else ["the record's checksum does not match; its sections' do"])],
    )


def _heart_rate(record: Record) -> float | None:
    """From the average interval in milliseconds of section 7; nothing else needs that section to be whole."""
    try:
        section = record.section(7)
        interval = unpack("<BBH", section.body, 0, record.name)[2] if section else 0
    except FormatError:
        return None
    return 60_000 / interval if interval else None


def _identify(source: Source, name: str) -> Identity:
    return identity_of(Record(source.read(name), name))


SCP = Format(NAME, "SCP-ECG (EN 1064, ISO 11073-91064)", _recognises, _read, _identify)
