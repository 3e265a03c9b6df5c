"""Frames of a store under a policy: counted, drawn in batches, labelled, cached."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError, StoreError
from clocs.core.files import atomic_file, content_hash
from clocs.core.recording import Digital
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats, resample
from clocs.store.frame_index import Block, Ints, blocks, episode_labels, frame_starts, uniform_block

if TYPE_CHECKING:
    from clocs.store.store import Store

CACHE_BATCH = 256


class Frames:
    """Items numbered from 0: single-lead instances, or with ``together`` frames of all leads at once.

    ``records``: which recordings take part (a mask over the store's numbers), as a split gives it.
    """

    def __init__(
        self,
        store: Store,
        policy: FramePolicy,
        *,
        records: npt.NDArray[np.bool_] | None = None,
        together: bool = False,
    ) -> None:
        if records is not None and len(records) != len(store):
            raise ConfigError(f"a mask over {len(records)} recordings does not fit a store of {len(store)}")
        self.store, self.policy, self.records, self.together = store, policy, records, together
        self.classes = {name: tuple(labels) for name, labels in store.manifest.dataset["classes"].items()}
        self.blocks = [block for number in range(len(store.manifest.shards)) for block in self._blocks(number)]
        self.ends = np.cumsum([block.total for block in self.blocks], dtype=np.int64)

    def _blocks(self, number: int) -> list[Block]:
        info, policy = self.store.manifest.shards[number], self.policy
        alike = info.leads is not None and info.rate is not None and info.samples is not None
        whole = not info.missing and not policy.excluded and policy.label_at == "recording"
        if alike and whole and self.records is None:
            block = uniform_block(number, info, policy, self.together)
            return [block] if block is not None else []
        chosen = None
        if self.records is not None:
            chosen = self.records[self.store.first[number] : self.store.first[number + 1]]
        return blocks(number, self.store.shard(number), policy, chosen, self.together, self.classes)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    @property
    def frames(self) -> int:
        """Frames, however many leads of each are items."""
        return sum(block.frames for block in self.blocks)

    def frames_per_record(self) -> Ints:
        """(recordings of the store,)."""
        counts = np.zeros(len(self.store), np.int64)
        for block in self.blocks:
            first, records = self.store.first[block.shard], self.store.manifest.shards[block.shard].records
            counts[first : first + records] += block.frames_per_row(records)
        return counts

    def locate(self, items: npt.ArrayLike) -> tuple[Ints, Ints, npt.NDArray[np.str_]]:
        """Record number, frame within it, and lead of each item (empty with ``together``)."""
        wanted = self._checked(items)
        records, frames = np.empty_like(wanted), np.empty_like(wanted)
        leads = np.empty(len(wanted), "U16")
        for block, at, local in self._by_block(wanted):
            rows, frames[at], lead = block.locate(local)
            records[at] = rows + self.store.first[block.shard]
            if not self.together:
                leads[at] = np.array(block.recipe.leads)[lead]
        return records, frames, leads

    def gather(self, items: npt.ArrayLike) -> Floats:
        """(items, segments, samples), or with ``together`` (items, leads, segments, samples).

        In the store's unit (mV; raw steps where a dataset has no gain), or 0..1 by the policy.
        """
        wanted = self._checked(items)
        width = len(self.policy.leads or self.blocks[0].recipe.leads) if self.together else 1
        out = np.empty((len(wanted), width, self.policy.segments, self.policy.samples), np.float32)
        for block, at, local in self._by_block(wanted):
            rows, frames, leads = block.locate(local)
            if self.together:
                rows, frames = np.repeat(rows, width), np.repeat(frames, width)
                leads = np.tile(np.arange(width), len(local))
            out[at] = self._shaped(block, rows, frames, leads).reshape(len(local), *out.shape[1:])
        return out if self.together else out[:, 0]

    def targets(self, items: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """(items, classes), in the order of ``classes``: by recording, or by the frame's first sample."""
        wanted = self._checked(items)
        out = np.zeros((len(wanted), len(self.classes)), bool)
        for block, at, local in self._by_block(wanted):
            shard = self.store.shard(block.shard)
            rows, frames, _ = block.locate(local)
            if self.policy.label_at == "start":
                found = [
                    [label] for label in episode_labels(shard, rows, frame_starts(shard, self.policy, rows, frames))
                ]
            else:
                labels = shard.batch.column("labels")
                found = [labels[int(row)].as_py() for row in rows]
            out[at] = [[not set(group).isdisjoint(labels) for group in self.classes.values()] for labels in found]
        return out

    def cached(self, folder: str | os.PathLike[str] | None = None) -> npt.NDArray[np.float32]:
        """All items as one memory-mapped array, made once and named by what goes into it.

        Worth it where a policy resamples. Default place: ``frames`` in the store's folder.
        """
        place = Path(folder) if folder is not None else self.store.folder / "frames"
        path = place / f"{self.content_hash[:32]}.npy"
        if not path.exists():
            self._write_cache(path)
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))

    @functools.cached_property
    def content_hash(self) -> str:
        """Names the content: store, policy, recordings."""
        mask = "" if self.records is None else np.packbits(self.records).tobytes().hex()
        return content_hash([self.store.sha256, self.policy.model_dump(mode="json"), mask, self.together])

    def _write_cache(self, path: Path) -> None:
        if not len(self):
            raise StoreError("no frame to cache: no recording is long enough or has the leads of this policy")
        shape = (len(self), *self.gather([0]).shape[1:])
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        with atomic_file(path) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, len(self), CACHE_BATCH):
                file.write(self.gather(np.arange(start, min(start + CACHE_BATCH, len(self)))).astype("<f4").tobytes())

    def _checked(self, items: npt.ArrayLike) -> Ints:
        wanted = np.atleast_1d(np.asarray(items, np.int64))
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f"items {wanted.min()}..{wanted.max()} are not all in 0..{len(self) - 1}")
        return wanted

    def _by_block(self, items: Ints) -> list[tuple[Block, Ints, Ints]]:
        """The blocks that items lie in, with the items' places in the batch and within the block."""
        number = np.searchsorted(self.ends, items, "right")
        order = np.argsort(number, kind="stable")
        cuts = np.flatnonzero(np.diff(number[order])) + 1
        found = []
        for at in np.split(order, cuts) if len(order) else []:
            which = int(number[at[0]])
            before = self.ends[which - 1] if which else 0
            found.append((self.blocks[which], at, items[at] - before))
        return found

    def _shaped(self, block: Block, rows: Ints, frames: Ints, leads: Ints) -> Floats:
        shard = self.store.shard(block.shard)
        info = shard.info
        rates = shard.rate[rows] if info.rate is None else None
        resampled = self.policy.rate is not None and (
            info.rate != self.policy.rate if rates is None else bool((rates != self.policy.rate).any())
        )
        if resampled or self.policy.source_samples == "recording":
            singles = zip(rows.tolist(), frames.tolist(), leads.tolist(), strict=True)
            return np.stack([self._single(block, *item) for item in singles])
        window = self.policy.window(self.policy.rate or 0.0)
        assert window is not None
        return self.policy.shape_windows(self._windows(block, rows, frames * window, leads, window))

    def _windows(self, block: Block, rows: Ints, starts: Ints, leads: Ints, window: int) -> Floats:
        """(items, window) from each row's start, in physical units."""
        made = block.recipe
        out = self._scaled(block, rows, starts, made.first[leads], window, made.first_weight[leads])
        mixed = np.flatnonzero(made.second[leads] >= 0)
        if len(mixed):
            second = made.second[leads[mixed]]
            weight = made.second_weight[leads[mixed]]
            out[mixed] += self._scaled(block, rows[mixed], starts[mixed], second, window, weight)
        return out

    def _scaled(
        self, block: Block, rows: Ints, starts: Ints, leads: Ints, window: int, weight: npt.NDArray[np.float32]
    ) -> Floats:
        """Windows of stored leads, times a weight."""
        shard = self.store.shard(block.shard)
        info = shard.info
        samples = shard.samples[rows] if info.samples is None else info.samples
        raw = _gather(shard.values, shard.offsets[rows] + leads * samples + starts, window)
        if info.gain is not None and info.baseline is not None:
            gain, baseline = np.float32(info.gain), np.float32(info.baseline)
        else:
            gains, first = shard.lead_values("gain")
            baselines, _ = shard.lead_values("baseline")
            gain = gains[first[rows] + leads].astype(np.float32)[:, None]
            baseline = baselines[first[rows] + leads].astype(np.float32)[:, None]
        scaled = raw.astype(np.float32)
        if np.any(baseline):
            scaled -= baseline
        scaled *= weight[:, None] / gain
        return scaled

    def _single(self, block: Block, row: int, frame: int, lead: int) -> Floats:
        """One frame of a recording that must be resampled or taken whole: (segments, samples)."""
        shard = self.store.shard(block.shard)
        samples, rate = int(shard.samples[row]), float(shard.rate[row])
        at = np.array([row]), np.zeros(1, np.int64), np.array([lead])
        whole = self._windows(block, *at, samples)[0]
        if self.policy.rate is None:
            return self.policy.shape_windows(whole)
        length = self.policy.segments * self.policy.samples
        physical = resample(whole, rate, self.policy.rate)
        return self.policy.shape_windows(physical[frame * length : (frame + 1) * length])


def _gather(values: Digital, starts: Ints, window: int) -> Digital:
    """(starts, window): rows copied out of one long buffer, without a loop in Python."""
    step = values.itemsize
    rolling = np.lib.stride_tricks.as_strided(values, (len(values) - window + 1, window), (step, step), writeable=False)
    return np.asarray(rolling[starts])
