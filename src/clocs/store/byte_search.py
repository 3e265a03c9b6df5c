"""Many short texts looked for in large files, in one pass and in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

PIECE: Final = 4 << 20
FREE_LENGTH: Final = 6
"""A text of so many characters with a letter among them counts anywhere; others where no letter or digit adjoins."""


class Needles:
    """Texts of four characters and more, in either case, as UTF-8, Latin-1 or in JSON."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._by_start: dict[bytes, list[tuple[bytes, str]]] = {}
        self._longest = 0
        self._first, self._second = np.zeros(1 << 16, np.bool_), np.zeros(1 << 16, np.bool_)
        for text in texts:
            for raw in _written(text):
                if len(raw) >= 4:
                    self._add(raw, text)

    def _add(self, raw: bytes, text: str) -> None:
        self._by_start.setdefault(raw[:4], []).append((raw, text))
        self._longest = max(self._longest, len(raw))
        start = np.frombuffer(raw[:4], "<u2")
        self._first[start[0]] = self._second[start[1]] = True

    def search(self, text: str) -> Iterator[str]:
        """Each text that stands in another, as often as it stands there."""
        data = text.encode("utf-8", "replace")
        return self._search(data, 0, len(data))

    def search_file(self, path: Path) -> Iterator[str]:
        """Each text that stands in a file, as often as it stands there."""
        if not self._longest:
            return
        overlap = self._longest + 1
        with open(path, "rb") as file:
            before, last = b"", False
            while not last:
                piece = file.read(PIECE)
                last = len(piece) < PIECE
                data, start = before + piece, 1 if before else 0
                yield from self._search(data, start, len(data) if last else max(len(data) - overlap, start))
                before = data[-overlap - 1 :]

    def _search(self, data: bytes, start: int, end: int) -> Iterator[str]:
        """Those that start in [start, end); the byte before tells whether they stand alone."""
        data = data.lower()
        if len(data) < 4:
            return
        signs = np.frombuffer(data, np.uint8).astype(np.uint16)
        pairs = signs[:-1] | (signs[1:] << 8)
        for at in np.flatnonzero(self._first[pairs[:-2]] & self._second[pairs[2:]]).tolist():
            if start <= at < end:
                for raw, text in self._by_start.get(data[at : at + 4], ()):
                    if data.startswith(raw, at) and (_free(text) or _alone(data, at, at + len(raw))):
                        yield text


def _written(text: str) -> set[bytes]:
    """In bytes, ASCII in lower case; other letters are given in both cases."""
    forms = (text.lower(), text.upper())
    plain = {form.encode(code, "replace").lower() for form in forms for code in ("utf-8", "latin-1")}
    return plain | {json.dumps(form)[1:-1].encode().lower() for form in forms}


def _free(text: str) -> bool:
    return len(text) >= FREE_LENGTH and any(sign.isalpha() for sign in text)


def _alone(data: bytes, start: int, end: int) -> bool:
    return not data[max(start - 1, 0) : start].isalnum() and not data[end : end + 1].isalnum()
