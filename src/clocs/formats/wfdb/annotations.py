"""Read WFDB annotation files in MIT format, as annot(5) of the WFDB manual describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from clocs.core.errors import FormatError

SKIP, NUM, SUB, CHN, AUX = 59, 60, 61, 62, 63
"""Codes of words that do not annotate a sample."""
RHYTHM: Final = 28
"""Code of a change of rhythm. Its text names the new rhythm, such as ``(AFIB``."""


@dataclass(frozen=True)
class Annotation:
    """One annotation of a record."""

    sample: int
    """Sample number, counted from 0."""
    code: int
    """Code of the annotation, such as 1 for a normal beat and ``RHYTHM`` for a change of rhythm."""
    text: str = ""
    """Text of the annotation; empty for most."""


def parse_annotations(data: bytes, name: str) -> list[Annotation]:
    """Parse an annotation file.

    Each word has 16 bits, little-endian: a code in the upper 6 bits and in the lower 10 bits the distance to the
    previous annotation. A word of zeros ends the file.

    Args:
        data: Bytes of the file.
        name: Name of the file, for messages.

    Returns:
        The annotations in the order of the file.

    Raises:
        FormatError: The file is cut off.
    """
    found: list[Annotation] = []
    position = sample = 0
    while True:
        word = _read_word(data, position, name)
        code, value = word >> 10, word & 0x3FF
        position += 2
        if not word:
            return found
        if code == SKIP:  # a longer distance, as two words with the upper one first
            high, low = _read_word(data, position, name), _read_word(data, position + 2, name)
            distance = high << 16 | low
            sample += distance - (1 << 32 if high >> 15 else 0)
            position += 4
        elif code == AUX:
            text = data[position : position + value]
            if len(text) < value:
                raise FormatError(f"{name}: the text of an annotation is cut off")
            if found:
                last = found.pop()
                found.append(Annotation(last.sample, last.code, text.rstrip(b"\0").decode("ascii", "replace")))
            position += value + value % 2
        elif code not in (NUM, SUB, CHN):
            sample += value
            found.append(Annotation(sample, code))


def _read_word(data: bytes, position: int, name: str) -> int:
    word = data[position : position + 2]
    if len(word) < 2:
        raise FormatError(f"{name}: the annotations are cut off after {position} bytes")
    return int.from_bytes(word, "little")
