"""Writer of the volumes of an index during a change."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.similarity.archive.archive import Archive, patient_ids
from clocs.similarity.index.patients import PatientRows, archive_rows, pool_patients
from clocs.similarity.index.volume import Volume, write_volume
from clocs.similarity.segments import Ints
from clocs.store.withdrawn import WithdrawnPatients

ROWS_PER_VOLUME: Final = 10_000_000
"""Maximum rows per volume, which bounds the memory of a build: about 1 kB per row."""


@dataclass
class AdditionResult:
    """Outcome of an addition."""

    recordings: int = 0
    patients: int = 0
    """Number of patients with a new row: new patients, and known patients with a new recording."""
    already_indexed: int = 0
    """Number of recordings that the index already held."""
    withdrawn: int = 0
    """Number of skipped recordings of withdrawn patients."""


@dataclass
class IndexWriter:
    """Volumes of an index, with rows numbered consecutively over all volumes."""

    folder: Path
    change: int
    kind: str
    embedding_dim: int
    volumes: list[Volume]
    dead: Ints
    written: int = field(default=0, init=False)

    def volumes_with_offsets(self) -> Iterator[tuple[Volume, int]]:
        """Iterate over the volumes and the number of their first rows."""
        first = 0
        for volume in self.volumes:
            yield volume, first
            first += volume.info.rows

    @property
    def num_patients(self) -> int:
        """Number of live rows, one per patient."""
        return sum(volume.info.rows for volume in self.volumes) - len(self.dead)

    def rows_of(self, ids: pa.Array) -> list[Ints]:
        """Return the live rows of patients for each volume, numbered over all volumes."""
        return [np.setdiff1d(volume.rows_of(ids) + first, self.dead) for volume, first in self.volumes_with_offsets()]

    def write(self, parts: list[PatientRows]) -> None:
        """Pool rows by patient and write them as a new volume."""
        self.volumes.append(self._write_volume(parts))

    def _write_volume(self, parts: list[PatientRows]) -> Volume:
        name = f"{self.change:06d}-{self.written}"
        info = write_volume(self.folder, name, pool_patients(parts), self.kind, self.embedding_dim)
        self.written += 1
        return Volume(self.folder, info, self.embedding_dim)

    def rewrite_volumes(self, numbers: Collection[int]) -> None:
        """Write some volumes again without their dead rows. Volumes without live rows are left out."""
        volumes, dead, num_rows = list[Volume](), [self.dead[:0]], 0
        for number, (volume, first) in enumerate(self.volumes_with_offsets()):
            gone = self.dead[(self.dead >= first) & (self.dead < first + volume.info.rows)] - first
            if number in numbers:
                alive = np.setdiff1d(np.arange(volume.info.rows), gone)
                if not len(alive):
                    continue
                volume, gone = self._write_volume([volume.patient_rows(alive)]), gone[:0]
            volumes.append(volume)
            dead.append(gone + num_rows)
            num_rows += volume.info.rows
        self.volumes, self.dead = volumes, np.concatenate(dead)

    def add_recordings(self, archive: Archive, number: int, withdrawn: WithdrawnPatients) -> AdditionResult:
        """Add recordings that are missing. A known patient gets a new row that pools all recordings."""
        done = AdditionResult()
        for first in range(0, len(archive), ROWS_PER_VOLUME):
            rows = self._new_rows(archive, first, min(first + ROWS_PER_VOLUME, len(archive)), withdrawn, done)
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

    def _new_rows(
        self, archive: Archive, first: int, last: int, withdrawn: WithdrawnPatients, done: AdditionResult
    ) -> Ints:
        """Return the rows of a range of an archive that are to be added, and count the others."""
        table = archive.table(("record_id", "patient_id"), first, last)
        record = table.column("record_id").combine_chunks().cast(pa.large_string())
        gone = withdrawn.mask(patient_ids(table))
        there = np.zeros(last - first, bool)
        for volume in self.volumes:
            ids = volume.record_ids()
            shared = ids.filter(pc.is_in(ids, value_set=record))
            there |= pc.is_in(record, value_set=shared).to_numpy(False)
        done.already_indexed += int((there & ~gone).sum())
        done.withdrawn += int(gone.sum())
        return np.flatnonzero(~there & ~gone) + first

    def copy_live_patients(self, source: IndexWriter) -> None:
        """Write the live rows of another writer's volumes into as few volumes as their maximum size allows."""
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
