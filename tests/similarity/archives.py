"""Archives of synthetic clustered vectors, written in the format of an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.core.storage.files import write_bytes
from clocs.similarity.archive.archive import Archive, open_archive, schema
from clocs.similarity.archive.manifest import (
    ArchiveManifest,
    ArchiveShardInfo,
    EncoderInfo,
    InputLocations,
    StoreInfo,
    write_archive_manifest,
)
from clocs.similarity.checked_files import bytes_info, file_info
from clocs.similarity.segments import Vectors, unit_length
from clocs.store.arrow_files import write_arrow

LEADS = ("II", "V2")
Row = dict[str, Any]
"""record_id and patient_id; perhaps site, age, sex, labels, extra, and the leads that it lacks."""


def clustered(rows: int, embedding: int, *, clusters: int = 50, seed: int = 0) -> Vectors:
    """(rows, E) unit vectors around as many centres as there are clusters."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(clusters, embedding))
    spread = random.normal(size=(rows, embedding))
    return unit_length((centres[random.integers(0, clusters, rows)] + 0.7 * spread).astype(np.float32))


def near(vectors: Vectors, count: int, seed: int = 1) -> Vectors:
    """Queries: some of the vectors, slightly moved."""
    random = np.random.default_rng(seed)
    chosen = vectors[random.integers(0, len(vectors), count)]
    return unit_length(chosen + 0.05 * random.normal(size=chosen.shape))


def write_archive(
    folder: Path,
    rows: Sequence[Row],
    vectors: Vectors,
    *,
    per_shard: int = 7,
    weights: str = "0" * 64,
    version: int = 1,
    key: str | None = None,
) -> Archive:
    """An archive of given vectors; its leads are the vector itself, and the vector with its signs turned."""
    embedding, shards = vectors.shape[1], []
    for number, begin in enumerate(range(0, len(rows), per_shard)):
        part, values = rows[begin : begin + per_shard], vectors[begin : begin + per_shard]
        file = f"shards/{version}-{number}.arrow"
        written = file_info(folder, file, write_arrow(folder / file, _batch(part, values)).sha256)
        shards.append(ArchiveShardInfo(**dict(written), rows=len(part)))
    refused = bytes_info(f"refused-{version:06d}.jsonl", b"")
    write_bytes(folder / refused.file, b"")
    manifest = ArchiveManifest(
        version=version,
        encoder=EncoderInfo(
            weights_sha256=weights, encoder={"name": "cnn", "options": {"embedding_dim": embedding}}, input={}
        ),
        leads=LEADS,
        any_lead=False,
        store=StoreInfo(dataset="made", version=1, sha256="1" * 64, first_sha256="1" * 64, key=key),
        gate={},
        software={},
        records_in=len(rows),
        embedded=len(rows),
        refused={},
        refused_list=refused,
        shards=tuple(shards),
        places=InputLocations(store="../store", encoder="cmsc-chapman"),
    )
    first = manifest.sha256 if version == 1 else open_archive(folder, 1).manifest.first_sha256
    write_archive_manifest(folder, manifest.model_copy(update={"first_sha256": first}))
    return open_archive(folder)


def _batch(rows: Sequence[Row], vectors: Vectors) -> pa.RecordBatch:
    wanted = schema(vectors.shape[1], LEADS)
    default: Row = {"site": "", "age": None, "sex": None, "labels": [], "extra": {}, "frames": 2, "leads": 2}
    filled = [{**default, **row} for row in rows]
    filled = [{**row, "extra": list(row["extra"].items())} for row in filled]
    known = [pa.array([row[name] for row in filled], wanted.field(name).type) for name in wanted.names[:9]]
    held = [pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1])]
    for lead, values in zip(LEADS, (vectors, -vectors), strict=True):
        lacks = np.array([lead in row.get("lacks", ()) for row in rows])
        present = np.where(lacks[:, None], 0, values).astype(np.float32).reshape(-1)
        held.append(pa.FixedSizeListArray.from_arrays(present, vectors.shape[1], mask=pa.array(lacks)))
    return pa.RecordBatch.from_arrays([*known, *held], schema=wanted)


def people(count: int, *, recordings: int = 1, first: int = 0) -> list[Row]:
    """Patients in order, each with so many recordings, facts that vary, some unknown."""
    return [
        {
            "record_id": f"r{number}-{recording}",
            "patient_id": f"p{number}",
            "site": ("north", "south", "")[number % 3],
            "age": None if number % 7 == 0 else 20.0 + number % 60,
            "sex": ("female", "male", None)[number % 3],
            "labels": [("SR", "AFIB", "SB")[number % 3], *(["RBBB"] if number % 5 == 0 else [])],
        }
        for number in range(first, first + count)
        for recording in range(recordings)
    ]


def recall(found: npt.NDArray[np.int64], truth: npt.NDArray[np.int64]) -> float:
    """Share of the true rows, (Q, k), that were found."""
    return float(np.mean([len(set(one) & set(other)) / len(other) for one, other in zip(found, truth, strict=True)]))
