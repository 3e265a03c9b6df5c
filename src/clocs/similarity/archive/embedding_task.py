"""Embedding tasks: each embeds a range of recordings, writes a shard and then a task record."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from clocs.core.errors import IntegrityError, LeadError, SignalError, UnitError
from clocs.core.hashes import content_hash, seal, unseal
from clocs.core.storage.files import write_bytes
from clocs.inference.preparation import PreparedFrames, prepare
from clocs.inference.pretrained import PretrainedEncoder
from clocs.similarity.archive.archive import STORE_COLUMNS, patient_ids, schema, write_archive_shard
from clocs.similarity.archive.manifest import ArchiveShardInfo
from clocs.similarity.archive.recording_vectors import RecordingVectors, pool_recording, rows_to_embed
from clocs.similarity.segments import Ints
from clocs.store.store import Store
from clocs.store.task_records import TASK_RECORDS
from clocs.store.withdrawn import WithdrawnPatients

FRAMES_PER_BATCH: Final = 1024
"""Frames that are collected before they pass through the encoder."""
REFUSALS: Final[dict[type[Exception], str]] = {SignalError: "signal", LeadError: "lead", UnitError: "unit"}
"""Errors caused by a single recording, with the reason under which they are counted."""


@dataclass(frozen=True)
class Task:
    """A range of recordings of one shard of a store, to be embedded into one shard."""

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
    withdrawn: WithdrawnPatients
    """Patients that are left out."""


class RefusedRecording(BaseModel):
    """A recording that was not embedded, with the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record_id: str
    patient_id: str
    """Patient id; the record id if the patient is unknown."""
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
    withdrawn: int = 0
    """Number of recordings that were left out, because their patients were withdrawn."""


@functools.lru_cache(maxsize=1)
def _opened(folder: Path, number: int) -> Store:
    """Open a store once per worker process."""
    return Store(folder, number)


def run_task(task: Task) -> TaskRecord:
    """Embed a task's recordings, or return the existing record of a finished task."""
    record = read_task_record(task.folder, task_record_path(task.folder, task.name))
    if record is not None and record.task == task.name:
        return record
    store = _opened(task.store, task.version)
    refused: list[RefusedRecording] = []
    numbers = _remaining(task, store)
    kept, vectors = _embed(task, store, numbers, refused)
    withdrawn = task.last - task.first - len(numbers)
    shard = None
    if kept:
        batch = _batch(task, store, np.array(kept, np.int64), vectors)
        shard = write_archive_shard(task.folder, content_hash([task.name, kept]) if withdrawn else task.name, batch)
    record = TaskRecord(
        task=task.name,
        records_in=task.last - task.first,
        shard=shard,
        refused=tuple(refused),
        withdrawn=withdrawn,
    )
    write_task_record(task.folder, record)
    return record


def _remaining(task: Task, store: Store) -> list[int]:
    """Return the numbers of the task's recordings, without those of withdrawn patients."""
    shard, row = store.locate(task.first)
    batch = store.shard(shard).columns(["record_id", "patient_id"]).slice(row, task.last - task.first)
    return (task.first + np.flatnonzero(~task.withdrawn.mask(patient_ids(batch)))).tolist()


def _embed(
    task: Task, store: Store, numbers: Sequence[int], refused: list[RefusedRecording]
) -> tuple[list[int], list[RecordingVectors]]:
    """Return the numbers and vectors of the recordings that can be embedded, and append the others to ``refused``."""
    kept: list[int] = []
    vectors: list[RecordingVectors] = []
    held: list[tuple[int, tuple[str, str], PreparedFrames]] = []

    def refuse(names: tuple[str, str], reason: str, error: Exception) -> None:
        record, patient = names
        refused.append(
            RefusedRecording(record_id=record, patient_id=patient or record, reason=reason, detail=str(error)[:500])
        )

    def embed_held() -> None:
        values = task.encoder.embed_prepared(*(rows for _, _, rows in held))
        ends = np.cumsum([len(rows) for _, _, rows in held])
        for (number, names, rows), own in zip(held, np.split(values, ends[:-1]), strict=True):
            try:
                vectors.append(pool_recording(own, rows, task.leads))
                kept.append(number)
            except SignalError as error:
                refuse(names, "embedding", error)
        held.clear()

    for number in numbers:
        recording = store.recording(number)
        names = (recording.record_id, recording.patient_id)
        try:
            ready = prepare(recording, task.encoder.input, any_lead=task.any_lead)
        except tuple(REFUSALS) as error:
            refuse(names, REFUSALS[type(error)], error)
            continue
        held.append((number, names, rows_to_embed(ready)))
        if sum(len(rows) for _, _, rows in held) >= FRAMES_PER_BATCH:
            embed_held()
    if held:
        embed_held()
    return kept, vectors


def _batch(task: Task, store: Store, kept: Ints, vectors: list[RecordingVectors]) -> pa.RecordBatch:
    columns_schema = schema(task.encoder.embedding_dim, task.leads)
    shard, row = store.locate(task.first)
    known = store.shard(shard).columns(list(STORE_COLUMNS)).take(pa.array(kept - task.first + row))
    frames = pa.array([item.frames for item in vectors], pa.int32())
    leads = pa.array([item.num_leads for item in vectors], pa.int16())
    columns = [*(known.column(name) for name in STORE_COLUMNS), frames, leads]
    columns.append(
        pa.FixedSizeListArray.from_arrays(np.concatenate([item.vector for item in vectors]), task.encoder.embedding_dim)
    )
    for lead in range(len(task.leads)):
        values = np.concatenate([item.leads[lead] for item in vectors])
        absent = pa.array([not item.present[lead] for item in vectors])
        columns.append(pa.FixedSizeListArray.from_arrays(values, task.encoder.embedding_dim, mask=absent))
    return pa.RecordBatch.from_arrays(columns, schema=columns_schema)


def task_record_path(folder: Path, name: str) -> Path:
    """Return the path of a task's record."""
    return folder / TASK_RECORDS / f"{name[:32]}.json"


def write_task_record(folder: Path, record: TaskRecord) -> None:
    """Write a task record, after its shard."""
    write_bytes(task_record_path(folder, record.task), seal(record.model_dump(mode="json")), replace=True)


def read_task_record(folder: Path, path: Path) -> TaskRecord | None:
    """Read a task record; None if it is damaged, or its shard does not exist."""
    try:
        record = TaskRecord.model_validate(unseal(path.read_bytes(), path.name))
        size = (folder / record.shard.file).stat().st_size if record.shard else None
    except (OSError, ValueError, IntegrityError):
        return None
    return record if size == (record.shard.bytes if record.shard else None) else None
