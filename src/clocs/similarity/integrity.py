"""Checking that every byte of an archive or an index is what its manifest says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clocs.core.errors import ClocsError, ConfigError, IntegrityError
from clocs.core.files import unseal
from clocs.similarity.archive.archive import read_archive_manifest
from clocs.similarity.checked_files import FileInfo, file_damage
from clocs.similarity.index.changes import Folder
from clocs.similarity.index.manifest import MANIFEST_FILE, read_index_manifest
from clocs.store.manifest import manifest_path, versions
from clocs.store.task_records import TASK_RECORDS
from clocs.store.verify import Fault

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""


def verify_embeddings(folder: Folder, progress: Progress | None = None) -> list[Fault]:
    """Read and hash all files of an index, or of all versions of an archive; an empty list means all is well."""
    place = Path(folder)
    if (place / MANIFEST_FILE).exists():
        return _index(place, progress)
    if versions(place):
        return _archive(place, progress)
    raise ConfigError(f"{place} is neither an index nor an archive of embeddings: it has no manifest")


def _index(folder: Path, progress: Progress | None) -> list[Fault]:
    try:
        return _files(folder, read_index_manifest(folder).files, progress)
    except ClocsError as error:
        return [Fault(MANIFEST_FILE, str(error))]


def _archive(folder: Path, progress: Progress | None) -> list[Fault]:
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
    return faults + _files(folder, list(expected.values()), progress)


def _files(folder: Path, files: list[FileInfo], progress: Progress | None) -> list[Fault]:
    faults = []
    done, total = 0, sum(info.bytes for info in files)
    for info in files:
        found = file_damage(folder, info)
        if found:
            faults.append(Fault(info.file, found))
        done += info.bytes
        if progress is not None:
            progress(done, total)
    return faults
