"""What changes an index: build, add, delete, rebuild. Each writes new files, and last the manifest that names them.

A change that is killed leaves the index as it was before or as it is after. What no manifest names any more is removed
at the end of a change, or at the start of the next.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.core.files import exclusive
from clocs.evaluation.shipped import shipped_encoders
from clocs.similarity.archive import Archive, ArchiveManifest
from clocs.similarity.checked_files import FileInfo, remember
from clocs.similarity.index_manifest import (
    NAME,
    ArchiveInfo,
    IndexManifest,
    write_index_manifest,
)
from clocs.similarity.patients import archive_part, pool_patients
from clocs.similarity.searcher import KINDS
from clocs.similarity.segments import Ints
from clocs.similarity.snapshot import Snapshot, read_column
from clocs.similarity.volume import VOLUMES, write_volume
from clocs.store.arrow_files import write_arrow

TOMBSTONES: Final = "tombstones"
Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class Added:
    """What an addition did with an archive's recordings."""

    recordings: int
    patients: int
    """Who got a new row: new ones, and known ones with a new recording."""
    known: int
    """Recordings that were in the index before."""
    of_deleted: int
    """Recordings of patients who were deleted; they stay out."""


def build_index(archive: Archive | Folder, folder: Folder, kind: str = "exact") -> None:
    """Make an index of an archive's patients. ``kind``: exact, hnsw or ivfpq (extra ``search``)."""
    opened, place = _archive(archive), Path(folder)
    KINDS.get(kind)
    if not len(opened):
        raise ConfigError(f"{opened.folder} has no embedding: every recording was refused")
    with exclusive(place):
        if (place / NAME).exists():
            raise ConfigError(f"{place} holds an index already: add to it, rebuild it, or choose another folder")
        _remove_unnamed(place, ())
        pooled = pool_patients([archive_part(opened, 0, np.arange(len(opened)))])
        volume = write_volume(place, 1, pooled, kind, opened.embedding)
        about = opened.manifest
        manifest = IndexManifest(
            change=1,
            kind=kind,
            encoder=about.encoder,
            encoder_place=_encoder_place(opened, place),
            leads=about.leads,
            any_lead=about.any_lead,
            archives=(_archive_info(opened, place),),
            volumes=(volume,),
            dead=None,
            deleted=None,
            patients=volume.rows,
            recordings=len(opened),
            software=_software(),
        )
        _commit(place, manifest)


def add_archive(folder: Folder, archive: Archive | Folder) -> Added:
    """Add an archive's recordings as a new volume; those that are there already, and deleted patients', are left out.

    A known patient with a new recording gets a new row of all recordings together, as if they had come at once.
    """
    opened, place = _archive(archive), Path(folder)
    with exclusive(place):
        now = _opened(place)
        _refuse_foreign(now.manifest, opened.manifest, place)
        archives, number = _numbered(now.manifest, _archive_info(opened, place))
        rows, known, of_deleted = _new_rows(now, opened)
        if not len(rows):
            return Added(0, 0, known, of_deleted)
        new = archive_part(opened, number, rows)
        ids = pc.unique(new.table.column("patient_id").combine_chunks())
        held = [np.setdiff1d(volume.rows_of(ids) + first, now.dead) for volume, first in _volumes(now)]
        parts = [
            volume.part(rows - first) for (volume, first), rows in zip(_volumes(now), held, strict=True) if len(rows)
        ]
        change = now.manifest.change + 1
        volume = write_volume(place, change, pool_patients([*parts, new]), now.manifest.kind, opened.embedding)
        replaced = np.concatenate(held)
        changes: dict[str, Any] = {
            "archives": archives,
            "volumes": (*now.manifest.volumes, volume),
            "patients": now.manifest.patients + volume.rows - len(replaced),
            "recordings": now.manifest.recordings + len(rows),
        }
        if len(replaced):
            changes["dead"] = _write_rows(place, change, np.union1d(now.dead, replaced))
        _commit(place, _changed(now.manifest, **changes))
        return Added(len(rows), volume.rows, known, of_deleted)


def delete_patients(folder: Folder, patient_ids: list[str]) -> int:
    """Take patients out: no search returns them from now on, and no addition brings them back. How many there were.

    One that was deleted before is passed over; an unknown one is refused, and then nobody is deleted.
    """
    place = Path(folder)
    with exclusive(place):
        now = _opened(place)
        gone = _deleted(now)
        ids = pa.array(sorted(set(patient_ids)), pa.large_string())
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=gone)))
        if not len(ids):
            return 0
        held = [np.setdiff1d(volume.rows_of(ids) + first, now.dead) for volume, first in _volumes(now)]
        found = pa.Table.from_batches(
            [
                volume.patients.take(pa.array(rows - first))
                for (volume, first), rows in zip(_volumes(now), held, strict=True)
            ]
        )
        unknown = ids.filter(pc.invert(pc.is_in(ids, value_set=found.column("patient_id").combine_chunks())))
        if len(unknown):
            raise ConfigError(f"no patient {', '.join(unknown[:5].to_pylist())} in {place}; nobody was deleted")
        change = now.manifest.change + 1
        listed = pa.concat_arrays([gone, ids]).sort()
        new = _changed(
            now.manifest,
            dead=_write_rows(place, change, np.union1d(now.dead, np.concatenate(held))),
            deleted=_write_column(place, f"{TOMBSTONES}/patients-{change:06d}.arrow", "patient_id", listed),
            patients=now.manifest.patients - len(ids),
            recordings=now.manifest.recordings - pc.sum(pc.list_value_length(found.column("recordings"))).as_py(),
        )
        _commit(place, new)
        return len(ids)


def rebuild_index(folder: Folder, kind: str | None = None) -> None:
    """Write all living patients as one volume, of another kind if wanted; what was deleted leaves the disk.

    An index that is so already is left as it is.
    """
    place = Path(folder)
    KINDS.get(kind or "exact")
    with exclusive(place):
        now = _opened(place)
        chosen = kind or now.manifest.kind
        if len(now.volumes) <= 1 and not len(now.dead) and chosen == now.manifest.kind:
            return
        alive = [
            np.setdiff1d(np.arange(first, first + volume.info.rows), now.dead) - first
            for volume, first in _volumes(now)
        ]
        parts = [volume.part(rows) for (volume, _), rows in zip(_volumes(now), alive, strict=True) if len(rows)]
        change = now.manifest.change + 1
        embedding = now.manifest.encoder.embedding
        volumes = (write_volume(place, change, pool_patients(parts), chosen, embedding),) if parts else ()
        _commit(place, _changed(now.manifest, kind=chosen, volumes=volumes, dead=None))


def _archive(archive: Archive | Folder) -> Archive:
    return archive if isinstance(archive, Archive) else Archive(archive)


def _opened(folder: Path) -> Snapshot:
    """The index as it is, all of its files whole, without what a killed change left behind."""
    now = Snapshot(folder)
    _remove_unnamed(folder, now.manifest.files)
    return now


def _volumes(now: Snapshot) -> list[tuple[Any, int]]:
    return [(volume, int(first)) for volume, first in zip(now.volumes, now.first, strict=False)]


def _new_rows(now: Snapshot, archive: Archive) -> tuple[Ints, int, int]:
    """Rows of an archive that may be added, and how many are known already or belong to deleted patients."""
    table = archive.table(("record_id", "patient_id"))
    record = table.column("record_id").combine_chunks().cast(pa.large_string())
    patient = table.column("patient_id").combine_chunks().cast(pa.large_string())
    patient = pc.if_else(pc.equal(patient, ""), record, patient)
    gone = pc.is_in(patient, value_set=_deleted(now)).to_numpy(False)
    there = np.zeros(len(archive), bool)
    for volume in now.volumes:
        ids = volume.record_ids()
        shared = ids.filter(pc.is_in(ids, value_set=record))  # the new ids are the smaller set
        there |= pc.is_in(record, value_set=shared).to_numpy(False)
    return np.flatnonzero(~there & ~gone), int((there & ~gone).sum()), int(gone.sum())


def _deleted(now: Snapshot) -> pa.Array:
    info = now.manifest.deleted
    return pa.array([], pa.large_string()) if info is None else read_column(now.folder, info)


def _refuse_foreign(index: IndexManifest, archive: ArchiveManifest, folder: Path) -> None:
    if (archive.encoder, archive.leads, archive.any_lead) != (index.encoder, index.leads, index.any_lead):
        raise ConfigError(
            f"{folder} holds vectors of {index.encoder_place}; the archive's were made by {archive.places.encoder}, "
            "another encoder, or with other leads. Vectors of two encoders cannot be compared: build another index."
        )


def _archive_info(archive: Archive, folder: Path) -> ArchiveInfo:
    place = os.path.relpath(archive.folder, folder)
    return ArchiveInfo(folder=place, version=archive.manifest.version, sha256=archive.manifest.sha256)


def _numbered(index: IndexManifest, archive: ArchiveInfo) -> tuple[tuple[ArchiveInfo, ...], int]:
    """All archives of an index with this one, and its number."""
    archives = index.archives if archive in index.archives else (*index.archives, archive)
    return archives, archives.index(archive)


def _encoder_place(archive: Archive, folder: Path) -> str:
    place = archive.manifest.places.encoder
    return place if place in shipped_encoders() else os.path.relpath(archive.folder / place, folder)


def _write_rows(folder: Path, change: int, rows: Ints) -> FileInfo:
    return _write_column(folder, f"{TOMBSTONES}/rows-{change:06d}.arrow", "row", pa.array(rows))


def _write_column(folder: Path, file: str, name: str, values: pa.Array) -> FileInfo:
    sha256, size = write_arrow(folder / file, pa.RecordBatch.from_arrays([values], [name]))
    return FileInfo(file=file, sha256=sha256, bytes=size)


def _changed(manifest: IndexManifest, **fields: Any) -> IndexManifest:
    return manifest.model_copy(update={"change": manifest.change + 1, "software": _software(), **fields})


def _software() -> dict[str, str]:
    found = {name: version(name) for name in ("clocs", "numpy", "pyarrow")}
    with contextlib.suppress(PackageNotFoundError):
        found["faiss-cpu"] = version("faiss-cpu")
    return found


def _commit(folder: Path, manifest: IndexManifest) -> None:
    write_index_manifest(folder, manifest)
    remember(folder, manifest.files)
    _remove_unnamed(folder, manifest.files)


def _remove_unnamed(folder: Path, files: Any) -> None:
    """Files of volumes and tombstones that no manifest names."""
    named = {folder / info.file for info in files}
    for place in (VOLUMES, TOMBSTONES):
        for path in sorted((folder / place).rglob("*"), reverse=True):
            if path.is_dir():
                with contextlib.suppress(OSError):  # not empty
                    path.rmdir()
            elif path not in named:
                path.unlink(missing_ok=True)
