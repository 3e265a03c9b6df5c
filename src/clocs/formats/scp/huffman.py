"""Decode the Huffman codes of SCP-ECG: the default table of the standard, tables in the file, and switches of table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import unpack

USE_DEFAULT_TABLE: Final = 19999
"""Number of tables that selects the default table."""
MAX_TABLES: Final = 64
MAX_CODES: Final = 4096
MAX_PREFIX: Final = 18
MAX_BITS: Final = 40
BLOCK_BYTES: Final = 4096
"""Number of bytes that are decoded at once. The code at every bit is looked up first, then the codes are followed."""
ENTRY: Final = "<BBBhI"


class Code(NamedTuple):
    """A Huffman code: a prefix, and possibly a number that follows it."""

    prefix: int
    """Bits of the prefix."""
    prefix_bits: int
    """Number of bits of the prefix."""
    total_bits: int
    """Number of bits of the prefix and the number."""
    value: int
    """Decoded value, or the next table of a switch."""
    is_switch: bool = False
    """True if the code switches to another table."""


@dataclass(frozen=True)
class Table:
    """A lookup table of codes."""

    bits: int
    """Number of bits of the longest prefix."""
    lookup: npt.NDArray[np.int16]
    """Index of the code at the start of each bit pattern, or -1, shape (2 ** bits,)."""
    codes: tuple[Code, ...]
    """Codes of the table."""

    @classmethod
    def of(cls, codes: Sequence[Code], name: str) -> Table:
        """Build a table from codes, or raise a ``FormatError`` if a code is too long."""
        if not codes or any(
            not 1 <= code.prefix_bits <= MAX_PREFIX or not code.prefix_bits <= code.total_bits <= MAX_BITS
            for code in codes
        ):
            raise FormatError(f"{name}: a Huffman table needs codes of 1 to {MAX_PREFIX} bits before their numbers")
        bits = max(code.prefix_bits for code in codes)
        lookup = np.full(1 << bits, -1, np.int16)
        for index, code in enumerate(codes):
            spare = bits - code.prefix_bits
            lookup[code.prefix << spare : (code.prefix + 1) << spare] = index
        return cls(bits, lookup, tuple(codes))


def default_table() -> Table:
    """Return the default table of the standard.

    A number up to 8 is coded as that many ones, a zero and its sign. Larger numbers follow a prefix in 8 or 16 bits.
    """
    codes = [Code(0, 1, 1, 0)]
    for size in range(1, 9):
        ones = (1 << size) - 1
        codes += [Code(ones << 2 | sign, size + 2, size + 2, -size if sign else size) for sign in (0, 1)]
    codes += [Code(0b1111111110, 10, 18, 0), Code(0b1111111111, 10, 26, 0)]
    return Table.of(codes, "")


def read_tables(body: bytes, name: str) -> list[Table]:
    """Read the tables of section 2."""
    (count,) = unpack("<H", body, 0, name)
    if count == USE_DEFAULT_TABLE:
        return [default_table()]
    if not 1 <= count <= MAX_TABLES:
        raise FormatError(f"{name}: {count} Huffman tables; expected 1 to {MAX_TABLES}")
    found, offset = [], 2
    for _ in range(count):
        (codes,) = unpack("<H", body, offset, name)
        if codes > MAX_CODES:
            raise FormatError(f"{name}: a Huffman table of {codes} codes; expected at most {MAX_CODES}")
        found.append(Table.of([_code(body, offset + 2 + 9 * entry, name) for entry in range(codes)], name))
        offset += 2 + 9 * codes
    return found


def _code(body: bytes, offset: int, name: str) -> Code:
    """Read a code of section 2. The first bit of its prefix is the lowest."""
    prefix_bits, total_bits, mode, value, mirrored = unpack(ENTRY, body, offset, name)
    kept = mirrored & ((1 << prefix_bits) - 1)
    prefix = int(f"{kept:0{prefix_bits}b}"[::-1], 2) if 0 < prefix_bits <= MAX_PREFIX else 0
    return Code(prefix, prefix_bits, total_bits, value, is_switch=mode == 0)


class Decoder:
    """Decodes numbers. Every lead starts with the first table."""

    def __init__(self, tables: Sequence[Table], name: str) -> None:
        self.tables = tables
        self.name = name
        codes = [code for table in tables for code in table.codes]
        self.first_codes = np.cumsum([0, *(len(table.codes) for table in tables)])
        """Index of the first code of each table."""
        self.lengths = np.array([-code.total_bits if code.is_switch else code.total_bits for code in codes], np.int64)
        """Number of bits of each code, negative for a switch."""
        self.values = np.array([code.value for code in codes], np.int64)
        self.prefix_lengths = np.array([code.prefix_bits for code in codes], np.uint64)
        self.extra_bits = np.array([code.total_bits - code.prefix_bits for code in codes], np.int64)

    def decode(self, data: bytes, max_values: int) -> tuple[npt.NDArray[np.int16], int]:
        """Decode at most ``max_values`` numbers. Return them, and the number of bytes that they take."""
        out = np.empty(max_values, np.int16)
        done, position, table = 0, 0, 0
        while done < max_values and position < 8 * len(data):
            first = position // 8
            numbers, position, table = _Block(self, data, first).follow(position - 8 * first, max_values - done, table)
            position += 8 * first
            out[done : done + len(numbers)] = numbers
            done += len(numbers)
        return out[:done], -(-position // 8)


class _Block:
    """The codes that start at each bit of a block of bytes."""

    def __init__(self, decoder: Decoder, data: bytes, first: int) -> None:
        self._decoder = decoder
        count = min(BLOCK_BYTES, len(data) - first)
        self._num_bits, self._bits_left = 8 * count, 8 * (len(data) - first)
        ahead = np.frombuffer(data[first : first + count + 8].ljust(count + 8, b"\0"), np.uint8).astype(np.uint64)
        self._windows = np.zeros(count, np.uint64)
        for byte in range(8):
            self._windows = (self._windows << np.uint64(8)) | ahead[byte : byte + count]
        self._cache: dict[int, tuple[npt.NDArray[np.int64], list[int]]] = {}

    def _codes(self, table: int) -> tuple[npt.NDArray[np.int64], list[int]]:
        """Return the code at each bit, and its length: 0 for an invalid code, negative for a switch."""
        if table not in self._cache:
            current = self._decoder.tables[table]
            shifted = self._windows[:, None] << np.arange(8, dtype=np.uint64)
            codes = current.lookup[(shifted >> np.uint64(64 - current.bits)).ravel()].astype(np.int64)
            indices = codes + self._decoder.first_codes[table]
            self._cache[table] = indices, np.where(codes < 0, 0, self._decoder.lengths[indices]).tolist()
        return self._cache[table]

    def follow(self, position: int, max_values: int, table: int) -> tuple[npt.NDArray[np.int16], int, int]:
        """Decode the numbers from a bit. Return them, the position of the next code, and its table."""
        positions: list[int] = []
        runs = [(table, 0)]
        while True:
            _, lengths = self._codes(table)
            length = 0
            while position < self._num_bits and len(positions) < max_values and (length := lengths[position]) > 0:
                positions.append(position)
                position += length
            if position >= self._num_bits or len(positions) >= max_values:
                break
            table = self._switch_table(table, position, length, len(positions) == runs[-1][1] and len(runs) > 1)
            position -= length
            runs.append((table, len(positions)))
        if position > self._bits_left:  # The last code ends after the data.
            positions.pop()
            position = self._bits_left
        return self._numbers(positions, runs), position, table

    def _switch_table(self, table: int, position: int, length: int, is_repeated: bool) -> int:
        """Return the table that a code switches to. A switch directly after another is invalid."""
        codes, _ = self._codes(table)
        target = int(self._decoder.values[codes[position]]) if length < 0 else 0
        if not 1 <= target <= len(self._decoder.tables) or is_repeated:
            raise FormatError(f"{self._decoder.name}: holds an invalid Huffman code; the file is damaged")
        return target - 1

    def _numbers(self, positions: list[int], runs: list[tuple[int, int]]) -> npt.NDArray[np.int16]:
        """Return the values of the codes at some positions. Each run of codes has its own table."""
        bits = np.array(positions, np.int64)
        tables, starts = np.array(runs, np.int64).T
        used = np.unique(tables)
        owners = np.searchsorted(used, np.repeat(tables, np.diff(starts, append=len(bits))))
        codes = np.stack([self._codes(int(table))[0] for table in used])[owners, bits]
        values = self._decoder.values[codes]
        longer = np.flatnonzero(self._decoder.extra_bits[codes])
        shift = (bits[longer] % 8).astype(np.uint64) + self._decoder.prefix_lengths[codes[longer]]
        follows = (self._windows[bits[longer] // 8] << shift).view(np.int64)
        values[longer] += follows >> (64 - self._decoder.extra_bits[codes[longer]])
        return values.astype(np.int16)
