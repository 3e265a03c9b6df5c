"""Worker threads return the same results as sequential calls."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clocs.core.errors import SignalError
from clocs.inference.pretrained import load_encoder
from clocs.service.inference import WorkerThreads
from clocs.service.settings import ServiceSettings
from clocs.service.state import load_service
from tests.conftest import make_recording


@pytest.mark.parametrize("device", [None, "cpu"])
def test_many_at_once_are_as_good_as_one_by_one(device: str | None, tmp_path: Path) -> None:
    """Whatever runs the encoder: what torch gives, one call after another."""
    told: dict[str, Any] = {"open_access": True, "device": device, "audit_log": tmp_path / "searches"}
    loaded = load_service(ServiceSettings(**told))
    loaded.audit.close()
    encoder, plain = loaded.encoder, load_encoder(device="cpu")
    assert encoder.runtime == ("torch" if device else "onnxruntime")
    recordings = [make_recording(("I", "II", "V2"), seed=seed) for seed in range(12)]
    wanted = [plain.embed(recording).values for recording in recordings]

    async def scenario() -> list[np.ndarray]:
        threads = WorkerThreads(4)
        await threads.warm_up(encoder)
        made = await asyncio.gather(*(threads.run(encoder.embed, recording) for recording in recordings * 3))
        threads.close()
        return [one.values for one in made]

    for found, truth in zip(asyncio.run(scenario()), wanted * 3, strict=True):
        assert np.abs(found - truth).max() < 1e-5


def test_each_has_one_of_torchs_threads_and_not_the_event_loops() -> None:
    async def scenario() -> None:
        threads = WorkerThreads(1)
        assert await threads.run(torch.get_num_threads) == 1
        assert await threads.run(threading.get_ident) != threading.get_ident()
        threads.close()

    asyncio.run(scenario())


def test_an_error_comes_back() -> None:
    async def scenario() -> None:
        threads = WorkerThreads(1)
        try:
            await threads.run(load_encoder().classify, make_recording(("I", "II", "V2"), num_samples=500))
        finally:
            threads.close()

    with pytest.raises(SignalError, match="lasts 1 s"):
        asyncio.run(scenario())
