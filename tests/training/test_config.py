"""Configs: every ready one is valid, and all errors are reported together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import clocs
from clocs.core.errors import ConfigError, UnitError
from clocs.methods import METHODS
from clocs.methods.simclr import SimCLR
from clocs.training.config import EXECUTION_KEYS, PretrainConfig
from clocs.training.config_resolution import resolve_config
from clocs.training.ready_configs import RECOMMENDED_NAME, ready_configs


@pytest.mark.parametrize("name", ready_configs())
def test_every_ready_config_resolves(name: str) -> None:
    config = resolve_config(name)
    method, _, dataset = name.partition("-")
    assert config.method["name"] == ("cmsmlc" if method == RECOMMENDED_NAME else method)
    assert str(config.store) == f"stores/{dataset}"


def test_the_papers_settings() -> None:
    config = resolve_config("cmsc-chapman")
    assert (config.batch_size, config.learning_rate, config.optimizer) == (256, 1e-4, "adam")
    assert config.method["temperature"] == 0.1
    tasks = [task["name"] for task in resolve_config("mtssl-chapman").method["augmentations"]]
    assert tasks == ["scaling", "flip_amplitude", "flip_time"], "appendix C: three tasks on Chapman"
    assert len(resolve_config("mtssl-physionet2020").method["augmentations"]) == 6


def test_overrides_replace_keys() -> None:
    config = resolve_config(
        "cmsc-chapman", ["batch_size=64", "method.temperature=0.2", "leads=II,V2", "encoder.dropout=0"]
    )
    assert (config.batch_size, config.leads) == (64, ("II", "V2"))
    assert resolve_config(config.model_dump(), ["leads=lead ii,v2"]).identity() == config.identity()
    assert config.method["temperature"] == 0.2
    assert config.encoder == {**resolve_config("cmsc-chapman").encoder, "dropout": 0.0}


def test_a_file_may_build_on_a_ready_config(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: simclr-chapman\nbatch_size: 32\n")
    config = resolve_config(path, ["seed=3"])
    assert (config.method["name"], config.batch_size, config.seed) == ("simclr", 32, 3)


@pytest.mark.parametrize(
    ("over", "section", "expected"),
    [
        ({"encoder": {"dropout": 0.1}}, "encoder", {"name": "resnet", "dropout": 0.1}),
        ({"encoder": {"name": "resnet", "width": 8}}, "encoder", {"name": "resnet", "width": 8}),
        ({"encoder": "cnn"}, "encoder", {"name": "cnn", "dropout": 0.1, "final_relu": True}),
        (
            {"method": {"projection_hidden_dim": 64}},
            "method",
            {"name": "cmsmlc", "projection_hidden_dim": 64, "view_choice": "random_pair"},
        ),
        (
            {"method": {"name": "cmsmlc", "projection_hidden_dim": 64}},
            "method",
            {"projection_hidden_dim": 64, "view_choice": "random_pair"},
        ),
        (
            {"method": {"name": "cmsc", "projection_hidden_dim": 64}},
            "method",
            {"name": "cmsc", "projection_hidden_dim": 64, "augmentations": []},
        ),
        ({"method": "simclr"}, "method", {"name": "simclr", "temperature": 0.1}),
        ({"frames": {"num_samples": 1000}}, "frames", {"normalization": "none", "num_samples": 1000}),
    ],
)
def test_sections_are_merged_key_by_key(
    tmp_path: Path, over: dict[str, Any], section: str, expected: dict[str, Any]
) -> None:
    """A file, a mapping and a key on the command line alike; another name starts afresh."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"base": "recommended-synthetic", **over}))
    config = resolve_config(path)
    assert getattr(config, section).items() >= expected.items()
    plain = resolve_config("recommended-synthetic")
    assert config == plain.model_copy(update={section: getattr(config, section)}), "nothing else has changed"
    given = {"base": "recommended-synthetic", **over}
    assert resolve_config(given) == config
    assert given == {"base": "recommended-synthetic", **over}, "the caller's stays as it was"
    assert resolve_config("recommended-synthetic", [f"{section}={yaml.safe_dump(over[section], width=999)}"]) == config


def test_a_name_replaces_a_section() -> None:
    config = resolve_config(
        {"method": "simclr", "encoder": "resnet"}, ["encoder.width=8", "method.projection_hidden_dim=4"]
    )
    assert (config.encoder["name"], config.encoder["width"]) == ("resnet", 8)
    assert (config.method["name"], config.method["projection_hidden_dim"]) == ("simclr", 4)


class MySimCLR(SimCLR):
    pass


def test_a_methods_name_may_have_a_hyphen(monkeypatch: pytest.MonkeyPatch) -> None:
    METHODS.names()  # entry points are read first
    monkeypatch.setitem(METHODS._locations, "my-simclr", "another.package:MySimCLR")
    monkeypatch.setitem(METHODS._parts, "my-simclr", MySimCLR)
    assert "my-simclr-synthetic" in ready_configs()
    config = resolve_config("my-simclr-synthetic")
    assert (config.method["name"], str(config.store), config.batch_size) == ("my-simclr", "stores/synthetic", 64)


def test_methods_that_compare_leads_have_no_ready_config_where_there_is_one() -> None:
    known = ready_configs()
    assert {"cmlc-chapman", "cmlc-synthetic", "simclr-cardiology", "simclr-physionet2017"} <= set(known)
    assert {"cmlc-cardiology", "cmlc-physionet2017"}.isdisjoint(known)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learning_rate=.inf", "learning_rate: .*finite"),
        ("weight_decay=.nan", "weight_decay: .*finite"),
        ("learning_rate=true", "learning_rate: must be a number, not true"),
        ("max_steps=true", "steps: must be a number, not true"),
        ("method.projection_hidden_dim=true", "projection_hidden_dim: must be a number, not true"),
        ("encoder.dropout=false", "dropout: must be a number, not false"),
        ("method.augmentations=12", "augmentations: expected a list of names, got 12"),
        ("method.augmentations=", "augmentations: expected a list of names, got None"),
        (
            "method.augmentations=[gaussian_noise",
            r"'method.augmentations=\[gaussian_noise': the value is not YAML: expected",
        ),
        ("method.temprature=0.2", "did you mean 'temperature'"),
        ("temperature=0.2", "did you mean 'method.temperature'"),
        ("dropout=0.2", "did you mean 'encoder.dropout'"),
        ("normalization=none", "did you mean 'frames.normalization'"),
        ("encoder.drop_out=0.2", "did you mean 'dropout'"),
    ],
)
def test_wrong_values_are_refused_with_a_hint(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_config("cmsc-synthetic", [override])


def test_all_errors_are_reported_with_suggestions() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_config("cmsc-chapman", ["batchh=64", "max_epochs=-1", "method.temprature=3"])
    for part in ("did you mean 'batch_size'", "max_epochs", "temprature"):
        assert part in str(caught.value)
    with pytest.raises(ConfigError, match="cmsc-chapman"):
        resolve_config("cmsc-chapmann")
    with pytest.raises(ConfigError, match="Expected key=value"):
        resolve_config("cmsc-chapman", ["batch_size"])


def test_where_a_run_is_carried_out_is_not_part_of_its_name() -> None:
    elsewhere = [
        "store=x",
        "runs=y",
        "logger=wandb",
        "online_probe=5",
        "num_threads=2",
        "devices=2",
        "checkpoint_every=10",
    ]
    here, there = resolve_config("cmsc-chapman"), resolve_config("cmsc-chapman", elsewhere)
    assert here.identity() == there.identity()
    assert here.identity() != resolve_config("cmsc-chapman", ["seed=1"]).identity()
    assert set(PretrainConfig.model_fields) >= EXECUTION_KEYS


def test_a_wrong_frame_policy_and_an_uneven_batch_are_refused(store: Path, tmp_path: Path) -> None:
    from clocs.training.pretrain import pretrain

    here = [f"store={store}", f"runs={tmp_path}"]
    with pytest.raises(ConfigError, match=r"frames: normalization"):
        pretrain("cmsc-synthetic", [*here, "frames.normalization=foo"])
    with pytest.raises(ConfigError, match="multiple of 32"):
        pretrain("cmsc-synthetic", [*here, "batch_size=40", "devices=2"])
    with pytest.raises(ConfigError, match="would change the loss"):
        pretrain("cmsc-synthetic", [*here, "accumulate_batches=2"])


def test_noise_in_millivolt_is_refused_where_a_store_has_no_unit(real_data: Path, tmp_path: Path) -> None:
    import clocs

    clocs.split(clocs.ingest("cardiology", real_data / "cardiology.zip", tmp_path / "store"))
    here = [f"store={tmp_path / 'store'}", f"runs={tmp_path / 'runs'}", "max_steps=2"]
    with pytest.raises(UnitError, match="adu"):
        clocs.pretrain("simclr-cardiology", [*here, "method.augmentations=[gaussian_noise]"])
    assert clocs.pretrain("simclr-cardiology", here)["steps"] == 2


def test_overrides_apply_to_a_config_object(store: Path, tmp_path: Path) -> None:
    config = resolve_config("cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", "max_steps=2", "batch_size=16"])
    assert clocs.pretrain(config, ["max_steps=3"])["steps"] == 3


def test_the_samples_of_a_frame_are_not_set_in_the_encoder_section() -> None:
    with pytest.raises(ConfigError, match=r"num_samples follows from the frames. Set frames\.num_samples=N"):
        resolve_config("cmsc-synthetic", ["encoder.num_samples=64"])


def test_the_encoder_section_has_leads_and_dimensions_and_only_changes_name_a_run() -> None:
    usual = resolve_config("cmsc-synthetic")
    spelled = {"name": "cnn", "in_channels": 1, "embedding_dim": 128, "dropout": 0.1, "final_relu": True}
    assert usual.encoder == spelled
    assert usual.identity()["encoder"] == {"name": "cnn"}
    assert usual.encoder_options(num_samples=1000)["num_samples"] == 1000
    other = resolve_config("cmsc-synthetic", ["encoder={name: resnet, embedding_dim: 64}"])
    assert other.identity()["encoder"] == {"name": "resnet", "embedding_dim": 64}
    assert "num_samples" not in other.encoder_options(num_samples=1000)
    with pytest.raises(ConfigError, match=r"embedding_dim.*did you mean 'encoder\.embedding_dim'"):
        resolve_config("cmsc-synthetic", ["embedding_dim=64"])


@pytest.mark.parametrize("given", ["12", 12])
def test_twelve_stands_for_the_standard_leads(given: object) -> None:
    names = "I,II,III,aVR,aVL,aVF,V1,V2,V3,V4,V5,V6"
    config = resolve_config({"base": "cmsc-synthetic", "leads": given})
    assert config.leads == tuple(names.split(","))
    assert config.identity() == resolve_config("cmsc-synthetic", [f"leads={names}"]).identity()
    assert resolve_config("cmsc-synthetic", ["leads=12"]).leads == config.leads


def test_an_unknown_config_is_refused_with_the_methods() -> None:
    with pytest.raises(ConfigError, match=r"Methods: .*simclr.*Import or install"):
        resolve_config("mine-nowhere")
