"""Networks from scratch: crops of all leads, with reproducible weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clocs.encoders import ENCODERS
from clocs.evaluation.benchmark.scratch_networks import scratch_embedder
from clocs.store.store import Store


@pytest.mark.parametrize("name", ["patch_transformer", "resnet", "s4d"])
def test_a_network_takes_crops_of_all_leads(store: Store, name: str) -> None:
    assert name in ENCODERS.names()
    embedder = scratch_embedder(f"scratch:{name}", store)
    assert embedder.name.startswith(f"scratch:{name}")
    assert (embedder.policy.num_samples, embedder.policy.sampling_rate, len(embedder.policy.leads)) == (250, 100.0, 12)
    assert len(embedder.embed(np.zeros((2, 12, 250), np.float32), np.ones((2, 12), np.bool_))) == 2


def test_weights_follow_from_the_seed_and_leave_the_global_generator_alone(store: Store) -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first, again, other = (scratch_embedder("resnet", store, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(1), expected)
    assert first.identity == again.identity != other.identity
