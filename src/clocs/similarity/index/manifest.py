"""Manifest of an index. Replacing this one file commits a change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.hashes import seal, unseal
from clocs.core.storage.files import write_bytes
from clocs.similarity.archive.manifest import EncoderInfo
from clocs.similarity.checked_files import FileInfo

FORMAT: Final = "clocs-index-5"
MANIFEST_FILE: Final = "index.json"


class VolumeInfo(BaseModel):
    """Files of a volume: patients that were added in one change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    """Kind of search. Volumes with few rows are searched exactly."""
    rows: int
    vectors: FileInfo
    patients: FileInfo
    structure: FileInfo | None

    @property
    def files(self) -> list[FileInfo]:
        return [info for info in (self.vectors, self.patients, self.structure) if info is not None]


class ArchiveInfo(BaseModel):
    """An archive with recordings in the index."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: str
    """Folder relative to the index. It is needed for lead similarities and drawings."""
    version: int
    sha256: str
    first_sha256: str
    """Hash of the archive's first version, which names the archive for ever."""
    key: str | None
    """Fingerprint of the key of its patients' pseudonyms; None if it has no pseudonyms."""


class DistanceLimit(BaseModel):
    """Maximum distance of the patients that a search returns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    distance: float
    split: str
    """Name of the split of the recordings that it was chosen from."""
    part: str
    """Part of the split."""
    recordings: int
    """Number of the recordings."""
    exceeded: float
    """Maximum fraction of new recordings whose nearest patient is farther."""


class IndexManifest(BaseModel):
    """State of an index after a change. Rows are patients, numbered consecutively over all volumes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    change: int
    """Number of the change: builds, additions, withdrawals and rebuilds."""
    kind: str
    encoder: EncoderInfo
    encoder_location: str
    """Name of a shipped encoder, or folder relative to the index."""
    leads: tuple[str, ...]
    any_lead: bool
    archives: tuple[ArchiveInfo, ...]
    volumes: tuple[VolumeInfo, ...]
    packed: bool
    """True if a single change wrote all volumes, so that a rebuild would change nothing."""
    dead: FileInfo | None
    """Rows that no search returns: rows that an addition replaced, and withdrawn patients until their volume is
    rewritten."""
    patients: int
    recordings: int
    limit: DistanceLimit | None = None
    """Maximum distance of similar patients; None: there is none."""
    software: dict[str, str]

    @property
    def files(self) -> list[FileInfo]:
        """All files of the index."""
        dead = [self.dead] if self.dead is not None else []
        return [*dead, *(info for volume in self.volumes for info in volume.files)]


def write_index_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Write the manifest, which commits a change."""
    write_bytes(folder / MANIFEST_FILE, seal(manifest.model_dump(mode="json")))


def read_index_manifest(folder: Path) -> IndexManifest:
    """Read the manifest of an index.

    Raises:
        StoreError: The folder is not an index.
        IntegrityError: The manifest is damaged.
    """
    path = folder / MANIFEST_FILE
    try:
        body = unseal(path.read_bytes(), path.name)
        if body.get("format") != FORMAT:
            raise StoreError(
                f"{path.name}: index format {body.get('format')} is not supported; this version reads {FORMAT}."
            )
        return IndexManifest.model_validate(body)
    except FileNotFoundError:
        raise StoreError(
            f"{folder} is not an index: it has no {MANIFEST_FILE}. Build one with: clocs index build"
        ) from None
    except (OSError, ValidationError) as error:
        raise IntegrityError(f"{path.name}: the manifest cannot be read: {error!r:.200}") from error


def manifest_fingerprint(path: str) -> Any:
    """Return a value that changes with every commit, by one call of ``stat``; None if there is no manifest."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
