"""Manifest of an archive. Writing it commits a version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from clocs.core.hashes import content_hash
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.similarity.checked_files import FileInfo
from clocs.store.manifest import read_version, write_version
from clocs.training.encoder_folder import embedding_dim

FORMAT: Final = "clocs-archive-4"


class ArchiveShardInfo(FileInfo):
    """Path, size, hashes and number of recordings of a shard."""

    rows: int


class EncoderInfo(BaseModel):
    """Identity of the encoder that made the vectors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights_sha256: str
    encoder: dict[str, Any]
    input: dict[str, Any]
    """Input format of the encoder: sampling rate, leads, unit, normalization and frame policy."""

    @property
    def embedding_dim(self) -> int:
        """Length E of an embedding."""
        return embedding_dim({"encoder": self.encoder})


class StoreInfo(BaseModel):
    """Identity of the store that was embedded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    version: int
    sha256: str
    first_sha256: str
    """Content hash of the store's first version, which names the store for ever."""
    key: str | None
    """Fingerprint of the key of its pseudonyms; None if it has no pseudonyms."""


class InputLocations(BaseModel):
    """Paths of the inputs, relative to the archive's folder. They are not part of the archive's identity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str
    encoder: str
    """Name of a shipped encoder, or relative path of a folder."""


def relative_path(folder: str | os.PathLike[str], target: str | os.PathLike[str]) -> str:
    """Return the path from a folder to a target, with symbolic links resolved on both sides.

    If one is in a bucket, the target's own location is returned.
    """
    target = to_location(target)
    if isinstance(target, ObjectPath) or isinstance(to_location(folder), ObjectPath):
        return str(target.absolute())
    return os.path.relpath(os.path.realpath(target), os.path.realpath(folder))


class ArchiveManifest(BaseModel):
    """An immutable version of an archive. Every input recording is embedded, refused or withdrawn."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    version: int
    encoder: EncoderInfo
    leads: tuple[str, ...]
    """Leads with their own vectors; empty if the encoder does not embed single leads."""
    any_lead: bool
    store: StoreInfo
    gate: dict[str, Any]
    software: dict[str, str]
    records_in: int
    embedded: int
    refused: dict[str, int]
    """Number of refused recordings by reason."""
    refused_list: FileInfo
    withdrawn: int = 0
    """Number of input recordings that were left out, because their patients were withdrawn."""
    shards: tuple[ArchiveShardInfo, ...]
    places: InputLocations
    first_sha256: str = ""
    """Hash of the archive's first version, which names the archive for ever; empty until it is known."""

    @property
    def sha256(self) -> str:
        """Hash of the archive's content, independent of the location of its inputs."""
        return content_hash(self.model_dump(mode="json", exclude={"places"}))


def read_archive_manifest(folder: Path, version: int | None = None) -> ArchiveManifest:
    """Read the manifest of a version, by default the newest.

    Raises:
        StoreError: The folder is not an archive.
        IntegrityError: The manifest is damaged.
    """
    return read_version(folder, version, ArchiveManifest, FORMAT, "archive", "clocs embed STORE --out ...")


def write_archive_manifest(folder: Path, manifest: ArchiveManifest) -> None:
    """Write a manifest, which commits the version."""
    write_version(folder, manifest.version, manifest)
