"""Copy of a run in a bucket, from which another machine continues it.

A run works in its local folder. After each checkpoint its files are copied as objects whose names contain their hashes.
Then ``latest.json``, which lists them, is replaced with If-Match. A process that continues a run from the bucket first
writes its own name there, so the next write of an earlier process fails, and that process stops.
"""

from __future__ import annotations

import os
import platform
import uuid
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from clocs.core.errors import StoreError
from clocs.core.hashes import file_hash, seal, unseal
from clocs.core.storage import files
from clocs.core.storage.locations import ObjectPath
from clocs.core.storage.object_cache import download
from clocs.core.storage.object_writes import check_conditional_writes, create_object

LATEST: Final = "latest.json"
"""Object that lists the files of a run after its newest checkpoint."""
FILES: Final = "files"
"""Folder of the files' objects."""
LOCAL_ONLY: Final = ("tensorboard", "mlruns", "wandb")
"""Folders of loggers within a run, which are not copied."""
Latest = dict[str, Any]
"""Content of ``latest.json``: ``step``, ``finished``, ``writer``, and ``files`` with size and hash by name."""


class RunMirror:
    """Copy of one run in a bucket.

    Args:
        folder: Folder of the run.
        runs: Folder of all runs in the bucket.
        result: Name of the file that marks the run as finished.
    """

    def __init__(self, folder: Path, runs: ObjectPath, result: str) -> None:
        self.folder, self.remote, self._result = folder, runs / folder.name, result
        self._etag: str | None = None
        self._latest: Latest | None = None
        self._hashes: dict[Path, tuple[tuple[int, int], str]] = {}

    @cached_property
    def writer(self) -> dict[str, Any]:
        """Names of this process for others: host, process id, and a random id."""
        return {"host": platform.node(), "process": os.getpid(), "id": uuid.uuid4().hex}

    def is_finished(self) -> bool:
        """Return whether the bucket has the finished run."""
        self._read()
        return self._latest is not None and bool(self._latest["finished"])

    def take_over(self, step: int) -> None:
        """Make this process the writer of the copy, and fetch the run if the copy is ahead of the local folder.

        Args:
            step: Step of the newest undamaged checkpoint of the local folder; -1 if there is none.

        Raises:
            StoreError: The bucket cannot be read or written.
            IntegrityError: An object is damaged.
        """
        check_conditional_writes(self.remote)
        while True:
            self._read()
            if self._latest is None:
                if step < 0 or self._write(step):  # without a checkpoint, the first one creates the copy
                    return
                continue
            is_local_finished = (self.folder / self._result).exists()
            is_behind = (self._latest["finished"], self._latest["step"]) <= (is_local_finished, step)
            if self._latest["finished"]:
                is_taken = True  # nobody writes any more
            elif is_behind:
                is_taken = self._write(step)
            else:
                is_taken = self._replace({**self._latest, "writer": self.writer})
            if is_taken:
                if not is_behind:
                    self._fetch(self._latest["files"])
                self._remove_unlisted(self._latest["files"])
                return

    def copy(self, step: int) -> None:
        """Copy the run after a checkpoint. If the bucket cannot be written, warn and leave it to the next checkpoint.

        Raises:
            StoreError: Another process continues the run.
        """
        try:
            is_written = self._write(step)
        except StoreError as error:
            warnings.warn(f"{error} Training continues. The next checkpoint is copied again.", stacklevel=2)
            return
        if not is_written:
            self._stop(step)

    def finish(self, step: int) -> None:
        """Copy the finished run.

        Raises:
            StoreError: Another process continues the run, or the bucket cannot be written.
        """
        if not self._write(step):
            self._stop(step)

    def fetch_file(self, path: Path) -> None:
        """Fetch one file of the run that this machine lacks, for ranks on other machines than rank 0."""
        self._read()
        name = path.relative_to(self.folder).as_posix()
        if self._latest is not None and name in self._latest["files"] and not path.exists():
            self._fetch({name: self._latest["files"][name]})

    def _read(self) -> None:
        """Read ``latest.json`` and its tag."""
        path = self.remote / LATEST
        try:
            self._etag = path.stat().etag  # first: an older tag with newer content fails at the next write
            self._latest = unseal(path.read_bytes(), str(path))
        except FileNotFoundError:
            self._etag = self._latest = None

    def _write(self, step: int) -> bool:
        """Copy new files and list them. Return False if another process has replaced the list."""
        listed = {name: self._upload(path) for name, path in self._files()}
        finished = self._result in listed
        return self._replace({"step": step, "finished": finished, "writer": self.writer, "files": listed})

    def _replace(self, latest: Latest) -> bool:
        """Replace ``latest.json`` if it is what this process knows, and remove objects that it no longer lists."""
        path, data, before = self.remote / LATEST, seal(latest), self._latest or {"files": {}}
        files.on_write_step("before write", path)
        while self._latest != latest:
            if self._etag is None:
                path.opened.create(path.key, data)
            elif (etag := path.opened.replace(path.key, data, self._etag)) is not None:
                self._etag, self._latest = etag, latest
                break
            self._read()  # the answer to an own write may have been lost
            if self._latest is None or self._latest["writer"] != self.writer:
                return False
        files.on_write_step("after rename", path)
        kept = {self._object(*item) for item in latest["files"].items()}
        for old in {self._object(*item) for item in before["files"].items()} - kept:
            old.opened.delete(old.key)
        return True

    def _stop(self, step: int) -> NoReturn:
        """Raise the error of a process whose run another one continues."""
        other = (self._latest or {}).get("writer", {"host": "an unknown host", "process": "?"})
        since = (self._latest or {}).get("step", "?")
        raise StoreError(
            f"{self.remote / LATEST} was replaced: process {other['process']} on {other['host']} continues this run, "
            f"and has step {since}. This process stops after step {step}; its checkpoints stay in {self.folder}. Stop "
            "the other process before you run this command again, which continues from the newest checkpoint."
        )

    def _files(self) -> Iterator[tuple[str, Path]]:
        """Iterate over the names and paths of the run's finished files."""
        for path in sorted(self.folder.rglob("*")):
            name = path.relative_to(self.folder)
            is_hidden = any(part.startswith(".") for part in name.parts)
            if path.is_file() and not is_hidden and path.suffix != files.TEMPORARY and name.parts[0] not in LOCAL_ONLY:
                yield name.as_posix(), path

    def _upload(self, path: Path) -> dict[str, Any]:
        """Create the object of a file unless the list has it, and return its size and hash."""
        status = path.stat()
        stamp = (status.st_size, status.st_mtime_ns)
        known = self._hashes.get(path)
        sha256 = known[1] if known is not None and known[0] == stamp else file_hash(path)
        self._hashes[path] = stamp, sha256
        name, entry = path.relative_to(self.folder).as_posix(), {"bytes": status.st_size, "sha256": sha256}
        if self._latest is None or self._latest["files"].get(name) != entry:
            create_object(self._object(name, entry), path)
        return entry

    def _object(self, name: str, entry: dict[str, Any]) -> ObjectPath:
        """Return the object of a file. Its name contains the hash, so it is never overwritten."""
        return _object_of(self.remote, name, entry)

    def _fetch(self, listed: dict[str, Any]) -> None:
        """Fetch files. A checkpoint's JSON file and the result come last, because they declare the others complete."""

        def rank(name: str) -> tuple[bool, bool, str]:
            return name == self._result, name.startswith("checkpoints/") and name.endswith(".json"), name

        for name in sorted(listed, key=rank):
            target = self.folder / name
            download(self._object(name, listed[name]), target, listed[name]["sha256"])

    def _remove_unlisted(self, listed: dict[str, Any]) -> None:
        """Remove objects that are not listed: those of a process that ended while it wrote."""
        kept = {self._object(*item) for item in listed.items()}
        for path in (self.remote / FILES).rglob("*"):
            if path not in kept:
                path.opened.delete(path.key)


def mirrored_files(run: ObjectPath) -> dict[str, ObjectPath]:
    """Return the objects of a run's files by name; empty if there is no copy of a run."""
    path = run / LATEST
    try:
        latest: Latest = unseal(path.read_bytes(), str(path))
    except FileNotFoundError:
        return {}
    return {name: _object_of(run, name, entry) for name, entry in latest["files"].items()}


def _object_of(run: ObjectPath, name: str, entry: dict[str, Any]) -> ObjectPath:
    path = PurePosixPath(name)
    return run / FILES / path.parent.as_posix() / f"{path.stem}-{entry['sha256'][:16]}{path.suffix}"
