"""Processes that make batches: the same batches and the same run as with a thread."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from clocs.training.config_resolution import resolve_config
from tests.training.conftest import Driver, data_of
from tests.training.test_resume import content


def test_a_worker_process_gets_data_that_make_the_same_batches(store: Path) -> None:
    """An augmented batch, which depends on the step and not on what was drawn before."""
    config = resolve_config("cmsc-synthetic", [f"store={store}", "method.augmentations=[{name: gaussian_noise}]"])
    batches = data_of(config).train
    items = np.arange(16)[::-1].copy()
    batches.make(items, 0, "train", 0, 1)
    sent = pickle.loads(pickle.dumps(batches))
    expected, found = (each.make(items, 16, "train", 0, 3) for each in (batches, sent))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value)


@pytest.mark.slow
def test_a_run_with_batch_workers_is_the_run_with_a_thread(drive: Driver, tmp_path: Path) -> None:
    settings = ("batch_size=32", "max_epochs=2")
    for workers in (0, 2):
        drive("cmsc", *settings, f"batch_workers={workers}", f"runs={tmp_path / str(workers)}")
    assert content(tmp_path / "2") == content(tmp_path / "0")
