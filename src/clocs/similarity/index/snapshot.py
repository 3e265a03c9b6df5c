"""State of an index after one change: open volumes and live rows."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import IntegrityError, OptionError, StoreError
from clocs.similarity.archive.archive import Archive
from clocs.similarity.checked_files import FileInfo, check_file
from clocs.similarity.index.filters import NO_FILTER, Filter
from clocs.similarity.index.manifest import ArchiveInfo, read_index_manifest
from clocs.similarity.index.searcher import AllowedRows, Bools, Hits
from clocs.similarity.index.volume import Volume, open_volume
from clocs.similarity.segments import Ints, Vectors
from clocs.store.extra_columns import common_type
from clocs.store.manifest import manifest_path, versions

CACHED_FILTERS: Final = 8
"""Number of filters with cached row masks."""
MAX_LISTED_VALUES: Final = 20
"""Maximum number of values listed in an error."""


class Snapshot:
    """State of an index. Rows are patients, numbered consecutively over all volumes; a patient has one live row.

    Every file is hashed when it is opened. Volumes are immutable, so they are shared with the previous snapshot.
    """

    def __init__(self, folder: Path, previous: Snapshot | None = None) -> None:
        self.folder = folder
        self.manifest = read_index_manifest(folder)
        if self.manifest.dead is not None:
            check_file(folder, self.manifest.dead)
        known = {volume.info: volume for volume in previous.volumes} if previous is not None else {}
        embedding_dim = self.manifest.encoder.embedding_dim
        self.volumes: list[Volume] = [
            known.get(info) or open_volume(folder, info, embedding_dim) for info in self.manifest.volumes
        ]
        self.first = np.cumsum([0, *(volume.info.rows for volume in self.volumes)], dtype=np.int64)
        self.dead = _rows(folder, self.manifest.dead)
        self._allowed_rows = functools.lru_cache(maxsize=CACHED_FILTERS)(self._find_allowed_rows)
        self._archives: dict[int, Archive | None] = {}

    def search(self, queries: Vectors, k: int, where: Filter = NO_FILTER) -> Hits:
        """Return the k nearest live patients of each unit vector (Q, E) that meet the conditions."""
        found: list[Hits] = []
        for volume, first, allowed in zip(self.volumes, self.first, self._allowed_rows(where), strict=False):
            if allowed is None or allowed.count:
                hits = volume.search(queries, k, allowed)
                found.append(Hits(np.where(hits.rows < 0, -1, hits.rows + first), hits.cosines) if first else hits)
        if len(found) == 1:
            return found[0]
        none = Hits(np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), -np.inf, np.float32))
        rows = np.concatenate([part.rows for part in (*found, none)], axis=1)
        return Hits(rows, np.concatenate([part.cosines for part in (*found, none)], axis=1)).best(k)

    def count(self, where: Filter = NO_FILTER) -> int:
        """Return the number of live patients that meet the conditions."""
        allowed = zip(self.volumes, self._allowed_rows(where), strict=True)
        return sum(volume.info.rows if rows is None else rows.count for volume, rows in allowed)

    def _find_allowed_rows(self, where: Filter) -> list[AllowedRows | None]:
        """Return the allowed rows of each volume; None for all rows."""
        if where == NO_FILTER and not len(self.dead):
            return [None] * len(self.volumes)
        self._check_filter_values(where)
        found: list[AllowedRows | None] = []
        for volume, first, last in zip(self.volumes, self.first, self.first[1:], strict=False):
            mask = where.mask(volume.patients, self.extra_types) & self._live_mask(first, last)
            found.append(None if mask.all() else AllowedRows(mask))
        return found

    @functools.cached_property
    def extra_types(self) -> dict[str, pa.DataType]:
        """Type of each extra column over all patients, by name."""
        names = sorted({name for volume in self.volumes for name in volume.extra_types})
        by_name = {name: [volume.extra_types.get(name) for volume in self.volumes] for name in names}
        return {name: common_type([kind for kind in kinds if kind is not None]) for name, kinds in by_name.items()}

    def _live_mask(self, first: int, last: int) -> Bools:
        """Return a mask of the rows of a volume that are neither withdrawn nor replaced."""
        alive = np.ones(last - first, bool)
        alive[self.dead[np.searchsorted(self.dead, first) : np.searchsorted(self.dead, last)] - first] = False
        return alive

    def _check_filter_values(self, where: Filter) -> None:
        """Raise an error for a site or label that no patient has, rather than returning an empty result."""
        known: dict[str, set[str]] = {}
        if where.site is None and where.label is None:
            return
        for volume, first, last in zip(self.volumes, self.first, self.first[1:], strict=False):
            alive = volume.patients.filter(pa.array(self._live_mask(first, last)))
            for name, values in where.known_values(alive).items():
                known.setdefault(name, set()).update(values)
        for name, values in known.items():
            if getattr(where, name) not in values:
                some = ", ".join(f"'{value}'" for value in sorted(values)[:MAX_LISTED_VALUES])
                raise OptionError(
                    f"No patient of the index has the {name} '{getattr(where, name)}'. Available: {some}."
                )

    def is_dead(self, row: int) -> bool:
        """Return True if a row is withdrawn or replaced."""
        position = int(np.searchsorted(self.dead, row))
        return position < len(self.dead) and int(self.dead[position]) == row

    def row_of_patient(self, patient_id: str) -> int | None:
        """Return the row of a live patient, or None."""
        for volume, first in zip(self.volumes, self.first, strict=False):
            for row in volume.rows_of(pa.array([patient_id], pa.large_string())):
                if not self.is_dead(int(first + row)):
                    return int(first + row)
        return None

    def find_record(self, record_id: str) -> tuple[int, int, int] | None:
        """Return patient row, archive number and row in the archive of a live patient's recording, or None."""
        for volume, first in zip(self.volumes, self.first, strict=False):
            position = pc.index(volume.record_ids(), record_id).as_py()
            if position < 0:
                continue
            recordings = volume.patients.column("recordings")
            row = int(np.searchsorted(recordings.offsets.to_numpy(), position, "right")) - 1
            if not self.is_dead(int(first + row)):
                held = recordings.values
                return int(first + row), held.field("archive")[position].as_py(), held.field("row")[position].as_py()
        return None

    def patient_ids(self, rows: Ints) -> npt.NDArray[np.str_]:
        """Return the patient ids of rows, an array of any shape; empty strings for rows of -1."""
        flat = rows.ravel()
        found = np.full(len(flat), "", object)
        number = np.searchsorted(self.first, flat, "right") - 1
        for position, volume in enumerate(self.volumes):
            at = np.flatnonzero((number == position) & (flat >= 0))
            ids = volume.patients.column("patient_id").take(pa.array(flat[at] - self.first[position]))
            found[at] = ids.to_numpy(zero_copy_only=False)
        return found.astype(np.str_).reshape(rows.shape)

    def patient_info(self, row: int) -> dict[str, Any]:
        """Return the table row of a patient."""
        number = int(np.searchsorted(self.first, row, "right")) - 1
        found: dict[str, Any] = self.volumes[number].patients.slice(row - int(self.first[number]), 1).to_pylist()[0]
        return found

    def locate(self, number: int, record_id: str, row: int) -> tuple[Archive, int] | None:
        """Return the archive of a recording and its row there; None if the archive or the recording is gone.

        Args:
            number: Number of the archive in the index.
            record_id: Id of the recording.
            row: Row in the version of the archive from which it was added.
        """
        archive = self.archive(number)
        if archive is None or archive.manifest.version == self.manifest.archives[number].version:
            return None if archive is None else (archive, row)
        found = archive.find(record_id)
        return None if found is None else (archive, found)

    def archive(self, number: int) -> Archive | None:
        """Return an archive of the index, at its newest version if the version of the index was pruned.

        Returns:
            The archive; None if it was moved or replaced. A damaged archive raises an error.
        """
        known = self._archives.get(number)
        if known is None or not manifest_path(known.folder, known.manifest.version).exists():
            known = self._archives[number] = _open_archive(self.folder, self.manifest.archives[number])
        return known


def _open_archive(folder: Path, info: ArchiveInfo) -> Archive | None:
    place = folder / info.folder
    known = versions(place)
    if not known:
        return None
    is_pruned = info.version not in known
    try:
        archive = Archive(place, None if is_pruned else info.version)
    except IntegrityError:
        raise
    except StoreError:
        return None
    if is_pruned:
        return archive if archive.manifest.first_sha256 == info.first_sha256 else None
    return archive if archive.manifest.sha256 == info.sha256 else None


def _rows(folder: Path, info: FileInfo | None) -> Ints:
    """Read sorted row numbers from a file."""
    if info is None:
        return np.empty(0, np.int64)
    try:
        with pa.memory_map(str(folder / info.file)) as source:
            return np.asarray(pa.ipc.open_file(source).get_batch(0).column(0).to_numpy())
    except (OSError, IndexError, pa.ArrowException) as error:
        raise IntegrityError(f"{info.file}: cannot be opened ({error}).") from error
