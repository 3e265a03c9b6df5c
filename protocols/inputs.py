"""Inputs of an encoder: whole recordings in frames of 5 s, their first frame, and the copied input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from clocs.evaluation.benchmark.embedders import EncoderEmbedder
from clocs.evaluation.benchmark.recording_features import embed_frames, recording_features
from clocs.inference.frame_pooling import pool_frames
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats
from clocs.store.frames import Frames
from clocs.store.store import Store

Ints = npt.NDArray[np.int64]
InputKind = Literal["whole", "first", "copied"]
"""``whole``: all frames of 5 s. ``first``: the first of them. ``copied``: :func:`copied_input` of the recording."""
FRAME, COPIED_LENGTH, RATE = 2500, 5000, 500
COPIED_SAMPLES: Final = {"physionet2020": 2500, "ptbxl": 5000}
"""Samples of a recording that the copied protocol reads, by dataset."""
BATCH = 64


def copied_input(signals: Floats) -> Floats:
    """Return signals padded with zeros to 5,000 samples, then scaled to 0..1 lead by lead.

    Args:
        signals: Signals (N, C, S) in millivolt, S at most 5,000.

    Returns:
        Inputs (N, C, 5000). The padding has the level of 0 mV; a constant lead is zero.
    """
    padded = np.zeros((*signals.shape[:2], COPIED_LENGTH), np.float32)
    padded[..., : signals.shape[2]] = signals
    low, high = padded.min(axis=2, keepdims=True), padded.max(axis=2, keepdims=True)
    return np.asarray((padded - low) / np.where(high > low, high - low, np.float32(1)))


@dataclass(frozen=True)
class InputFrames:
    """Inputs of all recordings of a store, read when they are needed."""

    frames: Frames
    items: Ints
    """Frames that are used, in the order of their recordings."""
    record: Ints
    """Recording of each of them."""
    kind: InputKind

    def read(self, indices: npt.NDArray[np.intp]) -> Floats:
        """Return inputs (N, C, S) of some of the items."""
        signals = self.frames.views(self.items[indices])[:, 0]
        return copied_input(signals) if self.kind == "copied" else signals


def input_frames(store: Store, kind: InputKind, leads: Sequence[str]) -> InputFrames:
    """Return the inputs of all recordings. Frames of 5 s do not overlap, and are scaled to 0..1 lead by lead."""
    is_copied = kind == "copied"
    policy = FramePolicy(
        num_samples=COPIED_SAMPLES[store.manifest.dataset["name"]] if is_copied else FRAME,
        sampling_rate=RATE,
        normalization="none" if is_copied else "minmax",
        leads=tuple(leads),
        allow_missing_leads=True,
    )
    frames = Frames(store, policy, all_leads=True)
    record, number, _ = frames.locate(np.arange(len(frames)))
    items = np.flatnonzero((number == 0) | (kind == "whole"))
    items = items[np.argsort(record[items], kind="stable")]
    return InputFrames(frames, items, record[items], kind)


def input_features(
    embedder: EncoderEmbedder, store: Store, kind: InputKind, leads: Sequence[str], cache: Path | None = None
) -> Floats:
    """Return the features of all recordings from one kind of input, (recordings, D).

    ``whole`` has the features of the benchmark, whose frames overlap by half. An encoder of 2,500 samples gets the two
    halves of a copied input. All features are mean, maximum and minimum over frames.
    """
    if kind == "whole":
        single = () if embedder.all_leads else tuple(leads)
        return recording_features(embedder, store, leads=single, cache=cache)["embedding"].values
    inputs = input_frames(store, kind, embedder.policy.leads if embedder.all_leads else leads)
    values, record = [], []
    for begin in range(0, len(inputs.items), BATCH):
        rows = np.arange(begin, min(begin + BATCH, len(inputs.items)))
        signals = inputs.read(rows)
        halves = signals.reshape(*signals.shape[:2], -1, FRAME).swapaxes(1, 2)
        flat = halves.reshape(-1, *halves.shape[2:])
        mask = np.repeat(inputs.frames.lead_mask(inputs.items[rows]), halves.shape[1], axis=0)
        values.append(embed_frames(embedder, flat, mask)["embedding"])
        record.append(np.repeat(inputs.record[rows], halves.shape[1]))
    return pool_frames(np.concatenate(values), np.concatenate(record), len(store), embedder.pooling)
