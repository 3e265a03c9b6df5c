"""XLI and LZW decompression, compared with encoders written here from their descriptions."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import FormatError
from clocs.formats.philips_xml import MAX_UNPACKED, unpack_lzw, unpack_xli

END = 1023


def bits(codes: list[int]) -> bytes:
    text = "".join(f"{code:010b}" for code in codes)
    text += "0" * (-len(text) % 8)
    return bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8))


def compressed(data: bytes) -> bytes:
    """Compress with LZW codes of 10 bits. The dictionary does not change once it is full."""
    known = {bytes([value]): value for value in range(256)}
    codes, word = [], b""
    for value in data:
        longer = word + bytes([value])
        if longer in known:
            word = longer
            continue
        codes.append(known[word])
        if len(known) < END:
            known[longer] = len(known)
        word = bytes([value])
    return bits([*codes, *([known[word]] if word else []), END])


def packed(lead: list[int]) -> bytes:
    """Return a block with two samples, then second differences, each delayed by one sample."""
    short = [2 * lead[at - 1] - lead[at - 2] - lead[at] for at in range(2, len(lead))]
    first = short[0] if short else 0
    stored = [*lead[:2], *(value + 64 for value in short[1:]), *([64] if short else [])]
    numbers = np.array(stored, np.int16).view(np.uint16)
    body = compressed((numbers >> 8).astype(np.uint8).tobytes() + (numbers & 255).astype(np.uint8).tobytes())
    return struct.pack("<ihh", len(body), 1, first) + body


@settings(max_examples=100)
@given(st.binary(max_size=3000))
def test_lzw_round_trip(data: bytes) -> None:
    assert unpack_lzw(compressed(data), 1 << 20, "x") == data


def test_full_dictionary_does_not_change() -> None:
    data = np.random.default_rng(0).integers(0, 256, 20_000, dtype=np.uint8).tobytes()
    assert unpack_lzw(compressed(data), 1 << 20, "x") == data


def test_code_that_is_used_before_it_is_defined() -> None:
    assert unpack_lzw(compressed(b"a" * 100), 1000, "x") == b"a" * 100


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(-4000, 4000), min_size=3, max_size=60), min_size=1, max_size=4))
def test_xli_round_trip(leads: list[list[int]]) -> None:
    assert [lead.tolist() for lead in unpack_xli(b"".join(map(packed, leads)), "x")] == leads


@pytest.mark.parametrize("lead", [[5], [5, 6]])
def test_xli_round_trip_of_short_leads(lead: list[int]) -> None:
    assert [found.tolist() for found in unpack_xli(packed(lead), "x")] == [lead]


def test_data_without_an_end_code() -> None:
    assert unpack_lzw(bits([65, 66, 67, 68]), 100, "x") == b"ABCD"
    assert unpack_lzw(b"", 100, "x") == b""


@pytest.mark.parametrize("codes", [[300], [256], [65, 258], [65, 66, 1000]])
def test_undefined_code_is_rejected(codes: list[int]) -> None:
    with pytest.raises(FormatError, match="x: an XLI block has an undefined code"):
        unpack_lzw(bits(codes), 1000, "x")


@pytest.mark.parametrize(
    "data", [b"\1\0\0", b"\xff\xff\xff\x7f\1\0\0\0", struct.pack("<ihh", 10, 1, 0) + b"abc", b"\0" * 8 * 300]
)
def test_blocks_outside_the_data_are_rejected(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"x: XLI block .* is not within the data"):
        unpack_xli(data, "x")


def test_decompression_bomb_is_rejected_without_using_memory() -> None:
    """Codes of increasingly long entries would expand 130 KB to 75 MB."""
    growing = [0, *range(256, 1023)]
    body = bits(growing + [1022] * 100_000)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="unpack to more than"):
            unpack_xli(struct.pack("<ihh", len(body), 1, 0) + body, "x")
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_UNPACKED
    finally:
        tracemalloc.stop()


def test_size_limit_applies_to_all_blocks() -> None:
    body = bits([0, *range(256, 1023)])
    block = struct.pack("<ihh", len(body), 1, 0) + body
    assert len(unpack_xli(block, "x")[0]) * 2 * 8 > MAX_UNPACKED
    with pytest.raises(FormatError, match="unpack to more than"):
        unpack_xli(block * 8, "x")


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_data_is_unpacked_or_rejected(data: bytes) -> None:
    for text in (data, struct.pack("<ihh", len(data), 1, 0) + data):
        try:
            leads = unpack_xli(text, "x")
        except FormatError:
            continue
        assert all(lead.ndim == 1 for lead in leads)
