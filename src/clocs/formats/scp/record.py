"""Access the sections of an SCP-ECG record through the pointers of section 0, and verify their checksums."""

from __future__ import annotations

import binascii
from dataclasses import dataclass
from typing import Final

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import unpack

RECORD_HEADER: Final = 6
"""Number of bytes before section 0: the checksum and the size of the record."""
SECTION_HEADER: Final = 16
"""Number of bytes of the header of a section."""
POINTER: Final = 10
"""Number of bytes of a pointer in section 0."""
MAX_SECTIONS: Final = 1024


def is_scp(head: bytes) -> bool:
    """Return whether a file starts with a section 0 that points to itself."""
    if len(head) < RECORD_HEADER + SECTION_HEADER + POINTER:
        return False
    number, length = int.from_bytes(head[8:10], "little"), int.from_bytes(head[10:14], "little")
    pointed, stated = int.from_bytes(head[22:24], "little"), int.from_bytes(head[24:28], "little")
    first = int.from_bytes(head[28:32], "little")
    entries = (length - SECTION_HEADER) / POINTER
    return number == pointed == 0 and length == stated and entries in range(1, MAX_SECTIONS) and first in (6, 7)


@dataclass(frozen=True)
class Section:
    """Content of a section after its header."""

    protocol: int
    """Version of the standard times ten."""
    body: bytes
    """Bytes after the header."""


class Record:
    """An SCP-ECG record. Each section is verified on access."""

    def __init__(self, raw: bytes, name: str) -> None:
        self.name = name
        self._raw = raw
        (length,) = unpack("<I", raw, 10, name)
        pointers = [
            unpack("<HII", raw, RECORD_HEADER + SECTION_HEADER + POINTER * entry, name)
            for entry in range(min((length - SECTION_HEADER) // POINTER, MAX_SECTIONS))
        ]
        if not pointers or pointers[0][2] != RECORD_HEADER + 1:
            raise FormatError(
                f"{name}: does not conform to SCP-ECG: the first pointer must be 7, the position of section 0"
            )
        self._pointers = {number: (first - 1, size) for number, size, first in pointers if size > SECTION_HEADER}

    @property
    def is_intact(self) -> bool:
        """Return whether the checksum of the whole record is correct."""
        stated, size = unpack("<HI", self._raw, 0, self.name)
        return bool(binascii.crc_hqx(memoryview(self._raw)[2:size], 0xFFFF) == stated)

    def section(self, number: int) -> Section | None:
        """Return a section, or None if the record lacks it. Raise a ``FormatError`` if it is damaged."""
        if number not in self._pointers:
            return None
        start, size = self._pointers[number]
        checksum, stated, length, _, protocol = unpack("<HHIBB", self._raw, start, self.name)
        if stated != number or length != size or start + size > len(self._raw):
            raise FormatError(f"{self.name}: section {number} is not where its pointer says; the file is damaged")
        if binascii.crc_hqx(memoryview(self._raw)[start + 2 : start + size], 0xFFFF) != checksum:
            raise FormatError(f"{self.name}: section {number} does not match its checksum; the file is damaged")
        return Section(protocol, self._raw[start + SECTION_HEADER : start + size])

    def required_section(self, number: int, what: str) -> Section:
        """Return a section, or raise a ``FormatError`` if the record lacks it."""
        found = self.section(number)
        if found is None:
            raise FormatError(f"{self.name}: has no section {number}, {what}")
        return found
