"""An index as the service shows it: neighbours of a recording, their previews, and the map they lie on."""

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
from clocs.service.parsing.reading import nameless
from clocs.signals.leads import add_derived_leads
from clocs.similarity.index.filters import Filter
from clocs.similarity.index.manifest import IndexManifest
from clocs.similarity.index.neighbors import Neighbor, describe_neighbor, few_matches_note
from clocs.similarity.index.search import PatientIndex
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.segments import Ints, Vectors

MOST_POINTS: Final = 5000
FEWEST_POINTS: Final = 3
COLUMNS: Final = ("labels", "age", "sex", "site")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plane:
    """The two directions in which the patients of an index differ most."""

    mean: Floats
    """(E,)"""
    axes: Floats
    """(E, 2)"""
    explained: tuple[float, float]
    """Shares of the variance."""

    def place(self, vector: Vectors) -> tuple[float, float]:
        """Where a vector (E,) lies."""
        x, y = (vector.astype(np.float64) - self.mean) @ self.axes
        return round(float(x), 5), round(float(y), 5)


@dataclass(frozen=True, eq=False)
class PatientsMap:
    """Some patients of an index in the plane, and what is known of them; nobody's id."""

    plane: Plane | None
    """None: too few patients for a map."""
    rows: list[dict[str, Any]]
    """One a point: ``labels``, ``age``, ``sex``, ``site``, ``at``."""


@dataclass(frozen=True)
class Found:
    """A neighbour and its place."""

    neighbor: Neighbor
    at: tuple[float, float] | None


@dataclass(frozen=True)
class Search:
    """The patients like a recording, the nearest first."""

    found: list[Found]
    at: tuple[float, float] | None
    """The query's own place on the map."""
    notes: list[str]


@dataclass(frozen=True, eq=False)
class _State:
    """An index after one change."""

    snapshot: Snapshot
    map: PatientsMap


class ArchiveView:
    """An open index. It follows every change that is committed, from the next question on."""

    def __init__(self, folder: Path, encoder: PretrainedEncoder | str | None = None, device: str | None = None) -> None:
        self._index = PatientIndex(folder, encoder, device)
        self.encoder = self._index.encoder
        self._lock = threading.Lock()
        snapshot = self._index.snapshot
        self._state = _State(snapshot, _map_of(snapshot))

    @property
    def manifest(self) -> IndexManifest:
        """What the index holds now."""
        return self._index.manifest

    @property
    def folders(self) -> dict[str, Path]:
        """The folders of the index, its archives and their stores, by what they are."""
        snapshot = self._index.snapshot
        found = {"index": snapshot.folder}
        for number, info in enumerate(snapshot.manifest.archives, start=1):
            found[f"archive {number}"] = snapshot.folder / info.folder
            if (archive := snapshot.archive(number - 1)) is not None:
                found[f"store {number}"] = archive.store_folder
        return found

    @property
    def map(self) -> PatientsMap:
        """The map as it is now."""
        return self._now().map

    def similar(self, recording: Recording, k: int, wanted: Filter, any_lead: bool = False) -> Search:
        """The k patients most like a recording, among those the filter wants."""
        now = self._now()
        query = self._index.embed_query(recording, now.snapshot, any_lead)
        hits = now.snapshot.search(query.vector[None], k, wanted)
        found = []
        for row, cosine in zip(hits.rows[0].tolist(), hits.cosines[0].tolist(), strict=True):
            if row >= 0:
                neighbor = describe_neighbor(now.snapshot, query, row, min(cosine, 1.0))
                at = now.map.plane.place(_vectors(now.snapshot, np.array([row]))[0]) if now.map.plane else None
                found.append(Found(neighbor, at))
        notes = list(query.notes)
        if self.manifest.leads and any(not item.neighbor.why for item in found):
            notes.append("leads are not compared where the archive of embeddings is missing, or shares no lead")
        if len(found) < k:
            notes.append(few_matches_note(len(found)))
        return Search(found, now.map.plane.place(query.vector) if now.map.plane else None, notes)

    def recording(self, record_id: str) -> Recording | None:
        """A recording of the index with its labels and the leads that can be derived, without names; None: no more."""
        if self._index.snapshot.find_record(record_id) is None:
            return None
        held = self._index.recording(record_id)
        return replace(nameless(add_derived_leads(held)), labels=held.labels)

    def _now(self) -> _State:
        """The index as it is now; another map is made by one thread while others wait for it."""
        state = self._state
        if state.snapshot is not self._index.snapshot:
            with self._lock:
                snapshot = self._index.snapshot
                if self._state.snapshot is not snapshot:
                    self._state = _State(snapshot, _map_of(snapshot))
                state = self._state
        return state


def _map_of(snapshot: Snapshot) -> PatientsMap:
    rows = _drawn_rows(snapshot)
    if len(rows) < FEWEST_POINTS:
        return PatientsMap(None, [])
    vectors = _vectors(snapshot, rows).astype(np.float64)
    mean = vectors.mean(axis=0)
    variance, axes = np.linalg.eigh(np.cov(vectors - mean, rowvar=False))
    total = max(float(variance.sum()), np.finfo(float).tiny)
    largest = np.argmax(np.abs(axes), axis=0)
    axes = axes * np.sign(axes[largest, np.arange(axes.shape[1])])  # else the sign is the library's choice
    explained = (max(0.0, float(variance[-1]) / total), max(0.0, float(variance[-2]) / total))
    plane = Plane(mean, axes[:, [-1, -2]], explained)
    told = _facts(snapshot, rows)
    for row, vector in zip(told, vectors, strict=True):
        row["at"] = plane.place(vector)
    return PatientsMap(plane, told)


def _drawn_rows(snapshot: Snapshot) -> Ints:
    """Rows of living patients, ascending; of very many, some by a fixed lot."""
    total = int(snapshot.first[-1])
    lot = generator(0, "service", "map")
    rows = np.arange(total) if total <= 2 * MOST_POINTS else lot.choice(total, 2 * MOST_POINTS, replace=False)
    living = rows[~np.isin(rows, snapshot.dead)]
    return np.sort(living if len(living) <= MOST_POINTS else lot.choice(living, MOST_POINTS, replace=False))


def _vectors(snapshot: Snapshot, rows: Ints) -> Vectors:
    """(n, E) of ascending rows numbered through all volumes."""
    parts = [
        volume.vectors[rows[(rows >= low) & (rows < high)] - low]
        for volume, low, high in zip(snapshot.volumes, snapshot.first, snapshot.first[1:], strict=False)
    ]
    return np.concatenate(parts)


def _facts(snapshot: Snapshot, rows: Ints) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for volume, low, high in zip(snapshot.volumes, snapshot.first, snapshot.first[1:], strict=False):
        here = rows[(rows >= low) & (rows < high)] - low
        found += volume.patients.select(list(COLUMNS)).take(here).to_pylist()
    return found
