"""A disk that records writes and syncs, and the possible states after a power loss.

The model promises no more than POSIX does. Bytes of a file are there after a sync of the file; until then each write
may be missing, torn or zeros, whatever came later. A name in a folder is as it was at the folder's last sync, or as any
later change left it, each name on its own.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast
from unittest import mock

from clocs.core.storage import disk, files

FOLDER = -1
"""Value of an entry that names a folder."""
Entry = tuple[Path, int | None]
"""A name, and the number of its file, FOLDER, or None if there is no file."""


@dataclass(frozen=True)
class Write:
    """Bytes at an offset of a file; without bytes, truncation to that size."""

    file: int
    offset: int
    data: bytes | None


@dataclass(frozen=True)
class Change:
    """Names in a folder that change in one call."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Sync:
    """A file, by number, or a folder, by path, that is forced to the disk."""

    what: int | Path


@dataclass(frozen=True)
class Reported:
    """An event that the program reports as done."""

    what: Any


Event = Write | Change | Sync | Reported


class Disk(disk.Disk):
    """Executes all calls, and records those below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.events: list[Event] = []
        self._numbers = itertools.count()
        self._names: dict[Path, int] = {}

    def report(self, what: Any) -> None:
        """Record that the program reported something as done."""
        self.events.append(Reported(what))

    def open(self, path: Path) -> IO[bytes]:
        new = not path.exists()
        file = super().open(path)
        if not self._is_below(path):
            return file
        if new:
            self._change((path, next(self._numbers)))
        return cast(IO[bytes], _File(self, self._names[path], file))

    def sync(self, file: IO[bytes]) -> None:
        super().sync(file)
        number = getattr(file, "number", None)
        if number is not None:
            self.events.append(Sync(number))

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        if self._is_below(target):
            self._change((target, self._names[source]), (source, None))

    def make_folder(self, folder: Path) -> None:
        super().make_folder(folder)
        if self._is_below(folder):
            self._change((folder, FOLDER))

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        if folder == self.root or self._is_below(folder):
            self.events.append(Sync(folder))

    def remove(self, path: Path) -> None:
        super().remove(path)
        if self._is_below(path):
            self._change((path, None))

    def remove_folder(self, folder: Path) -> None:
        super().remove_folder(folder)
        if self._is_below(folder):
            self._change((folder, None))

    def wrote(self, number: int, offset: int, data: bytes | None) -> None:
        """Record bytes, joined with the previous ones, because a power loss may split them anywhere."""
        last = self.events[-1] if self.events else None
        if data and isinstance(last, Write) and last.data is not None and last.file == number:
            self.events[-1] = Write(number, last.offset, last.data + data)
        else:
            self.events.append(Write(number, offset, data))

    def _is_below(self, path: Path) -> bool:
        return self.root in path.parents

    def _change(self, *entries: Entry) -> None:
        self.events.append(Change(entries))
        for path, number in entries:
            self._names.pop(path, None)
            if number is not None:
                self._names[path] = number


class _File:
    """An open file of such a disk; all bytes are appended."""

    def __init__(self, owner: Disk, number: int, file: IO[bytes]) -> None:
        self._owner = owner
        self.number = number
        self._file = file

    def write(self, data: Any) -> int:
        offset = self._file.seek(0, 2)
        written = self._file.write(data)
        self._owner.wrote(self.number, offset, bytes(data))
        return written

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
        self._owner.wrote(self.number, size, None)

    def __enter__(self) -> _File:
        self._file.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self._file.__exit__(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def recording(root: Path) -> Iterator[Disk]:
    """Record all that clocs writes below a folder."""
    made = Disk(root)
    with mock.patch.object(files, "disk", made):
        yield made


class _NeverSynced(disk.Disk):
    """Leaves the time of writing to the system."""

    def sync(self, file: IO[bytes]) -> None:
        file.flush()

    def sync_folder(self, folder: Path) -> None:
        pass


def quick() -> AbstractContextManager[object]:
    """Write without waiting for the disk, where no power loss follows."""
    return mock.patch.object(files, "disk", _NeverSynced())


@dataclass
class _Pending:
    """Synced content of a file, and later writes."""

    synced: bytes = b""
    later: list[Write] = field(default_factory=list)

    @property
    def present(self) -> bytes:
        return _applied(self.synced, self.later)

    def variants(self) -> list[bytes]:
        """Return the content with all later writes, with none, and with missing, torn or zero writes."""
        found = [self.present, self.synced]
        for number, write in enumerate(self.later):
            others = self.later[:number], self.later[number + 1 :]
            found.append(_applied(self.synced, [*others[0], *others[1]]))
            found.append(_applied(self.synced, others[0]))
            for data in _damaged(write.data or b""):
                changed = Write(write.file, write.offset, data)
                found.append(_applied(self.synced, [*others[0], changed, *others[1]]))
                found.append(_applied(self.synced, [*others[0], changed]))
        return list(dict.fromkeys(found))


def _damaged(data: bytes) -> list[bytes]:
    half = len(data) // 2
    return [data[:half], bytes(len(data)), bytes(half) + data[half:]] if data else []


def _applied(content: bytes, writes: Iterable[Write]) -> bytes:
    made = bytearray(content)
    for write in writes:
        if write.data is None:
            del made[write.offset :]
        made.extend(bytes(max(0, write.offset - len(made))))
        if write.data:
            made[write.offset : write.offset + len(write.data)] = write.data
    return bytes(made)


Tree = dict[Path, bytes | None]
"""Content of each file by path; None for a folder."""


@dataclass
class Crash:
    """A power loss: the events reported before it, and the possible states after it."""

    reported: list[Any]
    files: dict[int, _Pending]
    entries: dict[Path, list[int | None]]
    """Possible files of each name: the synced one, then one per later change."""

    def everything(self) -> Tree:
        """Return the state without any loss."""
        return self._tree({path: choices[-1] for path, choices in self.entries.items()}, self._present())

    def some(self, draws: int, choose: random.Random) -> Iterator[Tree]:
        """Return the extreme states and some random ones.

        The extremes: everything; all names but no bytes that were not synced; all bytes but no such names; neither.
        """
        last = {path: choices[-1] for path, choices in self.entries.items()}
        first = {path: choices[0] for path, choices in self.entries.items()}
        synced = {number: pending.synced for number, pending in self.files.items()}
        yield from (self._tree(names, content) for names in (last, first) for content in (self._present(), synced))
        for _ in range(draws):
            drawn = {path: choose.choice(choices) for path, choices in self.entries.items()}
            torn = {number: choose.choice(pending.variants()) for number, pending in self.files.items()}
            yield self._tree(last, torn)
            yield self._tree(drawn, torn)

    def every(self) -> Iterator[Tree]:
        """Return all states."""
        names = list(self.entries)
        named = sorted({number for choices in self.entries.values() for number in choices if number in self.files})
        contents = [self.files[number].variants() for number in named]
        for chosen in itertools.product(*self.entries.values()):
            for content in itertools.product(*contents):
                yield self._tree(dict(zip(names, chosen, strict=True)), dict(zip(named, content, strict=True)))

    def _present(self) -> dict[int, bytes]:
        return {number: pending.present for number, pending in self.files.items()}

    def _tree(self, names: dict[Path, int | None], content: dict[int, bytes]) -> Tree:
        found: Tree = {}
        for path, number in sorted(names.items()):
            above = path.parent
            is_there = above not in names or above in found  # a folder above the recorded ones was there before
            if number is not None and is_there:
                found[path] = None if number == FOLDER else content[number]
        return found


def crashes(events: list[Event]) -> Iterator[Crash]:
    """Iterate over the power loss before each event, and after the last one."""
    state = Crash([], {}, {})
    yield state
    for event in events:
        if isinstance(event, Write):
            state.files.setdefault(event.file, _Pending()).later.append(event)
        elif isinstance(event, Change):
            for path, number in event.entries:
                state.entries.setdefault(path, [None]).append(number)
                if number is not None and number != FOLDER:
                    state.files.setdefault(number, _Pending())
        elif isinstance(event, Reported):
            state.reported.append(event.what)
        elif isinstance(event.what, int):
            pending = state.files[event.what]
            pending.synced, pending.later = pending.present, []
        else:
            for path, choices in state.entries.items():
                if path.parent == event.what:
                    state.entries[path] = choices[-1:]
        yield state


def put(tree: Tree, root: Path, folder: Path) -> None:
    """Write a state of the recorded folder into another one."""
    folder.mkdir(parents=True)
    for path, content in tree.items():
        target = folder / path.relative_to(root)
        if content is None:
            target.mkdir()
        else:
            target.write_bytes(content)
