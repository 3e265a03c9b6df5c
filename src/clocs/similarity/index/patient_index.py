"""Patient search by file, recording or record id."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, FormatError, IntegrityError, StoreError
from clocs.core.recording import Recording
from clocs.similarity.archive.archive import Archive
from clocs.similarity.index.filters import NO_FILTER, Filter
from clocs.similarity.index.incremental import AdditionResult
from clocs.similarity.index.limit import limit_distance
from clocs.similarity.index.manifest import MANIFEST_FILE, DistanceLimit, IndexManifest, manifest_fingerprint
from clocs.similarity.index.matching import Query, match_patients
from clocs.similarity.index.neighbors import SimilarPatients, describe_neighbor
from clocs.similarity.index.searcher import Hits
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.index.updates import Folder, add_archive, rebuild_index
from clocs.similarity.index.withdraw import IndexWithdrawal, withdraw_from_index
from clocs.similarity.segments import Vectors

if TYPE_CHECKING:
    from clocs.inference.pretrained import PretrainedEncoder

MAX_ATTEMPTS: Final = 3
"""Attempts to open an index that rebuilds replace meanwhile."""


@dataclass(frozen=True, eq=False)
class Nearest(Hits):
    """The nearest patients of each query. Rows refer to the index at the time of the search."""

    _index: Snapshot

    @functools.cached_property
    def patient_ids(self) -> npt.NDArray[np.str_]:
        """Patient ids, shape (Q, k); empty strings if fewer patients were found."""
        return self._index.patient_ids(self.rows)


class PatientIndex:
    """An open index of patients.

    Searches always use the last committed change, including those made by other processes.

    Args:
        folder: Folder of an index, as written by :func:`clocs.build_index`.
        encoder: The encoder that made the vectors, or its folder. Default: its location when the index was built.
        device: Torch device of the encoder. Default: ONNX Runtime.

    Raises:
        StoreError: The folder is not an index.
        IntegrityError: A file is damaged.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 8})
        >>> clocs.build_index(clocs.embed_store("cmsc-chapman", store, "archive"), "index")
        >>> index = clocs.PatientIndex("index")
        >>> result = index.similar(store.recording(0), k=2)
        >>> len(result.neighbors)
        2
        >>> store.recording(0).patient_id in [neighbor.patient_id for neighbor in result.neighbors]
        False
    """

    def __init__(
        self, folder: Folder, encoder: PretrainedEncoder | Folder | None = None, device: str | None = None
    ) -> None:
        self.folder = Path(folder)
        self._encoder_argument = encoder
        self._device = device
        self._loaded: PretrainedEncoder | None = None
        self._path = str(self.folder / MANIFEST_FILE)
        self._opened = self._open(None)

    def __len__(self) -> int:
        return self.manifest.patients

    def __repr__(self) -> str:
        about = self.manifest
        return (
            f"<PatientIndex {self.folder}: {about.patients:,} patients, {about.recordings:,} recordings, {about.kind}>"
        )

    @property
    def manifest(self) -> IndexManifest:
        """Manifest after the last change."""
        return self.snapshot.manifest

    @property
    def snapshot(self) -> Snapshot:
        """The index after its last change. Without a new change, this is the same object and costs one call of
        ``stat``."""
        known, found = self._opened
        mark = manifest_fingerprint(self._path)
        if mark is None or mark != known:
            self._opened = opened = self._open(found)
            found = opened[1]
        return found

    def _open(self, previous: Snapshot | None) -> tuple[object, Snapshot]:
        """Return a manifest's fingerprint with the index opened from it, as one value because several threads may ask.

        A change removes files of the previous one, so an index that was replaced meanwhile is opened again.
        """
        mark = manifest_fingerprint(self._path)
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return mark, Snapshot(self.folder, previous)
            except IntegrityError:
                before, mark = mark, manifest_fingerprint(self._path)
                if mark == before:
                    raise
        return mark, Snapshot(self.folder, previous)

    def search(self, vectors: npt.NDArray[np.floating], k: int = 10, where: Filter = NO_FILTER) -> Nearest:
        """Find the nearest patients by vector.

        Args:
            vectors: Query vectors, shape (Q, E); they need not have unit length.
            k: Number of patients per query.
            where: Conditions on the patients. Default: all patients.

        Returns:
            Rows, cosines and patient ids, each of shape (Q, k).

        Raises:
            ConfigError: The vectors have the wrong shape or are not finite, or k is below 1.
        """
        now = self.snapshot
        found = now.search(_scale_to_unit_length(vectors, now.manifest.encoder.embedding_dim), self._check_k(k), where)
        return Nearest(found.rows, found.cosines, now)

    def similar(
        self,
        query: Recording | Folder,
        k: int = 10,
        *,
        site: str | None = None,
        age: tuple[float, float] | None = None,
        sex: Literal["female", "male"] | None = None,
        label: str | None = None,
        columns: Mapping[str, Any] | None = None,
        include_own_patient: bool = False,
    ) -> SimilarPatients:
        """Find the patients most similar to a recording.

        The query's own patient is identified by patient id or, if the index does not know the id, by an identical
        recording. Patients beyond the index's limit of distance are hidden, and patients without a lead of the query
        are not compared; the notes say so.

        Args:
            query: A recording, an ECG file, or the id of a record of the index.
            k: Number of patients.
            site: Only patients of this site.
            age: Only patients in this range of ages in years, both ends included.
            sex: Only patients of this sex.
            label: Only patients with this label.
            columns: Only patients with these values in extra columns of the store: a value, or several of which one
                must match, by name. None stands for an absent value.
            include_own_patient: Do not exclude the query's own patient.

        Returns:
            The patients, the most similar first, with similarities of single leads.

        Raises:
            FormatError: The query is neither a record id nor a readable ECG file.
            OptionError: A condition is invalid, a column is unknown, or no patient has the site or label.
        """
        now = self.snapshot
        asked, own = self._query(query, now)
        where = Filter(site, age, sex, label, columns or {})
        found = match_patients(
            now,
            asked,
            self._check_k(k),
            where,
            own=own,
            include_own_patient=include_own_patient,
            read_recording=self.recording,
        )
        neighbors = tuple(describe_neighbor(now, asked, row, cosine) for row, cosine in found.rows)
        notes = list(asked.notes)
        if found.own is not None and asked.recording is not None:
            how = "who has the same recording" if own is None else "identified by id"
            name = now.patient_info(found.own)["patient_id"]
            notes.append(f"Patient {name} is excluded as the query's own patient, {how}.")
        if now.manifest.leads and any(not item.why for item in neighbors):
            notes.append("Single leads are not compared if the archive was moved.")
        return SimilarPatients(asked, neighbors, found.num_hidden, (*notes, *found.notes))

    def embed_query(self, query: Recording | Folder, now: Snapshot, any_lead: bool = False) -> Query:
        """Embed a recording or file as a query.

        Args:
            query: A recording, or an ECG file.
            now: State of the index.
            any_lead: Also use leads that the encoder was not trained on.

        Returns:
            The embedded query.

        Raises:
            SignalError: The recording has no usable lead, or no clear heartbeats.
        """
        from clocs.inference.long_recordings import require_signal
        from clocs.inference.preparation import prepare
        from clocs.inference.recordings import as_recording
        from clocs.similarity.archive.recording_vectors import pool_recording, rows_to_embed

        about, recording, encoder = now.manifest, as_recording(query), self.encoder
        ready = prepare(recording, encoder.input, any_lead=any_lead or about.any_lead)
        require_signal(recording)
        pooled = pool_recording(encoder.embed_prepared(rows_to_embed(ready)), ready, about.leads)
        return Query(
            record_id=recording.record_id,
            patient_id=recording.patient_id,
            vector=pooled.vector,
            leads=pooled.leads,
            lead_names=ready.leads,
            recording=recording,
            notes=ready.notes,
        )

    def recording(self, record_id: str) -> Recording:
        """Return a recording of the index, read from its store.

        Args:
            record_id: Id of a record.

        Returns:
            The recording.

        Raises:
            ConfigError: The index has no such record.
            StoreError: The archive or the store was moved or replaced.
        """
        now = self.snapshot
        found = now.find_record(record_id)
        if found is None:
            raise ConfigError(f"No record '{record_id}' in {self.folder}.")
        archive = now.archive(found[1])
        if archive is None:
            raise StoreError(f"The archive with '{record_id}' was moved or replaced: {self._archive_folder(found[1])}.")
        return archive.open_store().recording(record_id)

    def add(self, archive: Archive | Folder) -> AdditionResult:
        """Add the recordings of an archive; see ``add_archive``."""
        return add_archive(self.folder, archive)

    def withdraw(
        self, patients: Iterable[str], *, key: Folder | None = None, allow_unknown: bool = False
    ) -> IndexWithdrawal:
        """Withdraw patients; see ``withdraw_from_index``."""
        return withdraw_from_index(self.folder, patients, key=key, allow_unknown=allow_unknown)

    def limit_distance(self, split: str = "default", part: str = "validation") -> DistanceLimit:
        """Choose the maximum distance of similar patients; see ``limit_distance``."""
        return limit_distance(self.folder, split, part)

    def rebuild(self, kind: str | None = None) -> None:
        """Rewrite the index in one piece; see ``rebuild_index``."""
        rebuild_index(self.folder, kind)

    def _archive_folder(self, archive: int) -> Path:
        return self.folder / self.manifest.archives[archive].folder

    def _check_k(self, k: int) -> int:
        if not isinstance(k, int | np.integer) or k < 1:
            raise ConfigError(f"Expected k to be an integer of at least 1, got {k}.")
        return k

    def _query(self, query: Recording | Folder, now: Snapshot) -> tuple[Query, int | None]:
        """Return the embedded query, and the row of its own patient if known by id."""
        if isinstance(query, str) and not os.path.isfile(query):
            record = now.find_record(query)
            if record is not None:
                return self._stored_query(query, record, now), record[0]
        try:
            asked = self.embed_query(query, now)
        except FormatError as error:
            raise FormatError(
                f"{query} is neither a record id of {self.folder} nor a readable ECG file: {error}"
            ) from error
        return asked, now.row_of_patient(asked.patient_id) if asked.patient_id else None

    def _stored_query(self, record_id: str, record: tuple[int, int, int], now: Snapshot) -> Query:
        row, number, archive_row = record
        place = now.locate(number, record_id, archive_row)
        if place is None:
            raise StoreError(
                f"The archive with '{record_id}' was moved or replaced: {self._archive_folder(number)}. Restore it, or "
                "query with the ECG file."
            )
        archive, rows = place[0], np.array([place[1]])
        leads, present = archive.lead_vectors(rows)
        return Query(
            record_id=record_id,
            patient_id=now.patient_info(row)["patient_id"],
            vector=archive.vectors(rows)[0],
            leads=leads[0],
            lead_names=tuple(compress(archive.manifest.leads, present[0])),
            recording=None,
        )

    @property
    def encoder(self) -> PretrainedEncoder:
        """The encoder that made the vectors, loaded on first use."""
        from clocs.inference.pretrained import PretrainedEncoder, load_encoder
        from clocs.training.shipped import shipped_encoders

        if self._loaded is None:
            about = self.manifest
            location = about.encoder_location
            default = location if location in shipped_encoders() else self.folder / location
            encoder = self._encoder_argument or default
            loaded = encoder if isinstance(encoder, PretrainedEncoder) else load_encoder(encoder, device=self._device)
            if loaded.about["weights_sha256"] != about.encoder.weights_sha256:
                raise ConfigError(f"The vectors of {self.folder} were not made by the encoder {loaded.name}.")
            self._loaded = loaded
        return self._loaded


def _scale_to_unit_length(vectors: npt.NDArray[np.floating], embedding_dim: int) -> Vectors:
    """Scale query vectors (Q, E) to unit length."""
    values = np.asarray(vectors, np.float32)
    if values.ndim != 2 or values.shape[1] != embedding_dim:
        raise ConfigError(f"Expected vectors of shape (Q, {embedding_dim}), got {values.shape}.")
    lengths = np.sqrt(np.einsum("qe,qe->q", values, values))  # three times faster than np.linalg.norm
    if not 0 < lengths.min(initial=1) <= lengths.max(initial=1) < np.inf:
        raise ConfigError("Expected finite vectors that are not all zeros.")
    return np.asarray(values / lengths[:, None])


def open_index(
    folder: Folder, encoder: PretrainedEncoder | Folder | None = None, *, device: str | None = None
) -> PatientIndex:
    """Open an index of patients.

    Args:
        folder: Folder of an index, as written by :func:`clocs.build_index`.
        encoder: The encoder that made the vectors, or its folder. Default: its location when the index was built.
        device: Torch device of the encoder. Default: ONNX Runtime.

    Returns:
        The index. ``len(index)`` is its number of patients.

    Raises:
        StoreError: The folder is not an index.
        IntegrityError: A file is damaged.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 8})
        >>> archive = clocs.embed_store("cmsc-chapman", store, "archive")
        >>> clocs.build_index(archive, "index")
        >>> index = clocs.open_index("index")
        >>> index.search(archive.vectors()[:3], k=2).cosines.shape
        (3, 2)
    """
    return PatientIndex(folder, encoder, device)
