"""The manifest: one file that lists the content of a store version. Writing it commits the version."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from clocs.core.errors import ConfigError, ExistsError, IntegrityError, StoreError
from clocs.core.hashes import seal, unseal
from clocs.core.storage.files import write_bytes
from clocs.signals.source_check import SignalSummary
from clocs.store.segments import SegmentInfo

FORMAT: Final = "clocs-store-3"
"""Format of manifests that this version reads and writes."""
Model = TypeVar("Model", bound=BaseModel)
_NAME = re.compile(r"^manifest-(\d{6})\.json$")


class QuarantineInfo(BaseModel):
    """The file that lists the quarantined recordings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    """Name of the file."""
    sha256: str
    """Hash of the file."""
    records: int
    """Number of quarantined recordings."""


class Manifest(BaseModel):
    """The content of a store version. It is immutable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    """Format of the manifest."""
    version: int
    """Version of the store, from 1."""
    dataset: dict[str, Any]
    """Metadata of the dataset."""
    options: dict[str, Any]
    """Options of the ingest."""
    gate: dict[str, Any]
    """Quality checks of the ingest."""
    software: dict[str, str]
    """Versions of the packages that wrote the store."""
    records_in: int
    """Number of input recordings."""
    stored: int
    """Number of stored recordings."""
    quarantined: dict[str, int]
    """Number of quarantined recordings by reason."""
    quarantine: QuarantineInfo
    """The list of quarantined recordings."""
    withdrawn: int = 0
    """Number of input recordings that were left out, because their patients were withdrawn."""
    signals: SignalSummary | None = None
    """Lead order and amplitude, measured in some of the input recordings. It is no part of the content hash."""
    segments: tuple[SegmentInfo, ...]
    """Segments in order, which list the shards."""
    first_sha256: str
    """Content hash of the store's first version, which names the store for ever."""
    content_sha256: str
    """Hash of the content, independent of version, software, segments and tasks: any change of a recording changes it.
    Splits and archives of a version stay valid for versions with the same hash."""


def manifest_path(folder: Path, version: int) -> Path:
    """Return the path of a version's manifest."""
    return folder / f"manifest-{version:06d}.json"


def versions(folder: Path) -> list[int]:
    """Return the committed versions of a store, oldest first; empty if the folder is not a store."""
    try:
        names = [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match.group(1)) for name in names if (match := _NAME.match(name)))


def check_not_inside_store(path: Path, advice: str = "Choose another folder.") -> None:
    """Raise an error if a path is inside the folder of a store, or of an archive of embeddings."""
    parent = next((parent for parent in path.resolve().parents if versions(parent)), None)
    if parent is not None:
        raise ConfigError(f"{path} is inside {parent}, which holds only its own files. {advice}")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a manifest, which commits the version.

    Raises:
        StoreError: Another writer committed the version first, or the file cannot be written.
    """
    write_version(folder, manifest.version, manifest)


def write_version(folder: Path, version: int, manifest: BaseModel) -> None:
    """Write the manifest of a version of a folder with versions. In a bucket, of two writers one gets an error."""
    try:
        write_bytes(manifest_path(folder, version), seal(manifest.model_dump(mode="json")))
    except ExistsError as error:
        raise StoreError(
            f"Another writer has committed version {version} of {folder} meanwhile, so nothing was committed. Run the "
            "same command again: what is finished is used, and the next version is committed."
        ) from error


def read_manifest(folder: Path, version: int | None = None) -> Manifest:
    """Read and verify the manifest of a version, by default the newest.

    Raises:
        StoreError: The folder is not a store, or lacks the version.
        IntegrityError: The manifest is damaged.
    """
    return read_version(folder, version, Manifest, FORMAT, "store", "clocs data ingest ...")


def read_quarantine(path: Path, sha256: str | None) -> list[dict[str, Any]]:
    """Read a quarantine list.

    Args:
        path: The file.
        sha256: Hash of the file according to its manifest; None without a manifest.

    Returns:
        The quarantined recordings, as values by field.

    Raises:
        IntegrityError: The file cannot be read or does not match its hash.
    """
    try:
        raw = path.read_bytes()
        if sha256 is not None and hashlib.sha256(raw).hexdigest() != sha256:
            raise IntegrityError(f"{path.name}: does not match its hash. Run 'clocs data verify'.")
        return [json.loads(line) for line in raw.splitlines()]
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{path.name}: cannot be read ({error}). Run 'clocs data verify'.") from error


def read_version(
    folder: Path, version: int | None, model: type[Model], format_name: Any, kind: str, command: str
) -> Model:
    """Read and verify a manifest of a folder with versions.

    Args:
        folder: The folder.
        version: Version to read; None for the newest.
        model: Class of the manifest.
        format_name: Format that the manifest must have.
        kind: Name of the kind of folder, for messages.
        command: Command that makes such a folder, for messages.
    """
    known = versions(folder)
    if not known:
        raise StoreError(f"{folder} is not a finished {kind}: it has no manifest. Make one: {command}")
    if version is not None and version not in known:
        raise StoreError(f"{folder} has no version {version}. Its versions: {', '.join(map(str, known))}.")
    path = manifest_path(folder, version or known[-1])
    try:
        body = unseal(path.read_bytes(), path.name)
        if body.get("format") != format_name:
            raise StoreError(
                f"{folder} is not a readable {kind} for this version of clocs: {path.name} has the format "
                f"{body.get('format')}, not {format_name}. Make it again: {command}"
            )
        return model.model_validate(body)
    except (OSError, ValidationError) as error:
        raise IntegrityError(f"{path.name}: not a readable manifest: {error!r:.200}") from error
