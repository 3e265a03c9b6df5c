"""Features for the search of an encoder, computed once and kept in a folder of arrays.

    python benchmarks/encoder_features.py STORES CACHE SOURCE ...

``SOURCE`` is ``small`` (clocs-small), ``untrained-WIDTH`` (its network with random weights and another width),
``joint:FOLDER`` (from ``encoder_pretraining.py``), ``joint-untrained`` (its network with random weights) or
``kernels-RATE-NUMBER`` (random kernels over all leads). Only training and validation recordings are read: every eighth
and every second of PTB-XL, every second and all of CPSC 2018.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from encoder_assembly import load_joint
from encoder_components import POLICY
from encoder_data import LIMIT
from encoder_pretraining import OPTIONS
from torch import Tensor, nn

import clocs
from clocs.core.seeds import generator
from clocs.core.storage.files import write_bytes
from clocs.encoders import Encoder, ResNet
from clocs.evaluation.benchmark.embedders import EncoderEmbedder, load_embedder
from clocs.evaluation.benchmark.random_kernels import random_kernels
from clocs.evaluation.benchmark.recording_features import recording_policy
from clocs.evaluation.benchmark.unlabelled_fits import untrained_embedder
from clocs.inference.frame_pooling import OVERLAP
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.frames import Frames
from clocs.store.store import Store

Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
STEPS = {"ptbxl": (8, 2), "physionet2020": (2, 1)}
"""Every how many training recordings of a store are used, and every how many validation recordings."""
MAX_SECONDS = 15
"""Seconds of a recording that are used."""
NUM_PARTS = 26
STATISTICS = ("mean", "std", "max", "min")
"""Statistics over time of the activations of each block."""


def used_records(store: Store, name: str) -> tuple[Mask, Mask]:
    """Return the training and the validation recordings of the search, masks over the store."""
    split = store.split("default")
    train, validation = (
        split.mask(part) & (np.cumsum(split.mask(part)) % step == 0)
        for part, step in zip(("train", "validation"), STEPS[name], strict=True)
    )
    return train, validation


class BlockStatistics:
    """Mean, standard deviation, maximum and minimum over time of every block of a ResNet, (N, 4, P)."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self._found = encoder.eval(), list[Tensor]()
        assert isinstance(encoder, ResNet)
        for block in encoder.blocks:
            block.register_forward_hook(self._collect)

    def _collect(self, _module: nn.Module, _inputs: object, output: Tensor) -> None:
        hidden = output.squeeze(2)
        pooled = [hidden.mean(2), hidden.std(2, correction=0), hidden.amax(2), hidden.amin(2)]
        self._found.append(torch.stack(pooled, 1))

    @torch.inference_mode()
    def __call__(self, signals: Floats) -> Floats:
        """Return the statistics of frames (N, C, S)."""
        self._found.clear()
        self.encoder.tokens(torch.from_numpy(np.ascontiguousarray(signals, np.float32)))
        return np.asarray(torch.cat(self._found, 2).numpy())


Compute = Callable[[Floats], Floats]
"""A function from frames (N, 12, S) to values (N, ...)."""


def by_lead(encoder: Encoder) -> Compute:
    """Return the statistics of each lead, (N, 12, 4, P)."""
    statistics = BlockStatistics(encoder)

    def compute(signals: Floats) -> Floats:
        values = statistics(signals.reshape(-1, 1, signals.shape[2]))
        return values.reshape(len(signals), -1, *values.shape[1:])

    return compute


def source(name: str, store: Store, train: Mask) -> tuple[FramePolicy, Compute]:
    """Return the frames and the function of a source."""
    kind, _, rest = name.partition("-")
    if kind == "kernels":
        rate, count = map(float, rest.split("-"))
        embedder = random_kernels(store, train, num_features=int(count), sampling_rate=rate)
        return recording_policy(embedder, store), embedder.rocket.transform
    small = load_embedder("clocs-small")
    assert isinstance(small, EncoderEmbedder)
    policy = recording_policy(small, store, leads=STANDARD_LEADS)
    if kind == "small":
        return policy, by_lead(small.encoder)
    if kind == "untrained":
        wide = EncoderEmbedder("wide", ResNet(width=int(rest)), small.policy)
        return policy, by_lead(untrained_embedder(wide, store, train).encoder)
    joint = POLICY.model_copy(update={"overlap": OVERLAP})
    if kind == "joint":
        untrained = EncoderEmbedder("joint", ResNet(**OPTIONS), joint)
        statistics = BlockStatistics(untrained_embedder(untrained, store, train).encoder)
    else:
        statistics = BlockStatistics(load_joint(Path(name.partition(":")[2])))
    return joint, lambda signals: statistics(np.clip(signals, -LIMIT, LIMIT))[:, None]


class Source:
    """A source of features of a store: reads frames and writes one file for each part of the recordings.

    A part is a random sample of the training and validation recordings, so that the first parts are a search already.
    """

    def __init__(self, stores: Path, cache: Path, store_name: str, name: str) -> None:
        self.store = clocs.open_store(stores / store_name)
        train, validation = used_records(self.store, store_name)
        self.name, self.folder = name, cache / store_name / Path(name.partition(":")[2] or name).name
        self.folder.mkdir(parents=True, exist_ok=True)
        policy, self.compute = source(name, self.store, train)
        self.frames = Frames(self.store, policy, records=train | validation, all_leads=True)
        record = self.frames.recording_indices(np.arange(len(self.frames)))
        order = np.argsort(record, kind="stable")
        hop = policy.num_samples / (policy.sampling_rate or 1) / 2
        first = (np.arange(len(record)) - np.searchsorted(record[order], record[order]) + 2) * hop <= MAX_SECONDS
        self.items, self.record = order[first], record[order][first]
        shuffled = generator(0, "parts", store_name).permutation(np.flatnonzero(train | validation))
        self.parts = np.array_split(shuffled, NUM_PARTS)

    def write(self, number: int) -> None:
        """Compute a part: values of frames (or recordings), the recording of each, and the seconds of one core."""
        path = self.folder / f"{number:02d}.npz"
        if path.exists():
            return
        begin = time.process_time()
        chosen = np.flatnonzero(np.isin(self.record, self.parts[number]))
        batches = np.array_split(self.items[chosen], -(-len(chosen) // 16))
        values = np.concatenate([self.compute(self.frames.views(items)[:, 0]) for items in batches])
        record = self.record[chosen]
        if self.name.startswith("kernels"):  # a proportion of the recording is the mean over its frames
            record, starts, counts = np.unique(record, return_index=True, return_counts=True)
            values = np.add.reduceat(values, starts) / counts[:, None]
        seconds = time.process_time() - begin
        buffer = io.BytesIO()
        np.savez(buffer, values=values.astype(np.float16), record=record, seconds=seconds)
        write_bytes(path, buffer.getvalue())
        print(self.folder.parent.name, self.name, number, round(seconds, 1), flush=True)


def main(stores: Path, cache: Path, names: list[str]) -> None:
    """Compute all sources, part by part."""
    sources = [Source(stores, cache, store, name) for name in names for store in STEPS]
    for number in range(NUM_PARTS):
        for each in sources:
            each.write(number)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
