"""A store from arrays that are already in memory, through the same ingest as files."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.pseudonyms import is_unknown_patient, normalize_patient_id
from clocs.core.recording import MICROVOLT_GAIN, Provenance, Recording, quantize
from clocs.core.sources import Source
from clocs.datasets import DATASETS, Entry
from clocs.datasets.dataset import Options, as_it_is, with_entry
from clocs.datasets.tables import labels_of
from clocs.formats.demographics import parse_age, parse_sex
from clocs.signals.leads import canonical_lead
from clocs.signals.quality import GatePolicy
from clocs.store.reader import StoreReader
from clocs.store.writer import write_store

COLUMNS = ("record_id", "patient_id", "site", "age", "sex", "labels")
NOTHING: Final = {"None", "nan", "NaN", "NaT", "<NA>"}
"""How Python, numpy and pandas write what fills an empty field."""
Signals = Sequence[npt.NDArray[np.floating]] | npt.NDArray[np.floating]


class ArrayOptions(Options):
    """Names the content, so that other arrays make another version."""

    sampling_rate: float
    leads: tuple[str, ...]
    sha256: str


def write_arrays(
    folder: str | os.PathLike[str],
    signals: Signals,
    sampling_rate: float,
    leads: Sequence[str],
    table: Any,
    gate: GatePolicy | None,
) -> StoreReader:
    """See ``Store.from_arrays``."""
    names = tuple(canonical_lead(lead) for lead in leads)
    wrong = [number for number, signal in enumerate(signals) if np.ndim(signal) != 2 or len(signal) != len(names)]
    if wrong or not sampling_rate > 0:
        raise ConfigError(f"each array must be ({len(names)} leads, samples) at a rate over 0; wrong: {wrong[:5]}")
    entries = list(_entries(len(signals), table))
    digest = hashlib.sha256()
    for signal in signals:
        digest.update(str(np.shape(signal)).encode())  # the same samples, cut elsewhere, are other recordings
        digest.update(np.ascontiguousarray(signal, np.float64).tobytes())

    def load(source: Source, entry: Entry, options: ArrayOptions) -> Recording:
        return _recording(signals[int(entry.file.rpartition("/")[2])], entry, options)

    dataset = replace(
        DATASETS.get("folder"),
        name="arrays",
        title="Arrays in memory",
        entries=lambda source, options: iter(entries),
        load=load,
        redact=as_it_is,
        options=ArrayOptions,
        grows=False,
        needs_source=False,
    )
    options = {"sampling_rate": sampling_rate, "leads": names, "sha256": digest.hexdigest()}
    return write_store(dataset, None, folder, gate=gate, options=options)


def _entries(count: int, table: Any) -> Iterator[Entry]:
    columns = {name: list(table[name]) for name in COLUMNS if table is not None and name in _columns(table)}
    unknown = sorted(set(_columns(table)) - set(COLUMNS)) if table is not None else []
    if unknown or any(len(column) != count for column in columns.values()):
        raise ConfigError(
            f"the table must have {count} rows and no columns but {', '.join(COLUMNS)}"
            + (f"; unknown: {', '.join(unknown)}" if unknown else "")
        )
    patients = [normalize_patient_id(_text(field)) for field in columns.get("patient_id", [""] * count)]
    nobody = [number for number, patient in enumerate(patients) if is_unknown_patient(patient)]
    if nobody:
        warnings.warn(
            f"{len(nobody)} rows of the table have a word for an unknown patient (unknown, n/a, ...), the first is row "
            f"{nobody[0]}; each is taken as if it had no patient_id",
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
        )


def _text(field: Any) -> str:
    """A field of a table; empty where it holds nothing, lest all who are unknown become one."""
    whole = isinstance(field, float) and field.is_integer()  # a column of whole numbers that lacks one
    text = str(int(field) if whole else field)
    return text.strip() if isinstance(field, str) or text not in NOTHING else ""


def _labels(field: Any) -> tuple[str, ...]:
    if isinstance(field, str):
        return labels_of({"labels": field})
    several = field if isinstance(field, Iterable) else (field,)
    return tuple(filter(None, map(_text, several)))


def _columns(table: Any) -> list[str]:
    return [str(name) for name in getattr(table, "columns", table)]


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
    return with_entry(recording, entry)
