"""Principal components of an encoder's features, fitted without labels on training recordings of several stores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from clocs.core.seeds import generator
from clocs.encoders import Encoder, PCAEncoder
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.frames import Frames
from clocs.store.store import Store

STORES = ("ptbxl", "physionet2020", "chapman")
POLICY = FramePolicy(num_samples=2500, sampling_rate=500, leads=STANDARD_LEADS, allow_missing_leads=True)
LEAD_ENCODER, LEAD_DIM = "clocs-small", 128
"""Encoder of single leads, and its number of components."""
WHITENING = 0.5
MAX_RECORDINGS, MAX_FRAMES = 1000, 4
"""Training recordings of a store that the components are fitted on, and frames of each, as a mean."""
FRAMES_PER_BATCH = 256
Floats = npt.NDArray[np.float32]


def sample_frames(store: Store) -> Floats:
    """Return frames (N, 12, S) of some training recordings that have all leads."""
    train = np.flatnonzero(store.split("default").mask("train"))
    random = generator(0, "components")
    chosen = np.zeros(len(store), np.bool_)
    chosen[random.choice(train, min(MAX_RECORDINGS, len(train)), replace=False)] = True
    frames = Frames(store, POLICY, records=chosen, all_leads=True)
    items = np.arange(len(frames))
    items = np.sort(random.permutation(items[frames.lead_mask(items).all(1)])[: MAX_FRAMES * MAX_RECORDINGS])
    return np.asarray(frames.views(items)[:, 0], np.float32)


@torch.inference_mode()
def features(encoder: Encoder, frames: Floats) -> Floats:
    """Return the features (N, P) of frames (N, C, S)."""
    parts = np.array_split(frames, -(-len(frames) // FRAMES_PER_BATCH))
    return np.concatenate([encoder.features(torch.from_numpy(part)).numpy() for part in parts])


def with_components(encoder: Encoder, samples: Sequence[Floats], count: int) -> tuple[PCAEncoder, float]:
    """Return an encoder whose embedding is a PCA of its features, and the share of the variance that it explains.

    Args:
        encoder: An encoder of one lead or of all leads.
        samples: Frames (N, 12, S) of each store.
        count: Number of components.
    """
    found = PCAEncoder(encoder, count).eval()
    explained = found.fit(
        (features(encoder, frames.reshape(-1, found.in_channels, frames.shape[2])) for frames in samples),
        whitening=WHITENING,
        rotation=0,
    )
    round_to_float16(found)
    return found, round(explained, 4)


@torch.no_grad()
def round_to_float16(module: nn.Module) -> None:
    """Round all weights to float16, so that archives compress them to half the size."""
    for value in module.state_dict().values():
        if value.is_floating_point():
            value.copy_(value.half())
