"""Queries of the service to an index: similar patients, previews and a map."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Recording
from clocs.core.seeds import generator
from clocs.inference.pretrained import PretrainedEncoder
from clocs.service.parsing.reading import remove_identity
from clocs.signals.leads import add_derived_leads
from clocs.similarity.index.filters import Filter
from clocs.similarity.index.manifest import IndexManifest
from clocs.similarity.index.matching import match_patients
from clocs.similarity.index.neighbors import Neighbor, describe_neighbor
from clocs.similarity.index.patient_index import PatientIndex
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.segments import Ints, Vectors

MAX_POINTS: Final = 5000
MIN_POINTS: Final = 3
COLUMNS: Final = ("labels", "age", "sex", "site")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plane:
    """Plane of the first two principal components of an index's patients."""

    mean: Floats
    """Mean vector, shape (E,)."""
    axes: Floats
    """Principal axes, shape (E, 2)."""
    explained: tuple[float, float]
    """Share of the variance along each axis."""

    def project(self, vector: Vectors) -> tuple[float, float]:
        """Return the coordinates of a vector (E,)."""
        x, y = (vector.astype(np.float64) - self.mean) @ self.axes
        return round(float(x), 5), round(float(y), 5)


@dataclass(frozen=True, eq=False)
class IndexMap:
    """Patients of an index on a two-dimensional map, without ids."""

    plane: Plane | None
    """The plane; None if there are too few patients for a map."""
    rows: list[dict[str, Any]]
    """One dictionary per point: ``labels``, ``age``, ``sex``, ``site`` and ``position``."""


@dataclass(frozen=True)
class MappedNeighbor:
    """A similar patient and the position on the map."""

    neighbor: Neighbor
    position: tuple[float, float] | None


@dataclass(frozen=True)
class SearchResult:
    """Patients similar to a recording, the most similar first."""

    found: list[MappedNeighbor]
    num_hidden: int
    """Number of patients among the k nearest that are hidden, because they are too distant."""
    position: tuple[float, float] | None
    """Position of the query on the map."""
    notes: list[str]


@dataclass(frozen=True, eq=False)
class _State:
    """Snapshot of an index with its map."""

    snapshot: Snapshot
    map: IndexMap


class ArchiveView:
    """An open index that follows every committed change."""

    def __init__(self, folder: Path, encoder: PretrainedEncoder | str | None = None, device: str | None = None) -> None:
        self._index = PatientIndex(folder, encoder, device)
        self.encoder = self._index.encoder
        self._lock = threading.Lock()
        snapshot = self._index.snapshot
        self._state = _State(snapshot, _make_map(snapshot))

    @property
    def manifest(self) -> IndexManifest:
        """Manifest after the last change."""
        return self._index.manifest

    @property
    def folders(self) -> dict[str, Path]:
        """Folders of the index, its archives and their stores, by description."""
        snapshot = self._index.snapshot
        found = {"index": snapshot.folder}
        for number, info in enumerate(snapshot.manifest.archives, start=1):
            found[f"archive {number}"] = snapshot.folder / info.folder
            if (archive := snapshot.archive(number - 1)) is not None:
                found[f"store {number}"] = archive.store_folder
        return found

    @property
    def map(self) -> IndexMap:
        """Map after the last change."""
        return self._now().map

    def similar(self, recording: Recording, k: int, where: Filter, any_lead: bool = False) -> SearchResult:
        """Find the k patients most similar to a recording that meet the conditions.

        The recording's own patient is left out, known by patient id, or by the same recording in the index. Patients
        beyond the index's limit of distance are hidden.
        """
        now = self._now()
        query = self._index.embed_query(recording, now.snapshot, any_lead)
        own = now.snapshot.row_of_patient(query.patient_id) if query.patient_id else None
        matches = match_patients(now.snapshot, query, k, where, own=own, read_recording=self._index.recording)
        found = []
        for row, cosine in matches.rows:
            neighbor = describe_neighbor(now.snapshot, query, row, min(cosine, 1.0))
            position = now.map.plane.project(_vectors(now.snapshot, np.array([row]))[0]) if now.map.plane else None
            found.append(MappedNeighbor(neighbor, position))
        notes = list(query.notes)
        if matches.own is not None:
            what = "recording; its patient" if own is None else "patient, who"
            notes.append(f"The index has this {what} is left out.")
        if self.manifest.leads and any(not item.neighbor.why for item in found):
            notes.append("Single leads are not compared if the archive is missing.")
        position = now.map.plane.project(query.vector) if now.map.plane else None
        return SearchResult(found, matches.num_hidden, position, [*notes, *matches.notes])

    def recording(self, record_id: str) -> Recording | None:
        """Return a recording of the index without identity, with labels and derived leads; None if it was deleted."""
        if self._index.snapshot.find_record(record_id) is None:
            return None
        held = self._index.recording(record_id)
        return replace(remove_identity(add_derived_leads(held)), labels=held.labels)

    def _now(self) -> _State:
        """Return the current state. After a change, one thread computes the new map while others wait."""
        state = self._state
        if state.snapshot is not self._index.snapshot:
            with self._lock:
                snapshot = self._index.snapshot
                if self._state.snapshot is not snapshot:
                    self._state = _State(snapshot, _make_map(snapshot))
                state = self._state
        return state


def _make_map(snapshot: Snapshot) -> IndexMap:
    rows = _sample_rows(snapshot)
    if len(rows) < MIN_POINTS:
        return IndexMap(None, [])
    vectors = _vectors(snapshot, rows).astype(np.float64)
    mean = vectors.mean(axis=0)
    variance, axes = np.linalg.eigh(np.cov(vectors - mean, rowvar=False))
    total = max(float(variance.sum()), np.finfo(float).tiny)
    largest = np.argmax(np.abs(axes), axis=0)
    axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])  # makes the sign independent of the library
    explained = (max(0.0, float(variance[-1]) / total), max(0.0, float(variance[-2]) / total))
    plane = Plane(mean, axes[:, [-1, -2]], explained)
    metadata = _patient_metadata(snapshot, rows)
    for row, vector in zip(metadata, vectors, strict=True):
        row["position"] = plane.project(vector)
    return IndexMap(plane, metadata)


def _sample_rows(snapshot: Snapshot) -> Ints:
    """Return sorted rows of live patients, a fixed random sample if there are many."""
    total = int(snapshot.first[-1])
    random = generator(0, "service", "map")
    rows = np.arange(total) if total <= 2 * MAX_POINTS else random.choice(total, 2 * MAX_POINTS, replace=False)
    live = rows[~np.isin(rows, snapshot.dead)]
    return np.sort(live if len(live) <= MAX_POINTS else random.choice(live, MAX_POINTS, replace=False))


def _vectors(snapshot: Snapshot, rows: Ints) -> Vectors:
    """Return vectors (n, E) of sorted rows that are numbered over all volumes."""
    parts = [
        volume.vectors[rows[(rows >= low) & (rows < high)] - low]
        for volume, low, high in zip(snapshot.volumes, snapshot.first, snapshot.first[1:], strict=False)
    ]
    return np.concatenate(parts)


def _patient_metadata(snapshot: Snapshot, rows: Ints) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for volume, low, high in zip(snapshot.volumes, snapshot.first, snapshot.first[1:], strict=False):
        here = rows[(rows >= low) & (rows < high)] - low
        found += volume.patients.select(list(COLUMNS)).take(here).to_pylist()
    return found
