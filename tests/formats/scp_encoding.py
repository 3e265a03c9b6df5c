"""An encoder of SCP-ECG, written from the standard's text (EN 1064): what no sample file has is tested with it.

Each part is literal and slow: bits as text, one sample after another.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

TABLE = {0: "0"} | {
    sign * size: "1" * size + "0" + ("0" if sign > 0 else "1") for size in range(1, 9) for sign in (1, -1)
}
"""Default Huffman table. Numbers over 8 follow a prefix in 8 or 16 bits."""


def default_code(number: int) -> str:
    if number in TABLE:
        return TABLE[number]
    bits, prefix = (8, "1111111110") if -128 <= number < 128 else (16, "1111111111")
    return prefix + format(number % (1 << bits), f"0{bits}b")


def packed(bits: str) -> bytes:
    """Pack bits, highest first, into an even number of bytes."""
    padded = bits + "0" * (-len(bits) % 16)
    return bytes(int(padded[at : at + 8], 2) for at in range(0, len(padded), 8))


def differences(samples: Sequence[int], order: int) -> list[int]:
    """Return differences of order 1 or 2 after the first one or two samples."""
    out = [int(sample) for sample in samples]
    if order == 1:
        return [out[0]] + [after - before for before, after in pairwise(out)]
    if order == 2:
        return out[:2] + [out[at] - 2 * out[at - 1] + out[at - 2] for at in range(2, len(out))]
    return out


def crc(data: bytes) -> int:
    """Compute CRC-CCITT bit by bit, as in the annex of the standard."""
    register = 0xFFFF
    for byte in data:
        register ^= byte << 8
        for _ in range(8):
            register = ((register << 1) ^ 0x1021) & 0xFFFF if register & 0x8000 else register << 1
    return register


@dataclass
class Scp:
    """Sections of a record by number, without their headers."""

    sections: dict[int, bytes] = field(default_factory=dict)
    protocol: int = 20


def section(number: int, body: bytes, protocol: int = 20, reserved: bytes = bytes(6)) -> bytes:
    rest = struct.pack("<HIBB", number, 16 + len(body), protocol, protocol) + reserved + body
    return struct.pack("<H", binascii.crc_hqx(rest, 0xFFFF)) + rest


def record(scp: Scp) -> bytes:
    """Return a complete record with pointers to sections 0 to 11, even if they are missing."""
    built = {number: section(number, body, scp.protocol) for number, body in sorted(scp.sections.items())}
    at = 7 + 16 + 10 * 12
    pointers = struct.pack("<HII", 0, 16 + 10 * 12, 7)
    for number in range(1, 12):
        size = len(built.get(number, b""))
        pointers += struct.pack("<HII", number, size, at if size else 0)
        at += size
    body = section(0, pointers, scp.protocol, b"SCPECG") + b"".join(built.values())
    rest = struct.pack("<I", 6 + len(body)) + body
    return struct.pack("<H", binascii.crc_hqx(rest, 0xFFFF)) + rest


def lead_section(spans: Sequence[tuple[int, int, int]], subtracted: bool = False) -> bytes:
    """Return section 3 with number, first and last sample of each lead."""
    head = struct.pack("<BB", len(spans), (len(spans) << 3 | 4 | subtracted) & 0xFF)
    return head + b"".join(struct.pack("<IIB", first, last, number) for number, first, last in spans)


def data_section(
    rows: Sequence[Sequence[int]],
    *,
    order: int = 0,
    huffman: bool = False,
    nanovolts: int = 2500,
    interval: int = 2000,
    bimodal: bool = False,
) -> bytes:
    """Return section 5 or 6. Sizes that overflow are reduced to 16 bits."""
    taken = [differences(row, order) for row in rows]
    coded = [
        packed("".join(map(default_code, row))) if huffman else np.array(row).astype("<i2").tobytes() for row in taken
    ]
    head = struct.pack("<HHBB", nanovolts, interval, order, bimodal)
    return head + b"".join(struct.pack("<H", len(data) & 0xFFFF) for data in coded) + b"".join(coded)


def beat_section(length_ms: int, fiducial: int, beats: Sequence[tuple[int, int, int, int, int, int]]) -> bytes:
    """Return section 4 with type, subtraction zone, fiducial point and protected zone of each beat."""
    zones = b"".join(struct.pack("<HIII", *beat[:4]) for beat in beats)
    protected = b"".join(struct.pack("<II", *beat[4:]) for beat in beats)
    return struct.pack("<HHH", length_ms, fiducial, len(beats)) + zones + protected


DEFAULT_TABLE = struct.pack("<H", 19999)


def scp_leads(
    rows: Ints, *, order: int = 2, huffman: bool = True, interval: int = 2000, nanovolts: int = 2500, name: str = ""
) -> Scp:
    """Return a record with one of the leads I, II, V1 to V6 per row, and possibly a patient."""
    spans = [(number, 1, rows.shape[1]) for number in range(1, len(rows) + 1)]
    sections = {3: lead_section(spans)}
    sections[6] = data_section(rows.tolist(), order=order, huffman=huffman, interval=interval, nanovolts=nanovolts)
    patient = struct.pack("<BH", 0, len(name) + 1) + name.encode() + b"\0\xff\0\0"
    return Scp(sections | ({2: DEFAULT_TABLE} if huffman else {}) | ({1: patient} if name else {}))


def subtracted(signal: Ints, beat: Ints, fiducial: int, beats: Sequence[tuple[int, int, int, int, int, int]]) -> Ints:
    """Subtract the reference beat from a lead, sample by sample. All positions count from 1."""
    out = signal.copy()
    for kind, first, middle, last, *_ in beats:
        for sample in range(first, last + 1):
            place = fiducial + sample - middle
            if kind == 0 and 1 <= place <= len(beat) and 1 <= sample <= len(out):
                out[sample - 1] -= beat[place - 1]
    return out


def decimated(signal: Ints, beats: Sequence[tuple[int, int, int, int, int, int]], factor: int) -> list[int]:
    """One lead with all samples of protected zones and, of each stretch between, one for so many: their mean.

    What a stretch has left over at its end is kept as it is.
    """
    inside = [any(begin <= sample <= end for *_, begin, end in beats) for sample in range(1, len(signal) + 1)]
    out: list[int] = []
    at = 0
    while at < len(signal):
        stop = at
        while stop < len(signal) and inside[stop] == inside[at]:
            stop += 1
        whole = at if inside[at] else at + (stop - at) // factor * factor
        out += [round(float(np.mean(signal[group : group + factor]))) for group in range(at, whole, factor)]
        out += [int(value) for value in signal[whole:stop]]
        at = stop
    return out
