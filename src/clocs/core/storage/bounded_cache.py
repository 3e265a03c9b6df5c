"""A folder of files that processes of a machine share, fetched once each and kept within a limit.

A process says which files it holds and when it needs which of them next. A file is fetched by one process while the
others wait for it. If the limit would be exceeded, the file that all processes need last is deleted. A held file never
is, so that no deleted file occupies the disk behind a memory map.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from clocs.core.errors import CacheFullError, StoreError
from clocs.core.storage.counters import count
from clocs.core.storage.file_locks import lock_file

Fetch = Callable[[Path], None]
"""Writes a file whole and checked to a path, or raises an error."""
FILES, USERS, LOCKS = "files", "users", "locks"
PARTIAL: Final = ".partial"
PLAN: Final = ".plan"
LOCK: Final = "lock"


class BoundedCache:
    """Local copies of files, shared by processes, within a limit of disk space.

    Args:
        folder: Folder of the copies on this machine.
        limit: Largest total size in bytes of all copies, also of those that are being fetched.

    Example:
        >>> remote = {"a": b"first", "b": b"second"}
        >>> with BoundedCache("cache", 8) as cache:
        ...     cache.hold("a", 5, lambda path: path.write_bytes(remote["a"]) and None).read_bytes()
        ...     cache.release("a")
        ...     cache.hold("b", 6, lambda path: path.write_bytes(remote["b"]) and None).name
        ...     sorted(path.name for path in Path("cache", "files").iterdir())
        b'first'
        'b'
        ['b']
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        self.folder, self.limit = Path(folder), limit
        self._held: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._fetching: dict[str, int] = {}
        self._released: deque[str] = deque()
        self._process = os.getpid()
        self._user = self.folder / USERS / f"{os.getpid()}-{secrets.token_hex(4)}.json"
        self._lock: IO[str] | None = None
        self._register()

    def __enter__(self) -> BoundedCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all files of this process. They stay until others need their space. A second call does nothing."""
        if self._lock is None or os.getpid() != self._process:
            return
        if self._user.exists():  # otherwise the folder was deleted
            with self._exclusive():
                self._user.with_suffix(PLAN).unlink(missing_ok=True)
                self._user.unlink()
        self._lock.close()
        self._lock = None

    def hold(self, name: str, size: int, fetch: Fetch) -> Path:
        """Return the local copy of a file, and keep it until it is released.

        Args:
            name: Name of the file.
            size: Its size in bytes.
            fetch: Called with a new path if there is no copy, such as a download that is checked.

        Raises:
            CacheFullError: The files that processes hold leave no space for it.
        """
        self._register()
        path = self.folder / FILES / name
        with open(self.folder / LOCKS / name, "w", encoding="utf-8") as file:
            lock_file(file)  # another process may be fetching it
            with self._exclusive():
                is_present = path.exists()
                if not is_present:
                    self._make_space(name, size)
                    self._fetching[name] = size
                self._held[name], self._sizes[name] = self._held.get(name, 0) + 1, size
                self._publish()
            count("cache_hits" if is_present else "cache_misses")
            if not is_present:
                try:
                    self._download(name, path, fetch)
                except BaseException:
                    self.release(name)
                    raise
        return path

    def fetch_ahead(self, name: str, size: int, next_use: float, fetch: Fetch) -> bool:
        """Fetch a file that is needed later, unless another process does. It is not held.

        Args:
            name: Name of the file.
            size: Its size in bytes.
            next_use: When it is needed. Only files that are needed later than this are deleted for it.
            fetch: Called with a new path if there is no copy.

        Returns:
            False if there is no space for it.
        """
        self._register()
        path = self.folder / FILES / name
        if path.exists():
            return True
        with open(self.folder / LOCKS / name, "w", encoding="utf-8") as file:
            try:
                lock_file(file, wait=False)
            except BlockingIOError:
                return True
            with self._exclusive():
                if path.exists():
                    return True
                try:
                    self._make_space(name, size, next_use)
                except CacheFullError:
                    return False
                self._fetching[name] = size
                self._publish()
            count("cache_misses")
            self._download(name, path, fetch)
        return True

    def release(self, name: str) -> None:
        """Let go of a file that was held, after everything that maps it was dropped.

        Args:
            name: Name of the file.
        """
        with self._exclusive():
            self._drop(name)
            self._publish()

    def release_soon(self, name: str) -> None:
        """Let go of a file at the next call of this process. This takes no lock, so that a finalizer can call it."""
        self._released.append(name)

    def plan(self, next_uses: Mapping[str, float]) -> None:
        """Say when this process needs which files next.

        Args:
            next_uses: Name -> a number that grows with time, such as the step of training. Others are not needed.
        """
        with self._exclusive():
            self._publish()
            with self._user.with_suffix(PLAN).open("w", encoding="utf-8") as file:
                json.dump(dict(next_uses), file)

    def has_share_for(self, size: int) -> bool:
        """Return whether another file fits into this process's share of the limit, the same for all processes."""
        with self._exclusive():
            held = sum(self._sizes[name] for name in self._held)
            return held + size <= self.limit // len(self._users())

    def used_bytes(self) -> int:
        """Return the total size of all copies, with those that are being fetched."""
        with self._exclusive():
            return self._used(self._users())

    def _download(self, name: str, path: Path, fetch: Fetch) -> None:
        partial = path.with_name(f".{name}.{self._user.stem}{PARTIAL}")
        try:
            fetch(partial)
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
            with self._exclusive():
                del self._fetching[name]
                self._publish()

    def _make_space(self, name: str, size: int, next_use: float = -math.inf) -> None:
        """Delete the files that are needed last, and later than ``next_use``, until another one fits."""
        users = self._users()
        held = {file for user in users for file in user["held"]}
        excess = self._used(users) + size - self.limit
        if excess <= 0:
            return
        uses = self._next_uses(users)
        candidates = [
            path for path in self._files() if path.name not in held and uses.get(path.name, math.inf) > next_use
        ]
        status = {path: path.stat() for path in candidates}
        if sum(each.st_size for each in status.values()) < excess:
            raise CacheFullError(
                f"{self.folder}: the cache of {self.limit:,} bytes has no space for {name} ({size:,} bytes) beside the "
                f"{len(held)} files that {len(users)} processes use. Raise CLOCS_CACHE_LIMIT, end other processes, or "
                "set lower shuffle_lanes or shuffle_window."
            )
        for path in sorted(candidates, key=lambda each: (-uses.get(each.name, math.inf), status[each].st_atime_ns)):
            if excess <= 0:
                return
            excess -= status[path].st_size
            path.unlink()
            count("cache_evictions")

    def _next_uses(self, users: list[dict[str, Any]]) -> dict[str, float]:
        """Return when each file is needed next by any process; files without an entry are not needed."""
        uses: dict[str, float] = {}
        for user in users:
            try:
                plan = json.loads((self.folder / USERS / user["plan"]).read_bytes())
            except FileNotFoundError:
                continue
            for name, use in plan.items():
                uses[name] = min(use, uses.get(name, math.inf))
        return uses

    def _files(self) -> list[Path]:
        return [path for path in (self.folder / FILES).iterdir() if path.suffix != PARTIAL]

    def _used(self, users: list[dict[str, Any]]) -> int:
        return sum(path.stat().st_size for path in self._files()) + sum(sum(user["fetching"]) for user in users)

    def _users(self) -> list[dict[str, Any]]:
        """Return what the living processes have published, and remove what dead ones left."""
        found = [self._content()]
        for path in (self.folder / USERS).glob("*.json"):
            if path == self._user:
                continue
            with open(path, "r+", encoding="utf-8") as file:
                try:
                    lock_file(file, wait=False)
                except BlockingIOError:
                    found.append(json.load(file))
                    continue
            path.unlink()
            path.with_suffix(PLAN).unlink(missing_ok=True)
            for partial in (self.folder / FILES).glob(f".*.{path.stem}{PARTIAL}"):
                partial.unlink()
        return found

    def _content(self) -> dict[str, Any]:
        plan = self._user.with_suffix(PLAN).name
        return {"held": [*self._held], "fetching": [*self._fetching.values()], "plan": plan}

    def _drop(self, name: str) -> None:
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]
            path = self.folder / FILES / name
            with contextlib.suppress(FileNotFoundError):
                os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))  # among equals, the oldest goes first

    def _register(self) -> None:
        """Create the folders, and the file by whose lock others know that this process lives, unless they exist."""
        if self._lock is not None and self._user.exists():
            return
        if self._lock is not None:
            self._lock.close()
        for name in (FILES, USERS, LOCKS):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        with open(self.folder / LOCK, "w", encoding="utf-8") as exclusive:
            lock_file(exclusive)
            self._lock = self._user.open("w", encoding="utf-8")
            lock_file(self._lock)
            self._publish()

    def _publish(self) -> None:
        assert self._lock is not None
        self._lock.seek(0)
        self._lock.truncate()
        json.dump(self._content(), self._lock)
        self._lock.flush()

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Exclude all other processes and threads from the cache's records."""
        if os.getpid() != self._process:
            raise StoreError(
                f"{self.folder} was opened before this process was forked. Start workers with "
                "multiprocessing_context='spawn'."
            )
        self._register()
        with open(self.folder / LOCK, "w", encoding="utf-8") as file:
            lock_file(file)
            if self._released:
                while self._released:
                    self._drop(self._released.popleft())
                self._publish()
            yield
