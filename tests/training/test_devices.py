"""Modules and batches move to a device by one path, which the CPU takes in all other tests."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

import clocs
from clocs.core.errors import ConfigError
from clocs.evaluation.probe import ProbeConfig
from clocs.inference.torch_network import TorchNetwork
from clocs.training.devices import device_of, place_module, to_device


def test_a_tensor_goes_to_a_gpu_from_page_locked_memory_while_the_caller_continues() -> None:
    """Without a GPU, the calls are recorded."""
    values, device = Mock(device=torch.device("cpu")), torch.device("cuda")
    assert to_device(values, device) is values.pin_memory.return_value.to.return_value
    values.pin_memory.return_value.to.assert_called_once_with(device, non_blocking=True)
    there = Mock(device=torch.device("cuda", 0))
    to_device(there, device)
    there.pin_memory.assert_not_called()


def test_the_cpu_copies_nothing() -> None:
    values = torch.arange(3)
    assert to_device(values, torch.device("cpu")) is values


def test_a_module_is_placed_and_an_unknown_device_is_named() -> None:
    module = nn.Linear(2, 2)
    assert place_module(module, None) is place_module(module, "cpu") is module
    assert device_of(module) == device_of(nn.Flatten()) == torch.device("cpu")
    assert device_of(place_module(nn.Linear(2, 2), "meta")) == torch.device("meta")
    with pytest.raises(ConfigError, match=r"device 'gpu' cannot be used: .* Use 'cpu', 'cuda' or 'mps'"):
        TorchNetwork(module, "gpu")


def test_probe_similarity_and_audit_take_a_device(tmp_path: object) -> None:
    """The CPU by name gives the results of the default, and is not part of a run's name."""
    store = clocs.ingest("synthetic", None, f"{tmp_path}/store", options={"num_records": 40, "leads": 1, "seconds": 5})
    clocs.split(store)
    results = [
        clocs.probe("random", store, ProbeConfig(label_fraction=1.0, device=device), runs=f"{tmp_path}/{device}")
        for device in (None, "cpu")
    ]
    assert results[0]["test"] == results[1]["test"]
    audits = [clocs.audit("random", store, replicates=10, device=device) for device in (None, "cpu")]
    np.testing.assert_equal(audits[0], audits[1])
    with pytest.raises(ConfigError, match="device 'gpu' cannot be used"):
        clocs.audit("random", store, device="gpu")
