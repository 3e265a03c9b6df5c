"""Writer of stores: parallel, with bounded memory, and safe to kill at any time.

The recordings of a source are divided into tasks. A task is named by a hash of its input. It writes its shards and then
a task record, so that it is not run again. The manifest is assembled from the task records and written last.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clocs.core import engine as engines
from clocs.core.column_names import check_column_names
from clocs.core.errors import ClocsError, ConfigError, MissingExtraError, StoreError
from clocs.core.hashes import content_hash
from clocs.core.recording import Recording
from clocs.core.sources.source import FileTree, Source, file_size, open_source
from clocs.core.sources.source_files import strip_extension
from clocs.core.storage.files import lock_folder
from clocs.core.storage.locations import to_location
from clocs.datasets import DATASETS, Dataset, Entry
from clocs.datasets.dataset import Options
from clocs.formats.reading import missing_companions
from clocs.signals.leads import drop_derived_leads
from clocs.signals.quality import REASONS, Finding, GatePolicy, assess
from clocs.signals.source_check import (
    SignalMeasurement,
    collect_measurements,
    measure_signals,
    merge_measurements,
    summarize_signals,
)
from clocs.store.commit import commit_appended, commit_version
from clocs.store.incremental import FinishedTasks
from clocs.store.ingest_checks import (
    check_destination,
    check_no_original_ids,
    check_signals,
    warn_of_unused_input,
)
from clocs.store.known_files import KnownFiles
from clocs.store.manifest import FORMAT, versions
from clocs.store.measured_columns import add_measured_columns
from clocs.store.reader import StoreReader
from clocs.store.shard import SHARDS, ShardInfo, write_shard
from clocs.store.task_records import (
    Progress,
    QuarantinedRecording,
    TaskRecord,
    find_task_record,
    run_tasks,
    write_task_record,
)
from clocs.store.withdrawn import WithdrawnPatients, read_withdrawn

SHARD_BYTES = 128 << 20
"""Maximum bytes of samples in a shard. With the records per task, it bounds the memory of a worker."""
MAX_MEASURED = 32
"""Maximum number of recordings of a task whose lead order and amplitude are measured."""


@dataclass(frozen=True)
class IngestTask:
    """Recordings of a source that become shards."""

    folder: Path
    """Folder of the store."""
    source: str | None
    """Path of the source; None for a dataset without files."""
    dataset: Dataset
    """The dataset."""
    options: Options
    """Options of the dataset."""
    gate: GatePolicy
    """Quality checks."""
    entries: tuple[Entry, ...]
    """Recordings of the task."""
    name: str
    """Hash of the other fields above except the paths."""
    withdrawn: WithdrawnPatients
    """Patients to leave out."""
    digests: tuple[str, ...] = ()
    """Digest of each entry, for an incremental dataset."""
    measure: bool = False
    """True to add measurements as extra columns."""


@dataclass
class LeftOut:
    """Recordings of a task that are not stored."""

    patients: WithdrawnPatients
    """Withdrawn patients, whose recordings are only counted."""
    refused: list[QuarantinedRecording] = field(default_factory=list)
    """Quarantined recordings."""
    withdrawn: int = 0
    """Number of recordings of withdrawn patients."""

    def refuse(self, recording: QuarantinedRecording) -> None:
        """Add a quarantined recording, or count it if its patient was withdrawn."""
        if recording.patient_id in self.patients:
            self.withdrawn += 1
        else:
            self.refused.append(recording)


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
    append: bool = False,
    measure: bool = False,
) -> StoreReader:
    """Write the recordings of a dataset as a version of a store; see ``ingest`` for the arguments.

    With ``append``, the version has the recordings of the newest version, too.
    """
    dataset = DATASETS.get(dataset) if isinstance(dataset, str) else dataset
    parsed = dataset.parse_options(options or {})
    gate = dataset.gate if gate is None else gate
    root = to_location(folder)
    path = str(to_location(source).absolute()) if source is not None and dataset.needs_source else None
    if path is None and dataset.needs_source:
        raise ConfigError(f"dataset '{dataset.name}' needs a source. Pass the folder or zip of its files.")
    check_destination(root, path, dataset, parsed)
    with lock_folder(root):
        if parsed.is_pseudonymous:
            check_no_original_ids(root)
        finished = FinishedTasks(root) if dataset.incremental and not append else None
        tree = open_source(path) if path is not None else None
        known = KnownFiles(root, tree, parsed.digest) if tree is not None and finished is not None else None
        tasks = _ingest_tasks(dataset, parsed, gate, known or tree, root, finished, measure)
        kind = engine or ("serial" if workers == 1 else "processes")
        try:
            records = run_tasks(run_ingest_task, tasks, kind, workers, progress)
        except OSError as error:  # of the source; a failed write is a StoreError already
            raise StoreError(f"{error.strerror or error}. No version was committed. Call again to continue.") from error
        records = records if finished is None else finished.merge(records)
        if not records:
            raise ConfigError(
                f"{source} has no recording of dataset '{dataset.name}'. See 'clocs data info {dataset.name}'."
            )
        measurements = merge_measurements(record.measurements for record in records)
        signals = summarize_signals(measurements, calibrated=dataset.calibrated)
        check_signals(signals, source, gate)
        commit = commit_appended if append and versions(root) else commit_version
        store = commit(root, records, dataset.metadata(parsed), parsed.model_dump(mode="json"), gate, signals)
        if known is not None:
            known.save()
    warn_of_unused_input(store, parsed)
    return store


def _ingest_tasks(
    dataset: Dataset,
    options: Options,
    gate: GatePolicy,
    source: FileTree | KnownFiles | None,
    folder: Path,
    finished: FinishedTasks | None,
    measure: bool,
) -> Iterator[IngestTask]:
    path = source.path if source is not None else None
    withdrawn = read_withdrawn(folder)
    shared = [FORMAT, dataset.name, options.recording_options(), gate.model_dump(mode="json")]
    shared += ["measured"] if measure else []

    def entries() -> Iterator[Entry]:
        return dataset.entries(source, options)  # type: ignore[arg-type]  # None only if no source is needed

    common = content_hash(shared)

    @functools.lru_cache(
        maxsize=2 * dataset.records_per_shard
    )  # a task needs again the sizes that identified new entries
    def sizes(entry: Entry) -> Any:
        return _file_sizes(source, entry.file) if source is not None else 0

    def digest(entry: Entry) -> str:
        stamp = [source.stamp(entry.file)] if source is not None and source.stamps_content else []
        return options.digest(json.dumps([common, vars(entry), sizes(entry), *stamp], sort_keys=True))[:16]

    def task(chunk: tuple[Entry, ...]) -> IngestTask:
        file_sizes = [sizes(entry) for entry in chunk] if source is not None else []
        name = options.digest([*shared, [vars(entry) for entry in chunk], file_sizes])
        digests = tuple(map(digest, chunk)) if finished is not None else ()
        return IngestTask(folder.absolute(), path, dataset, options, gate, chunk, name, withdrawn, digests, measure)

    new = entries() if finished is None else finished.new_entries(entries, digest)
    yield from map(task, _chunks(new, dataset.records_per_shard))


def _file_sizes(source: Source, file: str) -> Any:
    """Return the size of a file, and the sizes of companion files that differ from its header.

    Changed sizes identify changed files. Companions that agree are left out, which keeps the names of existing tasks.
    """
    size, companions = file_size(source, file), missing_companions(source, file)
    return [size, companions] if companions else size


def _chunks(entries: Iterable[Entry], size: int) -> Iterator[tuple[Entry, ...]]:
    chunk: list[Entry] = []
    for entry in entries:
        chunk.append(entry)
        if len(chunk) == size:
            yield tuple(chunk)
            chunk = []
    if chunk:
        yield tuple(chunk)


def run_ingest_task(task: IngestTask) -> TaskRecord:
    """Read, check and store the recordings of a task, unless its record exists.

    A record is replaced if files changed without their sizes, which sources in archives and buckets notice.
    """
    record = find_task_record(task.folder, task.name)
    if record is not None and (not (task.digests and record.entries) or record.entries == "".join(task.digests)):
        return record
    source = open_source(task.source) if task.source is not None else None
    left_out = LeftOut(task.withdrawn)
    measurements: list[SignalMeasurement] = []
    accepted = _passing_recordings(task, source, left_out, measurements)
    return write_recordings(task, accepted, left_out, measurements, replace_record=record is not None)


def _passing_recordings(
    task: IngestTask, source: Source | None, left_out: LeftOut, measurements: list[SignalMeasurement]
) -> Iterator[Recording]:
    """Iterate over the recordings that pass the checks, and measure some of all.

    The others are added to ``left_out``.
    """
    step = -(-len(task.entries) // MAX_MEASURED)
    for number, entry in enumerate(task.entries):
        try:
            recording = task.dataset.load(source, entry, task.options)  # type: ignore[arg-type]
            _check_ids(recording, task.dataset.name)
            check_column_names(recording.extra)
            if recording.patient_id in task.withdrawn:
                left_out.withdrawn += 1
                continue
            if number % step == 0:
                measurements.append(measure_signals(recording))
            findings = assess(recording, task.gate)
            stored = drop_derived_leads(recording)
        except (OSError, MemoryError, ConfigError, MissingExtraError):
            raise  # not an error of the file
        except ClocsError as error:
            left_out.refuse(_unreadable(task.dataset.redact(entry, task.options), str(error)))
            continue
        except Exception as error:  # a defect of a reader must not end the ingest
            left_out.refuse(_unreadable(task.dataset.redact(entry, task.options), f"unexpected {error!r}"))
            continue
        if findings:
            left_out.refuse(_failed_checks(recording, findings))
        else:
            yield add_measured_columns(stored) if task.measure else stored


def _check_ids(recording: Recording, dataset: str) -> None:
    """Refuse a recording without ids, which a split would join with all others of no patient."""
    if not (recording.record_id and recording.patient_id):
        raise ConfigError(
            f"load of dataset '{dataset}' returned a recording without record_id or patient_id. Return "
            "apply_entry(recording, entry), and give each entry or recording a record_id."
        )


def _unreadable(entry: Entry, detail: str) -> QuarantinedRecording:
    record_id = entry.record_id or strip_extension(entry.file).rsplit("/", 1)[-1]
    patient_id = entry.patient_id or record_id
    return _quarantined(record_id, patient_id, entry.file, "", [Finding("unreadable", "", detail[:500])])


def _failed_checks(recording: Recording, findings: list[Finding]) -> QuarantinedRecording:
    origin = recording.provenance
    return _quarantined(recording.record_id, recording.patient_id, origin.source, origin.sha256, findings)


def _quarantined(
    record_id: str, patient_id: str, source: str, sha256: str, findings: list[Finding]
) -> QuarantinedRecording:
    return QuarantinedRecording(
        record_id=_encodable(record_id),
        patient_id=_encodable(patient_id),
        source=_encodable(source),
        source_sha256=sha256,
        reason=min((finding.reason for finding in findings), key=REASONS.index),
        findings=tuple(
            replace(finding, lead=_encodable(finding.lead), detail=_encodable(finding.detail)) for finding in findings
        ),
    )


def _encodable(text: str) -> str:
    """Escape the characters of a text that UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def write_recordings(
    task: IngestTask,
    recordings: Iterator[Recording],
    left_out: LeftOut,
    measurements: list[SignalMeasurement],
    *,
    replace_record: bool = False,
) -> TaskRecord:
    """Write recordings as shards of bounded size, then the task record.

    Iterating over the recordings fills ``left_out`` and ``measurements``.
    """
    shards: list[ShardInfo] = []
    pending: list[Recording] = []

    def write() -> None:
        if pending:
            path = task.folder / SHARDS / f"{task.name[:16]}-{len(shards)}.arrow"
            shards.extend(_write_valid_rows(path, pending, left_out))
            pending.clear()

    size = 0
    for recording in recordings:
        if pending and size + recording.digital.nbytes > SHARD_BYTES:
            write()
            size = 0
        pending.append(recording)
        size += recording.digital.nbytes
    write()
    record = TaskRecord(
        task=task.name,
        records_in=len(task.entries),
        shards=tuple(shards),
        refused=tuple(left_out.refused),
        withdrawn=left_out.withdrawn,
        entries="".join(task.digests),
        measurements=collect_measurements(measurements),
    )
    return write_task_record(task.folder, record, replace=replace_record)


def _write_valid_rows(path: Path, recordings: list[Recording], left_out: LeftOut) -> list[ShardInfo]:
    """Write a shard of the recordings that Arrow can store. The others are added to ``left_out``."""
    try:
        return [write_shard(path, recordings)]
    except (OSError, MemoryError, ClocsError):
        raise  # not an error of a recording
    except Exception as error:
        if len(recordings) == 1:
            detail = f"cannot be stored: {error!r:.400}"
            left_out.refuse(_failed_checks(recordings[0], [Finding("unreadable", "", detail)]))
            return []
    valid = [recording for recording in recordings if _write_valid_rows(path, [recording], left_out)]
    return [write_shard(path, valid)] if valid else []
