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
from clocs.formats.byte_fields import gathered, text_of, unpack
from clocs.formats.channels import Channel, gain_of, recording_of
from clocs.formats.reading import Format
from clocs.signals.leads import STANDARD_LEADS

NAME: Final = "alivecor"
SIGNATURE: Final = b"ALIVE\0\0\0"
BLOCKS_AT: Final = 12
MAX_BLOCKS: Final = 1000
RATES: Final = (200, 450)
"""Hz. Every device records at 300."""
LEADS: Final = {
    b"ecg" + f"{number:x}".encode() if number > 1 else b"ecg ": STANDARD_LEADS[number - 1] for number in range(1, 13)
}
"""Leads by block. Blocks ``avg`` and ``med`` hold an averaged beat, which is no recording."""
INFO: Final = {"date": (0, 32), "uuid": (32, 40), "phone": (72, 44), "device": (212, 52)}
"""Fields of the info block: place and length."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    return head.startswith(SIGNATURE)


def _blocks(raw: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Identifier and content of each block whose checksum holds."""
    at = BLOCKS_AT
    for _ in range(MAX_BLOCKS):
        if at >= len(raw):
            return
        kind, length = unpack("<4sI", raw, at, name)
        whole = raw[at : at + 8 + length]
        (stated,) = unpack("<I", raw, at + 8 + length, name)
        if stated not in _checksums(whole):
            raise FormatError(f"{name}: a block at byte {at} does not match its checksum; the file is damaged")
        yield kind, whole[8:]
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
    if not RATES[0] <= sampling_rate <= RATES[1]:
        raise FormatError(f"{name}: a rate of {sampling_rate} Hz, but AliveCor's devices record at 300")
    found = {lead: blocks[block] for block, lead in LEADS.items() if block in blocks}
    if not found:
        raise FormatError(f"{name}: no ECG block")
    num_samples = min(len(data) // 2 for data in found.values())
    cut = sum(len(data) // 2 > num_samples for data in found.values())
    return recording_of(
        [
            Channel(lead, np.frombuffer(data[: 2 * num_samples], "<i2"), gain_of(resolution, "nV", name))
            for lead, data in found.items()
        ],
        float(sampling_rate),
        raw,
        name,
        NAME,
        notes=[f"cut {cut} longer leads to the length of the shortest"] if cut else [],
    )


def _read_identity(source: Source, name: str) -> Identity:
    info = dict(_blocks(source.read(name), name)).get(b"info", b"")
    about = {field: text_of(info[at : at + length]) for field, (at, length) in INFO.items()}
    return gathered(
        acquired=[_iso(about["date"])], order=[about["uuid"]], device_serial=[about["phone"], about["device"]]
    )


def _iso(text: str) -> str:
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return text


ALIVECOR = Format(NAME, "AliveCor ATC of KardiaMobile: 1 to 12 leads", _matches, _read, _read_identity)
