"""WFDB annotations, against the ``wfdb`` package and against hand-written bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import wfdb

from clocs.core.errors import FormatError
from clocs.formats.wfdb.annotations import AUX, RHYTHM, SKIP, Annotation, parse_annotations


def encode(annotations: list[tuple[int, int, str]]) -> bytes:
    """Write annotations (sample, code, text) in MIT format."""
    data, last = b"", 0
    for sample, code, text in annotations:
        distance, last = sample - last, sample
        if not 0 <= distance < 1024:
            words = (SKIP << 10, distance >> 16 & 0xFFFF, distance & 0xFFFF)
            data += b"".join(word.to_bytes(2, "little") for word in words)
            distance = 0
        data += (code << 10 | distance).to_bytes(2, "little")
        if text:
            raw = text.encode() + b"\0"
            data += (AUX << 10 | len(raw)).to_bytes(2, "little") + raw + b"\0" * (len(raw) % 2)
    return data + b"\0\0"


def test_the_wfdb_package_writes_what_is_read(tmp_path: Path) -> None:
    samples = np.array([18, 77, 370, 1500, 70000, 650000])
    texts = ["(N\0", "", "", "(AFIB\0", "(VFL\0", ""]
    symbols = ["+", "N", "V", "+", "+", "A"]
    wfdb.wrann(
        "100",
        "atr",
        samples,
        symbol=symbols,
        aux_note=texts,
        chan=np.array([0, 0, 1, 0, 0, 1]),
        write_dir=str(tmp_path),
    )
    found = parse_annotations((tmp_path / "100.atr").read_bytes(), "100.atr")
    assert [item.sample for item in found] == samples.tolist()
    assert [item.code for item in found] == [RHYTHM, 1, 5, RHYTHM, RHYTHM, 8]
    assert [item.text for item in found] == [text.rstrip("\0") for text in texts]


def test_long_and_negative_distances() -> None:
    given = [(5, 1, ""), (100_000, RHYTHM, "(AFIB"), (99_000, 1, ""), (99_500, RHYTHM, "(N")]
    assert parse_annotations(encode(given), "a.atr") == [Annotation(*item) for item in given]


@pytest.mark.parametrize("size", [0, 1, 3, 5, 9, 13])
def test_a_file_that_is_cut_off_raises_an_error(size: int) -> None:
    data = encode([(5, 1, ""), (100_000, RHYTHM, "(AFIB")])
    with pytest.raises(FormatError, match=r"a\.atr: .* cut off"):
        parse_annotations(data[:size], "a.atr")
