"""The manifest: one file that says what a store version holds. Writing it is the commit."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.files import content_hash, seal, unseal, write_bytes
from clocs.store.shard import ShardInfo

FORMAT: Final = "clocs-store-2"
SHARDS = "shards"
Model = TypeVar("Model", bound=BaseModel)
_NAME = re.compile(r"^manifest-(\d{6})\.json$")


class QuarantineInfo(BaseModel):
    """The file that lists the refused recordings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str
    records: int


class Manifest(BaseModel):
    """A store version: immutable, complete, hashed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    version: int
    dataset: dict[str, Any]
    options: dict[str, Any]
    gate: dict[str, Any]
    software: dict[str, str]
    records_in: int
    stored: int
    quarantined: dict[str, int]
    """By reason."""
    quarantine: QuarantineInfo
    shards: tuple[ShardInfo, ...]

    @property
    def sha256(self) -> str:
        """Hash of the content, whatever version of the store holds it and whatever software wrote it."""
        return content_hash(
            self.model_dump(mode="json", exclude={"version": True, "software": True, "quarantine": {"file"}})
        )


def manifest_path(folder: Path, version: int) -> Path:
    """Where a version's manifest lies."""
    return folder / f"manifest-{version:06d}.json"


def versions(folder: Path) -> list[int]:
    """Committed versions, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(int(match.group(1)) for path in folder.iterdir() if (match := _NAME.match(path.name)))


def check_not_inside_store(path: Path, why: str = "choose a place elsewhere") -> None:
    """Nothing else is written into the folder of a store, or of an archive of embeddings."""
    held = next((parent for parent in path.resolve().parents if versions(parent)), None)
    if held is not None:
        raise ConfigError(f"{path} lies in {held}, whose manifest names all that belongs there; {why}")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Commit a version."""
    write_bytes(manifest_path(folder, manifest.version), seal(manifest.model_dump(mode="json")))


def read_manifest(folder: Path, version: int | None = None) -> Manifest:
    """The newest version's manifest, or a given one; a changed byte is refused."""
    return read_version(folder, version, Manifest, FORMAT, "store", "clocs data ingest ...")


def read_quarantine(path: Path, sha256: str | None) -> list[dict[str, Any]]:
    """Read a quarantine list.

    Args:
        path: The file.
        sha256: Its hash according to a manifest. None: no manifest lists it.

    Raises:
        IntegrityError: The file cannot be read or does not match its hash.
    """
    try:
        raw = path.read_bytes()
        if sha256 is not None and hashlib.sha256(raw).hexdigest() != sha256:
            raise IntegrityError(f"{path.name}: does not match its hash; run 'clocs data verify'")
        return [json.loads(line) for line in raw.splitlines()]
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{path.name}: cannot be read ({error}); run 'clocs data verify'") from error


def read_version(folder: Path, version: int | None, model: type[Model], form: Any, what: str, made_by: str) -> Model:
    """A manifest of something that has versions, as ``model``; ``what`` it is, and how it is made, for errors."""
    found = versions(folder)
    if not found:
        raise StoreError(f"{folder} is no finished {what}: it has no manifest. Make one: {made_by}")
    if version is not None and version not in found:
        raise StoreError(f"{folder} has no version {version}; it has {', '.join(map(str, found))}")
    path = manifest_path(folder, version or found[-1])
    try:
        body = unseal(path.read_bytes(), path.name)
        if body.get("format") != form:
            raise StoreError(
                f"{folder} is no {what} that this version of clocs reads: {path.name} has the format "
                f"{body.get('format')}, not {form}. One is made by: {made_by}"
            )
        return model.model_validate(body)
    except (OSError, ValidationError) as error:
        raise IntegrityError(f"{path.name}: not a readable manifest: {error!r:.200}") from error
