"""An archive: one embedding a recording of a store, in Arrow shards under a manifest. Opening reads the manifest alone.

Any Arrow reader opens a shard. Embeddings are personal data: they find a patient's other recordings again.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from clocs.core.errors import IntegrityError
from clocs.core.files import content_hash
from clocs.similarity.checked_files import FileInfo, check_file
from clocs.similarity.segments import Ints, Vectors
from clocs.store.manifest import SHARDS, read_version
from clocs.training.encoder_folder import embedding_dim

FORMAT: Final = "clocs-archive-3"
OPEN_SHARDS: Final = 1024
"""Memory maps kept open at once."""
STORE_COLUMNS: Final = ("record_id", "patient_id", "site", "age", "sex", "labels")
"""Columns that come from the store as they are."""


def lead_column(lead: str) -> str:
    """The column with the vectors of a lead."""
    return f"lead_{lead}"


@functools.cache
def schema(embedding_dim: int, leads: tuple[str, ...]) -> pa.Schema:
    """Columns of a shard; a row is a recording."""
    vector = pa.list_(pa.float32(), embedding_dim)
    return pa.schema(
        [
            ("record_id", pa.string()),
            ("patient_id", pa.string()),
            ("site", pa.string()),
            ("age", pa.float32()),
            ("sex", pa.string()),
            ("labels", pa.list_(pa.string())),
            ("frames", pa.int32()),
            ("leads", pa.int16()),
            ("vector", vector),
            *((lead_column(lead), vector) for lead in leads),
        ]
    )


class ArchiveShardInfo(FileInfo):
    """A shard, and how many recordings it holds."""

    rows: int


class EncoderInfo(BaseModel):
    """Which encoder made the vectors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights_sha256: str
    encoder: dict[str, Any]
    input: dict[str, Any]
    """What it takes: rate, leads, unit, normalisation, policy."""

    @property
    def embedding_dim(self) -> int:
        """E, the length of a vector."""
        return embedding_dim({"encoder": self.encoder})


class StoreInfo(BaseModel):
    """Which recordings were embedded."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    version: int
    sha256: str


class InputLocations(BaseModel):
    """Where the inputs are, seen from the archive's folder; not part of what an archive is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    store: str
    encoder: str
    """The name of a shipped one, or a folder."""


def relative_path(folder: str | os.PathLike[str], place: str | os.PathLike[str]) -> str:
    """The path from a folder to a place, as the system will walk it: ``..`` of a link leads out of its target."""
    return os.path.relpath(os.path.realpath(place), os.path.realpath(folder))


class ArchiveManifest(BaseModel):
    """An archive version: immutable, complete, hashed. records_in = embedded + refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = FORMAT
    version: int
    encoder: EncoderInfo
    leads: tuple[str, ...]
    """Leads with a vector of their own, where a recording has them; empty: the encoder gives none."""
    any_lead: bool
    store: StoreInfo
    gate: dict[str, Any]
    software: dict[str, str]
    records_in: int
    embedded: int
    refused: dict[str, int]
    """By reason."""
    refused_list: FileInfo
    shards: tuple[ArchiveShardInfo, ...]
    places: InputLocations

    @property
    def sha256(self) -> str:
        """The identity of what the archive holds, wherever its inputs were."""
        return content_hash(self.model_dump(mode="json", exclude={"places"}))


def read_archive_manifest(folder: Path, version: int | None = None) -> ArchiveManifest:
    """The newest version's manifest, or a given one; a changed byte is refused."""
    return read_version(folder, version, ArchiveManifest, FORMAT, "archive", "clocs embed STORE --out ...")


class ArchiveShard:
    """An open shard: views into its memory map."""

    def __init__(self, path: Path, info: ArchiveShardInfo, manifest: ArchiveManifest) -> None:
        try:
            with pa.memory_map(str(path)) as source:
                self.batch: pa.RecordBatch = pa.ipc.open_file(source).get_batch(0)
        except (OSError, pa.ArrowException) as error:
            raise IntegrityError(f"{info.file}: cannot be opened ({error})") from error
        wanted = schema(manifest.encoder.embedding_dim, manifest.leads)
        if self.batch.num_rows != info.rows or not self.batch.schema.equals(wanted):
            raise IntegrityError(f"{info.file}: not the shard its manifest describes")
        self._embedding_dim = manifest.encoder.embedding_dim

    def vectors(self, column: str = "vector") -> Vectors:
        """(rows, E) where they lie; of a lead's column, rows without that lead hold zeros."""
        values = self.batch.column(column).values
        count = self.batch.num_rows * self._embedding_dim
        return np.frombuffer(values.buffers()[1], np.float32, count).reshape(-1, self._embedding_dim)


class Archive:
    """Embedded recordings, numbered from 0 in the order of their store, refused ones left out."""

    def __init__(self, folder: str | os.PathLike[str], version: int | None = None) -> None:
        self.folder = Path(folder)
        self.manifest = read_archive_manifest(self.folder, version)
        self.first = np.cumsum([0, *(info.rows for info in self.manifest.shards)], dtype=np.int64)
        self.shard = functools.lru_cache(maxsize=OPEN_SHARDS)(self._open_shard)
        self._whole: set[int] = set()

    def __len__(self) -> int:
        return int(self.first[-1])

    def __repr__(self) -> str:
        store = self.manifest.store.dataset
        return f"<Archive {self.folder} version {self.manifest.version}: {len(self):,} recordings of {store}>"

    @property
    def embedding_dim(self) -> int:
        """E, the length of a vector."""
        return self.manifest.encoder.embedding_dim

    @property
    def store_folder(self) -> Path:
        """Where its recordings are, if nothing was moved."""
        return self.folder / self.manifest.places.store

    def _open_shard(self, number: int) -> ArchiveShard:
        """Hashed when first opened: a shard is small, and a damaged one must not be searched."""
        info = self.manifest.shards[number]
        if number not in self._whole:
            check_file(self.folder, info)
            self._whole.add(number)
        return ArchiveShard(self.folder / info.file, info, self.manifest)

    def table(self, columns: Sequence[str] = STORE_COLUMNS, first: int = 0, last: int | None = None) -> pa.Table:
        """Columns of all recordings, or of a stretch of them, in order, as views into the shards."""
        names, end = list(columns), len(self) if last is None else last
        low = int(np.searchsorted(self.first, first, "right")) - 1
        high = int(np.searchsorted(self.first, end, "left"))
        batches = [self.shard(number).batch.select(names) for number in range(low, high)]
        wanted = schema(self.embedding_dim, self.manifest.leads)
        table = pa.Table.from_batches(batches, pa.schema([wanted.field(name) for name in names]))
        return table.slice(first - int(self.first[low]), end - first)

    def vectors(self, rows: Ints | None = None, column: str = "vector") -> Vectors:
        """(n, E) of some recordings, or of all: in memory, so mind the size of the archive."""
        wanted = np.arange(len(self)) if rows is None else np.asarray(rows, np.int64)
        found = np.empty((len(wanted), self.embedding_dim), np.float32)
        for number, here, places in self._by_shard(wanted):
            found[places] = self.shard(number).vectors(column)[here]
        return found

    def lead_vectors(self, rows: Ints) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """(n, L, E) in the order of ``manifest.leads``, and (n, L) whether a recording has that lead."""
        held = np.empty((len(rows), len(self.manifest.leads), self.embedding_dim), np.float32)
        for place, lead in enumerate(self.manifest.leads):
            held[:, place] = self.vectors(rows, lead_column(lead))
        return held, np.asarray(held.any(axis=2))

    def _by_shard(self, rows: Ints) -> list[tuple[int, Ints, Ints]]:
        """Shard number, rows within it, places in ``rows``."""
        numbers = np.searchsorted(self.first, rows, "right") - 1
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        groups = np.split(order, cuts) if len(order) else []
        return [(int(numbers[at[0]]), rows[at] - self.first[numbers[at[0]]], at) for at in groups]


def open_archive(folder: str | os.PathLike[str], version: int | None = None) -> Archive:
    """Open an archive; the newest version unless one is given."""
    return Archive(folder, version)


def shard_file(name: str) -> str:
    """Where the shard of a task lies within its archive."""
    return f"{SHARDS}/{name[:16]}.arrow"
