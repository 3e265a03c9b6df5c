"""Stores from arrays in memory, by the same ingest as files."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from clocs.core.column_names import check_column_names
from clocs.core.errors import ConfigError
from clocs.core.privacy.pseudonyms import is_unknown_patient, normalize_patient_id
from clocs.core.recording import MICROVOLT_GAIN, Provenance, Recording, quantize
from clocs.core.sources.source import Source
from clocs.core.storage.locations import to_location
from clocs.datasets import DATASETS, Entry
from clocs.datasets.dataset import Options, apply_entry, no_redaction
from clocs.datasets.folder_tables import parse_labels
from clocs.datasets.task import Task, user_tasks
from clocs.formats.demographics import parse_age, parse_sex
from clocs.signals.leads import canonical_lead
from clocs.signals.quality import GatePolicy
from clocs.store.ingest_checks import warn_of_unused_tasks
from clocs.store.manifest import read_manifest, versions
from clocs.store.reader import StoreReader
from clocs.store.writer import write_store

COLUMNS = ("record_id", "patient_id", "site", "age", "sex", "labels", "acquired")
EMPTY_TEXTS: Final = {"None", "nan", "NaN", "NaT", "<NA>"}
"""Texts of empty values in Python, numpy and pandas."""
TASKS: Final = TypeAdapter(dict[str, Task])
Signals = Sequence[npt.NDArray[np.floating]] | npt.NDArray[np.floating]


class ArrayOptions(Options):
    """Options that identify the arrays, so that other arrays make another version."""

    sampling_rate: float
    """Sampling rate in Hz."""
    leads: tuple[str, ...]
    """Names of the leads."""
    sha256: str
    """Hash of the arrays."""


def write_arrays(
    folder: str | os.PathLike[str],
    signals: Signals,
    sampling_rate: float,
    leads: Sequence[str],
    table: Any = None,
    gate: GatePolicy | None = None,
    *,
    classes: Mapping[str, Sequence[str]] | None = None,
    tasks: Mapping[str, Task | Mapping[str, Any]] | None = None,
    append: bool = False,
) -> StoreReader:
    """Write arrays as a store; see :meth:`Store.from_arrays`."""
    names = tuple(canonical_lead(lead) for lead in leads)
    invalid = [number for number, signal in enumerate(signals) if np.ndim(signal) != 2 or len(signal) != len(names)]
    if invalid:
        raise ConfigError(f"Expected arrays of shape ({len(names)} leads, samples). Invalid indices: {invalid[:5]}.")
    if not sampling_rate > 0:
        raise ConfigError(f"Expected a sampling_rate over 0 Hz, got {sampling_rate}.")
    entries = list(_entries(len(signals), table, append))
    digest = hashlib.sha256()
    for signal in signals:
        digest.update(str(np.shape(signal)).encode())  # the same samples in other shapes are other recordings
        digest.update(np.ascontiguousarray(signal, np.float64).tobytes())

    def load(source: Source, entry: Entry, options: ArrayOptions) -> Recording:
        return _recording(signals[int(entry.file.rpartition("/")[2])], entry, options)

    dataset = replace(
        DATASETS.get("folder"),
        name="arrays",
        title="Arrays in memory",
        entries=lambda source, options: iter(entries),
        load=load,
        redact=no_redaction,
        options=ArrayOptions,
        incremental=False,
        needs_source=False,
        **_labels_and_tasks(to_location(folder), classes, tasks, append),
    )
    options = {"sampling_rate": sampling_rate, "leads": names, "sha256": digest.hexdigest()}
    store = write_store(dataset, None, folder, gate=gate, options=options, append=append)
    warn_of_unused_tasks(store, dataset.tasks)
    return store


def _labels_and_tasks(
    folder: Path,
    classes: Mapping[str, Sequence[str]] | None,
    tasks: Mapping[str, Task | Mapping[str, Any]] | None,
    append: bool,
) -> dict[str, Any]:
    """Return classes and tasks of the store. Those of the newest version stay if recordings are appended without."""
    before = read_manifest(folder).dataset if append and versions(folder) else {}
    groups = before.get("classes", {}) if classes is None else classes
    kept = {name: task for name, task in before.get("tasks", {}).items() if name != "classes"}
    try:
        parsed = TASKS.validate_python(kept if tasks is None else dict(tasks))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise ConfigError(f"Invalid tasks: {problems}. See clocs.datasets.Task.") from error
    own = {name: tuple(labels) for name, labels in groups.items()}
    return {"classes": own, "tasks": user_tasks(own, parsed)}


def _entries(count: int, table: Any, append: bool) -> Iterator[Entry]:
    columns = {str(name): list(table[name]) for name in getattr(table, "columns", table)} if table is not None else {}
    if any(len(column) != count for column in columns.values()):
        raise ConfigError(f"Expected a table of {count} rows. Known columns are {', '.join(COLUMNS)}.")
    if append and not all(map(_text, columns.get("record_id", [""] * count))):
        raise ConfigError("Appended recordings need ids of their own. Pass a table with a column 'record_id'.")
    extra = {name: column for name, column in columns.items() if name not in COLUMNS}
    check_column_names(extra)
    patients = [normalize_patient_id(_text(field)) for field in columns.get("patient_id", [""] * count)]
    unknown_patients = [number for number, patient in enumerate(patients) if is_unknown_patient(patient)]
    if unknown_patients:
        warnings.warn(
            f"{len(unknown_patients)} rows have a placeholder (unknown, n/a, ...) as patient_id, the first is row "
            f"{unknown_patients[0]}. They are read as rows without a patient_id.",
            stacklevel=4,
        )
    for number in range(count):
        row = {name: column[number] for name, column in columns.items()}
        yield Entry(
            file=f"arrays/{number}",
            record_id=_text(row.get("record_id")) or f"{number:07d}",
            patient_id="" if is_unknown_patient(patients[number]) else patients[number],
            site=_text(row.get("site")),
            age=parse_age(row.get("age")),
            sex=parse_sex(row.get("sex")),
            labels=_labels(row.get("labels")),
            acquired=_text(row.get("acquired")),
            extra={name: text for name in extra if (text := _text(row[name]))},
        )


def _text(field: Any) -> str:
    """Return a value of a table as text; empty if it is missing."""
    is_integer = isinstance(field, float) and field.is_integer()  # pandas stores integers with gaps as floats
    text = str(int(field) if is_integer else field)
    return text.strip() if isinstance(field, str) or text not in EMPTY_TEXTS else ""


def _labels(field: Any) -> tuple[str, ...]:
    if isinstance(field, str):
        return parse_labels({"labels": field})
    values = field if isinstance(field, Iterable) else (field,)
    return tuple(filter(None, map(_text, values)))


def _recording(signal: npt.NDArray[np.floating], entry: Entry, options: ArrayOptions) -> Recording:
    raw = np.ascontiguousarray(signal, np.float64)
    recording = Recording(
        digital=quantize(raw, MICROVOLT_GAIN),
        gain=np.full(len(raw), MICROVOLT_GAIN),
        baseline=np.zeros(len(raw), np.int32),
        sampling_rate=options.sampling_rate,
        leads=options.leads,
        provenance=Provenance(entry.file, "array", hashlib.sha256(raw.tobytes()).hexdigest()),
    )
    return apply_entry(recording, entry)
