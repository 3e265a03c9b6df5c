"""Converting: a file, a folder, a zip or a store into files of another format."""

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
from clocs.core.files import is_inside
from clocs.core.recording import Recording
from clocs.core.sources import Source, open_source, strip_extension
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

REFUSALS = (FormatError, LeadError, SignalError, UnitError)
"""Faults of one recording; any other error ends the conversion."""
Progress = Callable[[int, int | None, int], None]


@dataclass
class Conversion:
    """What became of a conversion."""

    format: str
    written: int = 0
    """Recordings."""
    kept: int = 0
    """Recordings whose files were there already."""
    size: int = 0
    """Bytes."""
    refused: dict[str, str] = field(default_factory=dict)
    """By file or record id: the reason."""
    ignored: list[str] = field(default_factory=list)
    """Files in no format that clocs knows."""
    notes: Counter[str] = field(default_factory=Counter)
    """What the format could not keep, and of how many recordings."""


@dataclass(frozen=True)
class _Job:
    """What all recordings of a conversion share."""

    place: str
    version: int | None
    """Of the store; None: the place is a folder or a zip."""
    writer: Writer
    options: WriteOptions
    overwrite: bool


@dataclass(frozen=True)
class _Task:
    name: str
    """A file of the source, or a record id."""
    target: Path
    number: int = -1
    """Of the recording, in a store."""


@dataclass(frozen=True)
class _Outcome:
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
) -> Conversion:
    """Convert a file to a file; a folder, a zip or a store to a folder, or to one Parquet file.

    ``to`` names the format; else it is that of the target's ending. In a folder, files that are there already
    are kept unless ``overwrite``, so that an interrupted conversion goes on. A recording that cannot be read,
    or that the format cannot hold, is refused with its reason, and the others are written.
    ``progress`` is called with recordings done, recordings in all (None: unknown), and recordings refused.
    """
    place, out = Path(source), Path(target)
    options = WriteOptions(derived, patient_ids, fill_missing)
    store = open_store(place) if versions(place) else None
    if store is None and _is_file(place):
        return _convert_file(place, out, to, options, overwrite)
    if is_inside(out, place):
        raise ConfigError(f"{out} lies in {place}, and would be converted with it; choose a place elsewhere")
    writer, single = _folder_writer(out, to)
    done = Conversion(writer.name)
    job = _Job(str(place), None if store is None else store.manifest.version, writer, options, overwrite)
    names = FileNames(out, writer)
    tasks = _store_tasks(store, names) if store is not None else _source_tasks(open_source(place), names, done)
    total = None if store is None else len(store)
    tell = progress or (lambda finished, of, refused: None)
    if single:
        outcomes = _to_one_file(job, tasks, out)
    else:
        chosen: Engine = engine or ("processes" if workers > 1 else "serial")
        outcomes = (found for _, found in run(functools.partial(_convert, job), tasks, engine=chosen, workers=workers))
    for outcome in outcomes:
        _count(done, outcome)
        tell(done.written + done.kept + len(done.refused), total, len(done.refused))
    if single and done.written:
        done.size = out.stat().st_size
    return done


def _is_file(place: Path) -> bool:
    """Whether a path names one recording: else it is a folder, a zip, or a folder in a zip."""
    if place.exists():
        return place.is_file() and place.suffix.lower() != ".zip"
    in_archive = any(parent.is_file() for parent in place.parents)
    return not in_archive or next(open_source(place).names(), None) is None


def _convert_file(place: Path, out: Path, to: str | None, options: WriteOptions, overwrite: bool) -> Conversion:
    if os.path.isdir(out):
        out = FileNames(out, _folder_writer(out, to)[0]).for_file(place.name)
    recording = _read(open_source(place.parent), place.name, options)
    done = write(recording, out, to, overwrite=overwrite, **vars(options))
    size = sum(file.stat().st_size for file in done.files)
    return Conversion(writer_for(out, to).name, written=1, size=size, notes=Counter(done.notes))


def _folder_writer(out: Path, to: str | None) -> tuple[Writer, bool]:
    """The writer of a folder's worth of recordings, and whether they go into one file."""
    parquet = WRITERS.get("parquet")
    if not out.is_dir() and out.name.lower().endswith(parquet.suffixes):
        if to not in (None, parquet.name):
            raise ConfigError(f"{out.name} can be one file of all recordings only in Parquet, not in {to}")
        return parquet, True
    if to is None:
        raise ConfigError(
            f"say what to convert to: {', '.join(WRITERS.names())}. Each recording becomes a file in {out}; "
            "one file of all recordings is made where its name ends in .parquet"
        )
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; a folder is needed, for each recording becomes a file of its own")
    return WRITERS.get(to), False


def _source_tasks(source: Source, names: FileNames, done: Conversion) -> Iterator[_Task]:
    """Every file that can be read; parts of WFDB records are passed over, other files are listed as ignored."""
    known = []
    for name in source.names():
        try:
            is_known = name.endswith(".hea") or detect_format(source, name) is not None
        except FormatError as error:
            done.refused[name] = str(error)
            continue
        if is_known:
            known.append(name)
        elif not source.exists(name.rsplit(".", 1)[0] + ".hea"):
            done.ignored.append(name)
    stems = {name: names.sanitized(strip_extension(name)) for name in known}
    times = Counter(stems.values())
    yield from (_Task(name, names.for_file(name, is_unique=times[stems[name]] == 1)) for name in known)


def _store_tasks(store: Store, names: FileNames) -> Iterator[_Task]:
    number = 0
    for shard in range(len(store.manifest.shards)):
        for record_id in store.shard(shard).column("record_id").to_pylist():
            yield _Task(record_id, names.for_record(record_id), number)
            number += 1


def _convert(job: _Job, task: _Task) -> _Outcome:
    if task.target.exists() and not job.overwrite:
        return _Outcome(task.name, "kept")
    try:
        encoded = encode(_load(job, task), job.writer, file_stem(task.target, job.writer), job.options)
        files = output_paths(task.target, job.writer, encoded)
        if not job.overwrite:
            _check_others(files, encoded)
    except REFUSALS as error:
        return _Outcome(task.name, "refused", reason=str(error))
    write_files(files, encoded)
    return _Outcome(task.name, "written", sum(map(len, encoded.files.values())), encoded.notes)


def _check_others(files: list[Path], encoded: EncodedRecording) -> None:
    """Of a recording in several files, those of an interrupted conversion may be there; nobody's else."""
    for file, data in zip(files, encoded.files.values(), strict=True):
        if file.exists() and file.read_bytes() != data:
            raise SignalError(f"{file} exists and holds something else; have it replaced (--overwrite), or move it")


class _NothingToWriteError(Exception):
    """Ends the writing of a file that would have no row."""


def _to_one_file(job: _Job, tasks: Iterator[_Task], out: Path) -> Iterator[_Outcome]:
    """Each recording becomes a row; the file is there once all are written."""
    if out.exists() and not job.overwrite:
        raise ConfigError(f"{out} exists; have it replaced (--overwrite), or choose another name")
    written = 0
    with contextlib.suppress(_NothingToWriteError), parquet_file(out) as add:
        for task in tasks:
            try:
                recording = prepare_recording(_load(job, task), job.options)
            except REFUSALS as error:
                yield _Outcome(task.name, "refused", reason=str(error))
                continue
            add(recording)
            written += 1
            yield _Outcome(task.name, "written", notes=conversion_notes(recording))
        if not written:
            raise _NothingToWriteError


def _load(job: _Job, task: _Task) -> Recording:
    if job.version is None:
        try:
            return _read(open_source(job.place), task.name, job.options)
        except (OSError, MemoryError, ClocsError):
            raise
        except Exception as error:  # a reader's own mistake must not end an archive's conversion
            raise FormatError(f"{task.name}: unexpected {type(error).__name__}; please report it") from error
    store = _opened(job.place, job.version)
    shard, row = store.locate(task.number)
    return store.shard(shard).recording(row)


@functools.lru_cache(maxsize=1)
def _opened(place: str, version: int) -> Store:
    return open_store(place, version)


def _read(source: Source, name: str, options: WriteOptions) -> Recording:
    """A recording of a file; the id of its patient, which reading leaves out, only where it is to be written."""
    recording = read_from(source, name)
    if not options.patient_ids or recording.patient_id:
        return recording
    return replace(recording, patient_id=patient_id_from(read_identity_from(source, name)))


def _count(done: Conversion, outcome: _Outcome) -> None:
    if outcome.status == "refused":
        done.refused[outcome.name] = outcome.reason
        return
    done.written += outcome.status == "written"
    done.kept += outcome.status == "kept"
    done.size += outcome.size
    done.notes.update(outcome.notes)
