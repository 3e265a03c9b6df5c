"""Atomic writes, canonical JSON and folder locks."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clocs.core.errors import StoreError
from clocs.core.hashes import canonical_json, content_hash, file_hash
from clocs.core.storage import files
from clocs.core.storage.disk import Disk
from clocs.core.storage.files import (
    append_bytes,
    atomic_file,
    lock_folder,
    remove_file,
    sync_file,
    truncate_file,
    write_bytes,
)

HOLD = """
import signal, sys
from pathlib import Path
from clocs.core.storage.files import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("locked", flush=True)
    signal.pause()
"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcäß", max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def reverse_order(value: Any) -> Any:
    """Return the same value with every mapping in the opposite order."""
    if isinstance(value, dict):
        return {key: reverse_order(value[key]) for key in reversed(value)}
    return [reverse_order(item) for item in value] if isinstance(value, list) else value


def test_a_file_has_its_name_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "a.bin"
    with atomic_file(target) as file:
        file.write(b"half")
        file.flush()
        assert not target.exists()
        file.write(b" and half")
    assert target.read_bytes() == b"half and half"
    assert os.listdir(target.parent) == ["a.bin"]


class BodyError(Exception):
    pass


@pytest.mark.parametrize("raised", [PermissionError(13, "Permission denied", "input.xml"), BodyError("x")])
def test_an_error_of_the_caller_is_not_changed_and_leaves_no_new_file(tmp_path: Path, raised: Exception) -> None:
    """An input that the caller cannot read is not reported as an output that cannot be written."""
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")

    def write() -> None:
        with atomic_file(target) as file:
            file.write(b"new")
            raise raised

    with pytest.raises(type(raised)) as caught:
        write()
    assert caught.value is raised
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_the_error_for_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.disk, "sync", full)
    with pytest.raises(StoreError, match=r"Cannot write /.*/a.bin: No space left on device. Nothing was committed"):
        write_bytes(tmp_path / "a.bin", b"x")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_created_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"Cannot write .*/file/a\.bin"):
        write_bytes(tmp_path / "file" / "a.bin", b"x")


def test_the_remains_of_a_killed_writer_are_overwritten(tmp_path: Path) -> None:
    """After a kill at any step of a write, the file is missing or complete, and the next attempt succeeds."""
    code = """
import os, sys
from pathlib import Path
from clocs.core.storage import files
files.on_write_step = lambda step, path: os._exit(9) if step == sys.argv[2] else None
files.write_bytes(Path(sys.argv[1]), b"whole" * 1000)
"""
    for step, exists in [("before write", False), ("after write", False), ("after rename", True)]:
        target = tmp_path / step.replace(" ", "-") / "a.bin"
        done = subprocess.run([sys.executable, "-c", code, str(target), step], check=False)
        assert done.returncode == 9
        assert target.exists() is exists
        if exists:
            assert target.read_bytes() == b"whole" * 1000
        write_bytes(target, b"second")
        assert target.read_bytes() == b"second"
        assert os.listdir(target.parent) == ["a.bin"]


def test_each_new_folder_is_synced_in_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a power loss could remove a new folder together with the synced file in it."""
    calls: list[tuple[str, str]] = []

    class LoggingDisk(Disk):
        def make_folder(self, folder: Path) -> None:
            super().make_folder(folder)
            calls.append(("make", folder.name))

        def sync_folder(self, folder: Path) -> None:
            super().sync_folder(folder)
            calls.append(("sync", folder.name))

    monkeypatch.setattr(files, "disk", LoggingDisk())
    parent = tmp_path.name
    write_bytes(tmp_path / "a" / "b" / "c" / "file", b"x")
    new = [("make", "a"), ("sync", parent), ("make", "b"), ("sync", "a"), ("make", "c"), ("sync", "b")]
    assert calls == [*new, ("sync", "c")]
    calls.clear()
    with lock_folder(tmp_path / "a" / "d"):
        assert calls == [("make", "d"), ("sync", "a")]


def test_appending_truncating_and_removing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append_bytes(path, b"one ")
    append_bytes(path, b"two ")
    sync_file(path)
    truncate_file(path, 4)
    append_bytes(path, b"three")
    assert path.read_bytes() == b"one three"
    remove_file(path)
    remove_file(path)
    assert os.listdir(tmp_path) == []
    with pytest.raises(StoreError, match=rf"^Cannot write {tmp_path}/no/log: .*run the same command again"):
        append_bytes(tmp_path / "no" / "log", b"x")


def test_the_callback_is_called_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, str]] = []
    monkeypatch.setattr(files, "on_write_step", lambda step, path: steps.append((step, path.name)))
    write_bytes(tmp_path / "a", b"x")
    assert steps == [("before write", "a"), ("after write", "a"), ("after rename", "a")]


@given(JSON)
def test_equal_values_give_equal_bytes_and_can_be_read(value: Any) -> None:
    data = canonical_json(value)
    assert data == canonical_json(reverse_order(value))
    assert json.loads(data) == value
    assert data.endswith(b"\n")
    assert content_hash(value) == hashlib.sha256(data).hexdigest()


@given(JSON, JSON)
def test_different_values_give_different_bytes(one: Any, other: Any) -> None:
    """Compare with the compact JSON of the standard library."""
    assert (canonical_json(one) == canonical_json(other)) == (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


def test_nan_is_rejected() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"x": float("nan")})


def test_the_file_hash_covers_all_bytes(tmp_path: Path) -> None:
    data = os.urandom((1 << 20) + 12345)
    (tmp_path / "a").write_bytes(data)
    assert file_hash(tmp_path / "a") == hashlib.sha256(data).hexdigest()


def test_a_folder_stays_locked_until_its_process_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "locked\n"
            with pytest.raises(StoreError, match=r"Another process is writing to .*store"), lock_folder(folder):
                raise AssertionError("locked twice")
        finally:
            holder.send_signal(signal.SIGKILL)
    with lock_folder(folder):
        pass


def test_a_new_folder_is_removed_after_a_failure_unless_it_has_files(tmp_path: Path) -> None:
    empty, begun, there = (tmp_path / name for name in ("empty", "begun", "there"))
    there.mkdir()

    def fail_in(folder: Path, begins: str) -> None:
        with lock_folder(folder):
            if begins:
                (folder / begins).touch()
            raise BodyError

    for folder, begins in ((empty, ""), (begun, "shard"), (there, "")):
        with pytest.raises(BodyError):
            fail_in(folder, begins)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "there"]


def test_a_lock_ends_with_its_block_even_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(BodyError), lock_folder(tmp_path):
        raise BodyError
    with lock_folder(tmp_path), pytest.raises(StoreError), lock_folder(tmp_path):
        raise AssertionError("locked twice")
