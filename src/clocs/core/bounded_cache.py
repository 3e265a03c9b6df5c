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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import ConfigError
from clocs.core.file_locks import lock_file

Fetch = Callable[[str, Path], None]
"""Writes the file of a name to a path, whole and checked, or raises an error."""
FILES, USERS, LOCKS = "files", "users", "locks"
PARTIAL: Final = ".partial"


class BoundedCache:
    """Local copies of files, shared by processes, within a limit of disk space.

    Args:
        folder: Folder of the copies on this machine.
        limit: Largest total size in bytes of all copies, also of those that are being fetched.
        fetch: Called with a name and a new path to fetch the file to, such as a download that is checked by block.

    Example:
        >>> from pathlib import Path
        >>> remote = {"a": b"first", "b": b"second"}
        >>> with BoundedCache("cache", 8, lambda name, path: path.write_bytes(remote[name]) and None) as cache:
        ...     cache.hold("a", 5).read_bytes()
        ...     cache.release("a")
        ...     cache.hold("b", 6).name
        ...     sorted(path.name for path in Path("cache", "files").iterdir())
        b'first'
        'b'
        ['b']
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int, fetch: Fetch) -> None:
        self.folder, self.limit, self._fetch = Path(folder), limit, fetch
        self._held: dict[str, int] = {}
        self._next_uses: dict[str, float] = {}
        self._fetching: dict[str, int] = {}
        for name in (FILES, USERS, LOCKS):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._user = self.folder / USERS / f"{os.getpid()}-{secrets.token_hex(4)}.json"
        with self._exclusive():
            self._lock = self._user.open("w", encoding="utf-8")
            lock_file(self._lock)
            self._publish()

    def __enter__(self) -> BoundedCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up all files of this process. They stay until others need their space."""
        with self._exclusive():
            self._user.unlink(missing_ok=True)
            self._lock.close()

    def hold(self, name: str, size: int) -> Path:
        """Return the local copy of a file, and keep it until it is released.

        Args:
            name: Name of the file.
            size: Its size in bytes.

        Raises:
            ConfigError: The files that processes hold leave no space for it.
        """
        path = self.folder / FILES / name
        with open(self.folder / LOCKS / name, "w", encoding="utf-8") as file:
            lock_file(file)  # another process may be fetching it
            with self._exclusive():
                present = path.exists()
                if not present:
                    self._make_space(name, size)
                    self._fetching[name] = size
                self._held[name] = self._held.get(name, 0) + 1
                self._publish()
            if not present:
                self._download(name, path)
        return path

    def release(self, name: str) -> None:
        """Let go of a file that was held, after everything that maps it was dropped.

        Args:
            name: Name of the file.
        """
        with self._exclusive():
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]
            self._publish()

    def plan(self, next_uses: Mapping[str, float]) -> None:
        """Say when this process needs which files next.

        Args:
            next_uses: Name -> a number that grows with time, such as the step of training. Others are not needed.
        """
        with self._exclusive():
            self._next_uses = dict(next_uses)
            self._publish()

    def used_bytes(self) -> int:
        """Return the total size of all copies, with those that are being fetched."""
        with self._exclusive():
            return self._used(self._users())

    def _download(self, name: str, path: Path) -> None:
        partial = path.with_name(f".{name}.{self._user.stem}{PARTIAL}")
        try:
            self._fetch(name, partial)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            self.release(name)
            raise
        finally:
            with self._exclusive():
                del self._fetching[name]
                self._publish()

    def _make_space(self, name: str, size: int) -> None:
        """Delete the files that are needed last until another one fits."""
        users = self._users()
        held = {file for user in users for file in user["held"]}
        excess = self._used(users) + size - self.limit
        candidates = [path for path in self._files() if path.name not in held]
        for path in sorted(candidates, key=lambda path: (-_next_use(users, path.name), path.name)):
            if excess <= 0:
                return
            excess -= path.stat().st_size
            path.unlink()
        if excess > 0:
            raise ConfigError(
                f"{self.folder}: the cache of {self.limit:,} bytes has no space for {name} ({size:,} bytes) beside the "
                f"{len(held)} files in use. Raise its limit, or shuffle fewer shards at a time."
            )

    def _files(self) -> list[Path]:
        return [path for path in (self.folder / FILES).iterdir() if path.suffix != PARTIAL]

    def _used(self, users: list[dict[str, Any]]) -> int:
        return sum(path.stat().st_size for path in self._files()) + sum(sum(user["fetching"]) for user in users)

    def _users(self) -> list[dict[str, Any]]:
        """Return what the living processes have published, and remove what dead ones left."""
        found = [self._content()]
        for path in (self.folder / USERS).iterdir():
            if path == self._user:
                continue
            with open(path, "r+", encoding="utf-8") as file:
                try:
                    lock_file(file, wait=False)
                except BlockingIOError:
                    found.append(json.load(file))
                    continue
            path.unlink()
            for partial in (self.folder / FILES).glob(f".*.{path.stem}{PARTIAL}"):
                partial.unlink()
        return found

    def _content(self) -> dict[str, Any]:
        return {"held": [*self._held], "next": self._next_uses, "fetching": [*self._fetching.values()]}

    def _publish(self) -> None:
        self._lock.seek(0)
        self._lock.truncate()
        json.dump(self._content(), self._lock)
        self._lock.flush()

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Exclude all other processes and threads from the cache's records."""
        with open(self.folder / "lock", "w", encoding="utf-8") as file:
            lock_file(file)
            yield


def _next_use(users: Iterable[Mapping[str, Any]], name: str) -> float:
    """Return when a file is needed next by any process; infinity if by none."""
    return min(float(user["next"].get(name, math.inf)) for user in users)
