"""Restriction of file access by Landlock (Linux 5.13 and newer)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clocs.service.parsing.syscalls import NO_NEW_PRIVILEGES, system_call

NEWEST_VERSION: Final = 7
"""Newest version of Landlock that this module supports."""
_FILE_RIGHTS: Final = ((5, 16), (3, 15), (2, 14), (1, 13))
"""Versions of Landlock, and the number of file rights since then."""
_NETWORK_VERSION, _SCOPE_VERSION = 4, 6
_CONNECT_AND_BIND, _SOCKETS_AND_SIGNALS = 3, 3
_READING: Final = 1 << 2 | 1 << 3
"""Rights to read files and to list folders."""
_ASK_VERSION, _BENEATH = 1, 1
_THREADS: Final = "/proc/self/task"


def landlock_version() -> int:
    """Return the usable version of Landlock; 0 if the kernel does not offer it."""
    try:
        return min(system_call("landlock_create_ruleset", 0, 0, _ASK_VERSION), NEWEST_VERSION)
    except OSError:
        return 0


def restrict_files(folders: Sequence[str], version: int) -> None:
    """Restrict this process irrevocably to reading these folders.

    Args:
        folders: Existing folders.
        version: Version of Landlock, at most the kernel's.

    Raises:
        OSError: The kernel refused the restriction, or another thread is running, to which it would not apply.
    """
    threads = sorted(Path(_THREADS, thread, "comm").read_text().strip() for thread in os.listdir(_THREADS))
    if len(threads) != 1:
        raise OSError(f"landlock: it applies to one thread only, but several are running: {', '.join(threads)}")
    rights = (1 << next(count for since, count in _FILE_RIGHTS if version >= since)) - 1
    handled = struct.pack("=Q", rights)
    if version >= _NETWORK_VERSION:
        handled += struct.pack("=Q", _CONNECT_AND_BIND)
    if version >= _SCOPE_VERSION:
        handled += struct.pack("=Q", _SOCKETS_AND_SIGNALS)
    held = ctypes.create_string_buffer(handled, len(handled))
    rules = system_call("landlock_create_ruleset", ctypes.addressof(held), len(handled), 0)
    try:
        for folder in folders:
            _allow_reading(rules, folder)
        system_call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        system_call("landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)


def _allow_reading(rules: int, folder: str) -> None:
    descriptor = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(struct.pack("=Qi", _READING, descriptor))
        system_call("landlock_add_rule", rules, _BENEATH, ctypes.addressof(rule), 0)
    finally:
        os.close(descriptor)
