"""Read AliveCor ATC files of KardiaMobile devices: one block of 16-bit samples per lead, each with a checksum."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import numpy as np

from clocs.core.errors import FormatError
from clocs.core.privacy.identity import Identity
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.byte_fields import decode_text, make_identity, unpack
from clocs.formats.channels import Channel, gain_from_resolution, recording_from_channels
from clocs.formats.reading import Format
from clocs.signals.leads import STANDARD_LEADS

NAME: Final = "alivecor"
SIGNATURE: Final = b"ALIVE\0\0\0"
BLOCKS_OFFSET: Final = 12
MAX_BLOCKS: Final = 1000
SAMPLING_RATE_RANGE: Final = (200, 450)
"""Valid sampling rates in Hz. Every known device records at 300 Hz."""
LEADS: Final = {
    b"ecg" + f"{number:x}".encode() if number > 1 else b"ecg ": STANDARD_LEADS[number - 1] for number in range(1, 13)
}
"""Leads by block identifier. Blocks ``avg`` and ``med`` contain an averaged beat and are not read."""
INFO_FIELDS: Final = {"date": (0, 32), "uuid": (32, 40), "phone": (72, 44), "device": (212, 52)}
"""Offset and length in bytes of the fields of the info block."""


def _matches(head: bytes, source: Source, name: str) -> bool:
    return head.startswith(SIGNATURE)


def _blocks(raw: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the identifier and content of each block, and verify the checksums."""
    offset = BLOCKS_OFFSET
    for _ in range(MAX_BLOCKS):
        if offset >= len(raw):
            return
        kind, length = unpack("<4sI", raw, offset, name)
        block = raw[offset : offset + 8 + length]
        (checksum,) = unpack("<I", raw, offset + 8 + length, name)
        if checksum not in _checksums(block):
            raise FormatError(f"{name}: a block at byte {offset} does not match its checksum; the file is damaged")
        yield kind, block[8:]
        offset += 12 + length
    raise FormatError(f"{name}: over {MAX_BLOCKS} blocks; the file is damaged")


def _checksums(block: bytes) -> tuple[int, int, int]:
    """Return the checksums that writers use: the sum of unsigned bytes, of signed bytes, or the specified CRC-32."""
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
        raise FormatError(f"{name}: ECG format {kind} is not supported; supported: 1 (16-bit integers)")
    if not SAMPLING_RATE_RANGE[0] <= sampling_rate <= SAMPLING_RATE_RANGE[1]:
        raise FormatError(f"{name}: a sampling rate of {sampling_rate} Hz; AliveCor's devices record at 300")
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
    fields = {field: decode_text(info[start : start + length]) for field, (start, length) in INFO_FIELDS.items()}
    return make_identity(
        acquired=[_iso(fields["date"])], order=[fields["uuid"]], device_serial=[fields["phone"], fields["device"]]
    )


def _iso(text: str) -> str:
    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return text


ALIVECOR = Format(NAME, "AliveCor ATC of KardiaMobile: 1 to 12 leads", _matches, _read, _read_identity)
