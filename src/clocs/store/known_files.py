"""Files of a source that earlier ingests have read, so that an ingest reads only new and changed ones."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.sources.source import FileTree
from clocs.store.arrow_files import CheckedArrow, write_arrow
from clocs.store.checksums import write_checksums

FILE = "known-files.arrow"
"""Name of the file within a store. It is derived: without it, every file is read again."""
SETTLING_NS = 2_000_000_000
"""Files that changed later than this before an ingest are read again by the next one, because a file system may give
two changes the same time."""
_COLUMNS = ("key", "size", "time", "answer")


class KnownFiles:
    """A source that remembers the answers to questions about its files, by name, size and time of change.

    A file with the same size and time is taken as unchanged. Names are kept only as hashes.

    Args:
        folder: Folder of the store that keeps the answers.
        source: The source.
        digest: Function that hashes a text to hex digits. It is keyed if names identify patients.
    """

    def __init__(self, folder: Path, source: FileTree, digest: Callable[[str], str]) -> None:
        self.path = source.path
        self._folder, self._source, self._digest = folder, source, digest
        self._settled_before = time.time_ns() - SETTLING_NS
        self._answers: list[str] = []
        self._codes: dict[str, int] = {}
        self._rows = {name: array("Q" if name == "key" else "q") for name in _COLUMNS}
        self._known = self._read()

    def names(self) -> Iterator[str]:
        return self._source.names()

    def exists(self, name: str) -> bool:
        return self._source.exists(name)

    def size(self, name: str) -> int:
        return self._source.size(name)

    @property
    def stamps_content(self) -> bool:
        return self._source.stamps_content

    def stamp(self, name: str) -> tuple[int, int] | None:
        return self._source.stamp(name)

    def read(self, name: str) -> bytes:
        return self._source.read(name)

    def head(self, name: str, count: int) -> bytes:
        return self._source.head(name, count)

    def recall(self, question: str, name: str, answer: Callable[[], str | None]) -> str | None:
        """Return the remembered answer of an unchanged file, otherwise a new answer, which is remembered."""
        stamp = self._source.stamp(name)
        if stamp is None:  # a broken link
            return answer()
        key, (size, changed) = int(self._digest(f"{question} {name}")[:16], 16), stamp
        found = self._find(key, size, changed)
        if found is None:
            found = answer()
        if found is not None and changed < self._settled_before:
            code = self._codes.setdefault(found, len(self._codes))
            for column, value in zip(_COLUMNS, (key, size, changed, code), strict=True):
                self._rows[column].append(value)
        return found

    def save(self) -> None:
        """Write the answers of this ingest, which replace those of earlier ones."""
        columns = {name: np.frombuffer(rows, rows.typecode) for name, rows in self._rows.items() if len(rows)}
        if not columns:
            return
        first = np.unique(columns["key"], return_index=True)[1]  # sorted by key; a question may be asked twice
        arrays = {name: pa.array(column[first]) for name, column in columns.items() if name != "answer"}
        codes = pa.array(columns["answer"][first].astype(np.int32))
        arrays["answer"] = pa.DictionaryArray.from_arrays(codes, pa.array(list(self._codes))).dictionary_decode()
        written = write_arrow(self._folder / FILE, pa.record_batch(arrays), replace=True)
        write_checksums(self._folder / FILE, written.sha256, written.checksums, replace=True)

    def _find(self, key: int, size: int, changed: int) -> str | None:
        if self._known is None:
            return None
        keys, sizes, times, answers = self._known
        row = int(np.searchsorted(keys, np.uint64(key)))
        if row == len(keys) or (int(keys[row]), int(sizes[row]), int(times[row])) != (key, size, changed):
            return None
        return str(answers[row].as_py())

    def _read(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, pa.Array] | None:
        """Return the columns of earlier answers; None without an intact file."""
        path = self._folder / FILE
        if not path.exists():
            return None
        try:
            batch = CheckedArrow(path).columns(_COLUMNS)
        except (IntegrityError, StoreError, KeyError):
            return None
        key, size, changed = (column.to_numpy() for column in batch.columns[:3])
        return key, size, changed, batch.column(3)
