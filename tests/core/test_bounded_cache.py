"""A bounded cache of files: one fetch for all processes, a limit that holds, and eviction by next use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clocs.core.errors import CacheFullError
from clocs.core.storage.bounded_cache import BoundedCache


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A folder in place of a bucket, with ten files of 100 bytes."""
    folder = tmp_path / "remote"
    folder.mkdir()
    for number in range(10):
        (folder / f"shard-{number}").write_bytes(bytes([number]) * 100)
    return folder


class Counted:
    """Fetches from a folder, counted."""

    def __init__(self, remote: Path) -> None:
        self.remote, self.names = remote, list[str]()

    def of(self, name: str) -> Callable[[Path], None]:
        def fetch(path: Path) -> None:
            self.names.append(name)
            shutil.copyfile(self.remote / name, path)

        return fetch


def test_the_file_that_is_needed_last_is_evicted(remote: Path, tmp_path: Path) -> None:
    fetch = Counted(remote)
    with BoundedCache(tmp_path / "cache", 300) as cache:
        cache.plan({"shard-0": 5, "shard-1": 90, "shard-2": 7, "shard-3": 1})
        for number in range(4):
            name = f"shard-{number}"
            assert cache.hold(name, 100, fetch.of(name)).read_bytes() == bytes([number]) * 100
            cache.release(name)
            assert cache.used_bytes() <= 300
        assert sorted(path.name for path in (tmp_path / "cache" / "files").iterdir()) == [
            "shard-0",
            "shard-2",
            "shard-3",
        ]
        cache.hold("shard-0", 100, fetch.of("shard-0"))
    assert fetch.names == [f"shard-{number}" for number in range(4)]


def test_files_in_use_are_kept_and_the_error_says_what_to_do(remote: Path, tmp_path: Path) -> None:
    fetch = Counted(remote)
    with BoundedCache(tmp_path / "cache", 250) as cache:
        cache.hold("shard-0", 100, fetch.of("shard-0"))
        cache.hold("shard-1", 100, fetch.of("shard-1"))
        with pytest.raises(CacheFullError, match=r"no space for shard-2 \(100 bytes\) beside the 2 files that 1 proc"):
            cache.hold("shard-2", 100, fetch.of("shard-2"))
        cache.release_soon("shard-1")
        assert cache.hold("shard-2", 100, fetch.of("shard-2")).exists()
        assert not (tmp_path / "cache" / "files" / "shard-1").exists()


def test_a_failed_fetch_leaves_nothing(remote: Path, tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("connection lost")

    with BoundedCache(tmp_path / "cache", 250) as cache:
        with pytest.raises(OSError, match="connection lost"):
            cache.hold("shard-0", 100, fail)
        assert cache.used_bytes() == 0
        assert list((tmp_path / "cache" / "files").iterdir()) == []


PROCESS = """
import shutil, sys
from pathlib import Path
from clocs.core.storage.bounded_cache import BoundedCache
remote, folder, log, die = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
def fetch(path, name):
    with log.open("a") as file:
        file.write(name + "\\n")
    shutil.copyfile(remote / name, path)
    if die == name:
        import os
        os._exit(9)
with BoundedCache(folder, 300) as cache:
    print("ready", flush=True)
    sys.stdin.readline()
    cache.plan({f"shard-{number}": number for number in range(10)})
    for number in range(10):
        name = f"shard-{number}"
        assert cache.hold(name, 100, lambda path: fetch(path, name)).read_bytes() == bytes([number]) * 100
        assert cache.used_bytes() <= 300
        print(number, flush=True)
        sys.stdin.readline()
        cache.release(f"shard-{number}")
"""


def start(remote: Path, folder: Path, log: Path, die: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, str(remote), str(folder), str(log), die]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))


def test_two_processes_fetch_each_file_once_and_a_dead_one_holds_nothing(remote: Path, tmp_path: Path) -> None:
    """Both read ten files in step with a cache of three. Then a process dies in a fetch, and another goes on."""
    folder, log = tmp_path / "cache", tmp_path / "log"
    pair = [start(remote, folder, log) for _ in range(2)]
    for _ in range(11):
        for process in pair:
            assert process.stdout is not None
            assert process.stdout.readline()
        for process in pair:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
    for process in pair:
        process.communicate()
    assert [process.returncode for process in pair] == [0, 0]
    assert log.read_text().split() == [f"shard-{number}" for number in range(10)]
    dying = start(remote, folder, log, die="shard-5")
    dying.communicate("\n" * 12)
    assert dying.returncode == 9
    assert len(list((folder / "files").glob(".shard-5.*.partial"))) == 1
    with BoundedCache(folder, 300) as cache:
        assert cache.hold("shard-5", 100, Counted(remote).of("shard-5")).read_bytes() == bytes([5]) * 100
        assert cache.used_bytes() <= 300
        assert list((folder / "files").glob(".*.partial")) == []


def test_what_is_fetched_ahead_never_displaces_what_is_needed_earlier(remote: Path, tmp_path: Path) -> None:
    fetch = Counted(remote)

    def ahead(number: int, next_use: float) -> bool:
        return cache.fetch_ahead(f"shard-{number}", 100, next_use, fetch.of(f"shard-{number}"))

    with BoundedCache(tmp_path / "cache", 300) as cache:
        cache.plan({"shard-0": 1, "shard-1": 2, "shard-2": 3, "shard-3": 4, "shard-9": 0})
        assert [ahead(number, number + 1) for number in range(4)] == [True, True, True, False]
        assert fetch.names == ["shard-0", "shard-1", "shard-2"]
        cache.hold("shard-9", 100, fetch.of("shard-9"))  # what is needed now displaces what is needed last
        assert {path.name for path in (tmp_path / "cache" / "files").iterdir()} == {"shard-0", "shard-1", "shard-9"}


def test_each_process_has_an_equal_share(remote: Path, tmp_path: Path) -> None:
    fetch = Counted(remote)
    with BoundedCache(tmp_path / "cache", 400) as cache:
        cache.hold("shard-0", 100, fetch.of("shard-0"))
        cache.hold("shard-1", 100, fetch.of("shard-1"))
        assert cache.has_share_for(100)
        with BoundedCache(tmp_path / "cache", 400):  # as another process
            assert not cache.has_share_for(100)
        assert cache.has_share_for(200)
        assert not cache.has_share_for(201)
