"""Huffman codes of SCP-ECG: the standard's default table, a file's own tables, and switches between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import unpack

USE_DEFAULT_TABLE: Final = 19999
"""In place of a number of tables: the default one."""
MAX_TABLES: Final = 64
MAX_CODES: Final = 4096
MAX_PREFIX: Final = 18
MAX_BITS: Final = 40
BLOCK_BYTES: Final = 4096
"""Decoded at once: every place in a block is looked up, then the codes are followed from one to the next."""
ENTRY: Final = "<BBBhI"


class Code(NamedTuple):
    """A code: its prefix, and how many bits there are with those of a number that follows it."""

    prefix: int
    prefix_bits: int
    total_bits: int
    value: int
    """What it means; of a switch, the table."""
    is_switch: bool = False


@dataclass(frozen=True)
class Table:
    """Codes by the next bits of the data."""

    bits: int
    """Of the longest prefix."""
    lookup: npt.NDArray[np.int16]
    """(2 ** bits,), the code that so many bits start with, or -1."""
    codes: tuple[Code, ...]

    @classmethod
    def of(cls, codes: Sequence[Code], name: str) -> Table:
        """A table of codes, none longer than can be looked up."""
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
    """The standard's: a number's size in ones, a zero, its sign; beyond 8 the number itself in 8 or 16 bits."""
    codes = [Code(0, 1, 1, 0)]
    for size in range(1, 9):
        ones = (1 << size) - 1
        codes += [Code(ones << 2 | sign, size + 2, size + 2, -size if sign else size) for sign in (0, 1)]
    codes += [Code(0b1111111110, 10, 18, 0), Code(0b1111111111, 10, 26, 0)]
    return Table.of(codes, "")


def read_tables(body: bytes, name: str) -> list[Table]:
    """The tables of section 2."""
    (count,) = unpack("<H", body, 0, name)
    if count == USE_DEFAULT_TABLE:
        return [default_table()]
    if not 1 <= count <= MAX_TABLES:
        raise FormatError(f"{name}: {count} Huffman tables; 1 to {MAX_TABLES} are read")
    found, at = [], 2
    for _ in range(count):
        (codes,) = unpack("<H", body, at, name)
        if codes > MAX_CODES:
            raise FormatError(f"{name}: a Huffman table of {codes} codes; at most {MAX_CODES} are read")
        found.append(Table.of([_code(body, at + 2 + 9 * entry, name) for entry in range(codes)], name))
        at += 2 + 9 * codes
    return found


def _code(body: bytes, at: int, name: str) -> Code:
    """A code as section 2 has it: the first bit of its prefix is the lowest."""
    prefix_bits, total_bits, mode, value, mirrored = unpack(ENTRY, body, at, name)
    kept = mirrored & ((1 << prefix_bits) - 1)
    prefix = int(f"{kept:0{prefix_bits}b}"[::-1], 2) if 0 < prefix_bits <= MAX_PREFIX else 0
    return Code(prefix, prefix_bits, total_bits, value, is_switch=mode == 0)


class Decoder:
    """Reads numbers that are coded by tables, the first of them at the start of each lead."""

    def __init__(self, tables: Sequence[Table], name: str) -> None:
        self.tables = tables
        self.name = name
        codes = [code for table in tables for code in table.codes]
        self.first_codes = np.cumsum([0, *(len(table.codes) for table in tables)])
        """Where a table's codes start among all."""
        self.lengths = np.array([-code.total_bits if code.is_switch else code.total_bits for code in codes], np.int64)
        """Bits of each code, less than 0 for a switch."""
        self.values = np.array([code.value for code in codes], np.int64)
        self.prefix_lengths = np.array([code.prefix_bits for code in codes], np.uint64)
        self.extra_bits = np.array([code.total_bits - code.prefix_bits for code in codes], np.int64)

    def decode(self, data: bytes, max_values: int) -> tuple[npt.NDArray[np.int16], int]:
        """The numbers at the start of data, at most so many, and how many bytes they took."""
        out = np.empty(max_values, np.int16)
        done, at, table = 0, 0, 0
        while done < max_values and at < 8 * len(data):
            first = at // 8
            numbers, at, table = _Block(self, data, first).follow(at - 8 * first, max_values - done, table)
            at += 8 * first
            out[done : done + len(numbers)] = numbers
            done += len(numbers)
        return out[:done], -(-at // 8)


class _Block:
    """The codes that start at each bit of some bytes, whether or not one before ends there."""

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
        """The code at each bit, and its bits: 0 where there is none, less than 0 for a switch."""
        if table not in self._cache:
            current = self._decoder.tables[table]
            shifted = self._windows[:, None] << np.arange(8, dtype=np.uint64)
            codes = current.lookup[(shifted >> np.uint64(64 - current.bits)).ravel()].astype(np.int64)
            indices = codes + self._decoder.first_codes[table]
            self._cache[table] = indices, np.where(codes < 0, 0, self._decoder.lengths[indices]).tolist()
        return self._cache[table]

    def follow(self, at: int, max_values: int, table: int) -> tuple[npt.NDArray[np.int16], int, int]:
        """The numbers from a bit on, where the next code starts, and the table it is of."""
        positions: list[int] = []
        runs = [(table, 0)]
        while True:
            _, lengths = self._codes(table)
            length = 0
            while at < self._num_bits and len(positions) < max_values and (length := lengths[at]) > 0:
                positions.append(at)
                at += length
            if at >= self._num_bits or len(positions) >= max_values:
                break
            table = self._switch_table(table, at, length, len(positions) == runs[-1][1] and len(runs) > 1)
            at -= length
            runs.append((table, len(positions)))
        if at > self._bits_left:  # the last code goes beyond the data
            positions.pop()
            at = self._bits_left
        return self._numbers(positions, runs), at, table

    def _switch_table(self, table: int, at: int, length: int, is_repeated: bool) -> int:
        """The table that a code switches to; a switch just after another would let data go on without numbers."""
        codes, _ = self._codes(table)
        target = int(self._decoder.values[codes[at]]) if length < 0 else 0
        if not 1 <= target <= len(self._decoder.tables) or is_repeated:
            raise FormatError(f"{self._decoder.name}: holds bits that are no Huffman code; the file is damaged")
        return target - 1

    def _numbers(self, positions: list[int], runs: list[tuple[int, int]]) -> npt.NDArray[np.int16]:
        """What the codes at some places mean, the first of each run by the table it starts with."""
        at = np.array(positions, np.int64)
        tables, starts = np.array(runs, np.int64).T
        used = np.unique(tables)
        owners = np.searchsorted(used, np.repeat(tables, np.diff(starts, append=len(at))))
        codes = np.stack([self._codes(int(table))[0] for table in used])[owners, at]
        values = self._decoder.values[codes]
        longer = np.flatnonzero(self._decoder.extra_bits[codes])
        shift = (at[longer] % 8).astype(np.uint64) + self._decoder.prefix_lengths[codes[longer]]
        follows = (self._windows[at[longer] // 8] << shift).view(np.int64)
        values[longer] += follows >> (64 - self._decoder.extra_bits[codes[longer]])
        return values.astype(np.int16)
