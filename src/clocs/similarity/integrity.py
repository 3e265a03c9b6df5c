"""Verification of every byte of an archive or an index against its manifest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clocs.core.errors import ClocsError, ConfigError, IntegrityError
from clocs.core.hashes import unseal
from clocs.core.storage.locations import to_location
from clocs.similarity.archive.manifest import read_archive_manifest
from clocs.similarity.checked_files import FileInfo, file_damage
from clocs.similarity.index.manifest import MANIFEST_FILE, read_index_manifest
from clocs.similarity.index.updates import Folder
from clocs.store.manifest import manifest_path, versions
from clocs.store.task_records import TASK_RECORDS
from clocs.store.verify import Fault, check_withdrawn

Progress = Callable[[int, int], None]
"""Callback with the number of bytes done and the total number of bytes."""


def verify_embeddings(folder: Folder, progress: Progress | None = None) -> list[Fault]:
    """Hash all files of an index, or of all versions of an archive, and return the faults.

    Args:
        folder: Folder of an index or an archive.
        progress: Called with the bytes done and the total bytes.

    Returns:
        The faults; an empty list if everything is intact.

    Raises:
        ConfigError: The folder holds neither an index nor an archive.
    """
    root = to_location(folder)
    if (root / MANIFEST_FILE).exists():
        return check_withdrawn(root) + _verify_index(root, progress)
    if versions(root):
        return check_withdrawn(root) + _verify_archive(root, progress)
    raise ConfigError(f"{root} is neither an index nor an archive of embeddings: it has no manifest.")


def _verify_index(folder: Path, progress: Progress | None) -> list[Fault]:
    try:
        return _verify_files(folder, read_index_manifest(folder).files, progress)
    except ClocsError as error:
        return [Fault(MANIFEST_FILE, str(error))]


def _verify_archive(folder: Path, progress: Progress | None) -> list[Fault]:
    faults: list[Fault] = []
    expected: dict[str, FileInfo] = {}
    for number in versions(folder):
        try:
            manifest = read_archive_manifest(folder, number)
        except ClocsError as error:
            faults.append(Fault(manifest_path(folder, number).name, str(error)))
            continue
        expected |= {info.file: info for info in (manifest.refused_list, *manifest.shards)}
    for path in sorted((folder / TASK_RECORDS).glob("*.json")):
        try:
            unseal(path.read_bytes(), path.name)
        except (OSError, IntegrityError) as error:
            faults.append(Fault(f"{TASK_RECORDS}/{path.name}", str(error)))
    return faults + _verify_files(folder, list(expected.values()), progress)


def _verify_files(folder: Path, files: list[FileInfo], progress: Progress | None) -> list[Fault]:
    faults = []
    done, total = 0, sum(info.bytes for info in files)
    for info in files:
        damage = file_damage(folder, info)
        if damage:
            faults.append(Fault(info.file, damage))
        done += info.bytes
        if progress is not None:
            progress(done, total)
    return faults
