"""The frame of an SCP-ECG record: sections, found by the pointers of section 0, each with a checksum."""

from __future__ import annotations

import binascii
from dataclasses import dataclass
from typing import Final

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import unpack

RECORD_HEADER: Final = 6
"""Bytes before section 0: the record's checksum and size."""
SECTION_HEADER: Final = 16
POINTER: Final = 10
MAX_SECTIONS: Final = 1024


def is_scp(head: bytes) -> bool:
    """Whether a file starts with a section 0 whose first pointer is to itself."""
    if len(head) < RECORD_HEADER + SECTION_HEADER + POINTER:
        return False
    number, length = int.from_bytes(head[8:10], "little"), int.from_bytes(head[10:14], "little")
    pointed, stated = int.from_bytes(head[22:24], "little"), int.from_bytes(head[24:28], "little")
    first = int.from_bytes(head[28:32], "little")
    entries = (length - SECTION_HEADER) / POINTER
    return number == pointed == 0 and length == stated and entries in range(1, MAX_SECTIONS) and first in (6, 7)


@dataclass(frozen=True)
class Section:
    """What a section holds after its header."""

    protocol: int
    """Version of the standard times ten."""
    body: bytes


class Record:
    """An SCP-ECG record; a section is checked when it is asked for."""

    def __init__(self, raw: bytes, name: str) -> None:
        self.name = name
        self._raw = raw
        (length,) = unpack("<I", raw, 10, name)
        pointers = [
            unpack("<HII", raw, RECORD_HEADER + SECTION_HEADER + POINTER * entry, name)
            for entry in range(min((length - SECTION_HEADER) // POINTER, MAX_SECTIONS))
        ]
        if not pointers or pointers[0][2] != RECORD_HEADER + 1:
            raise FormatError(f"{name}: does not conform to SCP-ECG: its pointers must count from 1, to section 0 at 7")
        self._pointers = {number: (first - 1, size) for number, size, first in pointers if size > SECTION_HEADER}

    @property
    def is_intact(self) -> bool:
        """Whether the checksum over the whole record holds."""
        stated, size = unpack("<HI", self._raw, 0, self.name)
        return bool(binascii.crc_hqx(memoryview(self._raw)[2:size], 0xFFFF) == stated)

    def section(self, number: int) -> Section | None:
        """A section of the record, or None where it has none; a damaged one is a ``FormatError``."""
        if number not in self._pointers:
            return None
        at, size = self._pointers[number]
        checksum, stated, length, _, protocol = unpack("<HHIBB", self._raw, at, self.name)
        if stated != number or length != size or at + size > len(self._raw):
            raise FormatError(f"{self.name}: section {number} is not where its pointer says; the file is damaged")
        if binascii.crc_hqx(memoryview(self._raw)[at + 2 : at + size], 0xFFFF) != checksum:
            raise FormatError(f"{self.name}: section {number} does not match its checksum; the file is damaged")
        return Section(protocol, self._raw[at + SECTION_HEADER : at + size])

    def required_section(self, number: int, what: str) -> Section:
        """A section without which the record cannot be read."""
        found = self.section(number)
        if found is None:
            raise FormatError(f"{self.name}: has no section {number}, {what}")
        return found
