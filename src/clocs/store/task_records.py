"""Records of finished tasks: a receipt states what became of each task of an ingest.

A task with a receipt is never run again, whoever ran it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from clocs.core import engine as engines
from clocs.core.errors import IntegrityError
from clocs.core.files import seal, unseal, write_bytes
from clocs.signals.quality import Finding
from clocs.store.checksums import checksums_path
from clocs.store.manifest import SHARDS
from clocs.store.shard import ShardInfo

TASK_RECORDS = "receipts"
Progress = Callable[[int, int], None]
"""Called with the recordings done so far, and how many of them were refused."""
Task = TypeVar("Task")


class Told(Protocol):
    """What every receipt says."""

    @property
    def records_in(self) -> int: ...

    @property
    def refused(self) -> Sized: ...


Kept = TypeVar("Kept", bound=Told)


class Refused(BaseModel):
    """A recording that was not stored, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    record_id: str
    source: str
    source_sha256: str
    reason: str
    findings: tuple[Finding, ...]


class Receipt(BaseModel):
    """What became of a task."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    records_in: int
    shards: tuple[ShardInfo, ...]
    refused: tuple[Refused, ...]
    entries: tuple[str, ...] = ()
    """A digest of each recording's file, name and options; empty where sources are not expected to grow."""


def receipt_path(folder: Path, name: str) -> Path:
    """Where the receipt of a task lies."""
    return folder / TASK_RECORDS / f"{name[:32]}.json"


def write_receipt(folder: Path, receipt: Receipt) -> None:
    """Say that a task is done; its shards are there."""
    body = receipt.model_dump(mode="json", exclude={"entries"} if not receipt.entries else None)
    write_bytes(receipt_path(folder, receipt.task), seal(body))


def read_task_record(folder: Path, path: Path) -> Receipt | None:
    """Return a receipt if it is undamaged and its shards and their checksums are there, else None."""
    try:
        receipt = Receipt.model_validate(unseal(path.read_bytes(), path.name))
        paths = [folder / SHARDS / shard.file for shard in receipt.shards]
        sizes = [path.stat().st_size for path in paths if checksums_path(path).exists()]
    except (OSError, ValueError, IntegrityError):
        return None
    return receipt if sizes == [shard.bytes for shard in receipt.shards] else None


def read_task_records(folder: Path) -> Iterator[Receipt]:
    """All of a store's that are whole, of whatever version or killed run."""
    found = (read_task_record(folder, path) for path in sorted((folder / TASK_RECORDS).glob("*.json")))
    return (receipt for receipt in found if receipt is not None)


def finished(folder: Path, name: str) -> Receipt | None:
    """The receipt of a task that is done."""
    receipt = read_task_record(folder, receipt_path(folder, name))
    return receipt if receipt is not None and receipt.task == name else None


def run_tasks(
    function: Callable[[Task], Kept],
    tasks: Iterator[Task],
    kind: engines.Engine,
    workers: int,
    progress: Progress | None,
) -> list[Kept]:
    """The receipts of all tasks, in their order, whoever carried them out and when."""
    done: dict[int, Kept] = {}
    records = refused = 0
    for number, receipt in engines.run(function, tasks, engine=kind, workers=workers):
        done[number] = receipt
        records += receipt.records_in
        refused += len(receipt.refused)
        if progress is not None:
            progress(records, refused)
    return [done[number] for number in sorted(done)]
