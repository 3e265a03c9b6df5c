"""Full and failing disks at every write: the error is typed, and only committed data remain."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from clocs.core.errors import EngineError, StoreError
from clocs.core.sources import folder_source
from clocs.store.ingest import ingest
from clocs.store.manifest import versions
from clocs.store.splits import make_split
from clocs.store.store import open_store
from tests.faults.failing_disk import Disk, use_disk
from tests.faults.stores import (
    FIRST,
    check_readable,
    fingerprint,
    grown_source,
    partials,
    small_dataset,
    small_ingest,
)

SCRIPT = Path(__file__).with_name("ingesting.py")
STORED_FIRST = FIRST - 1
ROOMY = 64 << 20
PAGE = 4096


class Growth:
    """A store of version 1, a source with more files, and the expected version 2."""

    def __init__(self, originals: Path, folder: Path) -> None:
        small, self.source = grown_source(originals, folder)
        self.first, self.undisturbed = folder / "first", folder / "undisturbed"
        small_ingest(small, self.first)
        shutil.copytree(self.first, self.undisturbed)
        small_ingest(self.source, self.undisturbed)
        self.expected = fingerprint(self.undisturbed)

    def check(self, store: Path) -> None:
        """Assert that version 1 is complete, no partial file exists, and the same call completes version 2."""
        assert not partials(store)
        check_readable(store, 1, STORED_FIRST)
        small_ingest(self.source, store)
        assert fingerprint(store) == self.expected


@pytest.fixture
def growth(originals: Path, tmp_path: Path) -> Growth:
    return Growth(originals, tmp_path)


@pytest.mark.parametrize(
    ("code", "step"),
    [
        pytest.param(errno.ENOSPC, 13, id="full"),
        pytest.param(errno.ENOSPC, 1, id="full, every call", marks=pytest.mark.slow),
        pytest.param(errno.EIO, 1, id="broken, every call", marks=pytest.mark.slow),
    ],
)
def test_failure_of_disk_calls(
    growth: Growth, tmp_path: Path, code: int, step: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """In CI, the first call of each kind fails and one in thirteen of all."""
    whole = Disk()
    store = tmp_path / "whole"
    shutil.copytree(growth.first, store)
    with use_disk(whole):
        small_ingest(growth.source, store)
    assert {"open", "write", "flush", "sync", "rename", "sync_folder", "truncate"} == set(whole.kinds)
    firsts = {whole.kinds.index(kind) + 1 for kind in whole.kinds}
    failing = sorted(firsts.union(range(1, whole.calls + 1, step)))
    for call in failing:
        store = tmp_path / "store"
        shutil.copytree(growth.first, store)
        with use_disk(Disk(call, code)), pytest.raises(StoreError, match="Cannot write") as caught:
            small_ingest(growth.source, store)
        assert os.strerror(code) in str(caught.value), f"call {call}, {whole.kinds[call - 1]}"
        # After its rename the manifest is there, and only that may be claimed.
        assert ("Nothing was committed" not in str(caught.value)) or versions(store) == [1]
        growth.check(store)
        shutil.rmtree(store)
    with capsys.disabled():
        print(f"\n{errno.errorcode[code]}: {len(failing)} of {len(failing)} failed calls left a whole store")


def test_split_is_written_atomically(growth: Growth, tmp_path: Path) -> None:
    whole = Disk()
    with use_disk(whole):
        expected = make_split(open_store(growth.undisturbed))
    assert {"make_folder", "sync_folder"} <= set(whole.kinds)
    for call in range(1, whole.calls + 1):
        store = tmp_path / "store"
        shutil.copytree(growth.undisturbed, store)
        shutil.rmtree(store / "splits")
        with use_disk(Disk(call, errno.ENOSPC)), pytest.raises(StoreError, match="No space left"):
            make_split(open_store(store))
        assert not partials(store)
        assert make_split(open_store(store)).sha256 == expected.sha256
        shutil.rmtree(store)


class _Source:
    """A source that fails at some calls."""

    def __init__(self, failing: int) -> None:
        self.left = failing

    def open(self, path: Any, mode: str) -> Any:
        if self.left and str(path).endswith("A00007.mat"):
            self.left -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return open(path, mode)


def test_disk_error_of_the_source_is_not_a_bad_recording(growth: Growth, tmp_path: Path) -> None:
    """A disk error is retried, then raised. The recording is not quarantined."""
    store = tmp_path / "store"
    shutil.copytree(growth.first, store)
    with (
        mock.patch.object(folder_source, "open", _Source(failing=1000).open, create=True),
        pytest.raises(EngineError, match=os.strerror(errno.EIO)),
    ):
        small_ingest(growth.source, store)
    with mock.patch.object(folder_source, "open", _Source(failing=1).open, create=True):
        small_ingest(growth.source, store)
    assert fingerprint(store) == growth.expected


@contextmanager
def tmpfs(folder: Path) -> Iterator[bool]:
    """Mount a small file system at a folder. Yield False if mounting is not permitted."""
    folder.mkdir(exist_ok=True)
    arguments = ["mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "clocs-faults", str(folder)]
    try:
        mounted = subprocess.run(arguments, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _may_mount() -> bool:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, tmpfs(Path(folder) / "tried") as mounted:
        return mounted


LIMITS = ["full_tmpfs", "file_size_limit"] if _may_mount() else ["file_size_limit_as_mounting_is_not_permitted"]


def _needed(folder: Path) -> int:
    """Return the number of bytes in whole pages, as tmpfs counts them."""
    return sum(-(-path.stat().st_size // PAGE) * PAGE for path in folder.rglob("*") if path.is_file())


def _resize(folder: Path, spare: int) -> None:
    """Resize a tmpfs to leave some free bytes."""
    about = os.statvfs(folder)
    size = (about.f_blocks - about.f_bfree) * about.f_frsize + spare // PAGE * PAGE
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)


def fill_tmpfs(growth: Growth, folder: Path, sizes: int) -> int:
    """Fill the disk at several free sizes. Return how often it was full."""
    wanted = _needed(growth.undisturbed) - _needed(growth.first)
    for number in range(sizes):
        with tmpfs(folder) as mounted:
            assert mounted
            store = folder / "store"
            shutil.copytree(growth.first, store)
            _resize(folder, wanted * number // sizes)
            workers = 2 if number == sizes // 2 else 1
            with pytest.raises(StoreError, match="No space left"):
                ingest(small_dataset(), growth.source, store, workers=workers)
            _resize(folder, ROOMY)
            if workers == 2:  # the other worker was ended in the middle of its work
                small_ingest(growth.source, store)
            growth.check(store)
    return sizes


def hit_file_limit(growth: Growth, folder: Path, sizes: int) -> int:
    """Limit the file size at several values. Return how often the limit was hit."""
    largest = max(path.stat().st_size for path in (growth.undisturbed / "shards").iterdir())
    hit = 0
    for number in range(sizes):
        store = folder / "store"
        shutil.copytree(growth.first, store)
        limit = 1 + (largest - 1) * number // sizes
        arguments = [sys.executable, str(SCRIPT), "folder", str(growth.source), str(store), "--file-limit", str(limit)]
        done = subprocess.run(arguments, check=False, capture_output=True, text=True)
        if done.returncode:  # the source's last shards may all be smaller
            assert done.stdout.startswith("StoreError: Cannot write"), done.stdout + done.stderr
            assert os.strerror(errno.EFBIG) in done.stdout
            hit += 1
        growth.check(store)
        shutil.rmtree(store)
    return hit


def _fill_disk(kind: str, growth: Growth, tmp_path: Path, sizes: int) -> str:
    place = tmp_path / "place"
    place.mkdir()
    if kind == "full_tmpfs":
        count = fill_tmpfs(growth, place, sizes)
    else:
        count = hit_file_limit(growth, place, sizes)
        assert count
    return f"\n{kind}: {count} of {count} left a whole store"


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIMITS)
def test_full_disk(kind: str, growth: Growth, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = _fill_disk(kind, growth, tmp_path, 8)
    with capsys.disabled():
        print(summary)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIMITS)
def test_full_disk_at_many_sizes(kind: str, growth: Growth, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = _fill_disk(kind, growth, tmp_path, 60)
    with capsys.disabled():
        print(summary)
