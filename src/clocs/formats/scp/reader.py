"""SCP-ECG files as a format: the recording, and who was recorded, by whom and when.

Section 1 of a record names the person, section 8 holds the statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Final

from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources import Source
from clocs.formats.byte_fields import decode_text, make_identity, unpack
from clocs.formats.channels import recording_from_channels
from clocs.formats.demographics import Demographics, Sex, age_at, parse_age
from clocs.formats.reading import Format
from clocs.formats.scp.record import Record, is_scp
from clocs.formats.scp.rhythm import read_rhythm

NAME: Final = "scp"
LAST_NAME, FIRST_NAME, PATIENT_ID, SECOND_NAME, AGE, BIRTH, SEX, DRUGS = 0, 1, 2, 3, 4, 5, 8, 10
INDICATION, ACQUIRER, ANALYSER, DATE, TIME, FREE_TEXT, SEQUENCE, HISTORY = 13, 14, 15, 25, 26, 30, 31, 35
INSTITUTIONS: Final = (16, 17, 18, 19, 23)
PHYSICIANS: Final = (20, 21)
TECHNICIAN: Final = 22
END: Final = 255
AGE_UNITS: Final = {1: "years", 2: "months", 3: "weeks", 4: "days", 5: "hours"}
SEXES: Final[dict[int, Sex]] = {1: "male", 2: "female"}
DEVICE_TEXTS_AT: Final = 35
STATEMENTS_AT: Final = 9

Tags = list[tuple[int, bytes]]


def _matches(head: bytes, source: Source, name: str) -> bool:
    return is_scp(head)


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    record = Record(raw, name)
    rhythm = read_rhythm(record)
    return recording_from_channels(
        rhythm.channels,
        rhythm.sampling_rate,
        raw,
        name,
        NAME,
        demographics=read_demographics(record),
        num_declared_samples=rhythm.declared,
        heart_rate=_heart_rate(record),
        notes=[
            *rhythm.notes,
            *([] if record.is_intact else ["the record's checksum does not match; its sections' do"]),
        ],
    )


def _heart_rate(record: Record) -> float | None:
    """From the average interval in milliseconds of section 7; nothing else needs that section to be whole."""
    try:
        section = record.section(7)
        interval = unpack("<BBH", section.body, 0, record.name)[2] if section else 0
    except FormatError:
        return None
    return 60_000 / interval if interval else None


def _read_identity(source: Source, name: str) -> Identity:
    return read_record_identity(Record(source.read(name), name))


def _tags(record: Record) -> Tags:
    """The values of section 1, as far as it can be followed."""
    section = record.section(1)
    body, at, found = section.body if section else b"", 0, []
    while at + 3 <= len(body) and body[at] != END:
        length = int.from_bytes(body[at + 1 : at + 3], "little")
        found.append((body[at], body[at + 3 : at + 3 + length]))
        at += 3 + length
    return found


def _day(value: bytes) -> date | None:
    """A day; some writers put the year's bytes the wrong way round, and then it is not to be trusted."""
    try:
        return date(int.from_bytes(value[:2], "little"), value[2], value[3])
    except (ValueError, IndexError):
        return None


def _first(tags: Tags, wanted: int) -> bytes:
    return next((value for tag, value in tags if tag == wanted), b"")


def read_demographics(record: Record) -> Demographics:
    """Age, as stated or from the dates, and sex."""
    tags = _tags(record)
    stated, sex = _first(tags, AGE), _first(tags, SEX)
    unit = AGE_UNITS.get(stated[2]) if len(stated) >= 3 else None
    age = parse_age(str(int.from_bytes(stated[:2], "little")), unit) if unit else None
    if age is None:
        age = age_at(_day(_first(tags, BIRTH)), _day(_first(tags, DATE)))
    return Demographics(age, SEXES.get(sex[0]) if sex else None)


def read_record_identity(record: Record) -> Identity:
    """Everything identifying that the record says."""
    tags = _tags(record)

    def texts(*wanted: int, skipped: int = 0) -> list[str]:
        return [decode_text(value[skipped:]) for tag, value in tags if tag in wanted]

    return make_identity(
        patient_name=texts(LAST_NAME, FIRST_NAME, SECOND_NAME),
        patient_id=texts(PATIENT_ID),
        birth_date=[_written(_first(tags, BIRTH))],
        physician=texts(*PHYSICIANS),
        operator=texts(TECHNICIAN),
        institution=texts(*INSTITUTIONS),
        device_serial=[_serial(value) for tag, value in tags if tag in (ACQUIRER, ANALYSER)],
        order=texts(SEQUENCE),
        acquired=[_acquired(tags)],
        free_text=[*texts(INDICATION, FREE_TEXT, HISTORY), *texts(DRUGS, skipped=3), *_statements(record)],
    )


def _written(value: bytes) -> str:
    """A day in ISO 8601, also one whose year has its bytes the wrong way round."""
    swapped = value[1:2] + value[:1] + value[2:]
    found = _day(value) or _day(swapped)
    return found.isoformat() if found else ""


def _acquired(tags: Tags) -> str:
    day, clock = _written(_first(tags, DATE)), _first(tags, TIME)
    try:
        return datetime.combine(date.fromisoformat(day), time(*clock[:3])).isoformat() if day else ""
    except ValueError:
        return day


def _serial(value: bytes) -> str:
    """The device's serial number, after the revision of its program, whose length stands before it."""
    texts = value[DEVICE_TEXTS_AT:]
    return decode_text(texts[1 + texts[0] :]) if texts else ""


def _statements(record: Record) -> Iterator[str]:
    """The lines of section 8: each has a number, a length and a text."""
    section = record.section(8)
    body, at = section.body if section else b"", STATEMENTS_AT
    while at + 3 <= len(body):
        length = int.from_bytes(body[at + 1 : at + 3], "little")
        yield decode_text(body[at + 3 : at + 3 + length])
        at += 3 + length


SCP = Format(NAME, "SCP-ECG (EN 1064, ISO 11073-91064)", _matches, _read, _read_identity)
