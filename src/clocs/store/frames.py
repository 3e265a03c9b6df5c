"""Frames of a store under a policy: counted, drawn in batches, labelled, cached."""

from __future__ import annotations

import functools
import io
import os
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xxhash

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.files import atomic_file, content_hash, seal, unseal, write_bytes
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats, resample
from clocs.store.frame_index import (
    Block,
    Ints,
    blocks,
    common_leads,
    episode_labels,
    frame_starts,
    source_of,
    uniform_block,
)
from clocs.store.gathering import Gatherer, Places, groups

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader

CACHE_BATCH = 256
CACHE_FORM = 2
"""Changes when frames come out otherwise than before."""


@functools.cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="clocs-frames-")


class Frames:
    """Items numbered from 0: single-lead instances, or with ``all_leads`` frames of all leads at once.

    ``records``: which recordings take part (a mask over the store's numbers), as a split gives it. With ``all_leads``,
    those that lack a lead are left out; where the policy names no leads, they are those that most recordings have.
    """

    def __init__(
        self,
        store: StoreReader,
        policy: FramePolicy,
        *,
        records: npt.NDArray[np.bool_] | None = None,
        all_leads: bool = False,
    ) -> None:
        if records is not None and len(records) != len(store):
            raise ConfigError(f"a mask over {len(records)} recordings does not fit a store of {len(store)}")
        if records is not None and np.asarray(records).dtype != bool:
            raise ConfigError("records: a mask is wanted, true or false for each recording, as split.mask('train') is")
        self.store, self.records, self.all_leads = store, records, all_leads
        leads = self._common_leads() if all_leads and not policy.leads else policy.leads
        self.policy = policy.model_copy(update={"leads": leads})
        self.classes = {name: tuple(labels) for name, labels in store.manifest.dataset["classes"].items()}
        self.blocks = [block for number in range(len(store.manifest.shards)) for block in self._blocks(number)]
        self._gatherer = Gatherer(store, self.blocks)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as store, policy and recordings: another process opens the store itself."""
        make = functools.partial(type(self), records=self.records, all_leads=self.all_leads)
        return make, (self.store, self.policy)

    def _common_leads(self) -> tuple[str, ...]:
        numbers = range(len(self.store.manifest.shards))
        found = (item for number in numbers for item in self.store.layouts(number, self.records).items())
        return common_leads((leads, len(rows)) for leads, rows in found if len(rows))

    def _blocks(self, number: int) -> list[Block]:
        info, policy = self.store.manifest.shards[number], self.policy
        alike = info.leads is not None and info.rate is not None and info.samples is not None
        whole = not info.missing and not policy.excluded and policy.label_at == "recording"
        if alike and whole and self.records is None:
            block = uniform_block(number, info, policy, self.all_leads)
            return [block] if block is not None else []
        shard = self.store.shard(number)
        return blocks(number, shard, policy, self.store.layouts(number, self.records), self.all_leads, self.classes)

    def __len__(self) -> int:
        return len(self._gatherer)

    @property
    def frames(self) -> int:
        """Frames, however many leads of each are items."""
        return sum(block.frames for block in self.blocks)

    @property
    def leads(self) -> tuple[str, ...]:
        """Leads of the items, in the order ``gather`` has them with ``all_leads``."""
        return self.policy.leads or tuple(dict.fromkeys(lead for block in self.blocks for lead in block.recipe.leads))

    def frames_per_record(self) -> Ints:
        """(recordings of the store,)."""
        counts = np.zeros(len(self.store), np.int64)
        for block in self.blocks:
            first, records = self.store.first[block.shard], self.store.manifest.shards[block.shard].records
            counts[first : first + records] += block.frames_per_row(records)
        return counts

    def locate(self, items: npt.ArrayLike) -> tuple[Ints, Ints, npt.NDArray[np.str_]]:
        """Record number, frame within it, and lead of each item (empty with ``all_leads``)."""
        places = self._gatherer.places(items)
        records = self.store.first[self._gatherer.shard[places.block]] + places.row
        leads = np.full(len(records), "", f"U{max(map(len, self.leads), default=1)}")
        for block, at in groups(places.block) if not self.all_leads else ():
            leads[at] = np.array(self.blocks[block].recipe.leads)[places.lead[at]]
        return records, places.frame, leads

    def gather(self, items: npt.ArrayLike) -> Floats:
        """(items, segments, samples), or with ``all_leads`` (items, leads, segments, samples).

        In the store's unit (mV; raw steps where a dataset has no gain), or 0..1 by the policy.
        """
        places = self._gatherer.places(items)
        if not self.all_leads:
            return self._shaped(places)
        count, width = len(places.row), len(self.leads)
        each = places.pick(np.repeat(np.arange(count), width))
        out = self._shaped(Places(each.block, each.row, each.frame, np.tile(np.arange(width), count)))
        return out.reshape(count, width, *out.shape[1:])

    def _shaped(self, places: Places) -> Floats:
        """(items, segments, samples)."""
        window = self._window
        if window is None or self._resamples(places):
            out = np.empty((len(places.row), self.policy.segments, self.policy.samples), np.float32)
            for item in range(len(out)):
                out[item] = self._single(places.pick(np.array([item])))
            return out
        return self.policy.shape_windows(self._gatherer.windows(places, places.frame * window, window))

    def _resamples(self, places: Places) -> bool:
        """Whether an item's recording has another rate than the policy enforces."""
        if self.policy.rate is None or self._at_one_rate:
            return False
        rates = (self.store.shard(self.blocks[block].shard).rate[places.row[at]] for block, at in groups(places.block))
        return any(bool((rate != self.policy.rate).any()) for rate in rates)

    @functools.cached_property
    def _window(self) -> int | None:
        """Samples to cut per frame, where every recording gives as many; None: frames are made one by one."""
        return None if self.policy.source_samples == "recording" else self.policy.window(self.policy.rate or 0.0)

    @functools.cached_property
    def _at_one_rate(self) -> bool:
        return all(self.store.manifest.shards[block.shard].rate == self.policy.rate for block in self.blocks)

    def _single(self, place: Places) -> Floats:
        """One frame of a recording that must be resampled or taken whole: (segments, samples)."""
        shard, row = self.store.shard(self.blocks[int(place.block[0])].shard), int(place.row[0])
        first, end, before = source_of(
            self.policy, int(place.frame[0]), int(shard.samples[row]), float(shard.rate[row])
        )
        window = self._gatherer.windows(place, np.array([first]), end - first)[0]
        if self.policy.rate is not None:
            length = self.policy.segments * self.policy.samples
            window = resample(window, float(shard.rate[row]), self.policy.rate)[before : before + length]
        return self.policy.shape_windows(window)

    def targets(self, items: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """(items, classes), in the order of ``classes``: by recording, or by the frame's first sample."""
        if self.policy.label_at == "recording":
            return self._recording_targets[self.locate(items)[0]]
        places = self._gatherer.places(items)
        out = np.zeros((len(places.row), len(self.classes)), bool)
        for block, at in groups(places.block):
            shard, rows = self.store.shard(self.blocks[block].shard), places.row[at]
            found = episode_labels(shard, rows, frame_starts(shard, self.policy, rows, places.frame[at]))
            out[at] = [[label in group for group in self.classes.values()] for label in found]
        return out

    @functools.cached_property
    def _recording_targets(self) -> npt.NDArray[np.bool_]:
        """(recordings of the store, classes): whether a recording has a label of the class."""
        import pyarrow as pa
        import pyarrow.compute as pc

        out = np.zeros((len(self.store), len(self.classes)), bool)
        for number in range(len(self.store.manifest.shards)):
            column = self.store.shard(number).column("labels")
            labels, rows = column.flatten(), pc.list_parent_indices(column).to_numpy()
            for place, group in enumerate(self.classes.values()):
                hit = pc.is_in(labels, pa.array(group, labels.type)).to_numpy(zero_copy_only=False)
                out[self.store.first[number] + rows[hit], place] = True
        return out

    @property
    def costly(self) -> bool:
        """Whether frames are resampled or stretched, so that a cache pays."""
        cut = self.policy.source_samples in (None, self.policy.segments * self.policy.samples)
        return not cut or (self.policy.rate is not None and not self._at_one_rate)

    def cached(self, folder: str | os.PathLike[str] | None = None) -> npt.NDArray[np.float32]:
        """Return all items as one memory-mapped array, made once and named by a hash of what goes into it.

        Worth it where a policy resamples. The file is hashed whole when it is opened; a damaged one is made again.

        Args:
            folder: Where the file lies. Default: ``frames`` in the store's folder, or, where that cannot be written
                to, a private temporary folder that is deleted when the process ends.
        """
        place = Path(folder) if folder is not None else self.store.folder / "frames"
        if folder is None and not os.access(place if place.exists() else self.store.folder, os.W_OK):
            place = Path(_own_folder().name)
        path = place / f"{self.content_hash[:32]}.npy"
        if not self._is_whole(path):
            self._write_cache(path)
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))

    @functools.cached_property
    def content_hash(self) -> str:
        """Names the content: store, policy, recordings."""
        mask = "" if self.records is None else np.packbits(self.records).tobytes().hex()
        return content_hash([self.store.sha256, self.policy.model_dump(mode="json"), mask, self.all_leads, CACHE_FORM])

    @property
    def _cache_shape(self) -> tuple[int, ...]:
        leads = (len(self.leads),) if self.all_leads else ()
        return (len(self), *leads, self.policy.segments, self.policy.samples)

    @property
    def _cache_header(self) -> bytes:
        header = io.BytesIO()
        told = {"descr": "<f4", "fortran_order": False, "shape": self._cache_shape}
        np.lib.format.write_array_header_1_0(header, told)
        return header.getvalue()

    def _is_whole(self, path: Path) -> bool:
        """Return whether a cache is there and undamaged, all of its bytes hashed."""
        try:
            stated = unseal(path.with_suffix(".json").read_bytes(), path.name)["xxh3_128"]
            digest = xxhash.xxh3_128()
            with open(path, "rb") as file:
                while piece := file.read(1 << 20):
                    digest.update(piece)
        except FileNotFoundError:
            return False
        except (OSError, IntegrityError):
            stated = None
        if stated is None or digest.hexdigest() != stated:
            warnings.warn(f"{path.parent.name}/{path.name} is damaged and is made again", stacklevel=3)
            return False
        return True

    def _write_cache(self, path: Path) -> None:
        if not len(self):
            raise StoreError("no frame to cache: no recording is long enough or has the leads of this policy")
        digest = xxhash.xxh3_128(self._cache_header)
        with atomic_file(path) as file:
            file.write(self._cache_header)
            for start in range(0, len(self), CACHE_BATCH):
                batch = self.gather(np.arange(start, min(start + CACHE_BATCH, len(self)))).astype("<f4").tobytes()
                digest.update(batch)
                file.write(batch)
        write_bytes(path.with_suffix(".json"), seal({"xxh3_128": digest.hexdigest()}))
