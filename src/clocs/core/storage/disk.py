"""The system calls that change files and folders.

All durable writes go through one object, :data:`clocs.core.storage.files.disk`. Tests replace it by a disk that fails,
or by one that records writes and syncs, to reconstruct the possible states after a power loss.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


class Disk:
    """System calls on the file system of this machine."""

    def open(self, path: Path) -> IO[bytes]:
        """Open a file for appending. Create it if it does not exist."""
        return open(path, "ab")

    def sync(self, file: IO[bytes]) -> None:
        """Flush the bytes of an open file to the disk. Its folder entry needs :meth:`sync_folder`."""
        file.flush()
        os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file and replace an existing target."""
        os.replace(source, target)

    def make_folder(self, folder: Path) -> None:
        """Create one folder. Its parent must exist."""
        os.mkdir(folder)

    def sync_folder(self, folder: Path) -> None:
        """Flush the entries of a folder to the disk: new, renamed and removed files and folders."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_folder(self, folder: Path) -> None:
        """Remove an empty folder."""
        os.rmdir(folder)
