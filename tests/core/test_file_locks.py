"""Locks of open files."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.storage import file_locks
from clocs.core.storage.file_locks import lock_file


def test_a_locked_file_is_refused_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with open(path, "ab") as first, open(path, "ab") as second:
        lock_file(first)
        with pytest.raises(BlockingIOError):
            lock_file(second, wait=False)
        first.close()
        lock_file(second, wait=False)


def test_a_system_without_locks_warns_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_locks, "fcntl", None)
    file_locks._warn_of_missing_locks.cache_clear()
    with open(tmp_path / "lock", "ab") as file:
        with pytest.warns(RuntimeWarning, match="cannot lock files"):
            lock_file(file)
        lock_file(file)  # a second warning would be an error
