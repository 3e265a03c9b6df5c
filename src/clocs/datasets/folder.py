"""A user's own archive: any folder or zip of ECG files, with optional tables of metadata."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_serializer, model_validator

from clocs.core.errors import ConfigError, FormatError, MissingExtraError
from clocs.core.privacy.identity import Identity
from clocs.core.privacy.pseudonyms import read_key
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.core.sources.source_files import strip_extension
from clocs.datasets.dataset import Dataset, Entry, Options, load_entry
from clocs.datasets.folder_tables import (
    PATIENT_COLUMNS,
    RECORDING_COLUMNS,
    RecordingTable,
    extra_values,
    has_no_known_patient,
    parse_labels,
    patient_row,
    table_sha256,
)
from clocs.datasets.redaction import (
    POOLED_AGE,
    KeepField,
    acquired_from,
    deidentify_recording,
    patient_id_from,
    replace_values,
    searchable_values,
)
from clocs.datasets.task import Task, read_tasks, user_tasks
from clocs.formats.demographics import parse_acquired, parse_age, parse_sex
from clocs.formats.reading import detect_format, read_from, read_identity_from
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

ZIP = ".zip"
FILE_PATIENT_PREFIX = "file "
"""Prefix of a file name that serves as patient id, if the table has a patient with that name."""


class FolderOptions(Options):
    """Options of an archive: tables of metadata, and de-identification."""

    table: Path | None = None
    """CSV with a column ``file`` (path within the source, or file name without extension) and any of
    ``record_id``, ``patient_id``, ``site``, ``age``, ``sex``, ``labels`` (separated by ``;``), ``acquired`` (date and
    time). Other columns are kept as extra columns."""
    key: Path | None = None
    """Key file (``clocs data make-key``). With it, ids become keyed hashes, times are shifted, ages over 90 are pooled
    and typed text is removed. Without it, patient ids and times in files are not used, and recordings are named by
    their files."""
    patients: Path | None = None
    """CSV with a column ``patient_id`` and any of ``site``, ``age``, ``sex``, ``labels``, and extra columns. It is
    joined by the patient ids in files or in ``table``, and needs a key."""
    keep: tuple[KeepField, ...] = ()
    """Typed fields that stay in spite of a key: ``labels``, ``notes``, ``leads``, ``site``, ``extra``."""
    classes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Classes for training and evaluation, as groups of labels: ``SR,AF=AFIB+AFL``. The store keeps them with the
    metadata of its dataset. Recordings keep all their labels."""

    tasks: dict[str, Task] = Field(default_factory=dict)
    """Tasks by name, or a YAML or JSON file of them. Each has a title, a kind (``multi-label``, ``multi-class``,
    ``binary`` or ``regression``), a column and classes. ``classes`` make a task of this name."""

    @field_validator("tasks", mode="before")
    @classmethod
    def _read_tasks(cls, value: object) -> object:
        return read_tasks(Path(value)) if isinstance(value, str | Path) else value

    @field_validator("classes", mode="before")
    @classmethod
    def _parse_classes(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        classes: dict[str, tuple[str, ...]] = {}
        for name, sign, labels in pairs:
            group = tuple(label.strip() for label in (labels if sign else name).split("+"))
            if not name.strip() or not all(group):
                raise ValueError(f"expected NAME or NAME=LABEL+LABEL, got '{name}{sign}{labels}'")
            if name.strip() in classes:
                raise ValueError(f"class '{name.strip()}' is defined twice; join its labels by '+'")
            classes[name.strip()] = group
        return classes

    @property
    def custom_classes(self) -> Mapping[str, tuple[str, ...]]:
        """Classes that the user defines."""
        return self.classes

    @property
    def custom_tasks(self) -> Mapping[str, Task]:
        """Tasks that the user defines, and that of the classes."""
        return user_tasks(self.classes, self.tasks)

    @property
    def is_pseudonymous(self) -> bool:
        """True with a key."""
        return self.key is not None

    @field_validator("keep", mode="before")
    @classmethod
    def _parse_keep(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        if self.key is None and (self.patients is not None or self.keep):
            raise ValueError("'patients' and 'keep' need 'key', because patient ids are read only to be hashed")
        if self.key is not None:
            self._fingerprints()  # raises early if a file cannot be read
        return self

    @model_serializer
    def _serialized(self) -> dict[str, Any]:
        """Return the options that a store keeps: no paths, and with a key only hashes of the files."""
        if self.key is None:
            return {"table": self.table.name if self.table else None}
        return self._fingerprints() | {"keep": sorted(self.keep)}

    def unused_input_warning(self, patients: Callable[[], Container[str]]) -> str:
        """Return a warning if no row of the patient table matches a stored patient."""
        if not self.patients or not self.key:
            return ""
        if not has_no_known_patient(self.patients, read_key(self.key), patients()):
            return ""
        return f"table {self.patients.name}: no row matches a stored patient. Spell the ids as in the files."

    def recording_options(self) -> dict[str, Any]:
        """Return the options without the table, because an entry holds its own row."""
        return super().recording_options() | {"table": None}

    def digest(self, content: Any) -> str:
        """Return a hash, keyed if there is a key, so that names cannot be guessed from a store alone."""
        plain = super().digest(content)
        return plain if self.key is None else read_key(self.key).content(plain)

    def _fingerprints(self) -> dict[str, Any]:
        assert self.key is not None
        key = read_key(self.key)
        paths = {"table": self.table, "patients": self.patients}
        hashes = {name: path and key.content(table_sha256(path)) for name, path in paths.items()}
        return hashes | {"key": key.fingerprint}


def _entries(source: Source, options: FolderOptions) -> Iterator[Entry]:
    """List the files of known formats, and damaged files, so that the quarantine list names them."""
    table = RecordingTable(options.table, has_key=options.key is not None)
    table.check_any_row_matches(_recordings(source), source.path)
    names_by_folder: dict[str, set[str]] = {}
    for name in _recordings(source):
        row = table.row_for(name)
        own_name = _unique_name(name, names_by_folder)
        own_patient = f"{FILE_PATIENT_PREFIX}{own_name}" if own_name in table.patients else own_name
        yield Entry(
            file=name,
            record_id=row.get("record_id") or own_name,
            patient_id=row.get("patient_id") or ("" if options.key else own_patient),
            site=row.get("site") or "",
            age=parse_age(row.get("age")),
            sex=parse_sex(row.get("sex")),
            labels=parse_labels(row),
            acquired=row.get("acquired") or "",
            extra=extra_values(row, RECORDING_COLUMNS),
        )
    table.warn_of_unused()


def _recordings(source: Source) -> Iterator[str]:
    return (name for name in source.names() if _is_recording(source, name))


def _is_recording(source: Source, name: str) -> bool:
    if name.endswith(".hea") or name.lower().endswith(ZIP):
        return True

    def answer() -> str | None:
        try:
            if detect_format(source, name) is not None:
                return "yes"
        except FormatError:  # damaged, encrypted or too large; reading the file gives the reason
            return "yes"
        # Another file may still make this one a recording, unless it is the signal file of a WFDB record.
        return "no" if source.exists(f"{strip_extension(name)}.hea") else None

    return source.recall("recording", name, answer) == "yes"


def _unique_name(name: str, names_by_folder: dict[str, set[str]]) -> str:
    """Return the file name without extension, or with it if another file of the folder has the same stem."""
    stem, folder = strip_extension(name), name.rpartition("/")[0]
    for other in [other for other in names_by_folder if not f"{folder}/".startswith(f"{other}/") and other]:
        del names_by_folder[other]  # the walk has left this folder
    names = names_by_folder.setdefault(folder, set())
    unique = name if stem in names else stem
    names.add(unique)
    return unique


def _load(source: Source, entry: Entry, options: FolderOptions) -> Recording:
    """Read a recording; with a key, de-identify it and the messages of its errors."""
    if options.key is None:
        _check_not_zip(source, entry.file)
        return load_entry(source, entry, options)
    try:
        _check_not_zip(source, entry.file)
        recording = read_from(source, entry.file)
    except (OSError, MemoryError, ConfigError, MissingExtraError):
        raise  # not an error of the file
    except Exception as error:
        raise FormatError(_redacted_message(error, source, entry.file, options.key)) from None
    return _deidentified(recording, _identity(source, entry.file), entry, options)


def _redacted_message(error: Exception, source: Source, name: str, key: Path) -> str:
    """Return the message of an error without the file name and the identities in the file."""
    message = str(error) if isinstance(error, FormatError) else f"unexpected {type(error).__name__}"
    alias = read_key(key).record(name)
    names = (f"{source.path}/{name}", source.path, name, *name.split("/"))
    message = replace_values(message, (*names, *map(strip_extension, names)), alias)
    file = name.rpartition("/")[2]
    message = replace_values(message, (f"{file}:", f"{strip_extension(file)}:"), f"{alias}:", min_length=1)
    return replace_values(message, searchable_values(_identity(source, name)), "[left out]")


def _identity(source: Source, name: str) -> Identity:
    """Read the identity in a file; empty if that part of the file is damaged."""
    try:
        return {} if name.lower().endswith(ZIP) else read_identity_from(source, name)
    except FormatError:
        return {}


def _check_not_zip(source: Source, name: str) -> None:
    """Raise an error for a zip that the source lists as a file: it is damaged or nested."""
    if name.lower().endswith(ZIP):
        nested = f"{ZIP}/" in f"{source.path}/{name}".lower()
        reason = "a zip within a zip cannot be read; unpack it" if nested else "not a readable zip archive"
        raise FormatError(f"{name}: {reason}")


def _deidentified(recording: Recording, identity: Identity, entry: Entry, options: FolderOptions) -> Recording:
    """De-identify a recording. Tables are joined by the original ids, and their values are kept."""
    assert options.key is not None
    patient = entry.patient_id or patient_id_from(identity)
    row = patient_row(patient, options.patients) if options.patients and patient else {}
    dated = replace(recording, acquired=parse_acquired(entry.acquired) or acquired_from(identity))
    redacted = deidentify_recording(dated, read_key(options.key), name=entry.file, patient=patient, keep=options.keep)
    age = entry.age if entry.age is not None else parse_age(row.get("age"))
    return replace(
        redacted,
        site=entry.site or row.get("site") or redacted.site,
        age=redacted.age if age is None else min(age, POOLED_AGE),
        sex=entry.sex or parse_sex(row.get("sex")) or redacted.sex,
        labels=entry.labels or parse_labels(row) or redacted.labels,
        extra={**redacted.extra, **extra_values(row, PATIENT_COLUMNS), **entry.extra},
    )


def _redacted_entry(entry: Entry, options: FolderOptions) -> Entry:
    if options.key is None:
        return entry
    alias = read_key(options.key).record(entry.file)
    return Entry(file=alias, record_id=alias)


FOLDER = Dataset(
    name="folder",
    title="Any folder or zip of ECG files",
    licence="the owner's",
    citation="",
    homepage="",
    entries=_entries,
    load=_load,
    redact=_redacted_entry,
    options=FolderOptions,
    gate=GatePolicy(check_sampling_rate=True, check_electrodes=True),
    incremental=True,
    frame_policies={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
)
