"""The manifest of an index: one file that says what is searched. Replacing it is the commit of every change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.files import seal, unseal, write_bytes
from clocs.similarity.archive.archive import EncoderInfo
from clocs.similarity.checked_files import FileInfo

FORMAT: Final = "clocs-index-3"
MANIFEST_FILE: Final = "index.json"


class VolumeInfo(BaseModel):
    """Patients that came into the index in one go."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    """How it is searched; one with few rows is searched exactly."""
    rows: int
    vectors: FileInfo
    patients: FileInfo
    structure: FileInfo | None

    @property
    def files(self) -> list[FileInfo]:
        return [info for info in (self.vectors, self.patients, self.structure) if info is not None]


class ArchiveInfo(BaseModel):
    """An archive whose recordings are in the index."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: str
    """Where it is, seen from the index's folder; needed to say why patients are alike, and to draw them."""
    version: int
    sha256: str


class IndexManifest(BaseModel):
    """The state of an index after a change. Patients are rows, numbered through all volumes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    change: int
    """Counts builds, additions, deletions and rebuilds."""
    kind: str
    encoder: EncoderInfo
    encoder_location: str
    """The name of a shipped one, or a folder, seen from the index's."""
    leads: tuple[str, ...]
    any_lead: bool
    archives: tuple[ArchiveInfo, ...]
    volumes: tuple[VolumeInfo, ...]
    packed: bool
    """Whether all volumes were written in one go, so that a rebuild would bring nothing."""
    dead: FileInfo | None
    """Rows that no search returns: of deleted patients, and those that an addition replaced."""
    deleted: FileInfo | None
    """Ids of deleted patients, who are not added again."""
    patients: int
    recordings: int
    software: dict[str, str]

    @property
    def lists(self) -> list[FileInfo]:
        """Of rows and patients that were deleted."""
        return [info for info in (self.dead, self.deleted) if info is not None]

    @property
    def files(self) -> list[FileInfo]:
        """All that belong to the index."""
        return [*self.lists, *(info for volume in self.volumes for info in volume.files)]


def write_index_manifest(folder: Path, manifest: IndexManifest) -> None:
    """Commit a change."""
    write_bytes(folder / MANIFEST_FILE, seal(manifest.model_dump(mode="json")))


def read_index_manifest(folder: Path) -> IndexManifest:
    """What an index holds now; a changed byte is refused."""
    path = folder / MANIFEST_FILE
    try:
        body = unseal(path.read_bytes(), path.name)
        if body.get("format") != FORMAT:
            raise StoreError(f"{path.name}: index format {body.get('format')}; this version of clocs reads {FORMAT}")
        return IndexManifest.model_validate(body)
    except FileNotFoundError:
        raise StoreError(
            f"{folder} is no finished index: it has no {MANIFEST_FILE}. Make one: clocs index build ..."
        ) from None
    except (OSError, ValidationError) as error:
        raise IntegrityError(f"{path.name}: not a readable manifest: {error!r:.200}") from error


def manifest_fingerprint(path: str) -> Any:
    """Of a manifest's file: changes with every commit; costs one call of the system."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
