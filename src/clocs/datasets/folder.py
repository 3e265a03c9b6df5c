"""A user's own archive: any folder or zip of readable files, with optional tables about them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_serializer, model_validator

from clocs.core.errors import ConfigError, FormatError, MissingExtraError
from clocs.core.identity import Identity
from clocs.core.pseudonyms import read_key
from clocs.core.recording import Recording
from clocs.core.sources import Source, strip_extension
from clocs.datasets.dataset import Dataset, Entry, Options, load_entry
from clocs.datasets.redaction import (
    POOLED_AGE,
    KeepField,
    deidentify_recording,
    patient_id_from,
    replace_values,
    searchable_values,
)
from clocs.datasets.tables import RecordingTable, about_patient, hash_of, labels_of, no_row_is_used
from clocs.formats.demographics import parse_age, parse_sex
from clocs.formats.reading import detect_format, read_from, read_identity_from
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GatePolicy

ZIP = ".zip"
BY_FILE = "file "
"""Before a file's name where that stands for its unknown patient, and somebody in the table is called so."""


class FolderOptions(Options):
    """What is known about the files, and how nobody is named."""

    table: Path | None = None
    """CSV with a column ``file`` (path within the source, or its name without ending) and any of
    ``record_id``, ``patient_id``, ``site``, ``age``, ``sex``, ``labels`` (several with ``;`` between)."""
    key: Path | None = None
    """File of a key (``clocs data make-key``): ids in files become keyed hashes, ages over 90 are pooled, and
    what is typed is left out. Without one, ids in files are not used, and files keep their names."""
    patients: Path | None = None
    """CSV with a column ``patient_id`` and any of ``site``, ``age``, ``sex``, ``labels``, joined by the ids that
    stand in files or in ``table``; needs a key."""
    keep: tuple[KeepField, ...] = ()
    """With a key: what files say in words that stays all the same, of ``labels``, ``notes``, ``leads``, ``site``."""

    classes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Classes that labels make, for all that is fitted or judged by labels: ``SR,AF=AFIB+AFL``. Kept with what the
    store says of its dataset; recordings keep all labels they have."""

    @field_validator("classes", mode="before")
    @classmethod
    def _grouped(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        made: dict[str, tuple[str, ...]] = {}
        for name, sign, labels in pairs:
            group = tuple(each.strip() for each in (labels if sign else name).split("+"))
            if not name.strip() or not all(group):
                raise ValueError(f"a class is NAME, or NAME=LABEL+LABEL; not '{name}{sign}{labels}'")
            if name.strip() in made:
                raise ValueError(f"class '{name.strip()}' is there twice; its labels are joined by '+'")
            made[name.strip()] = group
        return made

    @property
    def own_classes(self) -> Mapping[str, tuple[str, ...]]:
        """As told."""
        return self.classes

    @property
    def pseudonymous(self) -> bool:
        """With a key."""
        return self.key is not None

    @field_validator("keep", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _needs_a_key(self) -> Self:
        if self.key is None and (self.patients is not None or self.keep):
            raise ValueError("'patients' and 'keep' need 'key': ids are read only to be hashed")
        if self.key is not None:
            self._fingerprints()  # says now what cannot be read
        return self

    @model_serializer
    def _told(self) -> dict[str, Any]:
        """What a store keeps: no path; with a key no name either, only what tells keys and tables apart."""
        if self.key is None:
            return {"table": self.table.name if self.table else None}
        return self._fingerprints() | {"keep": sorted(self.keep)}

    def unused(self, patients: Container[str]) -> str:
        """The table of patients, where its ids are not those in files."""
        if not self.patients or not self.key or not no_row_is_used(self.patients, read_key(self.key), patients):
            return ""
        return f"table {self.patients.name}: no row is about a patient of these recordings; are the ids written alike?"

    def of_recordings(self) -> dict[str, Any]:
        """Not the table: an entry holds its row, so that other rows do not have it read again."""
        return super().of_recordings() | {"table": None}

    def digest(self, told: Any) -> str:
        """With a key a keyed one: who has only the store cannot try names until one fits."""
        plain = super().digest(told)
        return plain if self.key is None else read_key(self.key).content(plain)

    def _fingerprints(self) -> dict[str, Any]:
        assert self.key is not None
        key = read_key(self.key)
        paths = {"table": self.table, "patients": self.patients}
        marks = {name: path and key.content(hash_of(path)) for name, path in paths.items()}
        return marks | {"key": key.fingerprint}


def _entries(source: Source, options: FolderOptions) -> Iterator[Entry]:
    """Every file of a known format, and those that cannot be looked into, so that their refusal is on record."""
    table = RecordingTable(options.table)
    table.check_some_row_is_used(_recordings(source), source.path)
    taken: dict[str, set[str]] = {}
    for name in _recordings(source):
        row = table.about(name)
        known = _own_name(name, taken)
        nobody = f"{BY_FILE}{known}" if known in table.patients else known
        yield Entry(
            file=name,
            record_id=row.get("record_id") or known,
            patient_id=row.get("patient_id") or ("" if options.key else nobody),
            site=row.get("site") or "",
            age=parse_age(row.get("age")),
            sex=parse_sex(row.get("sex")),
            labels=labels_of(row),
        )
    table.warn_of_unused()


def _recordings(source: Source) -> Iterator[str]:
    return (name for name in source.names() if _is_recording(source, name))


def _is_recording(source: Source, name: str) -> bool:
    if name.endswith(".hea") or name.lower().endswith(ZIP):
        return True
    try:
        return detect_format(source, name) is not None
    except FormatError:  # damaged, encrypted, too large: reading it says which
        return True


def _own_name(name: str, taken: dict[str, set[str]]) -> str:
    """The name without its ending, unless another file of the folder has that already: one ECG in two formats."""
    stem, folder = strip_extension(name), name.rpartition("/")[0]
    for other in [other for other in taken if not f"{folder}/".startswith(f"{other}/") and other]:
        del taken[other]  # left behind by the walk
    names = taken.setdefault(folder, set())
    known = name if stem in names else stem
    names.add(known)
    return known


def _load(source: Source, entry: Entry, options: FolderOptions) -> Recording:
    """The recording of an entry; with a key under pseudonyms, and so are the messages of what goes wrong."""
    if options.key is None:
        _check_opened(source, entry.file)
        return load_entry(source, entry, options)
    try:
        _check_opened(source, entry.file)
        recording = read_from(source, entry.file)
    except (OSError, MemoryError, ConfigError, MissingExtraError):
        raise  # of the machine or its user, not of the file
    except Exception as error:
        raise FormatError(_nameless(error, source, entry.file, options.key)) from None
    return _hashed(recording, _identity(source, entry.file), entry, options)


def _nameless(error: Exception, source: Source, name: str, key: Path) -> str:
    """A message without the file's name and without what the file says about anybody."""
    said = str(error) if isinstance(error, FormatError) else f"unexpected {type(error).__name__}"
    alias = read_key(key).record(name)
    names = (f"{source.path}/{name}", source.path, name, *name.split("/"))
    said = replace_values(said, (*names, *map(strip_extension, names)), alias)
    own = name.rpartition("/")[2]
    said = replace_values(said, (f"{own}:", f"{strip_extension(own)}:"), f"{alias}:", shortest=1)  # however short
    return replace_values(said, searchable_values(_identity(source, name)), "[left out]")


def _identity(source: Source, name: str) -> Identity:
    """What a file says about anybody; nothing where that part of it is damaged."""
    try:
        return {} if name.lower().endswith(ZIP) else read_identity_from(source, name)
    except FormatError:
        return {}


def _check_opened(source: Source, name: str) -> None:
    """Archives that the source lists as files could not be opened, or lie in another one."""
    if name.lower().endswith(ZIP):
        nested = f"{ZIP}/" in f"{source.path}/{name}".lower()
        reason = "a zip archive in a zip archive is not opened; unpack it" if nested else "not a readable zip archive"
        raise FormatError(f"{name}: {reason}")


def _hashed(recording: Recording, identity: Identity, entry: Entry, options: FolderOptions) -> Recording:
    """Tables are joined by the ids as they were, and what they say stays: their owner wrote it."""
    assert options.key is not None
    patient = entry.patient_id or patient_id_from(identity)
    row = about_patient(patient, options.patients) if options.patients and patient else {}
    plain = deidentify_recording(recording, read_key(options.key), name=entry.file, patient=patient, keep=options.keep)
    age = entry.age if entry.age is not None else parse_age(row.get("age"))
    return replace(
        plain,
        site=entry.site or row.get("site") or plain.site,
        age=plain.age if age is None else min(age, POOLED_AGE),
        sex=entry.sex or parse_sex(row.get("sex")) or plain.sex,
        labels=entry.labels or labels_of(row) or plain.labels,
    )


def _shown(entry: Entry, options: FolderOptions) -> Entry:
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
    redact=_shown,
    options=FolderOptions,
    gate=GatePolicy(check_sampling_rate=True, check_electrodes=True),
    grows=True,
    frames={
        "evaluation": FramePolicy(num_samples=2500, sampling_rate=500),
        "segments": FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500),
    },
)
