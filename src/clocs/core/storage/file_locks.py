"""Locks of open files between processes. They end with the file or the process."""

from __future__ import annotations

import warnings
from functools import cache
from types import ModuleType
from typing import IO, Any


def _import_fcntl() -> ModuleType | None:
    """Return the module of POSIX systems."""
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl


fcntl = _import_fcntl()


def lock_file(file: IO[Any], *, wait: bool = True) -> None:
    """Lock an open file against other processes until it is closed.

    Where the system has no such locks, this warns once and continues: one process is safe, several are not.

    Args:
        file: The open file.
        wait: Wait until another process releases its lock.

    Raises:
        BlockingIOError: Another process has locked the file, and ``wait`` is False.
    """
    if fcntl is None:
        _warn_of_missing_locks()
    else:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


@cache
def _warn_of_missing_locks() -> None:
    warnings.warn(
        "This system cannot lock files. Do not write to one folder with several processes at a time.",
        RuntimeWarning,
        stacklevel=3,
    )
