"""One contract for every registered perturbation, and how they are named, parsed and applied."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from clocs.core.errors import ConfigError
from clocs.core.registry import Registry
from clocs.views.perturbations import (
    PERTURBATIONS,
    Perturbation,
    parse_perturbations,
    perturb,
    perturbation,
)
from clocs.views.perturbations.amplitude import Scaling
from clocs.views.perturbations.noise import Gaussian
from clocs.views.perturbations.time import FlipTime
from tests.views.perturbations.conftest import noise, seeded, step

NAMES = PERTURBATIONS.names()
FLIPS = ("flip_time", "flip_amplitude")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", NAMES)
class TestContract:
    def test_a_new_tensor_of_the_same_form_from_the_given_generator_alone(self, name: str, dtype: torch.dtype) -> None:
        signals = noise(16, 2500, dtype)
        before, others = signals.clone(), torch.get_rng_state()
        made = step(name)(signals, seeded(1))
        again, other = step(name)(signals, seeded(1)), step(name)(signals, seeded(2))
        assert made.shape == signals.shape
        assert made.dtype == dtype
        assert made.isfinite().all()
        assert torch.equal(signals, before)
        assert made.data_ptr() != signals.data_ptr()
        assert torch.equal(made, again)
        assert not torch.equal(made, other)
        assert torch.equal(torch.get_rng_state(), others)

    def test_any_content_stays_finite(self, name: str, dtype: torch.dtype) -> None:
        signals = torch.stack([torch.zeros(2500), torch.full((2500,), 5.0), 1e6 * noise(1, 2500)[0]]).to(dtype)
        assert step(name, probability=1)(signals, seeded()).isfinite().all()

    def test_probability_is_each_rows_own(self, name: str, dtype: torch.dtype) -> None:
        """Half of 400 rows, within 5 standard deviations of the binomial; those left are left to the bit."""
        signals = noise(400, 300, dtype)
        assert torch.equal(step(name, probability=0)(signals, seeded()), signals)
        half = (step(name, probability=0.5)(signals, seeded()) != signals).any(dim=-1)
        whole = (step(name, probability=1)(signals, seeded()) != signals).any(dim=-1)
        assert abs(int(half.sum()) - 0.5 * int(whole.sum())) <= 5 * math.sqrt(400 / 4)

    def test_chance_does_not_depend_on_values(self, name: str, dtype: torch.dtype) -> None:
        """So that a sequence perturbs alike, whatever the step before it made of the signals."""
        one, other = seeded(), seeded()
        step(name, probability=0.5)(noise(8, 300, dtype), one)
        step(name, probability=0.5)(torch.zeros((8, 300), dtype=dtype), other)
        assert torch.equal(one.get_state(), other.get_state())

    def test_any_number_of_rows_and_samples(self, name: str, dtype: torch.dtype) -> None:
        for shape in (1, 2500), (3, 257), (3, 129), (0, 2500), (3, 0):
            assert step(name, probability=1)(noise(*shape, dtype), seeded()).shape == shape

    def test_two_views_of_a_frame_differ(self, name: str, dtype: torch.dtype) -> None:
        generator, signals = seeded(), noise(32, 2500, dtype)
        one, other = step(name)(signals, generator), step(name)(signals, generator)
        assert int((one != other).any(dim=-1).sum()) >= 8

    def test_other_shapes_and_types_are_refused(self, name: str, dtype: torch.dtype) -> None:
        with pytest.raises(ValueError, match=rf"{name}: needs floats \(N, S\)"):
            step(name)(noise(2, 300, dtype)[0], seeded())
        with pytest.raises(ValueError, match="int64"):
            step(name)(torch.zeros((2, 300), dtype=torch.int64), seeded())


@pytest.mark.parametrize("name", NAMES)
def test_the_catalogue_and_the_models_agree(name: str) -> None:
    made = step(name)
    assert made.name == name
    assert made.probability == (0.5 if name in FLIPS else 1)
    assert parse_perturbations([made.model_dump(mode="json")]) == (made,)
    with pytest.raises(ValidationError):
        made.__setattr__("probability", 0.1)


def test_steps_are_applied_in_order() -> None:
    signals, generator = noise(4, 300), seeded()
    steps = parse_perturbations([{"name": "gaussian", "sigma": 0.5}, "spec_augment_time", "flip_time"])
    expected = steps[2](steps[1](steps[0](signals, generator), generator), generator)
    assert torch.equal(perturb(signals, steps, seeded()), expected)
    assert perturb(signals, (), seeded()) is signals


def test_names_mappings_and_models_are_parsed() -> None:
    steps = parse_perturbations(["gaussian", {"name": "scaling", "low": "0.7"}, FlipTime(probability=1)])
    assert steps == (Gaussian(), Scaling(low=0.7), FlipTime(probability=1))
    assert parse_perturbations("gaussian") == (Gaussian(),)
    assert parse_perturbations([]) == ()


def test_all_that_is_wrong_is_said_at_once() -> None:
    given = ["gausian", {"name": "gaussian", "sgma": 1, "probability": 2}, {"sigma": 1}, 7, "scaling", "zzz"]
    with pytest.raises(ConfigError) as refusal:
        parse_perturbations(given)
    lines = str(refusal.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [f"perturbations[{number}]" for number in (0, 1, 2, 3, 5)]
    assert f"unknown perturbation 'gausian'. Did you mean 'gaussian'? Known: {', '.join(NAMES)}." in lines[0]
    assert "unknown option 'sgma' (did you mean 'sigma'?)" in lines[1]
    assert "probability: Input should be less than or equal to 1" in lines[1]
    assert "Its options: name, probability, sigma, relative." in lines[1]
    assert "a mapping with 'name'" in lines[2]
    assert "Did you mean" not in lines[4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "spec_augment_time", "hop": 65}, "hop must be at most a quarter of the window, 64"),
        ({"name": "spec_augment_time", "window": 255}, "multiple of 2"),
        ({"name": "spec_augment_frequency", "width": 1.1}, "width"),
        ({"name": "gaussian", "sigma": -1}, "sigma"),
        ({"name": "gaussian", "sigma": float("inf")}, "finite"),
        ({"name": "gaussian", "sigma": True}, "sigma: must be a number, not true"),
        ({"name": "scaling", "low": 3, "high": 1}, "high must be at least low"),
        ({"name": "permutation", "pieces": 0}, "pieces"),
        ({"name": "time_warping", "factor": 0.9}, "factor"),
        ({"name": "baseline_wander", "slowest": 3}, "fastest must be at least slowest, 3"),
        ({"name": "mask", "fill": "noise"}, "fill"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_perturbations([options])


@pytest.mark.parametrize("given", [None, 3, {1, 2}])
def test_what_is_no_list_is_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="give a list of names"):
        parse_perturbations(given)


PLUGIN = """
from typing import Literal
from clocs.views.perturbations import Perturbation


class Offset(Perturbation):
    name: Literal["offset"] = "offset"
    millivolt: float = 1.0

    def apply(self, signals, generator):
        return signals + self.millivolt
"""


def test_a_third_partys_perturbation_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offset_plugin.py").write_text(PLUGIN)
    info = tmp_path / "offset_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offset-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[clocs.perturbations]\noffset = offset_plugin:Offset\n")
    monkeypatch.syspath_prepend(tmp_path)
    catalogue: Registry[type[Perturbation]] = Registry("perturbation", {"gaussian": f"{Gaussian.__module__}:Gaussian"})
    monkeypatch.setattr(perturbation, "PERTURBATIONS", catalogue)
    steps = parse_perturbations(["gaussian", {"name": "offset", "millivolt": 2}])
    assert torch.equal(perturb(torch.zeros((3, 5)), steps[1:], seeded()), torch.full((3, 5), 2.0))


def test_the_base_itself_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Perturbation(name="nothing")  # type: ignore[abstract]
