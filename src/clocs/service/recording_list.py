"""The recordings of a store as the service lists them: newest first, and those of one patient."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.inference.classified_rows import ClassifiedRows
from clocs.service.logs import log
from clocs.service.parsing.reading import remove_identity
from clocs.store.manifest import versions
from clocs.store.reader import StoreReader

PAGE_SIZE: Final = 50
"""Number of recordings of a page."""
MAX_OF_PATIENT: Final = 100
"""Maximum number of recordings of one patient that are listed."""
Order = Literal["acquired", "stored"]
_COLUMNS: Final = (*("record_id", "patient_id", "acquired", "age", "sex", "leads", "num_samples", "sampling_rate"),)
_NO_TIME: Final = int(np.iinfo(np.int64).min)
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ListedRecording:
    """A recording of the list."""

    record_id: str
    acquired: datetime | None
    age: float | None
    sex: str | None
    num_leads: int
    seconds: float
    num_recordings: int
    """Number of recordings of the patient in the store."""
    has_known_patient: bool
    """False if the store does not say whose recording it is, so that it counts as a patient of its own."""
    row: dict[str, Any] | None
    """Measurements and classes, a row of the table; None if the table does not have it."""


@dataclass(frozen=True, eq=False)
class _Snapshot:
    """A version of the store, with the order of its recordings."""

    store: StoreReader
    by_time: Ints
    """Indices of the recordings, newest first; those without a time last, in the order ``stored``."""
    patients: Ints
    """Integer code of the patient of each recording."""
    counts: Ints
    """Number of recordings of each patient."""


class RecordingList:
    """An open store that follows every committed version, and a table of its classified recordings.

    Nothing is measured here. Opening and sorting need some 30 bytes per recording.

    Args:
        folder: Folder of the store.
        table: Arrow table of its classified recordings. It may be replaced while the service runs.
        encoder_sha256: Hash of the encoder that classifies opened recordings, which must be that of the table. Empty:
            it is not checked.

    Raises:
        ConfigError: There is no such store or table, or the table was made with another encoder.
    """

    def __init__(self, folder: Path, table: Path | None = None, encoder_sha256: str = "") -> None:
        self.folder, self.table, self._encoder_sha256 = folder, table, encoder_sha256
        self._lock = threading.Lock()
        self._snapshot = _open(folder)
        self._stamp: tuple[int, int] | None = None
        self._rows: ClassifiedRows | None = None
        self._classified()

    def __len__(self) -> int:
        return len(self._now().store)

    @property
    def has_shifted_times(self) -> bool:
        """True if the store was made with a key, so that times of different patients cannot be compared."""
        return bool(self._now().store.manifest.options.get("key"))

    def page(self, number: int, order: Order = "acquired") -> list[ListedRecording]:
        """Return a page of recordings, newest first.

        Args:
            number: Number of the page, from 1.
            order: ``acquired`` for the time of the recording, ``stored`` for the order in which they were stored.
        """
        now = self._now()
        first, total = (number - 1) * PAGE_SIZE, len(now.store)
        if order == "acquired":
            return self._listed(now, now.by_time[first : first + PAGE_SIZE])
        return self._listed(now, np.arange(total - 1 - first, max(total - 1 - first - PAGE_SIZE, -1), -1))

    def of_patient(self, record_id: str) -> list[ListedRecording]:
        """Return the newest recordings of the patient of a recording, newest first; empty if it was removed."""
        now = self._now()
        number = _index(now.store, record_id)
        if number is None:
            return []
        own = now.patients == now.patients[number]
        if now.counts[now.patients[number]] == 1:
            return self._listed(now, np.array([number]))
        return self._listed(now, now.by_time[own[now.by_time]][:MAX_OF_PATIENT])

    def recording(self, record_id: str) -> Recording | None:
        """Return a recording without identity, with labels; None if it was removed.

        It has the time at which it was recorded, unless times of the store are shifted.
        """
        store = self._now().store
        number = _index(store, record_id)
        if number is None:
            return None
        held = store.recording(number)
        acquired = None if self.has_shifted_times else held.acquired
        return replace(remove_identity(held), labels=held.labels, acquired=acquired)

    def patient_id(self, record_id: str) -> str:
        """Return the patient of a recording; empty if it was removed or the store does not say whose it is."""
        store = self._now().store
        number = _index(store, record_id)
        patient = "" if number is None else str(store.table("patient_id").column(0)[number])
        return "" if patient == record_id else patient

    def _listed(self, now: _Snapshot, numbers: Ints) -> list[ListedRecording]:
        rows = now.store.table(_COLUMNS).take(pa.array(numbers, pa.int64())).to_pylist()
        table = self._classified()
        return [
            ListedRecording(
                record_id=row["record_id"],
                acquired=row["acquired"],
                age=row["age"],
                sex=row["sex"],
                num_leads=len(row["leads"]),
                seconds=row["num_samples"] / row["sampling_rate"],
                num_recordings=int(now.counts[now.patients[number]]),
                has_known_patient=row["patient_id"] != row["record_id"],
                row=table.find(row["record_id"]) if table is not None else None,
            )
            for number, row in zip(numbers.tolist(), rows, strict=True)
        ]

    def _now(self) -> _Snapshot:
        """Return the newest version of the store. One thread opens it while others wait."""
        newest = versions(self.folder)[-1]
        if self._snapshot.store.manifest.version != newest:
            with self._lock:
                if self._snapshot.store.manifest.version != newest:
                    self._snapshot = _open(self.folder)
        return self._snapshot

    def _classified(self) -> ClassifiedRows | None:
        """Return the rows of the table, opened again if it was replaced.

        The old rows stay if the new table cannot be used.
        """
        if self.table is None:
            return None
        with self._lock:
            if self._rows is None or _stamp(self.table) != self._stamp:
                try:
                    self._stamp, self._rows = _stamp(self.table), self._open_table(self.table)
                except ConfigError as error:
                    if self._rows is None:
                        raise
                    log("the table of classified recordings cannot be used", logging.WARNING, reason=error.message)
            return self._rows

    def _open_table(self, path: Path) -> ClassifiedRows:
        rows = ClassifiedRows(path)
        if self._encoder_sha256 and rows.encoder_sha256 not in ("", self._encoder_sha256):
            raise ConfigError(
                f"{path} was made with another encoder than the service has. Pass that encoder with --encoder, or make "
                "the table again: clocs classify STORE --encoder ENCODER --out TABLE.arrow"
            )
        return rows


def _open(folder: Path) -> _Snapshot:
    if not versions(folder):
        raise ConfigError(f"{folder} is not a store. Make one: clocs data ingest ...")
    store = StoreReader(folder)
    seconds = store.table("acquired").column(0).cast(pa.int64()).fill_null(_NO_TIME).to_numpy()
    patients, count = store.patient_codes()
    return _Snapshot(
        store=store,
        by_time=np.lexsort((np.arange(len(seconds)), seconds))[::-1],
        patients=patients,
        counts=np.bincount(patients, minlength=count),
    )


def _index(store: StoreReader, record_id: str) -> int | None:
    try:
        return store.index_of(record_id)
    except ConfigError:
        return None


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file is replaced; None without a file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
