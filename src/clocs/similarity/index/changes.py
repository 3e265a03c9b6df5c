"""What changes an index: build, add, delete, rebuild. Each writes new files, and last the manifest that names them.

A change that is killed leaves the index as it was before or as it is after. What no manifest names any more is removed
at the end of a change, or at the start of the next.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.core.files import lock_folder
from clocs.similarity.archive.archive import Archive, ArchiveManifest, relative_path
from clocs.similarity.checked_files import FileInfo, file_info
from clocs.similarity.index.incremental import AdditionResult, IndexWriter
from clocs.similarity.index.manifest import (
    MANIFEST_FILE,
    ArchiveInfo,
    IndexManifest,
    write_index_manifest,
)
from clocs.similarity.index.patients import SCHEMA, normalize_patient_ids
from clocs.similarity.index.searcher import KINDS
from clocs.similarity.index.snapshot import Snapshot, read_column
from clocs.similarity.index.volume import VOLUMES
from clocs.store.arrow_files import write_arrow
from clocs.store.manifest import check_not_inside_store
from clocs.training.shipped import shipped_encoders

TOMBSTONES: Final = "tombstones"
_WRITTEN: Final = re.compile(
    rf"({VOLUMES}/\d{{6}}-\d+/(vectors\.npy|patients\.arrow|[a-z]+\.faiss)"
    rf"|{TOMBSTONES}/(rows|patients)-\d{{6}}\.arrow)(\.partial)?"
)
"""What changes write beside the manifest, whole or begun."""
Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class DeletionResult:
    """What became of the ids of a deletion."""

    patients: int
    """Who were in the index, and are no more."""
    unknown: int
    """Ids that nobody had; they are kept out from now on."""
    already_deleted: int
    """Ids that were deleted, or kept out, before."""


def build_index(archive: Archive | Folder, folder: Folder, kind: str = "exact") -> None:
    """Make an index of an archive's patients. ``kind``: exact, hnsw or ivfpq (extra ``search``)."""
    opened, place = _archive(archive), Path(folder)
    KINDS.get(kind)
    check_not_inside_store(place / MANIFEST_FILE)
    if not len(opened):
        raise ConfigError(f"{opened.folder} has no embedding: every recording was refused")
    with lock_folder(place):
        if (place / MANIFEST_FILE).exists():
            raise ConfigError(f"{place} holds an index already: add to it, rebuild it, or choose another folder")
        _remove_unlisted(place, ())
        writer = IndexWriter(place, 1, kind, opened.embedding_dim, [], np.empty(0, np.int64))
        writer.add_recordings(opened, 0, pa.array([], pa.large_string()))
        about = opened.manifest
        manifest = IndexManifest(
            change=1,
            kind=kind,
            encoder=about.encoder,
            encoder_location=_encoder_location(opened, place),
            leads=about.leads,
            any_lead=about.any_lead,
            archives=(_archive_info(opened, place),),
            volumes=tuple(volume.info for volume in writer.volumes),
            dead=_write_dead_rows(place, writer),
            deleted=None,
            packed=not len(writer.dead),
            patients=writer.num_patients,
            recordings=len(opened),
            software=_software(),
        )
        _commit(place, manifest)


def add_archive(folder: Folder, archive: Archive | Folder) -> AdditionResult:
    """Add an archive's recordings as a new volume; those that are there already, and deleted patients', are left out.

    A known patient with a new recording gets a new row of all recordings together, as if they had come at once.
    """
    opened, place = _archive(archive), Path(folder)
    with lock_folder(place):
        now = _opened(place)
        _check_same_encoder(now.manifest, opened.manifest, place)
        archives, number = _add_archive_info(now.manifest, _archive_info(opened, place))
        writer = _writer_for(now)
        done = writer.add_recordings(opened, number, _deleted(now))
        if done.recordings:
            new = _next_manifest(
                now.manifest,
                writer,
                archives=archives,
                patients=writer.num_patients,
                recordings=now.manifest.recordings + done.recordings,
            )
            _commit(place, new)
        return done


def delete_patients(
    folder: Folder, patient_ids: Iterable[str], *, key: Path | None = None, allow_unknown: bool = False
) -> DeletionResult:
    """Take patients out: no search returns them from now on, and no addition brings them back.

    One that was deleted before is passed over; an unknown one is refused, and then nobody is deleted, unless
    ``allow_unknown``: then nobody of that id will ever come in. ``key``: the file of the key that made the index's
    pseudonyms, for ids that are numbers.
    """
    place = Path(folder)
    with lock_folder(place):
        now = _opened(place)
        gone = _deleted(now)
        told = normalize_patient_ids(
            patient_ids, [volume.patients.column("patient_id") for volume in now.volumes], gone, key
        )
        ids = told.filter(pc.invert(pc.is_in(told, value_set=gone)))
        if not len(ids):
            return DeletionResult(patients=0, unknown=0, already_deleted=len(told))
        writer = _writer_for(now)
        held = writer.rows_of(ids)
        volumes = zip(writer.volumes_with_offsets(), held, strict=True)
        batches = [volume.patients.take(pa.array(rows - first)) for (volume, first), rows in volumes]
        found = pa.Table.from_batches(batches, None if batches else SCHEMA)
        unknown = ids.filter(pc.invert(pc.is_in(ids, value_set=found.column("patient_id").combine_chunks())))
        if len(unknown) and not allow_unknown:
            raise ConfigError(
                f"no patient {', '.join(unknown[:5].to_pylist())} in {place}; nobody was deleted. To keep them out for "
                "the time when they come: --allow-unknown"
            )
        writer.dead = np.union1d(now.dead, np.concatenate([now.dead, *held]))
        listed = pa.concat_arrays([gone, ids]).sort()
        new = _next_manifest(
            now.manifest,
            writer,
            deleted=_write_column(place, f"{TOMBSTONES}/patients-{writer.change:06d}.arrow", "patient_id", listed),
            patients=writer.num_patients,
            recordings=now.manifest.recordings
            - (pc.sum(pc.list_value_length(found.column("recordings"))).as_py() or 0),
        )
        _commit(place, new)
        return DeletionResult(
            patients=len(ids) - len(unknown), unknown=len(unknown), already_deleted=len(told) - len(ids)
        )


def rebuild_index(folder: Folder, kind: str | None = None) -> None:
    """Write all living patients anew in one go, as another kind if wanted; what was deleted leaves the disk.

    An index that is so already is left as it is.
    """
    place = Path(folder)
    KINDS.get(kind or "exact")
    with lock_folder(place):
        now = _opened(place)
        chosen = kind or now.manifest.kind
        if now.manifest.packed and chosen == now.manifest.kind:
            return
        writer = IndexWriter(
            place, now.manifest.change + 1, chosen, now.manifest.encoder.embedding_dim, [], now.dead[:0]
        )
        writer.copy_live_patients(_writer_for(now))
        _commit(place, _next_manifest(now.manifest, writer, kind=chosen, packed=True))


def _archive(archive: Archive | Folder) -> Archive:
    return archive if isinstance(archive, Archive) else Archive(archive)


def _opened(folder: Path) -> Snapshot:
    """The index as it is, all of its files whole, without what a killed change left behind."""
    now = Snapshot(folder)
    _remove_unlisted(folder, now.manifest.files)
    return now


def _writer_for(now: Snapshot) -> IndexWriter:
    """What an index holds, to be changed."""
    about = now.manifest
    return IndexWriter(
        now.folder, about.change + 1, about.kind, about.encoder.embedding_dim, list(now.volumes), now.dead
    )


def _deleted(now: Snapshot) -> pa.Array:
    info = now.manifest.deleted
    return pa.array([], pa.large_string()) if info is None else read_column(now.folder, info)


def _check_same_encoder(index: IndexManifest, archive: ArchiveManifest, folder: Path) -> None:
    if (archive.encoder, archive.leads, archive.any_lead) != (index.encoder, index.leads, index.any_lead):
        raise ConfigError(
            f"{folder} holds vectors of {index.encoder_location}; the archive's were made by {archive.places.encoder}, "
            "another encoder, or with other leads. Vectors of two encoders cannot be compared: build another index."
        )


def _archive_info(archive: Archive, folder: Path) -> ArchiveInfo:
    about = archive.manifest
    return ArchiveInfo(folder=relative_path(folder, archive.folder), version=about.version, sha256=about.sha256)


def _add_archive_info(index: IndexManifest, archive: ArchiveInfo) -> tuple[tuple[ArchiveInfo, ...], int]:
    """All archives of an index with this one, and its number."""
    archives = index.archives if archive in index.archives else (*index.archives, archive)
    return archives, archives.index(archive)


def _encoder_location(archive: Archive, folder: Path) -> str:
    place = archive.manifest.places.encoder
    return place if place in shipped_encoders() else relative_path(folder, archive.folder / place)


def _write_dead_rows(folder: Path, writer: IndexWriter) -> FileInfo | None:
    if not len(writer.dead):
        return None
    return _write_column(folder, f"{TOMBSTONES}/rows-{writer.change:06d}.arrow", "row", pa.array(writer.dead))


def _write_column(folder: Path, file: str, name: str, values: pa.Array) -> FileInfo:
    sha256 = write_arrow(folder / file, pa.RecordBatch.from_arrays([values], [name])).sha256
    return file_info(folder, file, sha256)


def _next_manifest(manifest: IndexManifest, writer: IndexWriter, **fields: Any) -> IndexManifest:
    """The next manifest, with the volumes and the dead rows of a growth."""
    common = {
        "change": writer.change,
        "volumes": tuple(volume.info for volume in writer.volumes),
        "dead": _write_dead_rows(writer.folder, writer),
        "packed": False,
        "software": _software(),
    }
    return manifest.model_copy(update={**common, **fields})


def _software() -> dict[str, str]:
    found = {name: version(name) for name in ("clocs", "numpy", "pyarrow")}
    with contextlib.suppress(PackageNotFoundError):
        found["faiss-cpu"] = version("faiss-cpu")
    return found


def _commit(folder: Path, manifest: IndexManifest) -> None:
    write_index_manifest(folder, manifest)
    _remove_unlisted(folder, manifest.files)


def _remove_unlisted(folder: Path, files: Iterable[FileInfo]) -> None:
    """What changes wrote and no manifest names; whatever else lies there, or behind a link, is somebody's own."""
    linked = next((folder / place for place in (VOLUMES, TOMBSTONES) if (folder / place).is_symlink()), None)
    if linked is not None:
        raise ConfigError(
            f"{linked} is a link, and what lies behind it may be another's: nothing was changed. Let {folder} as a "
            "whole lie where there is room, or be a link to there"
        )
    named = {info.file for info in files}
    for path in [*(folder / VOLUMES).glob("*/*"), *(folder / TOMBSTONES).glob("*")]:
        name = path.relative_to(folder).as_posix()
        if _WRITTEN.fullmatch(name) and name not in named and path.is_file() and not path.parent.is_symlink():
            path.unlink()
            with contextlib.suppress(OSError):  # not empty
                path.parent.rmdir()
