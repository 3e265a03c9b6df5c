"""Write ECG files. The writer of each format is found by the extension of the path or by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from clocs.core.errors import ConfigError, SignalError
from clocs.core.recording import Digital, Episode, Recording, missing_value, to_int32
from clocs.core.registry import Registry
from clocs.core.sources.source_files import strip_extension
from clocs.core.storage.files import write_bytes
from clocs.signals.leads import add_derived_leads, drop_derived_leads

FILLED_NOTE = "missing samples are written as 0, because the format cannot mark them"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
MAX_PART_BYTES = 180
"""Maximum length of one part of a path in bytes. File systems allow 255, which leaves room for extensions."""
MAX_NUMBERED_PART_BYTES = 160
"""Maximum length of one part of a path, in bytes, before a number is appended."""


@dataclass(frozen=True)
class EncodedRecording:
    """A recording encoded as the files of a format."""

    files: Mapping[str, bytes]
    """Content by file extension, in the order of writing. The recording is complete once the last file is written."""
    notes: tuple[str, ...] = ()
    """Information that the format could not keep, in fixed wordings that can be counted."""


class _EncodeFunction(Protocol):
    def __call__(self, recording: Recording, stem: str) -> EncodedRecording: ...


@dataclass(frozen=True)
class Writer:
    """A format that can be written."""

    name: str
    """Short name, for example ``edf``."""
    description: str
    """One line for lists of writers."""
    suffixes: tuple[str, ...]
    """File extensions of this format. New files get the first."""
    encode: _EncodeFunction
    """Function that encodes a recording, given the file name without extension. It raises ``SignalError`` for a
    recording that the format cannot represent."""
    supports_missing: bool = True
    """True if the format can mark a sample as missing."""
    needs_plain_names: bool = False
    """True if file names may contain only letters, digits, ``-`` and ``_``."""


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
    """Options that select what is written of a recording."""

    derived: bool = False
    """Also write the leads that are derived from I and II."""
    patient_ids: bool = False
    """Write the patient id. Otherwise nothing that identifies the patient or the site is written. Extra columns are
    never written."""
    fill_missing: bool = False
    """Write missing samples as 0 where the format cannot mark them. Otherwise such a recording is rejected."""


@dataclass(frozen=True)
class WriteResult:
    """Result of ``write``."""

    files: tuple[Path, ...]
    """Paths of the written files."""
    notes: tuple[str, ...]
    """Information that the format could not keep."""


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
    """Write a recording to an ECG file.

    Args:
        recording: Recording to write.
        path: Path of the file. Its extension selects the format unless ``format`` is given.
        format: Name of the format: ``wfdb``, ``dicom``, ``edf``, ``bdf``, ``csv`` or ``parquet``.
        derived: Also write the leads that are derived from I and II.
        patient_ids: Write the patient id.
        fill_missing: Write missing samples as 0 where the format cannot mark them (EDF, BDF).
        overwrite: Replace existing files.

    Returns:
        The paths of the written files, and notes that list the information that the format cannot store.

    Raises:
        ConfigError: If the format is unknown, the path is a folder, or a file exists and ``overwrite`` is false.
        SignalError: If the format cannot represent the recording.

    Example:
        >>> digital = np.zeros((2, 2500), np.int16)
        >>> recording = clocs.Recording(digital, np.full(2, 200.0), np.zeros(2, np.int32), 500.0, ("I", "II"))
        >>> result = clocs.write(recording, "ecg.hea")
        >>> [file.name for file in result.files]
        ['ecg.dat', 'ecg.hea']
    """
    path = Path(path)
    writer = writer_for(path, format)
    options = WriteOptions(derived, patient_ids, fill_missing)
    if os.path.isdir(path):
        raise ConfigError(f"{path} is a folder; name a file, such as {path / ('ecg' + writer.suffixes[0])}")
    encoded = encode(recording, writer, file_stem(path, writer), options)
    files = output_paths(path, writer, encoded)
    existing = [file for file in files if os.path.exists(file)]
    if existing and not overwrite:
        raise ConfigError(f"{existing[0]} exists; have it replaced (--overwrite), or choose another name")
    write_files(files, encoded)
    return WriteResult(tuple(files), encoded.notes)


def writer_for(path: Path, format: str | None) -> Writer:
    """Return the writer with a name, or the writer for the extension of a path."""
    if format is not None:
        return WRITERS.get(format)
    writer = next((writer for writer in WRITERS if path.name.lower().endswith(writer.suffixes)), None)
    if writer is None:
        suffixes = ", ".join(f"{writer.suffixes[0]} ({writer.name})" for writer in WRITERS)
        raise ConfigError(f"{path.name}: no format has this extension. Use one of {suffixes}, or name a format.")
    return writer


def file_stem(path: Path, writer: Writer) -> str:
    """Return the name of a file without the extension of its format."""
    suffix = next((suffix for suffix in writer.suffixes if path.name.lower().endswith(suffix)), "")
    stem = path.name[: len(path.name) - len(suffix)]
    if not stem or (writer.needs_plain_names and not _PLAIN_NAME.fullmatch(stem)):
        raise ConfigError(f"'{stem}' cannot name a file of {writer.name}; use letters, digits, '-' and '_'")
    return stem


def plain_name(stem: str) -> str:
    """Replace every character of a file name that is not a letter, a digit, ``-`` or ``_``."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", stem) or "_"


def encode(recording: Recording, writer: Writer, stem: str, options: WriteOptions) -> EncodedRecording:
    """Encode the part of a recording that the options select."""
    selected = prepare_recording(recording, options)
    missing = selected.digital == missing_value(selected.digital.dtype)
    if writer.supports_missing or not missing.any():
        return writer.encode(selected, stem)
    if not options.fill_missing:
        raise SignalError(
            f"recording '{recording.record_id}': {int(missing.sum())} samples are missing, and {writer.name} files "
            "cannot mark them. Have them filled with 0 (--fill-missing), or choose wfdb, dicom, csv or parquet."
        )
    encoded = writer.encode(_fill_missing(selected), stem)
    return replace(encoded, notes=(*encoded.notes, FILLED_NOTE))


def prepare_recording(recording: Recording, options: WriteOptions) -> Recording:
    """Return a recording with only the leads and metadata that the options select.

    Raises:
        SignalError: If no format can represent the recording.
    """
    _check(recording)
    selected = add_derived_leads(recording) if options.derived else drop_derived_leads(recording)
    return replace(selected, site="", patient_id=selected.patient_id if options.patient_ids else "", extra={})


def output_paths(path: Path, writer: Writer, encoded: EncodedRecording) -> list[Path]:
    """Return the path of each file: the given path for a single file, else its stem with each extension."""
    if len(encoded.files) == 1:
        return [path]
    return [path.with_name(file_stem(path, writer) + suffix) for suffix in encoded.files]


def write_files(files: list[Path], encoded: EncodedRecording) -> None:
    """Write the files in order, each one atomically."""
    for file, data in zip(files, encoded.files.values(), strict=True):
        write_bytes(file, data)


def _check(recording: Recording) -> None:
    if not recording.digital.size:
        raise SignalError(f"recording '{recording.record_id}' holds no sample")
    has_valid_gain = np.isfinite(recording.gain).all() and recording.gain.all()
    if not has_valid_gain or not np.isfinite(recording.sampling_rate) or recording.sampling_rate <= 0:
        raise SignalError(
            f"recording '{recording.record_id}': expected a positive sampling rate and finite gains other than 0"
        )


def _fill_missing(recording: Recording) -> Recording:
    """Replace missing samples by the digital value of 0 mV, and add an episode that marks them for each lead."""
    missing = recording.digital == missing_value(recording.digital.dtype)
    limits = np.iinfo(recording.digital.dtype)
    fits = ((recording.baseline > limits.min) & (recording.baseline <= limits.max)).all()
    digital: Digital = recording.digital.copy() if fits else to_int32(recording.digital)
    episodes = []
    for row, mask in enumerate(missing):
        if mask.any():
            digital[row, mask] = recording.baseline[row]
            first, last = int(mask.argmax()), recording.num_samples - 1 - int(mask[::-1].argmax())
            episodes.append(Episode(first, last + 1, f"{recording.leads[row]}: {int(mask.sum())} missing set to 0"))
    return replace(recording, digital=digital, episodes=(*recording.episodes, *episodes))


class FileNames:
    """Unique output paths under a folder. The same names in the same order give the same paths."""

    def __init__(self, folder: Path, writer: Writer) -> None:
        self._folder = folder
        self._writer = writer
        self._used: set[str] = set()

    def for_file(self, name: str, *, is_unique: bool = True) -> Path:
        """Return the path for a recording that was read from a file: the same folder with a new extension.

        Args:
            name: Name of the file within its source.
            is_unique: False if another name differs only in its extension or in characters that the format does not
                allow. The path then also keeps the old extension, so that it does not depend on the order.
        """
        path = PurePosixPath(name)
        return self._unused_path(path.parent.parts, strip_extension(path.name) if is_unique else path.name, path.name)

    def for_record(self, record_id: str) -> Path:
        """Return the path for a recording of a store. Slashes in its id separate folders."""
        *folders, last = record_id.split("/")
        return self._unused_path(folders, last, last)

    def sanitized(self, name: str) -> str:
        """Replace the characters of a name that the file system or the format does not allow."""
        *folders, last = (safe_path_part(part) for part in name.split("/"))
        return "/".join((*folders, plain_name(last) if self._writer.needs_plain_names else last))

    def _unused_path(self, folders: list[str] | tuple[str, ...], stem: str, full_name: str) -> Path:
        """Return the first unused path: with the stem, with the full name, or with the full name and a number."""
        parent = "/".join(safe_path_part(part) for part in folders if part)
        numbered = (f"{safe_path_part(full_name, MAX_NUMBERED_PART_BYTES)}-{number}" for number in count(2))
        for name in chain((stem, full_name), numbered):
            file = self.sanitized(name) + self._writer.suffixes[0]
            path = f"{parent}/{file}" if parent else file
            if path not in self._used:
                self._used.add(path)
                break
        return self._folder / path


def safe_path_part(part: str, max_bytes: int = MAX_PART_BYTES) -> str:
    """Return one part of a path as a valid file name that cannot point to another folder."""
    printable = "".join(character if character.isprintable() and character != "/" else "_" for character in part)
    short = printable.encode(errors="replace")[:max_bytes].decode(errors="ignore")
    return "_" if short in ("", ".", "..") else short
