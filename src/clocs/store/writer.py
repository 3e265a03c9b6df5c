"""From files to a store: in parallel, with bounded memory, and safe to kill at any moment.

The recordings of a source are cut into tasks. A task is named by what goes into it, writes its shards,
and last a receipt: a task with a receipt is never run again, whoever ran it. The manifest is assembled
from the receipts and written last of all.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clocs.core import engine as engines
from clocs.core.errors import ClocsError, ConfigError, MissingExtraError, StoreError
from clocs.core.files import content_hash, lock_folder, write_bytes
from clocs.core.recording import Recording
from clocs.core.sources import Source, file_size, open_source, strip_extension
from clocs.datasets import DATASETS, Dataset, Entry
from clocs.datasets.dataset import Options
from clocs.formats.reading import missing_companions
from clocs.signals.leads import drop_derived_leads
from clocs.signals.quality import REASONS, Finding, GatePolicy, assess
from clocs.store.duplicates import repeated_record_ids
from clocs.store.incremental import Pool
from clocs.store.ingest_checks import check_nobody_is_named, check_place, warn_of_unused
from clocs.store.manifest import (
    FORMAT,
    SHARDS,
    Manifest,
    QuarantineInfo,
    read_manifest,
    versions,
    write_manifest,
)
from clocs.store.reader import StoreReader
from clocs.store.shard import ShardInfo, write_shard
from clocs.store.task_records import Progress, Receipt, Refused, finished, run_tasks, write_receipt

SHARD_BYTES = 128 << 20
"""Samples after which a task starts another shard; with the records per task it bounds a worker's memory."""


@dataclass(frozen=True)
class Task:
    """Some recordings of a source, to become shards."""

    folder: Path
    source: str | None
    dataset: Dataset
    options: Options
    gate: GatePolicy
    entries: tuple[Entry, ...]
    name: str
    """Hash of everything above but the folder and the source's own path."""
    digests: tuple[str, ...] = ()
    """Of the entries, where what is read once is kept whatever else the source gains."""


def write_store(
    dataset: str | Dataset,
    source: str | os.PathLike[str] | None,
    folder: str | os.PathLike[str],
    *,
    gate: GatePolicy | None = None,
    options: dict[str, Any] | None = None,
    engine: engines.Engine | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> StoreReader:
    """Write a dataset's recordings as a version of a store, and open it; arguments as for ``ingest``."""
    dataset = DATASETS.get(dataset) if isinstance(dataset, str) else dataset
    chosen = dataset.parse_options(options or {})
    gate = dataset.gate if gate is None else gate
    place = Path(folder)
    path = str(Path(source).absolute()) if source is not None and dataset.needs_source else None
    if path is None and dataset.needs_source:
        raise ConfigError(f"dataset '{dataset.name}' needs a source: the folder or zip its files lie in")
    check_place(place, path, dataset, chosen)
    with lock_folder(place):
        if chosen.pseudonymous:
            check_nobody_is_named(place)
        pool = Pool(place) if dataset.grows else None
        tasks = _tasks(dataset, chosen, gate, path, place, pool)
        kind = engine or ("serial" if workers == 1 else "processes")
        try:
            receipts = run_tasks(run_task, tasks, kind, workers, progress)
        except OSError as error:  # of the source; what cannot be written is a StoreError already
            raise StoreError(f"{error.strerror or error}. Nothing was committed; the same call continues") from error
        receipts = receipts if pool is None else pool.joined(receipts)
        if not receipts:
            raise ConfigError(f"no recording of dataset '{dataset.name}' in {source}; see 'clocs data info'")
        store = commit(place, receipts, dataset.metadata(chosen), chosen.model_dump(mode="json"), gate)
    warn_of_unused(store, chosen)
    return store


def _tasks(
    dataset: Dataset, options: Options, gate: GatePolicy, path: str | None, folder: Path, pool: Pool | None
) -> Iterator[Task]:
    source = open_source(path) if path is not None else None
    shared = [FORMAT, dataset.name, options.of_recordings(), gate.model_dump(mode="json")]

    def entries() -> Iterator[Entry]:
        return dataset.entries(source, options)  # type: ignore[arg-type]  # None only where no source is needed

    common = content_hash(shared)

    @functools.lru_cache(maxsize=2 * dataset.records_per_shard)  # a task asks again for what made its entries new
    def sizes(entry: Entry) -> Any:
        return _sizes(source, entry.file) if source is not None else 0

    def digest(entry: Entry) -> str:
        return options.digest([common, vars(entry), sizes(entry)])[:16]

    def task(chunk: tuple[Entry, ...]) -> Task:
        of_files = [sizes(entry) for entry in chunk] if source is not None else []
        name = options.digest([*shared, [vars(entry) for entry in chunk], of_files])
        digests = tuple(map(digest, chunk)) if pool is not None else ()
        return Task(folder, path, dataset, options, gate, chunk, name, digests)

    new = entries() if pool is None else pool.unread(entries, digest)
    yield from map(task, _chunks(new, dataset.records_per_shard))


def _sizes(source: Source, file: str) -> Any:
    """What tells that files have changed: a file's size and, of those it needs, the sizes that are not as it says.

    The others follow from the file itself, and to leave them out keeps the names, and so the hashes, of all stores.
    """
    size, odd = file_size(source, file), missing_companions(source, file)
    return [size, odd] if odd else size


def _chunks(entries: Iterable[Entry], size: int) -> Iterator[tuple[Entry, ...]]:
    chunk: list[Entry] = []
    for entry in entries:
        chunk.append(entry)
        if len(chunk) == size:
            yield tuple(chunk)
            chunk = []
    if chunk:
        yield tuple(chunk)


def run_task(task: Task) -> Receipt:
    """Read, judge and store a task's recordings; at once done when its receipt is there."""
    receipt = finished(task.folder, task.name)
    if receipt is not None:
        return receipt
    source = open_source(task.source) if task.source is not None else None
    refused: list[Refused] = []
    accepted = _accepted(task, source, refused)
    return write_recordings(task, accepted, refused)


def _accepted(task: Task, source: Source | None, refused: list[Refused]) -> Iterator[Recording]:
    """The recordings that pass; the others are added to ``refused``."""
    for entry in task.entries:
        try:
            recording = task.dataset.load(source, entry, task.options)  # type: ignore[arg-type]
            findings = assess(recording, task.gate)
            own = drop_derived_leads(recording)
        except (OSError, MemoryError, ConfigError, MissingExtraError):
            raise  # of the machine or its user, not of the file
        except ClocsError as error:
            refused.append(_unreadable(task.dataset.redact(entry, task.options), str(error)))
            continue
        except Exception as error:  # a reader's own mistake must not end an archive's ingest
            refused.append(_unreadable(task.dataset.redact(entry, task.options), f"unexpected {error!r}"))
            continue
        if findings:
            refused.append(_judged(recording, findings))
        else:
            yield own


def _unreadable(entry: Entry, detail: str) -> Refused:
    record_id = entry.record_id or strip_extension(entry.file).rsplit("/", 1)[-1]
    return _refusal(record_id, entry.file, "", [Finding("unreadable", "", detail[:500])])


def _judged(recording: Recording, findings: list[Finding]) -> Refused:
    origin = recording.provenance
    return _refusal(recording.record_id, origin.source, origin.sha256, findings)


def _refusal(record_id: str, source: str, sha256: str, findings: list[Finding]) -> Refused:
    return Refused(
        record_id=_encodable(record_id),
        source=_encodable(source),
        source_sha256=sha256,
        reason=min((finding.reason for finding in findings), key=REASONS.index),
        findings=tuple(replace(each, lead=_encodable(each.lead), detail=_encodable(each.detail)) for each in findings),
    )


def _encodable(text: str) -> str:
    """Text of a file may hold half a character, which is no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_recordings(task: Task, recordings: Iterator[Recording], refused: list[Refused]) -> Receipt:
    """Write recordings as shards of bounded size, then the receipt."""
    shards: list[ShardInfo] = []
    held: list[Recording] = []

    def write() -> None:
        if held:
            path = task.folder / SHARDS / f"{task.name[:16]}-{len(shards)}.arrow"
            shards.extend(_shard(path, held, refused))
            held.clear()

    size = 0
    for recording in recordings:
        if held and size + recording.digital.nbytes > SHARD_BYTES:
            write()
            size = 0
        held.append(recording)
        size += recording.digital.nbytes
    write()
    receipt = Receipt(
        task=task.name,
        records_in=len(task.entries),
        shards=tuple(shards),
        refused=tuple(refused),
        entries=task.digests,
    )
    write_receipt(task.folder, receipt)
    return receipt


def _shard(path: Path, recordings: list[Recording], refused: list[Refused]) -> list[ShardInfo]:
    """One shard of those recordings that can be its rows; the others are added to ``refused``."""
    try:
        return [write_shard(path, recordings)]
    except (OSError, MemoryError, ClocsError):
        raise  # of the machine or its user, not of a recording
    except Exception as error:
        if len(recordings) == 1:
            detail = f"cannot be stored: {error!r:.400}"
            refused.append(_judged(recordings[0], [Finding("unreadable", "", detail)]))
            return []
    sound = [each for each in recordings if _shard(path, [each], refused)]
    return [write_shard(path, sound)] if sound else []


def commit(
    folder: Path, receipts: list[Receipt], dataset: dict[str, Any], options: dict[str, Any], gate: GatePolicy
) -> StoreReader:
    """Make a version of what receipts say; none if the newest one says the same."""
    refused = [row for receipt in receipts for row in receipt.refused]
    shards = tuple(shard for receipt in receipts for shard in receipt.shards)
    records_in, stored = sum(receipt.records_in for receipt in receipts), sum(shard.records for shard in shards)
    if records_in != stored + len(refused):
        raise StoreError(f"{records_in} recordings in, but {stored} stored and {len(refused)} refused: a defect")
    twice = repeated_record_ids(folder / SHARDS, shards)
    if twice:
        raise ConfigError(f"record ids must be unique; these come twice: {', '.join(twice[:5])}")
    known = versions(folder)
    number = known[-1] + 1 if known else 1
    rows = b"".join(json.dumps(row.model_dump(mode="json"), sort_keys=True).encode() + b"\n" for row in refused)
    count = Counter(row.reason for row in refused)

    def manifest(number: int) -> Manifest:
        listed = QuarantineInfo(
            file=f"quarantine-{number:06d}.jsonl", sha256=hashlib.sha256(rows).hexdigest(), records=len(refused)
        )
        return Manifest(
            version=number,
            dataset=dataset,
            options=options,
            gate=gate.model_dump(mode="json"),
            software={name: version(name) for name in ("clocs", "numpy", "pyarrow")},
            records_in=records_in,
            stored=stored,
            quarantined={reason: count[reason] for reason in REASONS if count[reason]},
            quarantine=listed,
            shards=shards,
        )

    if known and read_manifest(folder).sha256 == manifest(known[-1]).sha256:
        return StoreReader(folder)
    new = manifest(number)
    write_bytes(folder / new.quarantine.file, rows)
    write_manifest(folder, new)
    return StoreReader(folder)
