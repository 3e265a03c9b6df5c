"""AliveCor's ATC, from KardiaMobile devices: blocks of 16-bit steps, one a lead, each with a checksum."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources import Source
from clocs.formats.byte_fields import decode_text, make_identity, unpack
from clocs.formats.channels import Channel, gain_from_resolution, recording_from_channels
from clocs.formats.reading import Format
from clocs.signals.leads import STANDARD_LEADS

NAME: Final = "alivecor"
SIGNATURE: Final = b"ALIVE\0\0\0"
BLOCKS_OFFSET: Final = 12
MAX_BLOCKS: Final = 1000
SAMPLING_RATE_RANGE: Final = (200, 450)
"""Hz. Every device records at 300."""
LEADS: Final = {
    b"ecg" + f"{number:x}".encode() if number > 1 else b"ecg ": STANDARD_LEADS[number - 1] for number in range(1, 13)
}
"""Leads by block. Blocks ``avg`` and ``med`` hold an averaged beat, which is no recording."""
INFO_FIELDS: Final = {"date": (0, 32), "uuid": (32, 40), "phone": (72, 44), "device": (212, 52)}
"""Fields of the info block: place and length."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    return head.startswith(SIGNATURE)


def _blocks(raw: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Identifier and content of each block whose checksum holds."""
    at = BLOCKS_OFFSET
    for _ in range(MAX_BLOCKS):
        if at >= len(raw):
            return
        kind, length = unpack("<4sI", raw, at, name)
        block = raw[at : at + 8 + length]
        (checksum,) = unpack("<I", raw, at + 8 + length, name)
        if checksum not in _checksums(block):
            raise FormatError(f"{name}: a block at byte {at} does not match its checksum; the file is damaged")
        yield kind, block[8:]
        at += 12 + length
    raise FormatError(f"{name}: over {MAX_BLOCKS} blocks; the file is damaged")


def _checksums(block: bytes) -> tuple[int, int, int]:
    """What writers store: the sum of the bytes, the sum of them as signed numbers, or the CRC-32 that is specified."""
    values = np.frombuffer(block, np.uint8)
    total = int(values.sum(dtype=np.int64))
    signed = total - 256 * int(np.count_nonzero(values > 127))
    return total % 2**32, signed % 2**32, zlib.crc32(block)


def _read(source: Source, name: str) -> Recording:
    raw = source.read(name)
    blocks = dict(_blocks(raw, name))
    if b"fmt " not in blocks:
        raise FormatError(f"{name}: no format block; the file is damaged")
    kind, sampling_rate, resolution = unpack("<BHH", blocks[b"fmt "], 0, name)
    if kind != 1:
        raise FormatError(f"{name}: ECG format {kind} is not supported; 1, 16-bit numbers, is")
    if not SAMPLING_RATE_RANGE[0] <= sampling_rate <= SAMPLING_RATE_RANGE[1]:
        raise FormatError(f"{name}: a rate of {sampling_rate} Hz, but AliveCor's devices record at 300")
    found = {lead: blocks[block] for block, lead in LEADS.items() if block in blocks}
    if not found:
        raise FormatError(f"{name}: no ECG block")
    num_samples = min(len(data) // 2 for data in found.values())
    num_shortened = sum(len(data) // 2 > num_samples for data in found.values())
    return recording_from_channels(
        [
            Channel(lead, np.frombuffer(data[: 2 * num_samples], "<i2"), gain_from_resolution(resolution, "nV", name))
            for lead, data in found.items()
        ],
        float(sampling_rate),
        raw,
        name,
        NAME,
        notes=[f"cut {num_shortened} longer leads to the length of the shortest"] if num_shortened else [],
    )


def _read_identity(source: Source, name: str) -> Identity:
    info = dict(_blocks(source.read(name), name)).get(b"info", b"")
    about = {field: decode_text(info[at : at + length]) for field, (at, length) in INFO_FIELDS.items()}
    return make_identity(
        acquired=[_iso(about["date"])], order=[about["uuid"]], device_serial=[about["phone"], about["device"]]
    )


def _iso(text: str) -> str:
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return text


ALIVECOR = Format(NAME, "AliveCor ATC of KardiaMobile: 1 to 12 leads", _matches, _read, _read_identity)
