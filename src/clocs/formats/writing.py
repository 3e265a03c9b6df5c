"""Writing ECG files: one writer a format, found by a path's ending or by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from clocs.core.errors import ConfigError, SignalError
from clocs.core.files import write_bytes
from clocs.core.recording import Digital, Episode, Recording, missing_value, to_int32
from clocs.core.registry import Registry
from clocs.core.sources import strip_extension
from clocs.signals.leads import add_derived_leads, drop_derived_leads

FILLED_NOTE = "missing samples are written as 0, for the format marks none"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
MAX_PART_BYTES, MAX_NUMBERED_PART_BYTES = 180, 160
"""Bytes of a part of a path, and of one that a number follows; file systems take 255, and endings come on top."""


@dataclass(frozen=True)
class EncodedRecording:
    """A recording as the bytes of a format."""

    files: Mapping[str, bytes]
    """By ending, in the order in which they are to be written: the last makes the recording complete."""
    notes: tuple[str, ...] = ()
    """What the format could not keep, in wordings that do not depend on the recording, so that they can be counted."""


class _Encodes(Protocol):
    def __call__(self, recording: Recording, stem: str) -> EncodedRecording: ...


@dataclass(frozen=True)
class Writer:
    """A format that can be written."""

    name: str
    description: str
    suffixes: tuple[str, ...]
    """Endings of paths that mean this format; new files get the first."""
    encode: _Encodes
    """A recording, and the name of its file without ending; what the format cannot hold at all is a ``SignalError``."""
    supports_missing: bool = True
    """Whether the format can mark a sample as missing."""
    needs_plain_names: bool = False
    """Whether its file names are letters, digits, ``-`` and ``_`` only."""


WRITERS: Registry[Writer] = Registry(
    "writer",
    {
        "wfdb": "clocs.formats.writers.wfdb:WFDB",
        "dicom": "clocs.formats.writers.dicom:DICOM",
        "edf": "clocs.formats.writers.edf:EDF",
        "bdf": "clocs.formats.writers.edf:BDF",
        "csv": "clocs.formats.writers.csv:CSV",
        "parquet": "clocs.formats.writers.parquet:PARQUET",
    },
)


@dataclass(frozen=True)
class WriteOptions:
    """What of a recording goes into a file."""

    derived: bool = False
    """Write the leads that follow from I and II, too; else just those that the recording's file held."""
    patient_ids: bool = False
    """Write the patient's id; else nothing that names the patient or the site."""
    fill_missing: bool = False
    """Write missing samples as 0 where the format cannot mark them; else such a recording is refused."""


@dataclass(frozen=True)
class WriteResult:
    """What ``write`` wrote."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]
    """What the format could not keep."""


def write(
    recording: Recording,
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    derived: bool = False,
    patient_ids: bool = False,
    fill_missing: bool = False,
    overwrite: bool = False,
) -> WriteResult:
    """Write a recording; the format is that of the path's ending unless it is named.

    Leads that were derived, and the patient's id, are written only when asked for. Missing samples are
    refused by formats that cannot mark them (EDF, BDF), unless ``fill_missing`` makes them 0.
    """
    path = Path(path)
    writer = writer_for(path, format)
    options = WriteOptions(derived, patient_ids, fill_missing)
    if os.path.isdir(path):
        raise ConfigError(f"{path} is a folder; name a file, such as {path / ('ecg' + writer.suffixes[0])}")
    encoded = encode(recording, writer, file_stem(path, writer), options)
    files = output_paths(path, writer, encoded)
    there = [file for file in files if os.path.exists(file)]
    if there and not overwrite:
        raise ConfigError(f"{there[0]} exists; have it replaced (--overwrite), or choose another name")
    write_files(files, encoded)
    return WriteResult(tuple(files), encoded.notes)


def writer_for(path: Path, format: str | None) -> Writer:
    """The writer of that name, or of the path's ending."""
    if format is not None:
        return WRITERS.get(format)
    found = next((writer for writer in WRITERS if path.name.lower().endswith(writer.suffixes)), None)
    if found is None:
        endings = ", ".join(f"{writer.suffixes[0]} ({writer.name})" for writer in WRITERS)
        raise ConfigError(
            f"{path.name}: no format is written under this ending. Use one of {endings}, or name a format"
        )
    return found


def file_stem(path: Path, writer: Writer) -> str:
    """A file's name without the ending of its format."""
    suffix = next((suffix for suffix in writer.suffixes if path.name.lower().endswith(suffix)), "")
    stem = path.name[: len(path.name) - len(suffix)]
    if not stem or (writer.needs_plain_names and not _PLAIN_NAME.fullmatch(stem)):
        raise ConfigError(f"'{stem}' cannot name a file of {writer.name}; use letters, digits, '-' and '_'")
    return stem


def plain_name(stem: str) -> str:
    """A file name without ending as a format that takes plain names only can have it."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", stem) or "_"


def encode(recording: Recording, writer: Writer, stem: str, options: WriteOptions) -> EncodedRecording:
    """The bytes of a recording, with no more in them than ``options`` says."""
    chosen = prepare_recording(recording, options)
    absent = chosen.digital == missing_value(chosen.digital.dtype)
    if writer.supports_missing or not absent.any():
        return writer.encode(chosen, stem)
    if not options.fill_missing:
        raise SignalError(
            f"recording '{recording.record_id}': {int(absent.sum())} samples are missing, and {writer.name} files "
            "cannot mark them. Have them filled with 0 (--fill-missing), or choose wfdb, dicom, csv or parquet"
        )
    encoded = writer.encode(_fill_missing(chosen), stem)
    return replace(encoded, notes=(*encoded.notes, FILLED_NOTE))


def prepare_recording(recording: Recording, options: WriteOptions) -> Recording:
    """A recording with no more in it than is to be written; one that no format can hold is a ``SignalError``."""
    _check(recording)
    chosen = add_derived_leads(recording) if options.derived else drop_derived_leads(recording)
    return replace(chosen, site="", patient_id=chosen.patient_id if options.patient_ids else "")


def output_paths(path: Path, writer: Writer, encoded: EncodedRecording) -> list[Path]:
    """Where the files of a recording lie: at its path, or, where there are several, under its name."""
    if len(encoded.files) == 1:
        return [path]
    return [path.with_name(file_stem(path, writer) + suffix) for suffix in encoded.files]


def write_files(files: list[Path], encoded: EncodedRecording) -> None:
    """Write every file whole or not at all, in their order."""
    for file, data in zip(files, encoded.files.values(), strict=True):
        write_bytes(file, data)


def _check(recording: Recording) -> None:
    if not recording.digital.size:
        raise SignalError(f"recording '{recording.record_id}' holds no sample")
    scaled = np.isfinite(recording.gain).all() and recording.gain.all()
    if not scaled or not np.isfinite(recording.sampling_rate) or recording.sampling_rate <= 0:
        raise SignalError(f"recording '{recording.record_id}': its gains or its rate are no numbers above zero")


def _fill_missing(recording: Recording) -> Recording:
    """Missing samples become the step that means 0; a labelled stretch a lead says where they were."""
    absent = recording.digital == missing_value(recording.digital.dtype)
    limits = np.iinfo(recording.digital.dtype)
    fits = ((recording.baseline > limits.min) & (recording.baseline <= limits.max)).all()
    digital: Digital = recording.digital.copy() if fits else to_int32(recording.digital)
    episodes = []
    for row, missing in enumerate(absent):
        if missing.any():
            digital[row, missing] = recording.baseline[row]
            first, last = int(missing.argmax()), recording.num_samples - 1 - int(missing[::-1].argmax())
            episodes.append(Episode(first, last + 1, f"{recording.leads[row]}: {int(missing.sum())} missing set to 0"))
    return replace(recording, digital=digital, episodes=(*recording.episodes, *episodes))


class FileNames:
    """Gives each recording a path of its own under a folder; the same names in the same order, the same paths."""

    def __init__(self, folder: Path, writer: Writer) -> None:
        self._folder = folder
        self._writer = writer
        self._used: set[str] = set()

    def for_file(self, name: str, *, is_unique: bool = True) -> Path:
        """For a recording in a file of a source: its place is kept, its ending replaced.

        Not ``is_unique``: others differ from it in their endings, or in signs that the format does not take, so it
        keeps its own ending as well, whichever came first.
        """
        path = PurePosixPath(name)
        return self._unused_path(path.parent.parts, strip_extension(path.name) if is_unique else path.name, path.name)

    def for_record(self, record_id: str) -> Path:
        """For a recording of a store; slashes in its id make folders."""
        *folders, last = record_id.split("/")
        return self._unused_path(folders, last, last)

    def sanitized(self, name: str) -> str:
        """The parts of a name as file system and format take them."""
        *folders, last = (safe_path_part(part) for part in name.split("/"))
        return "/".join((*folders, plain_name(last) if self._writer.needs_plain_names else last))

    def _unused_path(self, folders: list[str] | tuple[str, ...], stem: str, full_name: str) -> Path:
        """The stem where it is free, else the whole name, else that with a number."""
        parent = "/".join(safe_path_part(part) for part in folders if part)
        for number in count(0):
            name = (
                stem
                if number == 0
                else full_name
                if number == 1
                else f"{safe_path_part(full_name, MAX_NUMBERED_PART_BYTES)}-{number}"
            )
            name = self.sanitized(name)
            path = f"{parent}/{name}{self._writer.suffixes[0]}" if parent else name + self._writer.suffixes[0]
            if path not in self._used:
                self._used.add(path)
                break
        return self._folder / path


def safe_path_part(part: str, max_bytes: int = MAX_PART_BYTES) -> str:
    """One part of a path that leads nowhere else and that file systems take."""
    printable = "".join(character if character.isprintable() and character != "/" else "_" for character in part)
    short = printable.encode(errors="replace")[:max_bytes].decode(errors="ignore")
    return "_" if short in ("", ".", "..") else short
