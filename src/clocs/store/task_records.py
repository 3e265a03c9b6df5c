"""Records of finished tasks of an ingest. A task with a record is not run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from clocs.core import engine as engines
from clocs.core.errors import ExistsError, IntegrityError
from clocs.core.hashes import seal, unseal
from clocs.core.storage.files import write_bytes
from clocs.core.storage.locations import ObjectPath, ObjectStatus
from clocs.core.storage.object_cache import read_tagged
from clocs.signals.quality import Finding
from clocs.signals.source_check import SignalMeasurements
from clocs.store.checksums import checksums_path
from clocs.store.shard import SHARDS, ShardInfo

TASK_RECORDS = "receipts"
"""Folder of the task records within a store."""
READERS: Final = 8
"""Number of task records that are fetched from a bucket at a time."""
Progress = Callable[[int, int], None]
"""Called with the number of recordings done, and the number of quarantined ones among them."""
Task = TypeVar("Task")


class FinishedTask(Protocol):
    """Counts that every task record has."""

    @property
    def records_in(self) -> int:
        """Number of input recordings."""

    @property
    def refused(self) -> Sized:
        """Quarantined recordings."""


Record = TypeVar("Record", bound=FinishedTask)


class QuarantinedRecording(BaseModel):
    """A recording that was not stored, with its reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record_id: str
    """Record id."""
    patient_id: str
    """Patient id; the record id if the patient is unknown."""
    source: str
    """Path of the file within the source."""
    source_sha256: str
    """Hash of the file; empty if it could not be read."""
    reason: str
    """The most important reason."""
    findings: tuple[Finding, ...]
    """All findings of the quality checks."""


class TaskRecord(BaseModel):
    """Result of a finished task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    """Name of the task, a hash of its input."""
    records_in: int
    """Number of input recordings."""
    shards: tuple[ShardInfo, ...]
    """Shards that the task wrote."""
    refused: tuple[QuarantinedRecording, ...]
    """Quarantined recordings."""
    withdrawn: int = 0
    """Number of recordings that were left out, because their patients were withdrawn."""
    entries: str = ""
    """Digests of the recordings' entries and options, 16 hex digits each; empty for datasets that are not
    incremental."""
    measurements: SignalMeasurements = SignalMeasurements()
    """Lead order and amplitude of some recordings, stored or not."""


def task_record_path(folder: Path, name: str) -> Path:
    """Return the path of a task's record."""
    return folder / TASK_RECORDS / f"{name[:32]}.json"


def write_task_record(folder: Path, record: TaskRecord, *, replace: bool = False) -> TaskRecord:
    """Write a task record, after its shards.

    Args:
        folder: Folder of the store.
        record: The record.
        replace: True to change an earlier record of the task.

    Returns:
        The record of the task, which may be that of another writer in the same bucket.
    """
    body = record.model_dump(mode="json", exclude={"entries"} if not record.entries else None)
    path = task_record_path(folder, record.task)
    try:
        write_bytes(path, seal(body), replace=replace)
    except ExistsError:
        other = find_task_record(folder, record.task)
        return other if other is not None else write_task_record(folder, record, replace=True)
    return record


def read_task_record(folder: Path, path: Path) -> TaskRecord | None:
    """Read a task record; None if it is damaged, or its shards or their checksums are missing."""

    def size_of(shard: Path) -> int | None:
        return shard.stat().st_size if checksums_path(shard).exists() else None

    return _parse(folder, path, path.read_bytes, size_of)


def _parse(
    folder: Path, path: Path, read: Callable[[], bytes], size_of: Callable[[Path], int | None]
) -> TaskRecord | None:
    """Return an intact record, whose shards have their sizes and checksums; otherwise None."""
    try:
        record = TaskRecord.model_validate(unseal(read(), path.name))
        sizes = [size_of(folder / SHARDS / shard.file) for shard in record.shards]
    except (OSError, ValueError, IntegrityError):
        return None
    return record if sizes == [shard.bytes for shard in record.shards] else None


def read_task_records(folder: Path) -> Iterator[TaskRecord]:
    """Iterate over the intact task records of a store, of any version or killed ingest."""
    if isinstance(folder, ObjectPath):
        found: Iterator[TaskRecord | None] = _read_from_bucket(folder)
    else:
        found = (read_task_record(folder, path) for path in sorted((folder / TASK_RECORDS).glob("*.json")))
    return (record for record in found if record is not None)


def _read_from_bucket(folder: ObjectPath) -> Iterator[TaskRecord | None]:
    """Iterate over the task records in a bucket: by two listings, and a request for each one without a local copy."""
    shards, place = (folder / SHARDS).statuses(), folder / TASK_RECORDS

    def size_of(shard: Path) -> int | None:
        return shards[shard.name].st_size if {shard.name, checksums_path(shard).name} <= shards.keys() else None

    def parse(item: tuple[str, ObjectStatus]) -> TaskRecord | None:
        path = place / item[0]
        return _parse(folder, path, lambda: read_tagged(path, item[1].etag), size_of)

    with ThreadPoolExecutor(READERS) as pool:
        yield from pool.map(parse, sorted(item for item in place.statuses().items() if item[0].endswith(".json")))


def find_task_record(folder: Path, name: str) -> TaskRecord | None:
    """Return the record of a task; None if it is not finished."""
    record = read_task_record(folder, task_record_path(folder, name))
    return record if record is not None and record.task == name else None


def run_tasks(
    function: Callable[[Task], Record],
    tasks: Iterator[Task],
    kind: engines.Engine,
    workers: int,
    progress: Progress | None,
) -> list[Record]:
    """Run tasks and return their records in order."""
    done: dict[int, Record] = {}
    records = refused = 0
    for number, record in engines.run(function, tasks, engine=kind, workers=workers):
        done[number] = record
        records += record.records_in
        refused += len(record.refused)
        if progress is not None:
            progress(records, refused)
    return [done[number] for number in sorted(done)]
