"""Patients like this one: an index that is asked with a file, a recording or a record id."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, FormatError, IntegrityError, StoreError
from clocs.core.recording import Recording
from clocs.similarity.archive.archive import Archive
from clocs.similarity.index.changes import DeletionResult, Folder, add_archive, delete_patients, rebuild_index
from clocs.similarity.index.filters import NO_FILTER, Filter
from clocs.similarity.index.incremental import AdditionResult
from clocs.similarity.index.manifest import MANIFEST_FILE, IndexManifest, manifest_fingerprint
from clocs.similarity.index.neighbors import Query, SimilarPatients, describe_neighbor, few_matches_note, has_recording
from clocs.similarity.index.searcher import Hits
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.segments import Vectors
from clocs.store.store import Store

if TYPE_CHECKING:
    from clocs.inference.pretrained import PretrainedEncoder

MAX_ATTEMPTS: Final = 3
"""How often an index is opened again that a rebuild replaced meanwhile."""


@dataclass(frozen=True, eq=False)
class Nearest(Hits):
    """The nearest patients of each query. Rows are those of the index as it was when it was asked."""

    _index: Snapshot

    @functools.cached_property
    def patient_ids(self) -> npt.NDArray[np.str_]:
        """(Q, k); empty where there are fewer."""
        return self._index.patient_ids(self.rows)


class PatientIndex:
    """An open index. It follows every change that is committed, from the next search on."""

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
        """What the index holds now."""
        return self.snapshot.manifest

    @property
    def snapshot(self) -> Snapshot:
        """The index after its last change; where there was none, the same object, for one call of the system."""
        known, found = self._opened
        mark = manifest_fingerprint(self._path)
        if mark is None or mark != known:
            self._opened = opened = self._open(found)
            found = opened[1]
        return found

    def _open(self, previous: Snapshot | None) -> tuple[object, Snapshot]:
        """The mark of a change and the index after it, together: several threads may ask, and each sets both or none.

        A change removes the files of the one before, so an index that was replaced meanwhile is opened again.
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
        """The k nearest patients to each of (Q, E) vectors: rows, cosines and ids."""
        now = self.snapshot
        found = now.search(_unit(vectors, now.manifest.encoder.embedding_dim), self._check_k(k), where)
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
        own_patient: bool = False,
    ) -> SimilarPatients:
        """The k patients most like a recording, a file, or a record of the index by its id; filters as ``Filter``.

        The query's own patient is left out unless ``own_patient``: the one of its patient id or, where nobody has that,
        the one who has this very recording.
        """
        now = self.snapshot
        asked, own = self._query(query, now)
        where = Filter(site, age, sex, label)
        most = min(self._check_k(k), max(now.manifest.patients, 1))
        found = now.search(asked.vector[None], most + (not own_patient), where)
        pairs = [(int(row), float(cosine)) for row, cosine in zip(found.rows[0], found.cosines[0], strict=True)]
        pairs = [(row, cosine) for row, cosine in pairs if row >= 0]
        how = "by its id"
        if own_patient:
            own = None
        elif own is None:  # names tell nothing, many files are called alike
            own = next((row for row, cosine in pairs if has_recording(now, asked, row, cosine)), None)
            how = "who has this very recording"
        pairs = [(row, cosine) for row, cosine in pairs if row != own][:k]
        neighbors = tuple(describe_neighbor(now, asked, row, cosine) for row, cosine in pairs)
        notes = list(asked.notes)
        if own is not None and asked.recording is not None:
            notes.append(f"patient {now.patient_info(own)['patient_id']} is left out: the query's own, {how}")
        if now.manifest.leads and any(not item.why for item in neighbors):
            notes.append(
                "leads are not compared where the archive of embeddings is not where it was, or shares no lead"
            )
        if len(neighbors) < k:
            notes.append(few_matches_note(len(neighbors)))
        return SimilarPatients(asked, neighbors, tuple(notes))

    def embed_query(self, query: Recording | Folder, now: Snapshot, any_lead: bool = False) -> Query:
        """A recording or file as it is searched for; ``any_lead``: by leads, too, that its encoder does not know."""
        from clocs.inference.preparation import prepare
        from clocs.inference.recordings import as_recording
        from clocs.similarity.archive.recording_vectors import pool_recording, rows_to_embed

        about, recording, encoder = now.manifest, as_recording(query), self.encoder
        ready = prepare(recording, encoder.input, any_lead=any_lead or about.any_lead)
        rows = rows_to_embed(ready, encoder.input)
        pooled = pool_recording(encoder.embed_frames(rows.frames, rows.lead_mask), ready, about.leads)
        return Query(
            record_id=recording.record_id,
            patient_id=recording.patient_id,
            vector=pooled.vector,
            leads=pooled.leads,
            recording=recording,
            notes=ready.notes,
        )

    def recording(self, record_id: str) -> Recording:
        """A recording of the index, from the store that its archive was made of."""
        now = self.snapshot
        found = now.find_record(record_id)
        if found is None:
            raise ConfigError(f"no record '{record_id}' in {self.folder}")
        archive = now.archive(found[1])
        if archive is None:
            raise StoreError(
                f"the archive of embeddings with '{record_id}' is not where it was: {self._archive_folder(found[1])}"
            )
        store = Store(archive.store_folder, archive.manifest.store.version)
        if store.sha256 != archive.manifest.store.sha256:
            raise StoreError(f"{store.folder} is another store than the one that '{record_id}' was embedded from")
        return store.recording(record_id)

    def add(self, archive: Archive | Folder) -> AdditionResult:
        """Add an archive's recordings; see ``add_archive``."""
        return add_archive(self.folder, archive)

    def delete(
        self, patient_ids: Iterable[str], *, key: Path | None = None, allow_unknown: bool = False
    ) -> DeletionResult:
        """Take patients out; see ``delete_patients``."""
        return delete_patients(self.folder, patient_ids, key=key, allow_unknown=allow_unknown)

    def rebuild(self, kind: str | None = None) -> None:
        """Write all living patients anew; see ``rebuild_index``."""
        rebuild_index(self.folder, kind)

    def _archive_folder(self, archive: int) -> Path:
        return self.folder / self.manifest.archives[archive].folder

    def _check_k(self, k: int) -> int:
        if not isinstance(k, int | np.integer) or k < 1:
            raise ConfigError(f"k is a number of neighbours from 1 on, not {k}")
        return k

    def _query(self, query: Recording | Folder, now: Snapshot) -> tuple[Query, int | None]:
        """What is searched for, and the row of its own patient, where ids tell."""
        if isinstance(query, str) and not os.path.isfile(query):
            record = now.find_record(query)
            if record is not None:
                return self._stored_query(query, record, now), record[0]
        try:
            asked = self.embed_query(query, now)
        except FormatError as error:
            raise FormatError(f"{query} is neither a record id of {self.folder} nor a readable ECG: {error}") from error
        return asked, now.row_of_patient(asked.patient_id) if asked.patient_id else None

    def _stored_query(self, record_id: str, record: tuple[int, int, int], now: Snapshot) -> Query:
        row, number, place = record
        archive = now.archive(number)
        if archive is None:
            raise StoreError(
                f"the archive of embeddings with '{record_id}' is not at {self._archive_folder(number)}, or is another now. Put "
                "it back, or ask with the file."
            )
        rows = np.array([place])
        return Query(
            record_id=record_id,
            patient_id=now.patient_info(row)["patient_id"],
            vector=archive.vectors(rows)[0],
            leads=archive.lead_vectors(rows)[0][0],
            recording=None,
        )

    @property
    def encoder(self) -> PretrainedEncoder:
        """The encoder whose vectors these are; loaded when a file is first asked with."""
        from clocs.inference.pretrained import PretrainedEncoder, load_encoder
        from clocs.training.shipped import shipped_encoders

        if self._loaded is None:
            about = self.manifest
            place = about.encoder_location
            given = self._encoder_argument or (place if place in shipped_encoders() else self.folder / place)
            loaded = given if isinstance(given, PretrainedEncoder) else load_encoder(given, device=self._device)
            if loaded.about["weights_sha256"] != about.encoder.weights_sha256:
                raise ConfigError(f"the vectors of {self.folder} were made by another encoder than {loaded.name}")
            self._loaded = loaded
        return self._loaded


def _unit(vectors: npt.NDArray[np.floating], embedding: int) -> Vectors:
    """(Q, E) vectors of unit length."""
    values = np.asarray(vectors, np.float32)
    if values.ndim != 2 or values.shape[1] != embedding:
        raise ConfigError(f"vectors must be (Q, {embedding}), not {values.shape}")
    lengths = np.sqrt(np.einsum("qe,qe->q", values, values))  # what np.linalg.norm does, in a third of its time
    if not 0 < lengths.min(initial=1) <= lengths.max(initial=1) < np.inf:
        raise ConfigError("vectors must be finite, and not all zeros")
    return np.asarray(values / lengths[:, None])


def open_index(
    folder: Folder, encoder: PretrainedEncoder | Folder | None = None, *, device: str | None = None
) -> PatientIndex:
    """Open an index of patients.

    Args:
        folder: The index's folder.
        encoder: The encoder that made its vectors, or its folder, if it was moved.
        device: Run the encoder by torch on this device. Default: ONNX Runtime.
    """
    return PatientIndex(folder, encoder, device)
