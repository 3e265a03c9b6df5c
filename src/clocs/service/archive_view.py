"""An index as the service shows it: neighbours of a recording, their previews, and the map they lie on."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.core.seeds import generator
from clocs.datasets.deidentifying import POOLED_AGE
from clocs.evaluation.pretrained import PretrainedEncoder
from clocs.service.parsing.reading import nameless
from clocs.signals.leads import derive
from clocs.similarity.archive.recording_vectors import pool_recording
from clocs.similarity.index.filters import Filter
from clocs.similarity.index.manifest import NAME, IndexManifest, manifest_mark
from clocs.similarity.index.neighbours import Neighbour, Query, few_fit, neighbour_of
from clocs.similarity.index.search import PatientIndex
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.segments import Ints, Vectors

MOST_POINTS: Final = 5000
FEWEST_POINTS: Final = 3
INFANT: Final = 2.0
"""Years below which an age is told in months."""
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

    neighbour: Neighbour
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

    mark: object
    snapshot: Snapshot
    map: PatientsMap


class ArchiveView:
    """An open index. It follows every change that is committed, from the next question on."""

    def __init__(self, folder: Path, encoder: PretrainedEncoder | str | None = None) -> None:
        self._folder = folder
        self._index = PatientIndex(folder, encoder)
        self.encoder = self._index.encoder
        self._lock = threading.Lock()
        self._state = self._opened()

    @property
    def manifest(self) -> IndexManifest:
        """What the index holds now."""
        return self._index.manifest

    @property
    def map(self) -> PatientsMap:
        """The map as it is now."""
        return self._now().map

    def similar(self, recording: Recording, k: int, wanted: Filter, any_lead: bool = False) -> Search:
        """The k patients most like a recording, among those the filter wants."""
        now = self._now()
        query = self._query(recording, now.snapshot.manifest, any_lead)
        hits = now.snapshot.search(query.vector[None], k, wanted)
        found = []
        for row, cosine in zip(hits.rows[0].tolist(), hits.cosines[0].tolist(), strict=True):
            if row >= 0:
                neighbour = neighbour_of(now.snapshot, query, row, min(cosine, 1.0))
                at = now.map.plane.place(_vectors(now.snapshot, np.array([row]))[0]) if now.map.plane else None
                found.append(Found(neighbour, at))
        notes = list(query.notes)
        if any(not item.neighbour.why for item in found):
            notes.append("leads are not compared where the archive of embeddings is missing, or shares no lead")
        if len(found) < k:
            notes.append(few_fit(len(found)))
        return Search(found, now.map.plane.place(query.vector) if now.map.plane else None, notes)

    def recording(self, record_id: str) -> Recording:
        """A recording of the index with its labels and the leads that can be derived, without names."""
        held = self._index.recording(record_id)
        return replace(nameless(derive(held)), labels=held.labels)

    def _query(self, recording: Recording, about: IndexManifest, any_lead: bool) -> Query:
        made = self.encoder.embed(recording, any_lead=any_lead or about.any_lead)
        leads = (*about.leads, *(lead for lead in dict.fromkeys(made.lead) if lead not in about.leads))
        pooled = pool_recording(made.values, made.lead, leads)
        return Query("", "", pooled.whole, pooled.leads[: len(about.leads)], recording, made.notes)

    def _now(self) -> _State:
        if manifest_mark(str(self._folder / NAME)) != self._state.mark:
            with self._lock:
                if manifest_mark(str(self._folder / NAME)) != self._state.mark:
                    self._state = self._opened()
        return self._state

    def _opened(self) -> _State:
        mark = manifest_mark(str(self._folder / NAME))
        snapshot = Snapshot(self._folder)
        return _State(mark, snapshot, _map_of(snapshot))


def shown_age(age: float | None) -> float | None:
    """Whole years, but of infants as it is; everyone above 90 is 90, since few are that old."""
    return age if age is None or age < INFANT else float(int(min(age, POOLED_AGE)))


def age_band(first: float | None, last: float | None) -> tuple[float, float] | None:
    """The ages of which ``shown_age`` shows ``first`` to ``last`` years; None: any."""
    if first is None and last is None:
        return None
    if first is not None and last is not None and first > last:
        raise ConfigError(f"an age band goes from the younger to the older, not from {first:g} to {last:g}")
    youngest = min(first or 0.0, POOLED_AGE)
    return youngest, math.inf if last is None or last >= POOLED_AGE else math.nextafter(math.floor(last) + 1, 0)


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
