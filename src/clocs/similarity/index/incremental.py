"""The volumes of an index while a change writes more of them; the manifest that names them comes later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.similarity.archive.archive import Archive
from clocs.similarity.index.patients import PatientRows, archive_rows, patient_ids, pool_patients
from clocs.similarity.index.volume import Volume, write_volume
from clocs.similarity.segments import Ints

ROWS_PER_VOLUME: Final = 10_000_000
"""Bounds the memory of a build: about 1 kB a row."""


@dataclass
class AdditionResult:
    """What an addition did with an archive's recordings."""

    recordings: int = 0
    patients: int = 0
    """Who got a new row: new ones, and known ones with a new recording."""
    already_indexed: int = 0
    """Recordings that were in the index before."""
    from_deleted_patients: int = 0
    """Recordings of patients who were deleted; they stay out."""


@dataclass
class IndexWriter:
    """Volumes so far, numbered through."""

    folder: Path
    change: int
    kind: str
    embedding: int
    volumes: list[Volume]
    dead: Ints
    written: int = field(default=0, init=False)

    def volumes_with_offsets(self) -> Iterator[tuple[Volume, int]]:
        """Volumes, and the number of their first row."""
        first = 0
        for volume in self.volumes:
            yield volume, first
            first += volume.info.rows

    @property
    def num_patients(self) -> int:
        """Rows that are not dead: patients."""
        return sum(volume.info.rows for volume in self.volumes) - len(self.dead)

    def rows_of(self, ids: pa.Array) -> list[Ints]:
        """For each volume the living rows of patients, numbered through."""
        return [np.setdiff1d(volume.rows_of(ids) + first, self.dead) for volume, first in self.volumes_with_offsets()]

    def write(self, parts: list[PatientRows]) -> None:
        """Write the patients of parts as one more volume."""
        place = f"{self.change:06d}-{self.written}"
        info = write_volume(self.folder, place, pool_patients(parts), self.kind, self.embedding)
        self.volumes.append(Volume(self.folder, info, self.embedding))
        self.written += 1

    def add_recordings(self, archive: Archive, number: int, deleted: pa.Array) -> AdditionResult:
        """Add recordings that are not there yet; a known patient gets a new row of all recordings together."""
        done = AdditionResult()
        for first in range(0, len(archive), ROWS_PER_VOLUME):
            rows = self._new_rows(archive, first, min(first + ROWS_PER_VOLUME, len(archive)), deleted, done)
            if len(rows):
                new = archive_rows(archive, number, rows)
                held = self.rows_of(pc.unique(new.table.column("patient_id").combine_chunks()))
                volumes = zip(self.volumes_with_offsets(), held, strict=True)
                known = [volume.patient_rows(found - start) for (volume, start), found in volumes if len(found)]
                self.write([*known, new])
                self.dead = np.union1d(self.dead, np.concatenate([self.dead, *held]))
                done.recordings += len(rows)
                done.patients += self.volumes[-1].info.rows
        return done

    def _new_rows(self, archive: Archive, first: int, last: int, deleted: pa.Array, done: AdditionResult) -> Ints:
        """Rows of a stretch of an archive that are to be added; the others are counted."""
        table = archive.table(("record_id", "patient_id"), first, last)
        record = table.column("record_id").combine_chunks().cast(pa.large_string())
        gone = pc.is_in(patient_ids(table), value_set=deleted).to_numpy(False)
        there = np.zeros(last - first, bool)
        for volume in self.volumes:
            ids = volume.record_ids()
            shared = ids.filter(pc.is_in(ids, value_set=record))
            there |= pc.is_in(record, value_set=shared).to_numpy(False)
        done.already_indexed += int((there & ~gone).sum())
        done.from_deleted_patients += int(gone.sum())
        return np.flatnonzero(~there & ~gone) + first

    def copy_live_patients(self, source: IndexWriter) -> None:
        """Write the living rows of others' volumes, as few volumes as their size allows."""
        held: list[PatientRows] = []
        for volume, first in source.volumes_with_offsets():
            alive = np.setdiff1d(np.arange(first, first + volume.info.rows), source.dead) - first
            for begin in range(0, len(alive), ROWS_PER_VOLUME):
                part = volume.patient_rows(alive[begin : begin + ROWS_PER_VOLUME])
                if sum(other.table.num_rows for other in held) + part.table.num_rows > ROWS_PER_VOLUME:
                    self.write(held)
                    held = []
                held.append(part)
        if held:
            self.write(held)
