"""Synthetic archives of clustered vectors of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from clocs.core.storage.files import write_bytes
from clocs.similarity.archive.archive import schema
from clocs.similarity.archive.manifest import (
    ArchiveManifest,
    ArchiveShardInfo,
    EncoderInfo,
    InputLocations,
    StoreInfo,
    write_archive_manifest,
)
from clocs.similarity.checked_files import bytes_info, file_info
from clocs.similarity.segments import unit_length
from clocs.store.arrow_files import write_arrow

E = 128
PER_CLUSTER, SPREAD = 100, 0.7


def write_synthetic_archive(folder: Path, rows: int, per_shard: int = 1 << 16) -> None:
    """Write clustered unit vectors, one recording a patient. Site s0 has half of the rows, s1 5 %, s2 0.5 %."""
    random = np.random.default_rng(rows)
    centres = random.normal(size=(rows // PER_CLUSTER, E)).astype(np.float32)
    shards = []
    for number, begin in enumerate(range(0, rows, per_shard)):
        count = min(per_shard, rows - begin)
        spread = random.normal(size=(count, E)).astype(np.float32)
        vectors = unit_length(centres[random.integers(0, len(centres), count)] + SPREAD * spread)
        names = pa.array(np.char.mod("%09d", np.arange(begin, begin + count)))
        chosen = np.searchsorted([0.5, 0.55, 0.555], random.random(count), "right")
        columns = {
            "record_id": names,
            "patient_id": names,
            "site": pa.array(np.array(["s0", "s1", "s2", "s3"])[chosen]),
            "age": pa.array(random.uniform(20, 90, count).astype(np.float32)),
            "sex": pa.nulls(count, pa.string()),
            "labels": pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string())),
            "extra": pa.MapArray.from_arrays(
                pa.array(np.zeros(count + 1, np.int32)), pa.array([], pa.string()), pa.array([], pa.string())
            ),
            "frames": pa.array(np.full(count, 2, np.int32)),
            "leads": pa.array(np.full(count, 4, np.int16)),
            "vector": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), E),
        }
        file = f"shards/{number:06d}.arrow"
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema(E, ()))
        written = file_info(folder, file, write_arrow(folder / file, batch).sha256)
        shards.append(ArchiveShardInfo(**dict(written), rows=count))
    _write_manifest(folder, rows, shards)


def _write_manifest(folder: Path, rows: int, shards: list[ArchiveShardInfo]) -> None:
    listed = bytes_info("refused-000001.jsonl", b"")
    write_bytes(folder / listed.file, b"")
    encoder = {"name": "none", "options": {"embedding_dim": E}}
    manifest = ArchiveManifest(
        version=1,
        encoder=EncoderInfo(weights_sha256="", encoder=encoder, input={}),
        leads=(),
        any_lead=False,
        store=StoreInfo(dataset="clustered", version=1, sha256="", first_sha256="", key=None),
        gate={},
        software={},
        records_in=rows,
        embedded=rows,
        refused={},
        refused_list=listed,
        shards=tuple(shards),
        places=InputLocations(store="", encoder="none"),
    )
    write_archive_manifest(folder, manifest)


def queries_near(vectors: Any, count: int) -> Any:
    random = np.random.default_rng(7)
    chosen = vectors[np.sort(random.integers(0, len(vectors), count))]
    return unit_length(chosen + 0.05 * random.normal(size=chosen.shape).astype(np.float32))
