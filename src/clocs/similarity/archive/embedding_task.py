"""Embedding tasks: each embeds a range of recordings, writes a shard and then a task record."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from clocs.core.errors import IntegrityError, LeadError, SignalError, UnitError
from clocs.core.files import seal, unseal, write_bytes
from clocs.inference.preparation import PreparedFrames, prepare
from clocs.inference.pretrained import PretrainedEncoder
from clocs.similarity.archive.archive import STORE_COLUMNS, ArchiveShardInfo, schema, shard_file
from clocs.similarity.archive.recording_vectors import RecordingVectors, pool_recording, rows_to_embed
from clocs.similarity.checked_files import file_info
from clocs.similarity.segments import Ints
from clocs.store.arrow_files import write_arrow
from clocs.store.store import Store
from clocs.store.task_records import TASK_RECORDS

FRAMES_PER_BATCH: Final = 1024
"""Frames that are collected before they pass through the encoder."""
REFUSALS: Final[dict[type[Exception], str]] = {SignalError: "signal", LeadError: "lead", UnitError: "unit"}
"""Errors caused by a single recording, with the reason under which they are counted."""


@dataclass(frozen=True)
class Task:
    """A range of recordings of a store, to be embedded into one shard."""

    folder: Path
    store: Path
    version: int
    first: int
    last: int
    """End of the range, excluded."""
    encoder: PretrainedEncoder
    leads: tuple[str, ...]
    any_lead: bool
    name: str
    """Hash of the task's inputs."""


class RefusedRecording(BaseModel):
    """A recording that was not embedded, with the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record_id: str
    reason: str
    detail: str


class TaskRecord(BaseModel):
    """Result of a finished task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    records_in: int
    shard: ArchiveShardInfo | None
    """The shard; None if every recording was refused."""
    refused: tuple[RefusedRecording, ...]


def shard_ranges(store: Store, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Iterate over shard number, first row and end row (excluded) for a range of recordings."""
    while first < last:
        shard, row = store.locate(first)
        end = min(last - int(store.shard_starts[shard]), store.shards[shard].records)
        yield shard, row, end
        first += end - row


@functools.lru_cache(maxsize=1)
def _opened(folder: Path, number: int) -> Store:
    """Open a store once per worker process."""
    return Store(folder, number)


def run_task(task: Task) -> TaskRecord:
    """Embed a task's recordings, or return the existing record of a finished task."""
    record = _finished_record(task)
    if record is not None:
        return record
    store = _opened(task.store, task.version)
    refused: list[RefusedRecording] = []
    kept, vectors = _embed(task, store, refused)
    shard = None
    if kept:
        batch = _batch(task, store, np.array(kept, np.int64), vectors)
        file = shard_file(task.name)
        written = file_info(task.folder, file, write_arrow(task.folder / file, batch).sha256)
        shard = ArchiveShardInfo(**dict(written), rows=len(kept))
    record = TaskRecord(task=task.name, records_in=task.last - task.first, shard=shard, refused=tuple(refused))
    write_bytes(_task_record_path(task), seal(record.model_dump(mode="json")))
    return record


def _embed(task: Task, store: Store, refused: list[RefusedRecording]) -> tuple[list[int], list[RecordingVectors]]:
    """Return the numbers and vectors of the recordings that can be embedded, and append the others to ``refused``."""
    kept: list[int] = []
    vectors: list[RecordingVectors] = []
    held: list[tuple[int, str, PreparedFrames]] = []

    def embed_held() -> None:
        frames = np.concatenate([rows.frames for _, _, rows in held])
        values = task.encoder.embed_frames(frames, np.concatenate([rows.lead_mask for _, _, rows in held]))
        ends = np.cumsum([len(rows.lead) for _, _, rows in held])
        for (number, record_id, rows), own in zip(held, np.split(values, ends[:-1]), strict=True):
            try:
                vectors.append(pool_recording(own, rows, task.leads))
                kept.append(number)
            except SignalError as error:
                refused.append(RefusedRecording(record_id=record_id, reason="embedding", detail=str(error)))
        held.clear()

    for number in range(task.first, task.last):
        recording = store.recording(number)
        try:
            ready = prepare(recording, task.encoder.input, any_lead=task.any_lead)
        except tuple(REFUSALS) as error:
            refused.append(
                RefusedRecording(record_id=recording.record_id, reason=REFUSALS[type(error)], detail=str(error)[:500])
            )
            continue
        held.append((number, recording.record_id, rows_to_embed(ready, task.encoder.input)))
        if sum(len(item.lead) for _, _, item in held) >= FRAMES_PER_BATCH:
            embed_held()
    if held:
        embed_held()
    return kept, vectors


def _batch(task: Task, store: Store, kept: Ints, vectors: list[RecordingVectors]) -> pa.RecordBatch:
    columns_schema = schema(task.encoder.embedding_dim, task.leads)
    parts = []
    for shard, begin, end in shard_ranges(store, task.first, task.last):
        first = int(store.shard_starts[shard])
        rows = kept[(kept >= first + begin) & (kept < first + end)] - first
        parts.append(store.shard(shard).columns(list(STORE_COLUMNS)).take(pa.array(rows)))
    known = pa.Table.from_batches(parts).combine_chunks()
    frames = pa.array([item.frames for item in vectors], pa.int32())
    leads = pa.array([item.num_leads for item in vectors], pa.int16())
    columns = [*(known.column(name).combine_chunks() for name in STORE_COLUMNS), frames, leads]
    columns.append(
        pa.FixedSizeListArray.from_arrays(np.concatenate([item.vector for item in vectors]), task.encoder.embedding_dim)
    )
    for lead in range(len(task.leads)):
        values = np.concatenate([item.leads[lead] for item in vectors])
        absent = pa.array([not item.present[lead] for item in vectors])
        columns.append(pa.FixedSizeListArray.from_arrays(values, task.encoder.embedding_dim, mask=absent))
    return pa.RecordBatch.from_arrays(columns, schema=columns_schema)


def _task_record_path(task: Task) -> Path:
    return task.folder / TASK_RECORDS / f"{task.name[:32]}.json"


def _finished_record(task: Task) -> TaskRecord | None:
    """Return the task's record if it is intact and its shard exists."""
    path = _task_record_path(task)
    try:
        record = TaskRecord.model_validate(unseal(path.read_bytes(), path.name))
        size = (task.folder / record.shard.file).stat().st_size if record.shard else None
    except (OSError, ValueError, IntegrityError):
        return None
    is_valid = record.task == task.name and size == (record.shard.bytes if record.shard else None)
    return record if is_valid else None
