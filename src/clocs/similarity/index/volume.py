"""Volumes of an index: patients added in one change, with their vectors and search structure."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import IntegrityError
from clocs.core.storage.files import atomic_file
from clocs.similarity.checked_files import check_file, file_info
from clocs.similarity.index.exact import Exact
from clocs.similarity.index.manifest import VolumeInfo
from clocs.similarity.index.patients import SCHEMA, PatientRows, PooledPatients
from clocs.similarity.index.searcher import KINDS, AllowedRows, Hits
from clocs.similarity.segments import Ints, Vectors
from clocs.store.arrow_files import write_arrow
from clocs.store.extra_columns import typed

VOLUMES: Final = "volumes"
EXACT_SHARE: Final = 0.05
"""Filters that allow less than this share of rows are searched exactly, because a graph has too few rows left to
traverse."""
EXACT_ROWS: Final = 100_000
"""Filters that allow fewer rows, and less than half of them, are searched exactly, which takes about ten milliseconds.
"""

_HEADER_LOCK: Final = threading.Lock()
"""Lock around reading headers: numpy parses them by ``ast``, which in Python 3.11 is not reliable across threads."""


def write_volume(folder: Path, name: str, pooled: PooledPatients, kind: str, embedding_dim: int) -> VolumeInfo:
    """Write patients as a volume: table, vectors and search structure."""
    directory, rows = f"{VOLUMES}/{name}", pooled.table.num_rows
    vectors = f"{directory}/vectors.npy"
    coherence = _write_vectors(folder / vectors, pooled.vectors(), (rows, embedding_dim))
    table = pooled.table.append_column(SCHEMA.field("coherence"), pa.array(coherence)).combine_chunks()
    patients = f"{directory}/patients.arrow"
    sha256 = write_arrow(folder / patients, table.to_batches()[0]).sha256
    chosen = KINDS.get(kind)
    if rows < chosen.min_rows:
        chosen = KINDS.get("exact")
    structure = None
    if chosen.file is not None:
        chosen.build(_map_vectors(folder / vectors, (rows, embedding_dim)), folder / directory / chosen.file)
        structure = file_info(folder, f"{directory}/{chosen.file}")
    return VolumeInfo(
        kind=chosen.name,
        rows=rows,
        vectors=file_info(folder, vectors),
        patients=file_info(folder, patients, sha256),
        structure=structure,
    )


def _write_vectors(path: Path, blocks: Iterator[tuple[Vectors, Vectors]], shape: tuple[int, int]) -> Vectors:
    """Write vectors as one .npy file and return the coherences."""
    coherence = [np.empty(0, np.float32)]
    with atomic_file(path) as file:
        about = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)
        for vectors, lengths in blocks:
            file.write(np.ascontiguousarray(vectors, "<f4").data)
            coherence.append(lengths)
    return np.concatenate(coherence)


def _map_vectors(path: Path, shape: tuple[int, int]) -> Vectors:
    try:
        with _HEADER_LOCK:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{path.name}: cannot be opened: {error!s:.200}") from error
    if mapped.shape != shape or mapped.dtype != np.float32:
        raise IntegrityError(f"{path.name}: expected float32 {shape}, got {mapped.dtype} {mapped.shape}.")
    return np.asarray(mapped)


def open_volume(folder: Path, info: VolumeInfo, embedding_dim: int) -> Volume:
    """Open a volume after hashing all of its files, because FAISS and Arrow do not validate their input."""
    for file in info.files:
        check_file(folder, file)
    return Volume(folder, info, embedding_dim)


class Volume:
    """Open volume: memory maps of files that were just written or hashed."""

    def __init__(self, folder: Path, info: VolumeInfo, embedding_dim: int) -> None:
        self.info = info
        try:
            with pa.memory_map(str(folder / info.patients.file)) as source:
                self.patients: pa.RecordBatch = pa.ipc.open_file(source).get_batch(0)
        except (OSError, pa.ArrowException) as error:
            raise IntegrityError(f"{info.patients.file}: cannot be opened ({error}).") from error
        if self.patients.num_rows != info.rows or not self.patients.schema.equals(SCHEMA):
            raise IntegrityError(f"{info.patients.file}: the table does not match its manifest.")
        self.vectors = _map_vectors(folder / info.vectors.file, (info.rows, embedding_dim))
        structure = folder / info.structure.file if info.structure is not None else folder
        self._searcher = KINDS.get(info.kind).open(structure, self.vectors)

    def search(self, queries: Vectors, k: int, allowed: AllowedRows | None) -> Hits:
        """Return the nearest allowed patients of each unit vector (Q, E)."""
        rows = self.info.rows
        if allowed is not None and allowed.count < max(EXACT_SHARE * rows, min(EXACT_ROWS, rows / 2)):
            return Exact(self.vectors).search(queries, k, allowed)
        return self._searcher.search(queries, k, allowed)

    def patient_rows(self, rows: Ints) -> PatientRows:
        """Return some of the patients for pooling with new recordings."""
        table = pa.Table.from_batches([self.patients])
        table = table if len(rows) == self.info.rows else table.take(pa.array(rows))
        counts = pc.list_value_length(table.column("recordings")).to_numpy().astype(np.float32)
        lengths = counts * table.column("coherence").to_numpy()
        return PatientRows(table, lambda some: self.vectors[rows[some]] * lengths[some, None])

    def rows_of(self, patient_ids: pa.Array) -> Ints:
        """Return the rows of patients, including dead ones."""
        return np.flatnonzero(pc.is_in(self.patients.column("patient_id"), value_set=patient_ids).to_numpy(False))

    @functools.cached_property
    def extra_types(self) -> dict[str, pa.DataType]:
        """Type of each extra column, by name."""
        pairs = self.patients.column("extra").flatten()
        names, values = pc.struct_field(pairs, "name"), pc.struct_field(pairs, "value")
        known = sorted(pc.unique(names).to_pylist())
        return {name: typed(values.filter(pc.equal(names, name))).type for name in known}

    def record_ids(self) -> pa.Array:
        """Return the record ids of all patients, concatenated."""
        return self.patients.column("recordings").values.field("record_id")
