"""Deletion of old versions of a store or an archive, after a grace period for running readers and writers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from clocs.core.errors import ConfigError
from clocs.core.storage.bucket_remains import abort_upload, unfinished_uploads, warn_of_kept_versions
from clocs.core.storage.files import TEMPORARY, lock_folder, make_temporary, remove_file, sync_folder
from clocs.core.storage.locations import ObjectPath
from clocs.store.manifest import manifest_path, versions
from clocs.store.splits import SPLITS

GRACE: Final = timedelta(days=1)
"""Default time for which running readers and writers are safe."""


@dataclass(frozen=True)
class PruneResult:
    """Files that were deleted, or would be."""

    versions: tuple[int, ...]
    """Deleted versions."""
    files: tuple[str, ...]
    """Deleted files, as paths within the folder."""
    num_bytes: int
    """Size of these files in bytes."""
    dry_run: bool
    """True if nothing was deleted."""


class Ages:
    """Decide whether files are older than the grace period.

    Args:
        grace: The grace period. Without one, all files are old.
    """

    def __init__(self, grace: timedelta) -> None:
        self._limit = time.time() - grace.total_seconds() if grace else float("inf")

    def is_old(self, *paths: Path) -> bool:
        """Return whether all files that exist are old."""
        return all(path.stat().st_mtime <= self._limit for path in paths if path.exists())


UnnamedFiles = Callable[[Path, list[int], Ages], Iterator[Path]]
"""Function from a folder, its kept versions and the ages to the old files that none of the versions names."""


def delete_old_versions(
    folder: Path, folders: Sequence[str], unnamed_files: UnnamedFiles, keep: int, grace: timedelta, *, dry_run: bool
) -> PruneResult:
    """Delete old versions of a folder, and whatever no remaining version names. Manifests are deleted first.

    Args:
        folder: Folder of a store or an archive.
        folders: Names of the folders in it.
        unnamed_files: Function that returns the old files that no kept version names, in the order of their deletion.
        keep: Number of newest versions to keep, at least 1.
        grace: Time for which readers and writers are safe.
        dry_run: List the files without deleting them.

    Returns:
        Deleted versions and files, including old remains of killed writes.

    Raises:
        ConfigError: ``keep`` is less than 1, ``grace`` is negative, or a folder is a link.
    """
    if keep < 1 or grace < timedelta(0):
        raise ConfigError(f"Expected to keep at least 1 version and a grace of at least 0, got {keep} and {grace}.")
    linked = next((name for name in folders if (folder / name).is_symlink()), None)
    if linked:
        raise ConfigError(
            f"{folder / linked} is a link, so its files may belong to something else. Nothing was deleted."
        )
    with lock_folder(folder):
        ages = Ages(grace)
        kept = _kept_versions(folder, keep, ages)
        gone = [number for number in versions(folder) if number not in kept]
        manifests = [manifest_path(folder, number) for number in gone]
        files = list(unnamed_files(folder, kept, ages))
        files += [path for name in (".", *folders) for path in list_files(folder, name, TEMPORARY) if ages.is_old(path)]
        paths = [*manifests, *files]
        names = [path.relative_to(folder).as_posix() for path in paths]
        num_bytes = sum(path.stat().st_size for path in paths)
        if not dry_run:
            _delete(folder, folders, manifests)
            _delete(folder, folders, files)
        names += _abort_uploads(folder, grace, dry_run=dry_run)
        return PruneResult(tuple(gone), tuple(names), num_bytes, dry_run)


def _abort_uploads(folder: Path, grace: timedelta, *, dry_run: bool) -> list[str]:
    """Abort unfinished uploads to a bucket, warn if it keeps deleted objects, and return the uploads' names."""
    if not isinstance(folder, ObjectPath):
        return []
    warn_of_kept_versions(folder)
    uploads = list(unfinished_uploads(folder, grace))
    for upload in uploads if not dry_run else ():
        abort_upload(upload)
    return [f"{upload.path.relative_to(folder).as_posix()} (unfinished upload)" for upload in uploads]


def list_files(folder: Path, name: str, endings: str | tuple[str, ...]) -> list[Path]:
    """List the files of a folder within a folder that have one of some endings."""
    place = folder / name
    return sorted(path for path in place.iterdir() if path.name.endswith(endings)) if place.is_dir() else []


def _kept_versions(folder: Path, keep: int, ages: Ages) -> list[int]:
    """Return the newest versions, and those whose successor is young."""
    numbers = versions(folder)
    recent = {one for one, after in itertools.pairwise(numbers) if not ages.is_old(manifest_path(folder, after))}
    return sorted({*numbers[-keep:], *recent})


def _delete(folder: Path, folders: Sequence[str], paths: Iterable[Path]) -> None:
    """Delete files in order. The JSON of a split is renamed first, so that its table never lies there alone."""
    last: list[Path] = []
    for path in paths:
        if path.parent == folder / SPLITS and path.suffix == ".json":
            last.append(make_temporary(path))
        else:
            remove_file(path)
    for path in last:
        remove_file(path)
    for changed in (folder, *(folder / name for name in folders)):
        if changed.is_dir():
            sync_folder(changed)
