"""A watched folder: files are taken once their size is unchanged for two polls. The folder is only read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clocs.core.errors import ClocsError
from clocs.core.privacy.pseudonyms import PatientKey
from clocs.core.sources.folder_source import FolderSource
from clocs.service.receiving.spool import Spool

HEADER: Final = ".hea"
SIGNALS: Final = (".dat", ".mat")
"""Extensions of the signal files of a WFDB header, which are taken together with it."""
IGNORED: Final = (".tmp", ".part", ".partial")
"""Extensions of files that a sender has not finished."""


class WatchedFolder:
    """Poll a folder, which may be a network share.

    Args:
        folder: The folder.
        key: Key of the pseudonyms of file names.
        max_bytes: Maximum size of a file. Larger files are left alone.
    """

    def __init__(self, folder: Path, key: PatientKey, max_bytes: int) -> None:
        self._source, self._key, self._max_bytes = FolderSource(folder), key, max_bytes
        self._sizes: dict[str, tuple[int, ...]] = {}

    def poll(self, spool: Spool) -> int:
        """Take the files whose size is the same as in the previous poll, and return their number."""
        before, self._sizes, taken = self._sizes, {}, 0
        for files in self._groups():
            try:
                sizes = tuple(self._source.size(name) for name in files)
            except (ClocsError, OSError):  # removed meanwhile
                continue
            self._sizes[files[0]] = sizes
            name = self._key.record(f"watched\0{files[0]}\0{sizes}")
            if before.get(files[0]) != sizes or not all(0 < size <= self._max_bytes for size in sizes) or name in spool:
                continue
            try:
                content = self._content(files)
            except (ClocsError, OSError):  # locked or removed; tried again at the next poll
                continue
            taken += spool.add(name, content)
        return taken

    def _groups(self) -> Iterator[tuple[str, ...]]:
        """Iterate over the files, with a WFDB header and its signal files as one group."""
        names = {name for name in self._source.names() if not Path(name).name.startswith(".")}
        for name in sorted(names):
            stem, suffix = str(Path(name).with_suffix("")), Path(name).suffix
            if suffix in IGNORED or (suffix in SIGNALS and stem + HEADER in names):
                continue
            signals = [stem + extension for extension in SIGNALS if stem + extension in names]
            if suffix != HEADER or signals:  # a header waits for its signals
                yield (name, *(signals if suffix == HEADER else ()))

    def _content(self, files: tuple[str, ...]) -> bytes:
        """Return the bytes of a file, or a zip archive of several."""
        if len(files) == 1:
            return self._source.read(files[0])
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in files:
                archive.writestr(Path(name).name, self._source.read(name))
        return buffer.getvalue()
