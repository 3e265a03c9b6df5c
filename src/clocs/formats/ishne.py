"""Read ISHNE Holter files (Badilini 1998): a header with fixed offsets, then 16-bit samples, interleaved by lead."""

from __future__ import annotations

import binascii
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.byte_fields import decode_text, make_identity, unpack
from clocs.formats.channels import Channel, gain_from_resolution, recording_from_channels
from clocs.formats.demographics import Demographics, Sex, age_at
from clocs.formats.reading import Format

NAME: Final = "ishne"
MAGIC: Final = b"ISHNE1.0"
HEADER_BYTES: Final = 522
CHECKSUM_START: Final = 10
MAX_LEADS: Final = 12
LEADS: Final = {
    **{2: "X", 3: "Y", 4: "Z", 5: "I", 6: "II", 7: "III", 8: "aVR", 9: "aVL", 10: "aVF"},
    **{number: f"V{number - 10}" for number in range(11, 17)},
    **{17: "ES", 18: "AS", 19: "AI"},
}
SEXES: Final[dict[int, Sex]] = {1: "male", 2: "female"}


@dataclass(frozen=True)
class _Header:
    num_samples: int
    samples_offset: int
    sex: int
    birth: date | None
    recorded: date | None
    leads: int
    codes: tuple[int, ...]
    resolutions: tuple[int, ...]
    """Size of one digital unit of each lead in nanovolt."""
    sampling_rate: int
    has_no_checksum: bool
    """True if the checksum is 0, so that the header cannot be verified."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    return head.startswith(MAGIC)


def _header(raw: bytes, name: str) -> _Header:
    checksum, _, num_samples, _, samples_offset = unpack("<Hiiii", raw, len(MAGIC), name)
    if not HEADER_BYTES <= samples_offset <= len(raw):
        raise FormatError(f"{name}: its samples start at byte {samples_offset} of {len(raw)}; the file is damaged")
    if checksum not in (0, binascii.crc_hqx(memoryview(raw)[CHECKSUM_START:samples_offset], 0xFFFF)):
        raise FormatError(f"{name}: the header does not match its checksum; the file is damaged")
    (sex,) = unpack("<h", raw, 128, name)
    (leads,) = unpack("<h", raw, 156, name)
    if not 1 <= leads <= MAX_LEADS:
        raise FormatError(f"{name}: {leads} leads; an ISHNE file has 1 to {MAX_LEADS}")
    return _Header(
        num_samples=num_samples,
        samples_offset=samples_offset,
        sex=sex,
        birth=_date(raw, 132, name),
        recorded=_date(raw, 138, name),
        leads=leads,
        codes=unpack("<12h", raw, 158, name)[:leads],
        resolutions=unpack("<12h", raw, 206, name)[:leads],
        sampling_rate=unpack("<h", raw, 272, name)[0],
        has_no_checksum=checksum == 0,
    )


def _date(raw: bytes, offset: int, name: str) -> date | None:
    day, month, year = unpack("<3h", raw, offset, name)
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    header = _header(raw, name)
    num_values = (len(raw) - header.samples_offset) // 2
    # Some writers declare the number of samples of one lead, others that of all leads.
    declared = header.num_samples // header.leads if header.num_samples == num_values else header.num_samples
    num_samples = num_values // header.leads
    frames = np.frombuffer(raw, "<i2", num_samples * header.leads, header.samples_offset).reshape(
        num_samples, header.leads
    )
    return recording_from_channels(
        [
            Channel(LEADS.get(code, "ECG"), frames[:, row], gain_from_resolution(resolution, "nV", name))
            for row, (code, resolution) in enumerate(zip(header.codes, header.resolutions, strict=True))
        ],
        float(header.sampling_rate),
        raw,
        name,
        NAME,
        demographics=Demographics(age_at(header.birth, header.recorded), SEXES.get(header.sex)),
        num_declared_samples=declared,
        notes=["its header has no checksum"] if header.has_no_checksum else [],
    )


def _read_identity(source: Source, name: str) -> Identity:
    raw = source.read(name)
    header = _header(raw, name)
    return make_identity(
        patient_name=[decode_text(raw[28:68]), decode_text(raw[68:108])],
        patient_id=[decode_text(raw[108:128])],
        birth_date=[header.birth.isoformat() if header.birth else ""],
        acquired=[_datetime_text(header.recorded, *unpack("<3h", raw, 150, name))],
        free_text=[
            decode_text(raw[274:354]),
            decode_text(raw[354:434]),
            decode_text(raw[HEADER_BYTES : header.samples_offset]),
        ],
    )


def _datetime_text(day: date | None, hour: int, minute: int, second: int) -> str:
    if day is None:
        return ""
    try:
        return datetime(day.year, day.month, day.day, hour, minute, second).isoformat()
    except ValueError:
        return day.isoformat()


ISHNE = Format(NAME, "ISHNE Holter: 1 to 12 leads over hours or days", _matches, _read, _read_identity)
