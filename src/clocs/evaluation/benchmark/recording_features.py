"""Features of recordings: embeddings of overlapping frames, pooled over time and concatenated over leads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.hashes import content_hash, seal
from clocs.core.run_identity import non_default_values
from clocs.core.storage.files import atomic_file, write_bytes
from clocs.evaluation.benchmark.embedders import EMBEDDING, Embedder, Mask
from clocs.inference.frame_pooling import OVERLAP, pool_frames
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats
from clocs.store.frames import Frames
from clocs.store.store import Store

Ints = npt.NDArray[np.int64]
RECORDS_PER_PART = 512
"""Recordings in a cached file. A killed computation continues after the last complete file."""
FRAMES_PER_BATCH = 16
"""Frames that are read and embedded at a time."""
CACHE_FORMAT = 1
"""Version of the cached features. Increase it when features of the same inputs change."""


@dataclass(frozen=True)
class RecordingFeatures:
    """Features of all recordings of a store, in its order."""

    values: Floats
    """Features (recordings, D). NaN where a recording has no frame, or lacks a lead."""
    num_frames: Ints
    """Number of frames of each recording, (recordings,)."""
    leads: tuple[str, ...]
    """Leads that the features are computed from."""

    @property
    def dimension(self) -> int:
        """D, the dimension of the features."""
        return int(self.values.shape[1])


def select_leads(features: RecordingFeatures, leads: Sequence[str], *, num_statistics: int) -> RecordingFeatures:
    """Return the features of some leads, for an embedder of single leads.

    Args:
        features: Features of all leads.
        leads: Leads to keep, in the order of the new features.
        num_statistics: Number of statistics over frames, each with the values of all leads.

    Example:
        >>> features = RecordingFeatures(np.arange(8.0, dtype=np.float32)[None], np.array([3]), ("I", "II"))
        >>> select_leads(features, ("II",), num_statistics=2).values
        array([[2., 3., 6., 7.]], dtype=float32)
    """
    chosen = [features.leads.index(lead) for lead in leads]
    by_lead = features.values.reshape(len(features.values), num_statistics, len(features.leads), -1)
    values = by_lead[:, :, chosen].reshape(len(by_lead), -1)
    return RecordingFeatures(values, features.num_frames, tuple(leads))


def recording_policy(
    embedder: Embedder, store: Store, *, leads: Sequence[str] = (), overlap: float = OVERLAP
) -> FramePolicy:
    """Return the frames of recordings that an embedder gets.

    Frames may lack leads. Signals without a known gain are scaled to the amplitude of a typical lead if the embedder
    takes millivolt.

    Args:
        embedder: The embedder.
        store: The store.
        leads: Leads for an embedder of single leads; empty for those that most recordings of the store have.
        overlap: Fraction of a frame that the next one repeats.

    Raises:
        ConfigError: Leads are passed for an embedder that takes several leads at once.
    """
    if leads and embedder.all_leads:
        raise ConfigError(
            f"embedder '{embedder.name}' takes {', '.join(embedder.policy.leads)} at once. Do not pass leads."
        )
    changes: dict[str, Any] = {"overlap": overlap, "allow_missing_leads": True, "num_segments": 1}
    if not embedder.all_leads:
        changes["leads"] = tuple(leads) or Frames(store, embedder.policy, all_leads=True).leads
    if embedder.policy.normalization == "none" and {str(shard.unit) for shard in store.shards} == {"adu"}:
        changes["normalization"] = "typical"
    if "evaluation" in store.manifest.dataset["frame_policies"]:
        changes["excluded_leads"] = store.frame_policy("evaluation").excluded_leads
    return embedder.policy.model_copy(update=changes)


def recording_features(
    embedder: Embedder,
    store: Store,
    *,
    cache: str | os.PathLike[str] | None = None,
    leads: Sequence[str] = (),
    overlap: float = OVERLAP,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, RecordingFeatures]:
    """Compute the features of all recordings of a store.

    Frames of a recording overlap by half. Their embeddings, concatenated over leads for an embedder of single leads,
    are reduced to the statistics that the embedder states: by default mean, maximum and minimum over frames.

    Args:
        embedder: The embedder.
        store: The store.
        cache: Folder of cached features. A killed computation continues where it ended. None: nothing is saved.
        leads: Leads for an embedder of single leads; empty for those that most recordings of the store have.
        overlap: Fraction of a frame that the next one repeats.
        on_progress: Called with the number of finished recordings and of all recordings.

    Returns:
        Features by the name of the output: ``embedding`` and, for an embedder with components, ``adapted``.

    Example:
        >>> from clocs.evaluation.benchmark.embedders import load_embedder
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4, "leads": 2})
        >>> recording_features(load_embedder("clocs-small"), store)["embedding"].values.shape
        (4, 768)
    """
    policy = recording_policy(embedder, store, leads=leads, overlap=overlap)
    frames = Frames(store, policy, all_leads=True)

    def compute(items: Ints, record: Ints, count: int) -> dict[str, Floats]:
        outputs = _embed_items(embedder, frames, items)
        if not len(items):
            return {name: np.empty((count, 0), np.float32) for name in outputs}
        return {name: pool_frames(values, record, count, embedder.pooling) for name, values in outputs.items()}

    folder = None if cache is None else _cache_folder(Path(cache), embedder, store, policy, embedder.pooling)
    items, record = _items_by_record(frames)
    parts = _by_parts(items, record, len(store), compute, embedder.outputs, folder, on_progress)
    counts = np.bincount(record, minlength=len(store)).astype(np.int64)
    return {name: RecordingFeatures(_concatenated(values), counts, frames.leads) for name, values in parts.items()}


@dataclass(frozen=True)
class FrameEmbeddings:
    """Embeddings of all frames of a store, ordered by recording."""

    values: Floats
    """Embeddings (frames, leads, E); one vector in place of the leads if the embedder takes them at once. NaN where a
    lead is missing."""
    record: Ints
    """Index of each frame's recording, (frames,), ascending."""


def frame_embeddings(
    embedder: Embedder, store: Store, *, cache: str | os.PathLike[str] | None = None
) -> FrameEmbeddings:
    """Compute the embeddings of all frames of a store. Arguments are those of :func:`recording_features`.

    Example:
        >>> from clocs.evaluation.benchmark.embedders import load_embedder
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4, "leads": 2})
        >>> frame_embeddings(load_embedder("clocs-small"), store).values.shape
        (12, 2, 128)
    """
    policy = recording_policy(embedder, store)
    frames = Frames(store, policy, all_leads=True)

    def compute(items: Ints, record: Ints, count: int) -> dict[str, Floats]:
        return {EMBEDDING: _embed_items(embedder, frames, items)[EMBEDDING]}

    folder = None if cache is None else _cache_folder(Path(cache), embedder, store, policy, "frames")
    items, record = _items_by_record(frames)
    parts = _by_parts(items, record, len(store), compute, (EMBEDDING,), folder)[EMBEDDING]
    if not len(items):
        raise ConfigError(f"No recording of {store.folder} has a frame of embedder '{embedder.name}'.")
    values = np.concatenate([part for part in parts if len(part)])
    return FrameEmbeddings(values.reshape(len(values), 1 if embedder.all_leads else len(frames.leads), -1), record)


def _items_by_record(frames: Frames) -> tuple[Ints, Ints]:
    """Return all items, ordered by recording, and the recording of each."""
    items = np.arange(len(frames))
    record = frames.recording_indices(items) if len(items) else items
    order = np.argsort(record, kind="stable")
    return items[order], record[order]


def _by_parts(
    items: Ints,
    record: Ints,
    num_records: int,
    compute: Callable[[Ints, Ints, int], dict[str, Floats]],
    names: Sequence[str],
    folder: Path | None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, list[Floats]]:
    """Compute or read the outputs of all parts. ``compute`` takes items, recordings from 0, and their number."""
    parts: dict[str, list[Floats]] = {name: [] for name in names}
    for number, begin in enumerate(range(0, num_records, RECORDS_PER_PART)):
        end = min(begin + RECORDS_PER_PART, num_records)
        first, last = np.searchsorted(record, [begin, end])
        found = None if folder is None else _read_part(folder, names, number)
        if found is None:
            found = compute(items[first:last], record[first:last] - begin, end - begin)
            if folder is not None:
                _write_part(folder, found, number)
        for name, values in found.items():
            parts[name].append(values)
        on_progress(end, num_records)
    return parts


def embed_frames(embedder: Embedder, signals: Floats, lead_mask: Mask) -> dict[str, Floats]:
    """Return every output of frames of all leads, each (N, D), with leads concatenated.

    Args:
        embedder: The embedder.
        signals: Frames (N, C, S) of all leads.
        lead_mask: False where a lead is missing, (N, C).

    Returns:
        Outputs by name. An embedder of single leads has NaN for missing ones.
    """
    if embedder.all_leads:
        return embedder.embed_all(signals, lead_mask)
    count, channels, _ = signals.shape
    rows = signals.reshape(count * channels, 1, -1)
    outputs = embedder.embed_all(rows, np.ones((len(rows), 1), np.bool_))
    missing = ~lead_mask.reshape(-1)
    for values in outputs.values():
        values[missing] = np.nan
    return {name: values.reshape(count, -1) for name, values in outputs.items()}


def _embed_items(embedder: Embedder, frames: Frames, items: Ints) -> dict[str, Floats]:
    """Return every output of items, each (N, D); (0, 0) without items."""
    outputs: dict[str, list[Floats]] = {name: [] for name in embedder.outputs}
    for begin in range(0, len(items), FRAMES_PER_BATCH):
        batch = items[begin : begin + FRAMES_PER_BATCH]
        for name, values in embed_frames(embedder, frames.views(batch)[:, 0], frames.lead_mask(batch)).items():
            outputs[name].append(values)
    return {name: np.concatenate(each) if each else np.empty((0, 0), np.float32) for name, each in outputs.items()}


def _cache_folder(
    cache: Path, embedder: Embedder, store: Store, policy: FramePolicy, pooling: str | Sequence[str]
) -> Path:
    """Return the folder of the features of a store, named by a hash of everything that determines them."""
    origin = {
        "format": CACHE_FORMAT,
        "store": store.sha256,
        "embedder": embedder.identity,
        "outputs": embedder.outputs,
        "frames": non_default_values(policy),
        "pooling": pooling,
    }
    folder = cache / f"{Path(embedder.name).name}-{content_hash(origin)[:16]}"
    write_bytes(folder / "origin.json", seal(origin))
    return folder


def _part_path(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}-{number:05d}.npy"


def _read_part(folder: Path, names: Sequence[str], number: int) -> dict[str, Floats] | None:
    """Return the cached features of a part; None if one is missing or damaged."""
    try:
        return {name: np.load(_part_path(folder, name, number), allow_pickle=False) for name in names}
    except (OSError, ValueError, EOFError):
        return None


def _write_part(folder: Path, parts: dict[str, Floats], number: int) -> None:
    for name, values in parts.items():
        with atomic_file(_part_path(folder, name, number)) as file:
            np.save(file, values)


def _concatenated(parts: list[Floats]) -> Floats:
    """Return the parts as one array (recordings, D). Parts without any frame have D = 0 and become NaN."""
    dimension = max((part.shape[1] for part in parts), default=0)
    values = np.full((sum(map(len, parts)), dimension), np.nan, np.float32)
    begin = 0
    for part in parts:
        values[begin : begin + len(part), : part.shape[1]] = part
        begin += len(part)
    return values
