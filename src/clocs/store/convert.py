"""Conversion of a file, a folder, a zip or a store to files of another format."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from clocs.core.engine import Engine, run
from clocs.core.errors import ClocsError, ConfigError, FormatError, LeadError, SignalError, UnitError
from clocs.core.recording import Recording
from clocs.core.sources.source import Source, open_source
from clocs.core.sources.source_files import strip_extension
from clocs.core.storage.files import is_inside
from clocs.datasets.redaction import patient_id_from
from clocs.formats.reading import detect_format, read_from, read_identity_from
from clocs.formats.writers.parquet import conversion_notes, parquet_file
from clocs.formats.writing import (
    WRITERS,
    EncodedRecording,
    FileNames,
    WriteOptions,
    Writer,
    encode,
    file_stem,
    output_paths,
    prepare_recording,
    write,
    write_files,
    writer_for,
)
from clocs.store.manifest import versions
from clocs.store.store import Store, open_store

RECORDING_ERRORS = (FormatError, LeadError, SignalError, UnitError)
"""Errors of one recording. Any other error ends the conversion."""
Progress = Callable[[int, int | None, int], None]
"""Called with the recordings done, their total (None if unknown) and the rejected recordings."""


@dataclass
class ConversionResult:
    """Counts of a conversion, and the files that were not converted."""

    format: str
    """Name of the format."""
    written: int = 0
    """Number of recordings written."""
    kept: int = 0
    """Number of recordings with files that existed before."""
    size: int = 0
    """Bytes written."""
    refused: dict[str, str] = field(default_factory=dict)
    """Reason of each rejected recording, by file or record id."""
    ignored: list[str] = field(default_factory=list)
    """Files of unknown formats."""
    notes: Counter[str] = field(default_factory=Counter)
    """Information that the format cannot hold, with the number of recordings."""


@dataclass(frozen=True)
class _ConversionJob:
    """Settings that all recordings of a conversion share."""

    source: str
    """Path of the store, folder or zip."""
    version: int | None
    """Version of the store; None for a folder or a zip."""
    writer: Writer
    options: WriteOptions
    overwrite: bool


@dataclass(frozen=True)
class _ConversionTask:
    """One recording to convert."""

    name: str
    """A file of the source, or a record id."""
    target: Path
    """Path of the file to write."""
    index: int = -1
    """Index of the recording in the store."""


@dataclass(frozen=True)
class _Outcome:
    """Result of one recording."""

    name: str
    status: Literal["written", "kept", "refused"]
    size: int = 0
    notes: tuple[str, ...] = ()
    reason: str = ""


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    to: str | None = None,
    *,
    derived: bool = False,
    patient_ids: bool = False,
    fill_missing: bool = False,
    overwrite: bool = False,
    engine: Engine | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> ConversionResult:
    """Convert a file to a file, or a folder, zip or store to a folder or to one Parquet file.

    Recordings that cannot be read, or that the format cannot hold, are rejected with a reason. The others are written.
    An interrupted conversion continues when it is called again.

    Args:
        source: An ECG file, a folder or zip of ECG files, or a store.
        target: File to write, folder of the files, or a ``.parquet`` file for all recordings.
        to: Name of the format; by default that of the target's extension.
        derived: True to also write the leads that are derived from I and II.
        patient_ids: True to write patient ids.
        fill_missing: True to write missing samples as 0 if the format cannot mark them.
        overwrite: True to replace existing files.
        engine: How recordings are distributed; by default ``processes`` with several workers, otherwise ``serial``.
        workers: Number of parallel workers.
        progress: Called with the recordings done, their total (None if unknown) and the rejected recordings.

    Returns:
        Counts of the conversion, and the files that were not converted.

    Raises:
        ConfigError: The format is unknown, or the target is invalid.
        FormatError: A single file cannot be read.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 2})
        >>> result = clocs.convert(store, "files", "wfdb")
        >>> result.written, result.refused
        (2, {})
        >>> clocs.read("files/0000001.hea").leads[:3]
        ('I', 'II', 'III')
    """
    path, out = Path(source), Path(target)
    options = WriteOptions(derived, patient_ids, fill_missing)
    store = open_store(path) if versions(path) else None
    if store is None and _is_single_file(path):
        return _convert_file(path, out, to, options, overwrite)
    if is_inside(out, path):
        raise ConfigError(f"{out} is inside {path}. Choose a folder outside of it.")
    writer, single = _choose_writer(out, to)
    done = ConversionResult(writer.name)
    job = _ConversionJob(str(path), None if store is None else store.manifest.version, writer, options, overwrite)
    names = FileNames(out, writer)
    tasks = _store_tasks(store, names) if store is not None else _source_tasks(open_source(path), names, done)
    total = None if store is None else len(store)
    report = progress or (lambda finished, total, rejected: None)
    if single:
        outcomes = _convert_to_one_file(job, tasks, out)
    else:
        chosen: Engine = engine or ("processes" if workers > 1 else "serial")
        outcomes = (
            outcome
            for _, outcome in run(functools.partial(_convert_recording, job), tasks, engine=chosen, workers=workers)
        )
    for outcome in outcomes:
        _add_outcome(done, outcome)
        report(done.written + done.kept + len(done.refused), total, len(done.refused))
    if single and done.written:
        done.size = out.stat().st_size
    return done


def _is_single_file(path: Path) -> bool:
    """Return whether a path is one recording, not a folder, a zip, or a folder in a zip."""
    if path.exists():
        return path.is_file() and path.suffix.lower() != ".zip"
    in_archive = any(parent.is_file() for parent in path.parents)
    return not in_archive or next(open_source(path).names(), None) is None


def _convert_file(path: Path, out: Path, to: str | None, options: WriteOptions, overwrite: bool) -> ConversionResult:
    if os.path.isdir(out):
        out = FileNames(out, _choose_writer(out, to)[0]).for_file(path.name)
    recording = _read_file(open_source(path.parent), path.name, options)
    done = write(recording, out, to, overwrite=overwrite, **vars(options))
    size = sum(file.stat().st_size for file in done.files)
    return ConversionResult(writer_for(out, to).name, written=1, size=size, notes=Counter(done.notes))


def _choose_writer(out: Path, to: str | None) -> tuple[Writer, bool]:
    """Return the writer of several recordings, and whether they go into one file."""
    parquet = WRITERS.get("parquet")
    if not out.is_dir() and out.name.lower().endswith(parquet.suffixes):
        if to not in (None, parquet.name):
            raise ConfigError(f"One file of all recordings must be Parquet, not {to}. Pass a folder, or to='parquet'.")
        return parquet, True
    if to is None:
        raise ConfigError(
            f"Pass the format: {', '.join(WRITERS.names())}. Each recording becomes a file in {out}. For one file of "
            "all recordings, end the name in .parquet."
        )
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file, but each recording becomes a file. Pass a folder.")
    return WRITERS.get(to), False


def _source_tasks(source: Source, names: FileNames, done: ConversionResult) -> Iterator[_ConversionTask]:
    """Iterate over the readable files. Parts of WFDB records are skipped, other files are listed as ignored."""
    readable = []
    for name in source.names():
        try:
            is_known = name.endswith(".hea") or detect_format(source, name) is not None
        except FormatError as error:
            done.refused[name] = str(error)
            continue
        if is_known:
            readable.append(name)
        elif not source.exists(name.rsplit(".", 1)[0] + ".hea"):
            done.ignored.append(name)
    stems = {name: names.sanitized(strip_extension(name)) for name in readable}
    counts = Counter(stems.values())
    yield from (_ConversionTask(name, names.for_file(name, is_unique=counts[stems[name]] == 1)) for name in readable)


def _store_tasks(store: Store, names: FileNames) -> Iterator[_ConversionTask]:
    index = 0
    for shard in range(len(store.shards)):
        for record_id in store.shard(shard).column("record_id").to_pylist():
            yield _ConversionTask(record_id, names.for_record(record_id), index)
            index += 1


def _convert_recording(job: _ConversionJob, task: _ConversionTask) -> _Outcome:
    if task.target.exists() and not job.overwrite:
        return _Outcome(task.name, "kept")
    try:
        encoded = encode(_load_recording(job, task), job.writer, file_stem(task.target, job.writer), job.options)
        files = output_paths(task.target, job.writer, encoded)
        if not job.overwrite:
            _check_existing_files(files, encoded)
    except RECORDING_ERRORS as error:
        return _Outcome(task.name, "refused", reason=str(error))
    write_files(files, encoded)
    return _Outcome(task.name, "written", sum(map(len, encoded.files.values())), encoded.notes)


def _check_existing_files(files: list[Path], encoded: EncodedRecording) -> None:
    """Raise an error if an existing file has other content than an interrupted conversion would leave."""
    for file, data in zip(files, encoded.files.values(), strict=True):
        if file.exists() and file.read_bytes() != data:
            raise SignalError(f"{file} exists with other content. Pass overwrite=True (--overwrite), or move it.")


class _EmptyFileError(Exception):
    """Signal that a file would have no rows."""


def _convert_to_one_file(job: _ConversionJob, tasks: Iterator[_ConversionTask], out: Path) -> Iterator[_Outcome]:
    """Write each recording as a row of one file, which appears when all are written."""
    if out.exists() and not job.overwrite:
        raise ConfigError(f"{out} exists. Pass overwrite=True (--overwrite), or choose another name.")
    written = 0
    with contextlib.suppress(_EmptyFileError), parquet_file(out) as add:
        for task in tasks:
            try:
                recording = prepare_recording(_load_recording(job, task), job.options)
            except RECORDING_ERRORS as error:
                yield _Outcome(task.name, "refused", reason=str(error))
                continue
            add(recording)
            written += 1
            yield _Outcome(task.name, "written", notes=conversion_notes(recording))
        if not written:
            raise _EmptyFileError


def _load_recording(job: _ConversionJob, task: _ConversionTask) -> Recording:
    if job.version is None:
        try:
            return _read_file(open_source(job.source), task.name, job.options)
        except (OSError, MemoryError, ClocsError):
            raise
        except Exception as error:  # a defect of a reader must not end the conversion
            raise FormatError(f"{task.name}: unexpected {type(error).__name__}. Please report it.") from error
    store = _open_cached(job.source, job.version)
    shard, row = store.locate(task.index)
    return store.shard(shard).recording(row)


@functools.lru_cache(maxsize=1)
def _open_cached(folder: str, version: int) -> Store:
    return open_store(folder, version)


def _read_file(source: Source, name: str, options: WriteOptions) -> Recording:
    """Read a recording from a file, with its patient id only if that is to be written."""
    recording = read_from(source, name)
    if not options.patient_ids or recording.patient_id:
        return recording
    return replace(recording, patient_id=patient_id_from(read_identity_from(source, name)))


def _add_outcome(done: ConversionResult, outcome: _Outcome) -> None:
    if outcome.status == "refused":
        done.refused[outcome.name] = outcome.reason
        return
    done.written += outcome.status == "written"
    done.kept += outcome.status == "kept"
    done.size += outcome.size
    done.notes.update(outcome.notes)
