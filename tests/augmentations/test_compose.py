"""Sequences: applied in order, parsed from configs and described for them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from clocs.augmentations import (
    AUGMENTATIONS,
    Augmentation,
    Compose,
    FlipTime,
    GaussianNoise,
    LeadDropout,
    Scaling,
    compose,
)
from clocs.augmentations.compose import describe_augmentations, non_default_augmentations, parse_augmentations
from clocs.core.errors import ConfigError
from clocs.core.registry import Registry
from tests import forked
from tests.augmentations.conftest import noise, seeded


def test_steps_are_applied_in_order() -> None:
    signals, generator = noise(4, 300, leads=3), seeded()
    steps = parse_augmentations([{"name": "gaussian_noise", "sigma": 0.5}, "spec_augment_time", "flip_time"])
    expected = steps[2](steps[1](steps[0](signals, generator), generator), generator)
    assert torch.equal(Compose(steps)(signals, seeded()), expected)
    assert torch.equal(Compose([])(signals), signals)


def test_compose_flattens_nested_compositions() -> None:
    inner = Compose([GaussianNoise(0.5), "flip_time"])
    outer = Compose([inner, LeadDropout(0.5), {"name": "scaling"}])
    flat = Compose([GaussianNoise(0.5), FlipTime(), LeadDropout(0.5), Scaling()])
    signals = noise(4, 300, leads=3)
    assert outer == flat
    assert outer != inner
    assert torch.equal(outer(signals, seeded()), flat(signals, seeded()))
    assert outer.needs_millivolt
    assert outer.drops_leads
    assert not Compose(["flip_time"]).needs_millivolt
    assert not inner.drops_leads
    assert parse_augmentations([outer]) == flat.augmentations


def test_names_mappings_and_objects_are_parsed() -> None:
    steps = parse_augmentations(["gaussian_noise", {"name": "scaling", "low": "0.7"}, FlipTime(probability=1)])
    assert steps == (GaussianNoise(), Scaling(low=0.7), FlipTime(probability=1))
    assert parse_augmentations("gaussian_noise") == (GaussianNoise(),)
    assert parse_augmentations([]) == ()


def test_descriptions_hold_all_options_or_those_that_differ() -> None:
    given = [GaussianNoise(1), "flip_time"]
    assert describe_augmentations(given) == [
        {"name": "gaussian_noise", "sigma": 1.0, "relative": False, "probability": 1.0},
        {"name": "flip_time", "probability": 0.5},
    ]
    assert non_default_augmentations(given) == [{"name": "gaussian_noise", "sigma": 1.0}, {"name": "flip_time"}]


def test_all_errors_are_reported_together() -> None:
    given = ["gausian_noise", {"name": "gaussian_noise", "sgma": 1, "probability": 2}, {"sigma": 1}, 7, "scaling", "zz"]
    with pytest.raises(ConfigError) as refusal:
        parse_augmentations(given)
    lines = str(refusal.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [f"augmentations[{number}]" for number in (0, 1, 2, 3, 5)]
    known = ", ".join(AUGMENTATIONS.names())
    assert f"Unknown augmentation 'gausian_noise'. Did you mean 'gaussian_noise'? Choose from {known}." in lines[0]
    assert "unknown option 'sgma' (did you mean 'sigma'?)" in lines[1]
    assert "probability: Input should be less than or equal to 1" in lines[1]
    assert "Its options: sigma, relative, probability." in lines[1]
    assert "a mapping with 'name'" in lines[2]
    assert "Did you mean" not in lines[4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "spec_augment_time", "hop": 65}, "hop must be at most a quarter of the window, 64"),
        ({"name": "spec_augment_time", "window": 255}, "multiple of 2"),
        ({"name": "spec_augment_frequency", "mask_fraction": 1.1}, "mask_fraction"),
        ({"name": "gaussian_noise", "sigma": -1}, "sigma"),
        ({"name": "gaussian_noise", "sigma": float("inf")}, "finite"),
        ({"name": "gaussian_noise", "sigma": True}, "sigma: must be a number, not true"),
        ({"name": "scaling", "low": 3, "high": 1}, "high must be at least low"),
        ({"name": "permutation", "num_pieces": 0}, "num_pieces"),
        ({"name": "time_warping", "factor": 0.9}, "factor"),
        ({"name": "baseline_wander", "min_frequency": 3}, "max_frequency=2.5 must be at least min_frequency=3"),
        ({"name": "mask", "fill": "noise"}, "fill"),
        ({"name": "lead_dropout", "probability": 2}, "probability"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_augmentations([options])


@pytest.mark.parametrize("given", [None, 3, {1, 2}])
def test_what_is_no_list_is_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="expected a list of names"):
        parse_augmentations(given)


PLUGIN = """
from clocs.augmentations import Augmentation


class Offset(Augmentation):
    def __init__(self, millivolt: float = 1.0, probability: float = 1.0) -> None:
        super().__init__(probability)
        self.millivolt = millivolt

    def apply(self, signals, generator):
        return signals + self.millivolt
"""


def test_a_third_partys_augmentation_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offset_plugin.py").write_text(PLUGIN)
    info = tmp_path / "offset_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offset-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[clocs.augmentations]\noffset = offset_plugin:Offset\n")
    monkeypatch.syspath_prepend(tmp_path)
    catalogue: Registry[type[Augmentation]] = Registry("augmentation")
    catalogue.register("gaussian_noise")(GaussianNoise)
    monkeypatch.setattr(compose, "AUGMENTATIONS", catalogue)
    steps = parse_augmentations(["gaussian_noise", {"name": "offset", "millivolt": 2}])
    assert torch.equal(steps[1](torch.zeros((3, 1, 5)), seeded()), torch.full((3, 1, 5), 2.0))
    assert describe_augmentations(steps[1:]) == [{"name": "offset", "millivolt": 2.0, "probability": 1.0}]


SCRIPT = """
from clocs import augmentations
from clocs.training.config_resolution import resolve_config


@augmentations.register("mine")
class Mine(augmentations.Augmentation):
    def __init__(self, size: float = 1.0, probability: float = 1.0) -> None:
        super().__init__(probability)
        self.size = size

    def apply(self, signals, generator):
        return signals + self.size


config = resolve_config("simclr-synthetic", ["method.augmentations=[flip_time, {name: mine, size: 2}]"])
print(config.method["augmentations"][1])
"""


def test_an_augmentation_of_a_script_works_in_a_config(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = forked.run(tmp_path / "script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{'name': 'mine', 'size': 2.0, 'probability': 1.0}"
