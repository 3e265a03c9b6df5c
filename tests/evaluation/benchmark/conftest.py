"""Fixtures: a small store of twelve leads, and embedders whose outputs a loop computes as well."""

from __future__ import annotations

import numpy as np
import pytest

from clocs.evaluation.benchmark.embedders import Embedder, Mask
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats
from clocs.store.ingest import ingest
from clocs.store.store import Store


class Moments(Embedder):
    """Mean and standard deviation of each lead of a frame."""

    def __init__(self, *, all_leads: bool = False, leads: tuple[str, ...] = (), sampling_rate: float = 500) -> None:
        policy = FramePolicy(num_samples=1000, sampling_rate=sampling_rate, leads=leads)
        super().__init__("moments", policy, identity="1", all_leads=all_leads)
        self.num_frames = 0
        """Frames that were embedded."""

    def embed(self, frames: Floats, lead_mask: Mask) -> Floats:
        self.num_frames += len(frames)
        return np.concatenate([frames.mean(2), frames.std(2)], axis=1)


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Twenty recordings of ten patients, 10 s of twelve leads at 500 Hz."""
    return ingest("synthetic", None, tmp_path_factory.mktemp("benchmark") / "store", options={"num_records": 20})
