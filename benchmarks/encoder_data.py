"""Training frames of the joint network, and what it predicts of them without labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from encoder_components import LEAD_DIM, LEAD_ENCODER, POLICY, STORES, sample_frames, with_components
from torch.nn.functional import avg_pool1d

import clocs
from clocs.core.seeds import generator
from clocs.evaluation.benchmark.feature_transforms import FeaturePCA, Standardization
from clocs.evaluation.benchmark.random_kernels import MiniRocket
from clocs.store.frames import Frames
from clocs.store.store import Store
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.shipped import find_encoder_folder
from clocs.training.store_overlap import refuse_shared_recordings

FACTOR = 5
"""Samples of a frame for each sample that the network gives back."""
NUM_KERNELS = 1008
NUM_KERNEL_TARGETS, NUM_LEAD_TARGETS = 256, 512
PCA_FRAMES = 12_000
"""Frames that the components of the lead targets are fitted on."""
MAX_FRAMES = 3
"""Frames of a recording that are used, at most."""
LIMIT = 10.0
"""Amplitude in mV at which signals are cut off."""
Halves = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TrainingData:
    """Frames of recordings and their targets."""

    signals: Halves
    """Frames (N, 12, 2500) in mV, ordered by recording."""
    coarse: Halves
    """The same frames at 100 Hz, (N, 12, 500)."""
    first: Ints
    """Index of each recording's first frame; one more at the end."""
    patients: Ints
    """Patient of each recording."""
    kernel_targets: Floats
    """Random kernel features of each recording's first frame, reduced by PCA, (recordings, 256)."""
    lead_targets: Halves
    """Embeddings of all leads by the encoder of single leads, reduced by PCA, (N, 512)."""


def load_training_data(stores: Path) -> TrainingData:
    """Read the training frames of all stores, and compute their targets in about ten minutes of a core."""
    opened = [clocs.open_store(stores / name) for name in STORES]
    refuse_shared_recordings(opened)
    print("no recording is in two stores", flush=True)
    signals, counts = [], []
    patients: list[Ints] = []
    for store in opened:
        frames = Frames(store, POLICY, records=store.split("default").mask("train"), all_leads=True)
        record = frames.recording_indices(np.arange(len(frames)))
        order = np.argsort(record, kind="stable")
        order = order[_rank(record[order]) < MAX_FRAMES]
        found, count = np.unique(record[order], return_counts=True)
        for items in np.array_split(order, -(-len(order) // 256)):
            signals.append(np.clip(frames.views(items)[:, 0], -LIMIT, LIMIT).astype(np.float16))
        counts.append(count)
        patients.append(store.patient_codes()[0][found] + sum(map(len, opened)) * len(patients))
        print(f"{store.folder}: {len(found)} recordings, {len(order)} frames", flush=True)
    joined, first = np.concatenate(signals), np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    coarse = np.concatenate([at_100_hz(part).astype(np.float16) for part in _parts(joined)])
    kernels = kernel_targets(joined[first[:-1]])
    return TrainingData(joined, coarse, first, np.concatenate(patients), kernels, lead_targets(opened, joined))


def kernel_targets(signals: Halves) -> Floats:
    """Return random kernel features of frames, reduced by PCA."""
    sample = generator(0, "kernel sample").choice(len(signals), 1000, replace=False)
    rocket = MiniRocket(NUM_KERNELS).fit(at_100_hz(signals[sample]))
    features = np.concatenate([rocket.transform(at_100_hz(part)) for part in _parts(signals)])
    values = Standardization.fit(features).transform(features)
    return _half_whitened(FeaturePCA.fit(values, NUM_KERNEL_TARGETS).transform(values))


def lead_targets(stores: list[Store], signals: Halves) -> Halves:
    """Return embeddings of all leads of frames by the encoder of single leads, reduced by PCA."""
    small, _ = load_encoder_folder(find_encoder_folder(LEAD_ENCODER))
    encoder, _ = with_components(small, list(map(sample_frames, stores)), LEAD_DIM)
    found = []
    with torch.inference_mode():
        for part in _parts(signals):
            leads = torch.from_numpy(part.astype(np.float32)).flatten(0, 1).unsqueeze(1)
            found.append(encoder(leads).reshape(len(part), -1).half().numpy())
    values = np.concatenate(found)
    sample = np.random.default_rng(0).permutation(len(values))[:PCA_FRAMES]
    components = FeaturePCA.fit(values[sample].astype(np.float32), NUM_LEAD_TARGETS)
    reduced = np.concatenate([components.transform(part.astype(np.float32)) for part in _parts(values)])
    return np.asarray(_half_whitened(reduced), np.float16)


def at_100_hz(signals: Halves) -> Floats:
    """Return frames (N, C, S) with the mean of every five samples."""
    return np.asarray(avg_pool1d(torch.from_numpy(signals.astype(np.float32)), FACTOR).numpy())


def _half_whitened(components: Floats) -> Floats:
    """Divide components by the root of their deviation, and all of them by their common deviation."""
    scaled = components / np.sqrt(components.std(0))
    return np.asarray(scaled / scaled.std(), np.float32)


def _parts(values: Halves) -> list[Halves]:
    return np.array_split(values, -(-len(values) // 256))


def _rank(record: Ints) -> Ints:
    """Return the position of each frame within its recording; frames are ordered by recording."""
    return np.arange(len(record)) - np.searchsorted(record, record)
