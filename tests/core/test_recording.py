"""Recordings: physical values, missing samples, units, and rounding to integer steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from clocs.core.errors import ClocsError, LeadError, UnitError
from clocs.core.recording import MICROVOLT_GAIN, Recording, missing_value, quantize, to_int32
from tests.conftest import make_recording

GAINS = st.sampled_from([1.0, 200.0, 1000.0, 4880.0])


def small(digital: list[list[int]], dtype: type[np.int16] | type[np.int32] = np.int16) -> Recording:
    return Recording(
        digital=np.array(digital, dtype),
        gain=np.array([100.0, 1000.0]),
        baseline=np.array([10, -5], np.int32),
        sampling_rate=250.0,
        leads=("I", "II"),
    )


def test_physical_is_digital_minus_baseline_over_gain() -> None:
    recording = small([[10, 110, -90], [-5, 995, -1005]])
    expected = np.array([[0.0, 1.0, -1.0], [0.0, 1.0, -1.0]], np.float32)
    assert recording.physical().dtype == np.float32
    np.testing.assert_array_equal(recording.physical(), expected)
    np.testing.assert_array_equal(recording.signal, expected)


@pytest.mark.parametrize("dtype", [np.int16, np.int32])
def test_only_the_smallest_value_of_its_type_is_missing(dtype: type[np.int16] | type[np.int32]) -> None:
    low = int(np.iinfo(dtype).min)
    recording = small([[low, low + 1, 0], [0, 0, low]], dtype)
    np.testing.assert_array_equal(np.isnan(recording.physical()), [[True, False, False], [False, False, True]])


def test_the_int16_marker_is_an_ordinary_int32_value() -> None:
    assert np.isfinite(small([[-32768, 0], [0, 0]], np.int32).physical()).all()


@given(
    arrays(np.int16, (2, 20)),
    st.lists(st.one_of(GAINS, st.floats(0.5, 2.0**40, width=32), st.floats(1e-9, 1e12)), min_size=2, max_size=2),
    st.sampled_from([0, 5, -40_000]),
)
def test_physical_is_the_rounded_quotient_of_float64(
    digital: npt.NDArray[np.int16], gain: list[float], zero: int
) -> None:
    recording = Recording(digital, np.array(gain), np.array([0, zero], np.int32), 500.0, ("I", "II"))
    wide = (digital.astype(np.float64) - [[0], [zero]]) / np.array(gain)[:, None]
    expected = np.where(digital == -32768, np.nan, wide).astype(np.float32)
    np.testing.assert_array_equal(recording.physical(), expected)


def test_raw_steps_have_no_millivolt_values_but_physical_values() -> None:
    recording = replace(small([[10, 110], [-5, 5]]), unit="adu", record_id="strip7")
    with pytest.raises(UnitError, match=r"strip7.*adu.*physical"):
        _ = recording.signal
    np.testing.assert_array_equal(recording.physical(), np.array([[0, 1], [0, 0.01]], np.float32))


def test_length_in_samples_and_seconds() -> None:
    recording = small([[0] * 500, [0] * 500])
    assert (recording.num_samples, recording.seconds) == (500, 2.0)


def test_select_returns_rows_in_the_requested_order_with_their_scale() -> None:
    recording = small([[1, 2], [3, 4]])
    chosen = recording.select(("II", "I"))
    assert chosen.leads == ("II", "I")
    np.testing.assert_array_equal(chosen.physical(), recording.physical()[::-1])
    np.testing.assert_array_equal(chosen.gain, [1000.0, 100.0])
    np.testing.assert_array_equal(chosen.baseline, [-5, 10])
    assert recording.select("II").leads == recording.select(["II"]).leads == ("II",)


def test_select_rejects_a_repeated_lead() -> None:
    with pytest.raises(LeadError, match="Lead II is named more than once"):
        make_recording().select(("II", "I", "II"))


def test_select_names_missing_and_available_leads() -> None:
    with pytest.raises(LeadError, match=r"no lead V9, V7. Choose from I, II, V2"):
        make_recording().select(("I", "V9", "V7"))


@pytest.mark.parametrize(
    "change",
    [
        {"digital": np.zeros((2, 3), np.float32)},
        {"digital": np.zeros((2, 3), np.int64)},
        {"digital": np.zeros(3, np.int16)},
        {"digital": np.zeros((3, 3), np.int16)},
        {"gain": np.ones(1)},
        {"leads": ("I",)},
        {"leads": ("I", "I")},
    ],
    ids=lambda change: "-".join(f"{key}-{np.shape(value)}" for key, value in change.items()),
)
def test_inconsistent_fields_are_rejected(change: dict[str, object]) -> None:
    recording = small([[0] * 3, [0] * 3])
    with pytest.raises(ValueError, match=r"digital|one entry per lead|different lead names"):
        replace(recording, **change)  # type: ignore[arg-type]


def test_errors_are_clocs_errors() -> None:
    assert issubclass(UnitError, ClocsError)
    assert issubclass(LeadError, ClocsError)


@given(
    arrays(
        np.float64,
        array_shapes(min_dims=1, max_dims=2, max_side=20),
        elements=st.one_of(st.floats(-2000, 2000), st.just(np.nan)),
    ),
    GAINS,
)
def test_quantize_is_accurate_to_half_a_step_and_keeps_missing_samples(
    values: npt.NDArray[np.float64], gain: float
) -> None:
    digital = quantize(values, gain)
    absent = digital == missing_value(digital.dtype)
    np.testing.assert_array_equal(absent, np.isnan(values))
    back = digital[~absent] / gain
    assert np.all(np.abs(back - values[~absent]) <= 0.5 / gain * (1 + 1e-9))


@given(st.integers(-(2**31) + 1, 2**31 - 1))
def test_quantize_is_exact_for_integers_and_uses_the_smallest_type(step: int) -> None:
    digital = quantize(np.array([float(step), np.nan, 0.0]), 1.0)
    assert digital.dtype == (np.int16 if abs(step) <= 32767 else np.int32)
    assert digital.tolist() == [step, missing_value(digital.dtype), 0]


def test_quantize_never_returns_the_missing_marker_for_a_value() -> None:
    assert quantize(np.array([-32768.0]), 1.0).dtype == np.int32
    assert quantize(np.array([-32767.0]), 1.0).dtype == np.int16


def test_quantize_rejects_values_beyond_32_bits() -> None:
    with pytest.raises(ValueError, match="do not fit 32 bits"):
        quantize(np.array([2.0**31]), 1.0)


def test_quantize_accepts_an_empty_array_and_defaults_to_microvolt() -> None:
    assert quantize(np.zeros((2, 0))).shape == (2, 0)
    assert quantize(np.array([1.2344, -0.0006])).tolist() == [1234, -1]
    assert MICROVOLT_GAIN == 1000.0


def test_quantize_keeps_values_unless_it_may_overwrite_them() -> None:
    values = np.array([[0.1234, np.nan], [-0.0006, 2.0]])
    digital = quantize(values)
    np.testing.assert_array_equal(values, [[0.1234, np.nan], [-0.0006, 2.0]])
    np.testing.assert_array_equal(quantize(values, overwrite=True), digital)


@given(arrays(np.int16, 30, elements=st.one_of(st.integers(-32768, 32767), st.just(-32768))))
def test_to_int32_keeps_values_and_converts_the_missing_marker(narrow: npt.NDArray[np.int16]) -> None:
    wide = to_int32(narrow)
    assert wide.dtype == np.int32
    assert wide.tolist() == [-(2**31) if value == -32768 else value for value in narrow.tolist()]
    np.testing.assert_array_equal(to_int32(wide), wide)
