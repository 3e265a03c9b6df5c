"""Read the recording, the demographics and the identity of an SCP-ECG file.

Section 1 of a record identifies the patient, section 8 contains the statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Final

from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.byte_fields import decode_text, make_identity
from clocs.formats.channels import recording_from_channels
from clocs.formats.demographics import Demographics, Sex, age_at, parse_age
from clocs.formats.reading import Format
from clocs.formats.scp.measurements import read_stated
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
DEVICE_TEXTS_OFFSET: Final = 35
STATEMENTS_OFFSET: Final = 9

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
        num_declared_samples=rhythm.num_declared_samples,
        stated=read_stated(record),
        notes=[
            *rhythm.notes,
            *([] if record.is_intact else ["the checksum of the record does not match; those of its sections do"]),
        ],
    )


def _read_identity(source: Source, name: str) -> Identity:
    return read_record_identity(Record(source.read(name), name))


def _tags(record: Record) -> Tags:
    """Return the tags and values of section 1, up to the first invalid one."""
    section = record.section(1)
    body, start, tags = section.body if section else b"", 0, []
    while start + 3 <= len(body) and body[start] != END:
        length = int.from_bytes(body[start + 1 : start + 3], "little")
        tags.append((body[start], body[start + 3 : start + 3 + length]))
        start += 3 + length
    return tags


def _parse_date(value: bytes) -> date | None:
    """Parse a date. Some writers swap the bytes of the year; such a date is invalid here."""
    try:
        return date(int.from_bytes(value[:2], "little"), value[2], value[3])
    except (ValueError, IndexError):
        return None


def _first(tags: Tags, number: int) -> bytes:
    return next((value for tag, value in tags if tag == number), b"")


def read_demographics(record: Record) -> Demographics:
    """Return the stated age, or else the age on the day of the recording, and the sex."""
    tags = _tags(record)
    stated, sex = _first(tags, AGE), _first(tags, SEX)
    unit = AGE_UNITS.get(stated[2]) if len(stated) >= 3 else None
    age = parse_age(str(int.from_bytes(stated[:2], "little")), unit) if unit else None
    if age is None:
        age = age_at(_parse_date(_first(tags, BIRTH)), _parse_date(_first(tags, DATE)))
    return Demographics(age, SEXES.get(sex[0]) if sex else None)


def read_record_identity(record: Record) -> Identity:
    """Return every identity field of a record."""
    tags = _tags(record)

    def texts(*numbers: int, skipped: int = 0) -> list[str]:
        return [decode_text(value[skipped:]) for tag, value in tags if tag in numbers]

    return make_identity(
        patient_name=texts(LAST_NAME, FIRST_NAME, SECOND_NAME),
        patient_id=texts(PATIENT_ID),
        birth_date=[_date_text(_first(tags, BIRTH))],
        physician=texts(*PHYSICIANS),
        operator=texts(TECHNICIAN),
        institution=texts(*INSTITUTIONS),
        device_serial=[_serial(value) for tag, value in tags if tag in (ACQUIRER, ANALYSER)],
        order=texts(SEQUENCE),
        acquired=[_acquired(tags)],
        free_text=[*texts(INDICATION, FREE_TEXT, HISTORY), *texts(DRUGS, skipped=3), *_statements(record)],
    )


def _date_text(value: bytes) -> str:
    """Return a date in ISO 8601, also if the bytes of its year are swapped."""
    swapped = value[1:2] + value[:1] + value[2:]
    found = _parse_date(value) or _parse_date(swapped)
    return found.isoformat() if found else ""


def _acquired(tags: Tags) -> str:
    day, clock = _date_text(_first(tags, DATE)), _first(tags, TIME)
    try:
        return datetime.combine(date.fromisoformat(day), time(*clock[:3])).isoformat() if day else ""
    except ValueError:
        return day


def _serial(value: bytes) -> str:
    """Return the serial number of a device, which follows the length and text of its software revision."""
    texts = value[DEVICE_TEXTS_OFFSET:]
    return decode_text(texts[1 + texts[0] :]) if texts else ""


def _statements(record: Record) -> Iterator[str]:
    """Iterate over the lines of section 8. Each has a number, a length and a text."""
    section = record.section(8)
    body, start = section.body if section else b"", STATEMENTS_OFFSET
    while start + 3 <= len(body):
        length = int.from_bytes(body[start + 1 : start + 3], "little")
        yield decode_text(body[start + 3 : start + 3 + length])
        start += 3 + length


SCP = Format(NAME, "SCP-ECG (EN 1064, ISO 11073-91064)", _matches, _read, _read_identity)
