"""Selection of the patients that a search returns.

The query's own patient is left out, patients without a lead of the query are not compared, and patients beyond the
index's limit of distance are hidden. Each has a sentence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from clocs.core.errors import ConfigError, StoreError
from clocs.core.recording import Recording
from clocs.inference.preparation import format_leads
from clocs.inference.results import percent
from clocs.signals.resampling import resample
from clocs.similarity.archive.archive import Archive
from clocs.similarity.index.filters import Filter
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.segments import Vectors

SAME_RECORDING_COSINE: Final = 1 - 1e-6
"""Minimum cosine of two embeddings of the same recording."""
SIMILAR_RECORDING_COSINE: Final = 0.9
"""Minimum cosine of two embeddings whose recordings are compared by their signals."""
SAME_SIGNAL_CORRELATION: Final = 0.99
"""Minimum correlation of two signals of the same ECG."""
ReadRecording = Callable[[str], Recording]
"""Function that reads a recording of the index by its id."""


@dataclass(frozen=True, eq=False)
class Query:
    """An embedded query."""

    record_id: str
    patient_id: str
    """Patient id; empty if unknown."""
    vector: Vectors
    """Vector of the recording, unit length, shape (E,)."""
    leads: Vectors
    """Vectors of single leads, unit length, shape (L, E); zeros if a lead is absent."""
    lead_names: tuple[str, ...]
    """Leads that were embedded."""
    recording: Recording | None
    """The recording; None if it is part of the index."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Matches:
    """Patients that a search returns."""

    rows: tuple[tuple[int, float], ...]
    """Rows and cosines, the most similar first."""
    own: int | None
    """Row of the query's own patient, who is left out; None if the index does not have this patient."""
    num_hidden: int
    """Number of patients among the k nearest that are hidden, because they are too distant."""
    notes: tuple[str, ...]
    """Sentences on patients that are hidden, not compared, or missing."""


def match_patients(
    now: Snapshot,
    query: Query,
    k: int,
    where: Filter,
    *,
    own: int | None = None,
    include_own_patient: bool = False,
    read_recording: ReadRecording,
) -> Matches:
    """Return the k patients most similar to a query that meet the conditions and may be shown.

    Args:
        now: State of the index.
        query: The query.
        k: Number of patients.
        where: Conditions on the patients.
        own: Row of the query's own patient. None: it is recognized by the same recording in the index.
        include_own_patient: Do not leave out the query's own patient.
        read_recording: Function that reads a recording of the index.
    """
    comparable = replace(where, leads=query.lead_names if now.manifest.leads else ())
    found = now.search(query.vector[None], k + (not include_own_patient), comparable)
    pairs = [(int(row), float(cosine)) for row, cosine in zip(found.rows[0], found.cosines[0], strict=True)]
    pairs = [(row, cosine) for row, cosine in pairs if row >= 0]
    if include_own_patient:
        own = None
    elif own is None:
        own = _own_patient(now, query, pairs, read_recording)
    pairs = [(row, cosine) for row, cosine in pairs if row != own][:k]
    limit = now.manifest.limit
    shown = [pair for pair in pairs if limit is None or 1 - pair[1] <= limit.distance]
    notes = []
    if num_others := now.count(where) - now.count(comparable):
        others = "1 patient is" if num_others == 1 else f"{num_others:,} patients are"
        notes.append(f"{others} not compared: no embedding of {format_leads(comparable.leads)}.")
    if len(shown) < len(pairs) and limit is not None:
        hidden, few = len(pairs) - len(shown), percent(limit.exceeded)
        which = f"{hidden} of the {len(pairs)} nearest patients are" if shown else "All patients are"
        notes.append(
            f"{which} hidden: their distance is over {limit.distance:.3f}, so they are not similar. Of "
            f"{limit.recordings:,} {limit.part} recordings, {few} have no patient within this distance."
        )
    if len(pairs) < k:
        notes.append(_few_matches_note(len(pairs)))
    return Matches(tuple(shown), own, len(pairs) - len(shown), tuple(notes))


def _few_matches_note(found: int) -> str:
    """Return the note for a search that found fewer patients than requested."""
    if not found:
        return "No patient of the index matches."
    return "Only 1 patient of the index matches." if found == 1 else f"Only {found} patients of the index match."


def _own_patient(
    now: Snapshot, query: Query, pairs: Sequence[tuple[int, float]], read_recording: ReadRecording
) -> int | None:
    """Return the row of the patient who has the query's recording, recognized by embedding or signal."""
    return next((row for row, cosine in pairs if _has_query(now, query, row, cosine, read_recording)), None)


def _has_query(now: Snapshot, query: Query, row: int, cosine: float, read_recording: ReadRecording) -> bool:
    likeness_of = _recording_cosines(now, query, row, cosine)
    if any(likeness >= SAME_RECORDING_COSINE for _, likeness in likeness_of):
        return True
    if query.recording is None:
        return False
    for record_id, likeness in likeness_of:
        with contextlib.suppress(ConfigError, StoreError):  # a moved archive leaves only the embedding
            if likeness >= SIMILAR_RECORDING_COSINE and _is_same_signal(query.recording, read_recording(record_id)):
                return True
    return False


def _recording_cosines(now: Snapshot, query: Query, row: int, cosine: float) -> list[tuple[str, float]]:
    """Return the ids of a patient's recordings with their cosines to the query; only those whose archive is available
    if there are several."""
    recordings = now.patient_info(row)["recordings"]
    if len(recordings) == 1:
        return [(recordings[0]["record_id"], cosine)]
    located = [(item["record_id"], locate_recording(now, item)) for item in recordings]
    return [(record_id, recording_cosine(place, query)) for record_id, place in located if place is not None]


def _is_same_signal(query: Recording, held: Recording) -> bool:
    """Return True if two recordings are the same ECG, whatever their formats, steps and sampling rates.

    Leads that both have must be correlated by at least ``SAME_SIGNAL_CORRELATION``, from the first sample on.
    """
    shared = [lead for lead in query.leads if lead in held.leads]
    if not shared or abs(query.seconds - held.seconds) > 0.1:
        return False
    signals = (np.nan_to_num(recording.select(shared).physical()) for recording in (query, held))
    one, other = next(signals), resample(next(signals), held.sampling_rate, query.sampling_rate)
    length = min(one.shape[1], other.shape[1])
    one, other = (values[:, :length] - values[:, :length].mean(axis=1, keepdims=True) for values in (one, other))
    sizes = np.sqrt(np.square(one).sum(axis=1) * np.square(other).sum(axis=1))
    return bool(((one * other).sum(axis=1) >= SAME_SIGNAL_CORRELATION * np.maximum(sizes, 1e-9)).all())


def locate_recording(now: Snapshot, recording: dict[str, Any]) -> tuple[Archive, int] | None:
    """Return the archive of a patient's recording and its row there; None if the archive is not available."""
    return now.locate(recording["archive"], recording["record_id"], recording["row"])


def recording_cosine(place: tuple[Archive, int], query: Query) -> float:
    """Return the cosine of a recording of an archive and a query."""
    archive, row = place
    return float(archive.vectors(np.array([row]))[0] @ query.vector)
