"""Search for many short texts in large files, in one pass and with bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

BLOCK_BYTES: Final = 4 << 20
"""Bytes that are read at a time."""
MIN_UNBOUNDED_LENGTH: Final = 6
"""Minimum length of a text that also matches within words, if it has a letter. Others match as whole words."""


class TextSearch:
    """Case-insensitive search for texts of at least four characters, encoded as UTF-8, Latin-1 or JSON.

    Args:
        texts: The texts.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._by_start: dict[bytes, list[tuple[bytes, str]]] = {}
        self._max_length = 0
        self._first, self._second = np.zeros(1 << 16, np.bool_), np.zeros(1 << 16, np.bool_)
        for text in texts:
            for raw in _encodings(text):
                if len(raw) >= 4:
                    self._add(raw, text)

    def _add(self, raw: bytes, text: str) -> None:
        self._by_start.setdefault(raw[:4], []).append((raw, text))
        self._max_length = max(self._max_length, len(raw))
        start = np.frombuffer(raw[:4], "<u2")
        self._first[start[0]] = self._second[start[1]] = True

    def search(self, text: str) -> Iterator[str]:
        """Iterate over the matches in a text, with repetitions."""
        data = text.encode("utf-8", "replace")
        return self._search(data, 0, len(data))

    def search_file(self, path: Path) -> Iterator[str]:
        """Iterate over the matches in a file, with repetitions."""
        if not self._max_length:
            return
        overlap = self._max_length + 1
        with open(path, "rb") as file:
            previous, is_last = b"", False
            while not is_last:
                block = file.read(BLOCK_BYTES)
                is_last = len(block) < BLOCK_BYTES
                data, start = previous + block, 1 if previous else 0
                yield from self._search(data, start, len(data) if is_last else max(len(data) - overlap, start))
                previous = data[-overlap - 1 :]

    def _search(self, data: bytes, start: int, end: int) -> Iterator[str]:
        """Iterate over the matches that start in [start, end). The byte before a match shows if it is a whole word."""
        data = data.lower()
        if len(data) < 4:
            return
        values = np.frombuffer(data, np.uint8).astype(np.uint16)
        pairs = values[:-1] | (values[1:] << 8)
        for position in np.flatnonzero(self._first[pairs[:-2]] & self._second[pairs[2:]]).tolist():
            if start <= position < end:
                for raw, text in self._by_start.get(data[position : position + 4], ()):
                    if data.startswith(raw, position) and (
                        _matches_inside_words(text) or _is_whole_word(data, position, position + len(raw))
                    ):
                        yield text


def _encodings(text: str) -> set[bytes]:
    """Return the encodings of a text, with ASCII in lower case and other letters in both cases."""
    forms = (text.lower(), text.upper())
    plain = {form.encode(code, "replace").lower() for form in forms for code in ("utf-8", "latin-1")}
    return plain | {json.dumps(form)[1:-1].encode().lower() for form in forms}


def _matches_inside_words(text: str) -> bool:
    return len(text) >= MIN_UNBOUNDED_LENGTH and any(character.isalpha() for character in text)


def _is_whole_word(data: bytes, start: int, end: int) -> bool:
    return not data[max(start - 1, 0) : start].isalnum() and not data[end : end + 1].isalnum()
