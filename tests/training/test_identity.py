"""Options of methods and encoders that came later leave the names of earlier runs as they were."""

from __future__ import annotations

import pytest

from clocs.core.files import content_hash
from clocs.core.later import later
from clocs.encoders import ENCODERS
from clocs.methods import METHODS
from clocs.training.config import OURS, PretrainConfig, ready_configs, resolve

RELEASED = ["encoder.final_relu=false", "method.pairs=last", "method.off_diagonals=one_triangle"]


@pytest.mark.parametrize(
    ("name", "overrides", "sha256"),
    [
        ("cmsc-chapman", [], "83dd48c662e305efa24236f7bc29a87f06513e70cf3e98327708535b8384bb16"),
        ("cmlc-chapman", [], "ab6fe67fc704475ff34e8e50b3b19c1fd98b296dffa52667e1be5e328fea5d66"),
        ("cmsmlc-chapman", [], "54e26532c2895b46ffdf6ab825395d3e0db4d8f470ec556b402478cc9be28295"),
        ("simclr-chapman", [], "3fc09a9883e84f239e0b722e94ab4b2a91117eb89c0bbb2b826aadc777484e75"),
        ("byol-chapman", [], "71f2933ead9259788e1b253a2f0b5e8d7fdf05a9c7ab03560be70f4410864dc1"),
        ("supervised-ptbxl", [], "5ea075df8c9d1580f5e4048b51712b609c58348629d444bb6afb5de3630fe558"),
        ("cmsc-chapman", RELEASED, "6cd63034da901b32fe7ed27144d5881e8c9d3a7eb516fea78c9585a0afc52864"),
        (
            "cmsmlc-physionet2020",
            ["method.perturbations=[gaussian,scaling]"],
            "0b94f8f4f19040957588a348ca574e951d6cc6d76e1e6fd4ae95c0629afc0423",
        ),
        (
            "simclr-chapman",
            ["method.form=nt_xent", "method.perturbations=[spec_augment_time,flip_time]"],
            "7ee6c3617abacb799563ec3093e65d61800f0d21ef98db8ef7bebcb286d7e3d2",
        ),
    ],
)
def test_ready_configs_have_the_names_they_had(name: str, overrides: list[str], sha256: str) -> None:
    """Hashes of what commit 97e3eaf said, which had no such option of a method or an encoder."""
    assert content_hash(resolve(name, overrides).identity()) == sha256


@pytest.mark.parametrize("name", [name for name in ready_configs() if not name.startswith(OURS)])
def test_no_ready_config_of_the_paper_uses_an_option_that_came_later(name: str) -> None:
    config = resolve(name)
    identity, method, encoder = config.identity(), config.method["name"], config.encoder["name"]
    assert later(METHODS.get(method)).keys().isdisjoint(identity["method"])
    assert later(ENCODERS.get(encoder).options).keys().isdisjoint(identity["encoder"])
    assert later(PretrainConfig).keys().isdisjoint(identity)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("cmsc", "head", 64), ("simclr", "head", 8), ("cmsmlc", "head", 1), ("cmsmlc", "view_choice", "random_pair")],
)
def test_an_option_that_is_used_is_part_of_the_name(name: str, key: str, value: object) -> None:
    plain, used = resolve(f"{name}-chapman"), resolve(f"{name}-chapman", [f"method.{key}={value}"])
    assert plain.method[key] == later(METHODS.get(name))[key], "a config spells out all options all the same"
    expected = {**plain.identity()["method"], key: value}
    assert used.identity() == {**plain.identity(), "method": expected}


def test_schedule_and_warm_up_are_part_of_the_name_when_they_are_used() -> None:
    plain = resolve("cmsc-chapman").identity()
    used = resolve("cmsc-chapman", ["schedule=cosine", "warmup_steps=10"]).identity()
    assert used == {**plain, "schedule": "cosine", "warmup_steps": 10}


def test_all_options_of_a_new_encoder_are_part_of_the_name() -> None:
    encoder = resolve("cmsc-chapman", ["encoder.name=resnet"]).identity()["encoder"]
    assert encoder == {
        "name": "resnet",
        "width": 24,
        "depth": 4,
        "kernel": 7,
        "stem_kernel": 15,
        "stem_stride": 5,
        "dropout": 0.0,
    }
