"""Inputs of networks that are trained on recordings: random crops in training, all overlapping frames in test."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np

from clocs.core.storage.files import lock_folder
from clocs.evaluation.benchmark.embedders import Embedder, Mask
from clocs.evaluation.benchmark.feature_transforms import Standardization
from clocs.evaluation.benchmark.recording_features import Ints, frame_embeddings, recording_policy
from clocs.signals.resampling import Floats
from clocs.store.frames import Frames
from clocs.store.store import Store


class RecordingInputs(ABC):
    """Inputs (C, S) of the recordings of a store, with masks (C,) of what is present."""

    num_channels: int
    """C: leads of a frame."""

    @property
    @abstractmethod
    def available(self) -> Mask:
        """Recordings that have an input, (recordings,)."""

    @abstractmethod
    def sample(self, records: Ints, random: np.random.Generator) -> tuple[Floats, Mask]:
        """Return one input of each recording for a training step.

        Args:
            records: Indices of recordings, (B,).
            random: Generator of the draws.

        Returns:
            Inputs (B, C, S) and masks (B, C).
        """

    @abstractmethod
    def read_all(self, records: Ints, limit: int | None = None) -> tuple[Floats, Mask, Ints]:
        """Return the inputs of recordings for a prediction.

        Args:
            records: Indices of recordings, (B,).
            limit: Maximum number of inputs of a recording, evenly spaced; None for all.

        Returns:
            Inputs (N, C, S), masks (N, C), and for each the index into ``records``, (N,), ascending.
        """


class FrameInputs(RecordingInputs):
    """Frames of all leads. Training crops begin at any sample, unless frames are normalized one by one.

    Args:
        embedder: Embedder whose frames are read.
        store: The store.
        cache: Folder of cached frames, which is used if recordings are resampled.
    """

    def __init__(self, embedder: Embedder, store: Store, cache: str | os.PathLike[str]) -> None:
        policy = recording_policy(embedder, store)
        frames = Frames(store, policy, all_leads=True)
        is_resampled = any(shard.sampling_rate != policy.sampling_rate for shard in store.shards)
        self._frames = frames
        if is_resampled and len(frames):
            with lock_folder(Path(cache), wait=True):  # several cells may need the same file
                self._frames = frames.cached(cache)
        record, number, _ = frames.locate(np.arange(len(frames)))
        self._index = _RecordIndex(record, number, len(store))
        self._hop = policy.hop_length(policy.sampling_rate or 0.0) if policy.normalization == "none" else None
        self.num_channels = len(frames.leads)

    @property
    def available(self) -> Mask:
        """Recordings with a frame, (recordings,)."""
        return self._index.counts > 0

    def sample(self, records: Ints, random: np.random.Generator) -> tuple[Floats, Mask]:
        """Return one random crop of each recording, (B, C, S), and masks (B, C)."""
        counts = self._index.counts[records]
        can_shift = (counts > 1) & (self._hop is not None)
        number = random.integers(0, np.where(can_shift, counts - 1, counts))
        shift = random.integers(0, np.where(can_shift, (self._hop or 0) + 1, 1))
        items = self._index.item(records, number)
        signals, masks = self._frames.views(items)[:, 0], self._frames.lead_mask(items)
        shifted = np.flatnonzero(shift)
        if len(shifted):
            following = self._index.item(records[shifted], number[shifted] + 1)
            after, length = self._frames.views(following)[:, 0], signals.shape[2]
            masks[shifted] &= self._frames.lead_mask(following)
            for row, later, steps in zip(shifted, after, shift[shifted], strict=True):
                begin = length - (self._hop or 0)
                joined = np.concatenate([signals[row], later[:, begin:]], axis=1)
                signals[row] = joined[:, steps : steps + length]
            signals *= masks[:, :, None]
        return signals, masks

    def read_all(self, records: Ints, limit: int | None = None) -> tuple[Floats, Mask, Ints]:
        """Return the frames of recordings, (N, C, S), masks (N, C), and their indices into ``records``."""
        items, owner = self._index.items(records, limit)
        return self._frames.views(items)[:, 0], self._frames.lead_mask(items), owner


class TokenInputs(RecordingInputs):
    """Embeddings of all frames and leads of a recording as tokens, standardized by training recordings.

    Args:
        embedder: Embedder of the frames.
        store: The store.
        train: Training recordings, a mask over the store. Their labels are not used.
        cache: Folder of cached embeddings.
    """

    def __init__(self, embedder: Embedder, store: Store, train: Mask, cache: str | os.PathLike[str]) -> None:
        found = frame_embeddings(embedder, store, cache=cache)
        flat = found.values.reshape(len(found.values), -1)
        self._present: Mask = np.asarray(~np.isnan(found.values).all(2))
        standardized = Standardization.fit(flat[train[found.record]]).transform(flat)
        self._tokens = standardized.reshape(found.values.shape)
        self._index = _RecordIndex(found.record, np.arange(len(found.record)), len(store))
        self.num_channels, self.token_dim = found.values.shape[1:]

    @property
    def available(self) -> Mask:
        """Recordings with a frame, (recordings,)."""
        return self._index.counts > 0

    def sample(self, records: Ints, random: np.random.Generator) -> tuple[Floats, Mask]:
        """Return all tokens of each recording, (B, T, E), and masks (B, T). Nothing is drawn."""
        return self.read_all(records)[:2]

    def read_all(self, records: Ints, limit: int | None = None) -> tuple[Floats, Mask, Ints]:
        """Return all tokens of each recording as one input (T, E), whatever the limit."""
        items, owner = self._index.items(records)
        counts = np.bincount(owner, minlength=len(records))
        width, leads, dimension = int(counts.max(initial=1)), self.num_channels, self.token_dim
        tokens = np.zeros((len(records), width, leads, dimension), np.float32)
        masks = np.zeros((len(records), width, leads), np.bool_)
        position = np.arange(len(items)) - np.repeat(np.cumsum(counts) - counts, counts)
        tokens[owner, position], masks[owner, position] = self._tokens[items], self._present[items]
        kept = counts > 0
        shape = (int(kept.sum()), width * leads)
        return tokens[kept].reshape(*shape, dimension), masks[kept].reshape(shape), np.flatnonzero(kept)


class _RecordIndex:
    """Items of each recording, ordered by their number."""

    def __init__(self, record: Ints, number: Ints, num_records: int) -> None:
        self._order = np.lexsort([number, record])
        self.counts = np.bincount(record, minlength=num_records).astype(np.int64)
        self._first = np.cumsum(self.counts) - self.counts

    def item(self, records: Ints, number: Ints) -> Ints:
        """Return the item of each recording with a number, (B,)."""
        return np.asarray(self._order[self._first[records] + number])

    def items(self, records: Ints, limit: int | None = None) -> tuple[Ints, Ints]:
        """Return the items of recordings, (N,), and their indices into ``records``."""
        counts = self.counts[records]
        kept = counts if limit is None else np.minimum(counts, limit)
        owner = np.repeat(np.arange(len(records)), kept)
        position = np.arange(len(owner)) - np.repeat(np.cumsum(kept) - kept, kept)
        spread = (2 * position + 1) * counts[owner] // (2 * kept[owner])  # the middles of equal parts
        return self.item(records[owner], spread), owner
