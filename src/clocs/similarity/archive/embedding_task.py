"""A task of embedding: some recordings of a store become a shard of an archive, and a receipt says so."""

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
"""Frames that are held before they go through the encoder."""
REFUSALS: Final[dict[type[Exception], str]] = {SignalError: "signal", LeadError: "lead", UnitError: "unit"}
"""Errors that are a recording's own, and the reason they are counted under."""


@dataclass(frozen=True)
class Task:
    """Some recordings of a store, to become a shard."""

    folder: Path
    store: Path
    version: int
    first: int
    last: int
    """Recordings from ``first`` up to ``last``, that excluded."""
    encoder: PretrainedEncoder
    leads: tuple[str, ...]
    any_lead: bool
    name: str
    """Hash of what goes into the shard."""


class RefusedRecording(BaseModel):
    """A recording that was not embedded, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record_id: str
    reason: str
    detail: str


class TaskRecord(BaseModel):
    """What became of a task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    records_in: int
    shard: ArchiveShardInfo | None
    """None: every recording was refused."""
    refused: tuple[RefusedRecording, ...]


def shard_ranges(store: Store, first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Shard number, first and last row (excluded) of a range of recordings."""
    while first < last:
        shard, row = store.locate(first)
        end = min(last - int(store.shard_starts[shard]), store.manifest.shards[shard].records)
        yield shard, row, end
        first += end - row


@functools.lru_cache(maxsize=1)
def _opened(folder: Path, number: int) -> Store:
    """A worker reads a store's manifest once, not for each task."""
    return Store(folder, number)


def run_task(task: Task) -> TaskRecord:
    """Embed a task's recordings; at once done when its receipt is there."""
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
    """Numbers of the recordings that could be embedded, and their vectors; the others are added to ``refused``."""
    kept: list[int] = []
    vectors: list[RecordingVectors] = []
    held: list[tuple[int, str, PreparedFrames]] = []

    def through_encoder() -> None:
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
            through_encoder()
    if held:
        through_encoder()
    return kept, vectors


def _batch(task: Task, store: Store, kept: Ints, vectors: list[RecordingVectors]) -> pa.RecordBatch:
    wanted = schema(task.encoder.embedding_dim, task.leads)
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
    for place in range(len(task.leads)):
        values = np.concatenate([item.leads[place] for item in vectors])
        absent = pa.array([not item.present[place] for item in vectors])
        columns.append(pa.FixedSizeListArray.from_arrays(values, task.encoder.embedding_dim, mask=absent))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _task_record_path(task: Task) -> Path:
    return task.folder / TASK_RECORDS / f"{task.name[:32]}.json"


def _finished_record(task: Task) -> TaskRecord | None:
    """A task's receipt, if it is whole and its shard is there."""
    path = _task_record_path(task)
    try:
        record = TaskRecord.model_validate(unseal(path.read_bytes(), path.name))
        size = (task.folder / record.shard.file).stat().st_size if record.shard else None
    except (OSError, ValueError, IntegrityError):
        return None
    whole = record.task == task.name and size == (record.shard.bytes if record.shard else None)
    return record if whole else None
