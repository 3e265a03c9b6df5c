"""The system calls with which clocs changes a disk.

Everything durable is written through one object, :data:`clocs.core.files.disk`. Tests replace it by a disk that fails,
or by one that records what was written and synced, from which the states after a power loss follow.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


class Disk:
    """The disk of this machine."""

    def open(self, path: Path) -> IO[bytes]:
        """Open a file to append to it; a missing one is created."""
        return open(path, "ab")

    def sync(self, file: IO[bytes]) -> None:
        """Force an open file's bytes to the disk; the entry in its folder needs :meth:`sync_folder`."""
        file.flush()
        os.fsync(file.fileno())

    def rename(self, here: Path, there: Path) -> None:
        """Give a file another name, in place of whatever has it."""
        os.replace(here, there)

    def make_folder(self, folder: Path) -> None:
        """Make one folder; its parent must exist."""
        os.mkdir(folder)

    def sync_folder(self, folder: Path) -> None:
        """Force the entries of a folder to the disk: names of new, renamed and removed files and folders."""
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
