"""Perturbations: one contract for every registered name, and each against a literal version, row by row."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from clocs.core.errors import ConfigError
from clocs.core.registry import Registry
from clocs.views import perturbations
from clocs.views.perturbations import (
    PERTURBATIONS,
    FlipAmplitude,
    FlipTime,
    Gaussian,
    Permutation,
    Perturbation,
    Perturbations,
    Scaling,
    SpecAugmentFrequency,
    SpecAugmentTime,
    SpectrogramMask,
    TimeWarping,
    parse_perturbations,
    perturb,
)

Array = npt.NDArray[np.float64]
NAMES = PERTURBATIONS.names()
FLIPS = ("flip_time", "flip_amplitude")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(rows: int, samples: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn((rows, samples), generator=seeded(99), dtype=dtype)


def step(name: str, **options: float) -> Perturbation:
    return parse_perturbations([{"name": name, **options}])[0]


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


@pytest.mark.parametrize(("sigma", "relative"), [(0.01, False), (0.5, False), (0.1, True)])
def test_gaussian_noise_has_the_asked_deviation(sigma: float, relative: bool) -> None:
    """Standard error of a deviation over n normal draws: 1 / sqrt(2 n) of it; rows of different sizes."""
    signals = noise(64, 2500) * torch.logspace(-1, 1, 64, dtype=torch.float64)[:, None] + 3
    added = (Gaussian(sigma=sigma, relative=relative)(signals, seeded()) - signals).numpy()
    unit = added / (sigma * (signals.numpy().std(axis=1, keepdims=True) if relative else 1.0))
    assert abs(unit.std() - 1) < 5 / math.sqrt(2 * unit.size)
    assert np.abs(unit.std(axis=1) - 1).max() < 5 / math.sqrt(2 * 2500)
    assert abs(unit.mean()) < 5 / math.sqrt(unit.size)
    assert scipy.stats.kstest(unit.ravel(), "norm").pvalue > 1e-3
    off_diagonal = np.corrcoef(unit) - np.eye(len(unit))
    assert np.abs(off_diagonal).max() < 6 / math.sqrt(2500)


def test_flips_are_exact() -> None:
    signals = noise(5, 301)
    np.testing.assert_array_equal(FlipTime(probability=1)(signals, seeded()), signals.numpy()[:, ::-1])
    np.testing.assert_array_equal(FlipAmplitude(probability=1)(signals, seeded()), -signals.numpy())


def literal_masked(row: Array, options: SpectrogramMask, axis: int, start: int) -> Array:
    """Appendix B, step by step, for one row: transform, zero a band, transform back and overlap-add."""
    window, hop = options.window, options.hop
    hann = np.sin(np.pi * np.arange(window) / window) ** 2
    padded = np.pad(row, window // 2, mode="reflect")
    begins = range(0, len(padded) - window + 1, hop)
    spectrogram = np.array([np.fft.rfft(hann * padded[at : at + window]) for at in begins]).T
    width = round(options.width * spectrogram.shape[axis])
    band = (slice(None), slice(start, start + width)) if axis == 1 else (slice(start, start + width), slice(None))
    spectrogram[band] = 0 + 0j
    total, weight = np.zeros_like(padded), np.zeros_like(padded)
    for at, column in zip(begins, spectrogram.T, strict=True):
        total[at : at + window] += hann * np.fft.irfft(column, window)
        weight[at : at + window] += hann**2
    inside = slice(window // 2, window // 2 + len(row))
    return total[inside] / weight[inside]


@pytest.mark.parametrize(
    ("options", "axis", "samples", "bins"),
    [
        (SpecAugmentTime(window=64, hop=16), 1, 640, 41),
        (SpecAugmentTime(window=64, hop=16, width=0.5), 1, 607, 38),
        (SpecAugmentTime(window=64, hop=9), 1, 331, 37),
        (SpecAugmentFrequency(window=64, hop=16), 0, 640, 33),
        (SpecAugmentFrequency(window=64, hop=16, width=0.5), 0, 607, 33),
        (SpecAugmentFrequency(window=62, hop=9), 0, 331, 32),
    ],
)
def test_each_row_has_one_of_the_paper_s_masks(options: SpectrogramMask, axis: int, samples: int, bins: int) -> None:
    """Every row equals the literal version with exactly one start of 0..N - N_m, and starts differ."""
    signals = noise(12, samples)
    made = options(signals, seeded()).numpy()
    starts = bins - round(options.width * bins) + 1
    found = []
    for row, out in zip(signals.numpy(), made, strict=True):
        near = [s for s in range(starts) if np.abs(literal_masked(row, options, axis, s) - out).max() < 1e-10]
        assert len(near) == 1
        found += near
    assert len(set(found)) > 4


@pytest.mark.parametrize(("options", "axis"), [(SpecAugmentTime(), 1), (SpecAugmentFrequency(), 0)])
def test_default_masks_on_a_frame(options: SpectrogramMask, axis: int) -> None:
    """2,500 samples: 8 of 40 bins in time, 26 of 129 in frequency, the start taken from the mask itself."""
    signals = noise(8, 2500)
    bins = (129, 40)[axis]
    kept = options.kept(signals, bins, seeded())
    assert ((~kept).sum(dim=-1) == (26, 8)[axis]).all()
    made = options(signals, seeded()).numpy()
    for row, out, mask in zip(signals.numpy(), made, kept.numpy(), strict=True):
        np.testing.assert_allclose(out, literal_masked(row, options, axis, int(np.argmin(mask))), atol=1e-10)


def test_starts_are_even_over_all_that_fit() -> None:
    """10,400 rows over 104 starts: chi-square, and both ends are reached."""
    kept = SpecAugmentFrequency().kept(torch.zeros((10_400, 1)), 129, seeded())
    counts = np.bincount((~kept).int().argmax(dim=-1).numpy(), minlength=104)
    assert len(counts) == 104
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_repeats_place_masks_by_themselves() -> None:
    kept = SpecAugmentTime(repeats=3, width=0.1).kept(torch.zeros((500, 1)), 40, seeded())
    masked = (~kept).sum(dim=-1)
    assert int(masked.min()) >= 4
    assert int(masked.max()) == 12
    assert len(torch.unique(kept, dim=0)) > 400


@pytest.mark.parametrize("name", ["spec_augment_time", "spec_augment_frequency"])
def test_nothing_masked_gives_the_signal_back_and_everything_silence(name: str) -> None:
    for samples in (2500, 2499, 257):
        signals = noise(4, samples, torch.float32)
        np.testing.assert_allclose(step(name, width=0)(signals, seeded()), signals, rtol=0, atol=1e-5)
        assert step(name, width=1)(signals, seeded()).abs().max() == 0


def test_a_time_mask_silences_and_leaves_the_rest() -> None:
    """8 windows of 256 samples, 64 apart, that begin with a zero: 703 samples touched, 321 with no other window."""
    made = SpecAugmentTime()(torch.ones((200, 2500), dtype=torch.float64), seeded())
    silent, touched = (made == 0).sum(dim=-1), (made < 1 - 1e-12).sum(dim=-1)
    inner = (made[:, 0] > 1 - 1e-12) & (made[:, -1] > 1 - 1e-12)
    assert int(inner.sum()) > 100
    assert set(silent[inner].tolist()) == {321}
    assert set(touched[inner].tolist()) == {703}


def test_a_frequency_mask_removes_a_tone_inside_it_and_no_other() -> None:
    """A Hann window spreads a tone over three bins; away from the edges, which are reflected."""
    options, tone = SpecAugmentFrequency(), 40
    signals = torch.cos(2 * torch.pi * tone / 256 * torch.arange(2500, dtype=torch.float64)).repeat(300, 1)
    kept = options.kept(signals, 129, seeded())[:, tone - 2 : tone + 3]
    inside = options(signals, seeded())[:, 256:-256]
    gone, left = ~kept.any(dim=-1), kept.all(dim=-1)
    assert gone.any()
    assert left.any()
    assert inside[gone].abs().max() < 1e-10
    np.testing.assert_allclose(inside[left], signals[left, 256:-256], rtol=0, atol=1e-10)


def test_scaling_is_one_factor_a_row() -> None:
    signals = noise(2000, 50)
    factors = (Scaling(low=0.5, high=2)(signals, seeded()) / signals).numpy()
    np.testing.assert_allclose(factors, factors[:, :1].repeat(50, axis=1), rtol=1e-12)
    assert scipy.stats.kstest(factors[:, 0], "uniform", args=(0.5, 1.5)).pvalue > 1e-3
    default = Scaling()(signals, seeded()) / signals
    assert 0.5 <= float(default.min()) < float(default.max()) <= 0.9


@pytest.mark.parametrize(("samples", "pieces"), [(2500, 20), (2500, 7), (2503, 20), (5, 9), (10, 1)])
def test_permutation_moves_whole_pieces(samples: int, pieces: int) -> None:
    """Each row, walked through: whole pieces as numpy would cut them, each exactly once."""
    made = Permutation(pieces=pieces)(torch.arange(samples, dtype=torch.float64).repeat(16, 1), seeded()).numpy()
    edges = [samples * piece // pieces for piece in range(pieces + 1)]
    cuts = {begin: end for begin, end in itertools.pairwise(edges) if end > begin}
    assert max(end - begin for begin, end in cuts.items()) <= math.ceil(samples / pieces)
    orders = set()
    for row in made:
        at, order = 0, []
        while at < samples:
            begin = int(row[at])
            np.testing.assert_array_equal(row[at : at + cuts[begin] - begin], np.arange(begin, cuts[begin]))
            at += cuts[begin] - begin
            order.append(begin)
        assert sorted(order) == sorted(cuts)
        orders.add(tuple(order))
    assert len(orders) >= (14 if pieces > 1 else 1)


def test_permutation_keeps_every_sample_and_favours_no_order() -> None:
    signals = noise(6000, 9, torch.float32)
    made = Permutation(pieces=3)(signals, seeded())
    assert torch.equal(made.sort(dim=-1).values, signals.sort(dim=-1).values)
    first = Permutation(pieces=3)(torch.arange(9.0).repeat(6000, 1), seeded())[:, ::3].numpy()
    _, counts = np.unique(first, axis=0, return_counts=True)
    assert len(counts) == 6
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def literal_map(samples: int, lengths: Array) -> Array:
    """Where new samples are read: pieces of these lengths, drawn out or pressed to fill the row."""
    new = np.concatenate([[0], np.cumsum(lengths)]) / lengths.sum() * (samples - 1)
    return np.interp(np.arange(samples), new, np.linspace(0, samples - 1, len(new)))


def test_time_warping_reads_along_a_map_of_stretched_and_squeezed_pieces() -> None:
    """Every row equals one of the 10 ways to stretch 3 of 5 pieces, and all ways occur."""
    options, signals = TimeWarping(pieces=5, factor=1.5), noise(200, 301)
    read, made = options.positions(signals, seeded()).numpy(), options(signals, seeded()).numpy()
    ways = [np.where(np.isin(np.arange(5), chosen), 1.5, 1 / 1.5) for chosen in itertools.combinations(range(5), 3)]
    maps = np.array([literal_map(301, lengths) for lengths in ways])
    match = np.abs(read[:, None] - maps).max(axis=-1) < 1e-9
    assert (match.sum(axis=1) == 1).all()
    assert match.any(axis=0).all()
    for row, where, out in zip(signals.numpy(), read, made, strict=True):
        np.testing.assert_allclose(out, np.interp(where, np.arange(301), row), atol=1e-9)


@pytest.mark.parametrize(("pieces", "factor"), [(9, 1.05), (9, 3.0), (1, 2.0), (40, 1.2)])
@pytest.mark.parametrize("samples", [2500, 17, 2])
def test_warped_time_never_turns_back(pieces: int, factor: float, samples: int) -> None:
    read = TimeWarping(pieces=pieces, factor=factor).positions(torch.zeros((64, samples)), seeded())
    assert (read.diff(dim=-1) > 0).all()
    assert read[:, 0].abs().max() < 1e-9
    assert (read[:, -1] - (samples - 1)).abs().max() < 1e-9


def test_time_warping_by_one_is_the_identity() -> None:
    signals = noise(8, 2500)
    np.testing.assert_allclose(TimeWarping(factor=1)(signals, seeded()), signals, rtol=0, atol=1e-9)


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
    assert "unknown option 'sgma', did you mean 'sigma'?" in lines[1]
    assert "probability: Input should be less than or equal to 1" in lines[1]
    assert "Its options: probability, sigma, relative." in lines[1]
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
        ({"name": "permutation", "pieces": 0}, "pieces"),
        ({"name": "time_warping", "factor": 0.9}, "factor"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_perturbations([options])


@pytest.mark.parametrize("given", [None, 3, {1, 2}])
def test_what_is_no_list_is_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="give a list of names"):
        parse_perturbations(given)


def test_a_window_too_long_for_the_frames_is_refused_with_what_fits() -> None:
    with pytest.raises(ConfigError, match="frames of 100 samples need a window below 200"):
        SpecAugmentFrequency()(noise(2, 100), seeded())


class Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: Perturbations = ()
    epochs: int = 1


def test_a_field_of_options_holds_steps_and_returns_from_json() -> None:
    made = Options.model_validate({"steps": ["flip_time", {"name": "gaussian", "sigma": 0.2}]})
    assert made.steps == (FlipTime(), Gaussian(sigma=0.2))
    assert Options.model_validate_json(made.model_dump_json()) == made
    with pytest.raises(ValidationError) as refusal:
        Options.model_validate({"steps": ["gausian"], "epochs": "x"})
    assert [error["loc"] for error in refusal.value.errors()] == [("steps",), ("epochs",)]
    assert "Did you mean 'gaussian'?" in str(refusal.value)


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
    monkeypatch.setattr(perturbations, "PERTURBATIONS", catalogue)
    steps = parse_perturbations(["gaussian", {"name": "offset", "millivolt": 2}])
    assert torch.equal(perturb(torch.zeros((3, 5)), steps[1:], seeded()), torch.full((3, 5), 2.0))


def test_the_base_itself_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Perturbation(name="nothing")  # type: ignore[abstract]
