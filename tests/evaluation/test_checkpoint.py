"""Subjects: from a run, from its best folder, or out of a seed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from clocs.core.errors import ConfigError
from clocs.evaluation.checkpoint import load_encoder_checkpoint
from clocs.store.store import Store
from clocs.training.config_resolution import resolve_config
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.initialization import build_initial_encoder


def same_weights(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    mine, theirs = first.state_dict(), second.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(value, theirs[name]) for name, value in mine.items())


def test_random_weights_equal_the_initial_weights_of_a_run(store: Store) -> None:
    encoder = load_encoder_checkpoint("random", store, seed=3)
    begun = build_initial_encoder(resolve_config("cmsc-synthetic", ["seed=3"]), store.frame_policy("segments"))
    assert same_weights(encoder.module, begun)
    assert not encoder.module.training
    assert (encoder.folder, encoder.label, encoder.describe()["method"]) == (None, "random", "random")
    assert encoder.about["input"]["sampling_rate"] == 500
    other = load_encoder_checkpoint("random", store, seed=4)
    assert not same_weights(encoder.module, other.module)
    assert encoder.identity != other.identity
    assert encoder.identity == load_encoder_checkpoint("random", store, seed=3).identity


def test_a_run_and_its_best_folder_are_the_same_encoder(store: Store, trained: Path) -> None:
    by_run, by_best = (
        load_encoder_checkpoint(trained.parent, store),
        load_encoder_checkpoint(str(trained), store, seed=9),
    )
    module, about = load_encoder_folder(trained)
    assert same_weights(by_run.module, module)
    assert by_run.identity == by_best.identity
    assert by_run.identity["weights"] == about["weights_sha256"]
    assert (by_run.folder, by_run.label) == (trained, "cmsc")
    told = by_run.describe()
    assert told["method"] == "cmsc"
    assert told["training"]["store_sha256"] == store.sha256
    assert told["validation_loss"] == about["validation_loss"]


def test_an_unknown_encoder_is_rejected(store: Store) -> None:
    with pytest.raises(ConfigError, match="neither a folder nor a shipped encoder"):
        load_encoder_checkpoint("nowhere", store)
