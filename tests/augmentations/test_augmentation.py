"""One contract for every registered augmentation."""

from __future__ import annotations

import copy
import math
import pickle

import pytest
import torch
from torch import Generator, Tensor

from clocs import augmentations
from clocs.augmentations import AUGMENTATIONS, Augmentation
from clocs.augmentations.compose import describe_augmentations, parse_augmentations
from clocs.core.errors import ConfigError
from clocs.core.options import constructor_options
from tests.augmentations.conftest import named, noise, seeded

NAMES = [
    "baseline_wander",
    "flip_amplitude",
    "flip_time",
    "gaussian_noise",
    "lead_dropout",
    "mask",
    "permutation",
    "random_leads",
    "scaling",
    "spec_augment_frequency",
    "spec_augment_time",
    "time_warping",
]
DROPPING = {"lead_dropout", "random_leads"}
BY_LEAD = {"gaussian_noise", "baseline_wander", *DROPPING}
DEFAULTS = {"flip_time": 0.5, "flip_amplitude": 0.5, "lead_dropout": 0.3}
LEADS = 3


def test_every_augmentation_is_registered_and_exported() -> None:
    assert set(NAMES) == set(AUGMENTATIONS.names())
    assert {AUGMENTATIONS.get(name).__name__ for name in NAMES} <= set(augmentations.__all__)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", NAMES)
class TestContract:
    def test_the_result_is_a_new_tensor_that_depends_only_on_the_generator(self, name: str, dtype: torch.dtype) -> None:
        signals = noise(16, 2500, dtype, LEADS)
        before, others = signals.clone(), torch.get_rng_state()
        made = named(name)(signals, seeded(1))
        again, other = named(name)(signals, seeded(1)), named(name)(signals, seeded(2))
        assert made.shape == signals.shape
        assert made.dtype == dtype
        assert made.isfinite().all()
        assert torch.equal(signals, before)
        assert made.data_ptr() != signals.data_ptr()
        assert torch.equal(made, again)
        assert not torch.equal(made, other)
        assert torch.equal(torch.get_rng_state(), others)

    def test_without_a_generator_torchs_own_is_used(self, name: str, dtype: torch.dtype) -> None:
        signals = noise(8, 300, dtype, LEADS)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            made = named(name)(signals)
        assert torch.equal(made, named(name)(signals, seeded(5)))

    def test_any_content_stays_finite(self, name: str, dtype: torch.dtype) -> None:
        signals = torch.stack([torch.zeros(2500), torch.full((2500,), 5.0), 1e6 * noise(1, 2500)[0, 0]]).to(dtype)
        for form in (3, 1, 2500), (1, 3, 2500):
            assert named(name, probability=1)(signals.view(form), seeded()).isfinite().all()

    def test_the_number_of_draws_depends_only_on_shapes_and_options(self, name: str, dtype: torch.dtype) -> None:
        """So that a sequence augments alike, whatever the step before it made of the signals."""
        one, other, single = seeded(), seeded(), seeded()
        named(name, probability=0.5)(noise(8, 300, dtype, LEADS), one)
        named(name, probability=0.5)(torch.zeros((8, LEADS, 300), dtype=dtype), other)
        named(name, probability=0.5)(torch.full((8, LEADS, 300), 1e3, dtype=dtype), single)
        assert torch.equal(one.get_state(), other.get_state())
        assert torch.equal(one.get_state(), single.get_state())

    def test_any_number_of_frames_leads_and_samples(self, name: str, dtype: torch.dtype) -> None:
        for frames, leads, num_samples in (
            (1, 1, 2500),
            (3, 12, 257),
            (3, 2, 129),
            (0, 3, 2500),
            (3, 0, 2500),
            (3, 2, 0),
        ):
            signals = noise(frames, num_samples, dtype, leads)
            assert named(name, probability=1)(signals, seeded()).shape == signals.shape

    def test_signals_need_not_be_contiguous(self, name: str, dtype: torch.dtype) -> None:
        signals = noise(300, 8, dtype, LEADS).permute(2, 1, 0)
        made = named(name)(signals, seeded())
        torch.testing.assert_close(made, named(name)(signals.contiguous(), seeded()))

    def test_probability_zero_changes_no_bit(self, name: str, dtype: torch.dtype) -> None:
        signals = noise(40, 300, dtype, LEADS)
        assert torch.equal(named(name, probability=0)(signals, seeded()), signals)

    def test_other_shapes_and_types_are_refused(self, name: str, dtype: torch.dtype) -> None:
        kind = AUGMENTATIONS.get(name).__name__
        with pytest.raises(ValueError, match=rf"{kind}: expected floats \(N, C, S\), got .* \(2, 300\)"):
            named(name)(noise(2, 300, dtype)[:, 0], seeded())
        with pytest.raises(ValueError, match="int64"):
            named(name)(torch.zeros((2, 1, 300), dtype=torch.int64), seeded())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DROPPING])
def test_each_frame_is_augmented_with_the_probability(name: str) -> None:
    """Half of 400 frames, within 5 standard deviations of the binomial; those left are left to the bit in all leads."""
    signals = noise(400, 300, leads=LEADS)
    changed = (named(name, probability=0.5)(signals, seeded()) != signals).any(dim=-1)
    whole = (named(name, probability=1)(signals, seeded()) != signals).any(dim=-1)
    assert (changed.all(1) | ~changed.any(1)).all()
    assert abs(int(changed.any(1).sum()) - 0.5 * int(whole.any(1).sum())) <= 5 * math.sqrt(400 / 4)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DROPPING])
def test_two_views_of_a_frame_differ(name: str) -> None:
    generator, signals = seeded(), noise(32, 2500)
    one, other = named(name)(signals, generator), named(name)(signals, generator)
    assert int((one != other).flatten(1).any(dim=-1).sum()) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_leads_of_a_frame(name: str) -> None:
    """Equal leads stay equal, unless what is added or dropped is drawn for each lead."""
    signals = noise(32, 300).repeat(1, LEADS, 1)
    made = named(name, probability=0.5)(signals, seeded())
    alike = (made == made[:, :1]).flatten(1).all(1)
    changed = (made != signals).flatten(1).any(1)
    assert changed.any()
    if name in BY_LEAD:
        assert not alike[changed & (made[:, 0] != 0).any(-1)].any()
    else:
        assert alike.all()
        assert torch.equal(made[:, 0], named(name, probability=0.5)(signals[:, :1], seeded())[:, 0])


@pytest.mark.parametrize("name", NAMES)
def test_options_are_the_constructors_arguments(name: str) -> None:
    kind, made = AUGMENTATIONS.get(name), named(name)
    options = constructor_options(kind, {}, name)
    assert all(getattr(made, option) == value for option, value in options.items())
    assert made.probability == DEFAULTS.get(name, 1)
    assert made == kind()
    assert made != named(name, probability=0.25)
    assert describe_augmentations([made]) == [{"name": name, **options}]
    assert parse_augmentations(describe_augmentations([made])) == (made,)
    assert made.drops_leads == (name in DROPPING)


@pytest.mark.parametrize("name", NAMES)
def test_copies_are_equal(name: str) -> None:
    made, signals = named(name, probability=0.5), noise(8, 300, leads=LEADS)
    for other in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert other == made
        assert hash(other) == hash(made)
        assert torch.equal(other(signals, seeded()), made(signals, seeded()))


@pytest.mark.parametrize("name", NAMES)
def test_wrong_options_are_refused_where_the_object_is_made(name: str) -> None:
    with pytest.raises(ConfigError, match="probability: Input should be less than or equal to 1"):
        AUGMENTATIONS.get(name)(probability=1.5)


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Augmentation()  # type: ignore[abstract]


def test_an_augmentation_of_a_script_is_used_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("_locations", "_parts"):
        monkeypatch.setattr(AUGMENTATIONS, table, dict(getattr(AUGMENTATIONS, table)))

    class Offset(Augmentation):
        """Augmentation of a user."""

        def __init__(self, millivolt: float = 1.0, probability: float = 1.0) -> None:
            super().__init__(probability)
            self.millivolt = millivolt

        def apply(self, signals: Tensor, generator: Generator) -> Tensor:
            return signals + self.millivolt

    with pytest.raises(ConfigError, match="Offset has no name for a config"):
        describe_augmentations([Offset()])
    augmentations.register("mine")(Offset)
    (made,) = parse_augmentations([{"name": "mine", "millivolt": 2}])
    assert torch.equal(made(torch.zeros((3, 2, 5))), torch.full((3, 2, 5), 2.0))
    assert describe_augmentations([made]) == [{"name": "mine", "millivolt": 2.0, "probability": 1.0}]
    with pytest.raises(ConfigError, match="mask"):
        augmentations.register("mask")(Offset)
