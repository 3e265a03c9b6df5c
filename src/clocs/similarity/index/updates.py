"""Changes of an index: build, add and rebuild.

Each change writes new files and commits them by replacing the manifest last, so an interrupted change has no effect.
Files that the manifest does not list are removed at the end of a change, or at the start of the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clocs.core.errors import ConfigError
from clocs.core.storage.files import lock_folder, remove_file
from clocs.similarity.archive.archive import Archive
from clocs.similarity.archive.manifest import ArchiveManifest, relative_path
from clocs.similarity.checked_files import FileInfo, file_info
from clocs.similarity.index.incremental import AdditionResult, IndexWriter
from clocs.similarity.index.manifest import (
    MANIFEST_FILE,
    ArchiveInfo,
    IndexManifest,
    read_index_manifest,
    write_index_manifest,
)
from clocs.similarity.index.searcher import KINDS
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.index.volume import VOLUMES
from clocs.store.arrow_files import write_arrow
from clocs.store.manifest import check_not_inside_store
from clocs.store.withdrawn import read_withdrawn
from clocs.training.shipped import shipped_encoders

TOMBSTONES: Final = "tombstones"
_WRITTEN: Final = re.compile(
    rf"({VOLUMES}/\d{{6}}-\d+/(vectors\.npy|patients\.arrow|[a-z]+\.faiss)"
    rf"|{TOMBSTONES}/rows-\d{{6}}\.arrow)(\.partial)?"
)
"""Files that changes write beside the manifest, complete or partial."""
Folder = str | os.PathLike[str]


def build_index(archive: Archive | Folder, folder: Folder, kind: str = "exact") -> None:
    """Build an index of the patients of an archive.

    The vectors of a patient's recordings are scaled to unit length and averaged, and the mean is scaled to unit length
    again. A repeated call does nothing.

    Args:
        archive: An archive of embeddings, or its folder.
        folder: Folder of the index.
        kind: ``"exact"``, ``"hnsw"`` or ``"ivfpq"``. The last two search approximately, suit millions of patients and
            need the extra ``search``.

    Returns:
        Nothing; open the index with :func:`clocs.open_index`.

    Raises:
        ConfigError: The archive is empty, or the folder holds an index of another archive or kind.
        MissingExtraError: The kind needs the extra ``search``.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 6})
        >>> archive = clocs.embed_store("cmsc-chapman", store, "archive")
        >>> clocs.build_index(archive, "index")
        >>> clocs.open_index("index").manifest.recordings
        6
    """
    opened, root = _archive(archive), Path(folder)
    KINDS.get(kind)
    check_not_inside_store(root / MANIFEST_FILE)
    if not len(opened):
        raise ConfigError(f"{opened.folder} has no embeddings: every recording was refused.")
    with lock_folder(root):
        if (root / MANIFEST_FILE).exists():
            held = read_index_manifest(root)
            if (held.kind, held.archives) == (kind, (_archive_info(opened, root),)):
                return
            raise ConfigError(
                f"{root} already holds another index. Add the archive to it, rebuild it, or choose another folder."
            )
        _remove_unlisted(root, ())
        writer = IndexWriter(root, 1, kind, opened.embedding_dim, [], np.empty(0, np.int64))
        done = writer.add_recordings(opened, 0, read_withdrawn(root))
        about = opened.manifest
        manifest = IndexManifest(
            change=1,
            kind=kind,
            encoder=about.encoder,
            encoder_location=_encoder_location(opened, root),
            leads=about.leads,
            any_lead=about.any_lead,
            archives=(_archive_info(opened, root),),
            volumes=tuple(volume.info for volume in writer.volumes),
            dead=_write_dead_rows(root, writer),
            packed=not len(writer.dead),
            patients=writer.num_patients,
            recordings=done.recordings,
            software=_software(),
        )
        commit_change(root, manifest)


def add_archive(folder: Folder, archive: Archive | Folder) -> AdditionResult:
    """Add the recordings of an archive to an index as a new volume.

    Recordings that the index already holds, and recordings of withdrawn patients, are skipped. A known patient with new
    recordings gets a new row that pools all recordings.

    Args:
        folder: Folder of the index.
        archive: An archive of the same encoder, or its folder.

    Returns:
        Counts of added and skipped recordings.

    Raises:
        ConfigError: The archive was made by another encoder or with other leads.
    """
    opened, root = _archive(archive), Path(folder)
    with lock_folder(root):
        now = open_snapshot(root)
        _check_same_encoder(now.manifest, opened.manifest, root)
        archives, number = _add_archive_info(now.manifest, _archive_info(opened, root))
        writer = writer_for(now)
        done = writer.add_recordings(opened, number, read_withdrawn(root))
        if done.recordings:
            new = next_manifest(
                now.manifest,
                writer,
                archives=archives,
                patients=writer.num_patients,
                recordings=now.manifest.recordings + done.recordings,
            )
            commit_change(root, new)
        return done


def rebuild_index(folder: Folder, kind: str | None = None) -> None:
    """Rewrite an index in one piece, without rows that additions replaced, optionally as another kind.

    An index that needs no rewriting is left unchanged.

    Args:
        folder: Folder of the index.
        kind: Kind of search. Default: unchanged.
    """
    root = Path(folder)
    KINDS.get(kind or "exact")
    with lock_folder(root):
        now = open_snapshot(root)
        chosen = kind or now.manifest.kind
        if now.manifest.packed and chosen == now.manifest.kind:
            return
        writer = IndexWriter(
            root, now.manifest.change + 1, chosen, now.manifest.encoder.embedding_dim, [], now.dead[:0]
        )
        writer.copy_live_patients(writer_for(now))
        commit_change(root, next_manifest(now.manifest, writer, kind=chosen, packed=True))


def _archive(archive: Archive | Folder) -> Archive:
    return archive if isinstance(archive, Archive) else Archive(archive)


def open_snapshot(folder: Path, previous: Snapshot | None = None) -> Snapshot:
    """Open the index with all checksums compared, and remove leftovers of an interrupted change."""
    now = Snapshot(folder, previous)
    _remove_unlisted(folder, now.manifest.files)
    return now


def writer_for(now: Snapshot) -> IndexWriter:
    """Return a writer that starts from the index's volumes."""
    about = now.manifest
    return IndexWriter(
        now.folder, about.change + 1, about.kind, about.encoder.embedding_dim, list(now.volumes), now.dead
    )


def _check_same_encoder(index: IndexManifest, archive: ArchiveManifest, folder: Path) -> None:
    if (archive.encoder, archive.leads, archive.any_lead) != (index.encoder, index.leads, index.any_lead):
        raise ConfigError(
            f"{folder} holds vectors of {index.encoder_location}, but the archive was made by {archive.places.encoder} "
            "or with other leads. Vectors of different encoders cannot be compared. Build another index."
        )


def _archive_info(archive: Archive, folder: Path) -> ArchiveInfo:
    about = archive.manifest
    return ArchiveInfo(
        folder=relative_path(folder, archive.folder),
        version=about.version,
        sha256=about.sha256,
        first_sha256=about.first_sha256,
        key=about.store.key,
    )


def _add_archive_info(index: IndexManifest, archive: ArchiveInfo) -> tuple[tuple[ArchiveInfo, ...], int]:
    """Return the archives of the index including this one, and its number."""
    archives = index.archives if archive in index.archives else (*index.archives, archive)
    return archives, archives.index(archive)


def _encoder_location(archive: Archive, folder: Path) -> str:
    location = archive.manifest.places.encoder
    return location if location in shipped_encoders() else relative_path(folder, archive.folder / location)


def _write_dead_rows(folder: Path, writer: IndexWriter) -> FileInfo | None:
    if not len(writer.dead):
        return None
    file = f"{TOMBSTONES}/rows-{writer.change:06d}.arrow"
    sha256 = write_arrow(folder / file, pa.RecordBatch.from_arrays([pa.array(writer.dead)], ["row"])).sha256
    return file_info(folder, file, sha256)


def next_manifest(manifest: IndexManifest, writer: IndexWriter, **fields: Any) -> IndexManifest:
    """Return the next manifest, with the writer's volumes and dead rows."""
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


def commit_change(folder: Path, manifest: IndexManifest) -> None:
    """Write the manifest, and remove files that it does not list."""
    write_index_manifest(folder, manifest)
    _remove_unlisted(folder, manifest.files)


def _remove_unlisted(folder: Path, files: Iterable[FileInfo]) -> None:
    """Remove files of earlier changes that the manifest does not list; keep other files and files behind links."""
    linked = next((folder / name for name in (VOLUMES, TOMBSTONES) if (folder / name).is_symlink()), None)
    if linked is not None:
        raise ConfigError(
            f"{linked} is a link, so its files may belong to something else. Nothing was changed. Move {folder} as a "
            f"whole, or make {folder} itself the link."
        )
    named = {info.file for info in files}
    for path in [*(folder / VOLUMES).glob("*/*"), *(folder / TOMBSTONES).glob("*")]:
        name = path.relative_to(folder).as_posix()
        if _WRITTEN.fullmatch(name) and name not in named and path.is_file() and not path.parent.is_symlink():
            remove_file(path)
            with contextlib.suppress(OSError):  # not empty
                path.parent.rmdir()
