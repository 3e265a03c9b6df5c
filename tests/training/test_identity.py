"""The name of a run: a hash of the values that differ from the defaults, and of its inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from clocs.core import run_identity
from clocs.core.run_identity import identity_hash, identity_name, non_default_values
from clocs.methods import METHODS
from clocs.methods.method import non_default_method, parse_method
from clocs.training.config_resolution import resolve_config
from clocs.training.ready_configs import ready_configs
from clocs.training.runs import Run, read_config


class Layers(BaseModel):
    width: int = 3
    depth: int | None = None


class Example(BaseModel):
    size: int
    layers: Layers = Layers()
    tags: tuple[str, ...] = ()


def test_defaults_are_no_changed_values() -> None:
    assert non_default_values(Example(size=1)) == {"size": 1}
    assert non_default_values(Example(size=1, layers=Layers(width=3), tags=())) == {"size": 1}
    assert non_default_values(Example(size=1, layers=Layers(depth=2), tags=("a",))) == {
        "size": 1,
        "layers": {"depth": 2},
        "tags": ["a"],
    }


def test_values_origin_and_schema_decide_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {identity_hash({"a": 1}), identity_hash({"a": 2}), identity_hash({}, {"a": 1}), identity_hash({})}
    assert len(hashes) == 4
    before = identity_hash({"a": 1})
    assert identity_hash({"a": 1}, {}) == before
    monkeypatch.setattr(run_identity, "SCHEMA", run_identity.SCHEMA + 1)
    assert identity_hash({"a": 1}) != before


def test_a_name_is_readable() -> None:
    label, _, digits = identity_name("cmsc-chapman", {"seed": 1}).rpartition("-")
    assert label == "cmsc-chapman"
    assert len(digits) == 12


@pytest.mark.parametrize("name", METHODS.names())
def test_explicit_defaults_of_a_method_are_no_changes(name: str) -> None:
    assert non_default_method(parse_method({"name": name})) == {"name": name}


def test_augmentations_are_named_by_what_differs_from_their_defaults() -> None:
    method = parse_method({"name": "cmsc", "augmentations": ["gaussian_noise", {"name": "mask", "mask_fraction": 0.3}]})
    expected = [{"name": "gaussian_noise"}, {"name": "mask", "mask_fraction": 0.3}]
    assert non_default_method(method) == {"name": "cmsc", "augmentations": expected}


@pytest.mark.parametrize("name", ready_configs())
def test_explicit_defaults_give_the_same_identity(name: str) -> None:
    config = resolve_config(name)
    assert resolve_config(config.model_dump(mode="json")).identity() == config.identity()


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("seed=3", {"seed": 3}),
        ("schedule=cosine", {"schedule": "cosine"}),
        ("alternate_stores=true", {"alternate_stores": True}),
        ("method.temperature=0.2", {"method": {"name": "cmsc", "temperature": 0.2}}),
        ("method.projection_hidden_dim=64", {"method": {"name": "cmsc", "projection_hidden_dim": 64}}),
        ("method.temperature=0.1", {}),
        ("encoder.name=resnet", {"encoder": {"name": "resnet"}}),
        ("encoder.dropout=0.5", {"encoder": {"name": "cnn", "dropout": 0.5}}),
        ("frames.normalization=none", {"frames": {"normalization": "none"}}),
        ("init_from=somewhere", {}),
        ("num_threads=2", {}),
    ],
)
def test_a_change_is_part_of_the_identity(override: str, changed: dict[str, Any]) -> None:
    plain = resolve_config("cmsc-chapman").identity()
    assert plain == {"method": {"name": "cmsc"}, "encoder": {"name": "cnn"}}
    assert resolve_config("cmsc-chapman", [override]).identity() == {**plain, **changed}


def test_a_run_is_named_by_what_differs_and_describes_all(tmp_path: Path) -> None:
    runs = [
        Run(tmp_path, "run", values, origin, {"seed": 0, "batch_size": 256})
        for values in ({}, {"seed": 1})
        for origin in ({"store": "a"}, {"store": "b"})
    ]
    assert len({run.name for run in runs}) == 4
    assert Run(tmp_path, "run", {}, {"store": "a"}, {"other": 1}).name == runs[0].name
    runs[0].begin()
    assert read_config(runs[0].folder) == {"schema": run_identity.SCHEMA, "seed": 0, "batch_size": 256}
