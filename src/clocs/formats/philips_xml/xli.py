"""XLI, Philips' packing of leads: per lead a block of LZW codes, in it second differences, high bytes before low."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError

HEADER_BYTES: Final = 8
"""Of a block: its length in 4 bytes, 2 bytes that mean nothing here, and in 2 bytes the first difference."""
CODE_BITS: Final = 10
LAST_CODE: Final = (1 << CODE_BITS) - 2
"""The one after it ends a block."""
MIDDLE: Final = 64
"""Differences are stored as so much more than they are."""
MAX_BLOCKS: Final = 256
MAX_UNPACKED: Final = 2 << 20
"""Bytes of all leads. Sixteen of 11 s at 500 Hz take a twelfth of it; LZW could make 600 times its size."""
PIECE_BYTES: Final = 5 << 12
"""Unpacked into bits at once; a multiple of 5, for four codes take five bytes."""


def unpack(data: bytes, name: str) -> list[npt.NDArray[np.int64]]:
    """The leads of a text's bytes, each (samples,), as they are stored."""
    left = MAX_UNPACKED
    leads: list[npt.NDArray[np.int64]] = []
    at = 0
    while at < len(data):
        header = data[at : at + HEADER_BYTES]
        length = int.from_bytes(header[:4], "little")
        at += HEADER_BYTES
        if len(header) < HEADER_BYTES or at + length > len(data) or len(leads) >= MAX_BLOCKS:
            raise FormatError(f"{name}: XLI block {len(leads) + 1} is not within the data; the file is damaged")
        plain = lzw(data[at : at + length], left, name)
        left -= len(plain)
        leads.append(_integrated(plain, int.from_bytes(header[6:], "little", signed=True)))
        at += length
    return leads


def lzw(data: bytes, limit: int, name: str) -> bytes:
    """Bytes from codes of 10 bits, highest bit first; once all codes have a meaning, meanings stay."""
    meanings = [bytes([value]) for value in range(256)]
    out = bytearray()
    before = b""
    for code in _codes(data):
        if code > LAST_CODE:
            break
        if code > len(meanings) or (code == len(meanings) and not before):
            raise FormatError(f"{name}: an XLI block has a code without a meaning; the file is damaged")
        text = meanings[code] if code < len(meanings) else before + before[:1]
        if before and len(meanings) <= LAST_CODE:
            meanings.append(before + text[:1])
        out += text
        if len(out) > limit:
            raise FormatError(f"{name}: XLI blocks unpack to more than {MAX_UNPACKED} bytes; the file is damaged")
        before = text
    return bytes(out)


def _codes(data: bytes) -> Iterator[int]:
    places = 1 << np.arange(CODE_BITS)[::-1]
    for at in range(0, len(data), PIECE_BYTES):
        bits = np.unpackbits(np.frombuffer(data[at : at + PIECE_BYTES], np.uint8))
        yield from (bits[: len(bits) // CODE_BITS * CODE_BITS].reshape(-1, CODE_BITS) @ places).tolist()


def _integrated(plain: bytes, first: int) -> npt.NDArray[np.int64]:
    """Samples from 16-bit numbers: two samples, then differences of differences, each one place late."""
    half = -(-len(plain) // 2)
    high, low = (np.frombuffer(part.ljust(half, b"\0"), np.uint8) for part in (plain[:half], plain[half:]))
    stored = ((high.astype(np.uint16) << 8) | low).view(np.int16).astype(np.int64)
    if half < 3:
        return stored
    bends = -np.concatenate([[first], stored[2:-1] - MIDDLE])
    slopes = np.cumsum(np.concatenate([stored[1:2] - stored[:1], bends]))
    return np.concatenate([stored[:1], stored[0] + np.cumsum(slopes)])
