"""Verification: cosines one by one, an equal error rate in closed form, patients who weigh the same."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import norm

from clocs.similarity.judgement.verification import CHUNK, pair_cosines, verify_patients
from clocs.similarity.segments import Segments, unit_length


def test_cosines_are_those_of_each_pair() -> None:
    random = np.random.default_rng(0)
    values = unit_length(random.normal(size=(50, 7)))
    first, second = random.integers(0, 50, (2, CHUNK + 9))
    found = pair_cosines(values, (first, second))
    expected = [
        sum(a * b for a, b in zip(values[one], values[two], strict=True))
        for one, two in zip(first[:40], second[:40], strict=True)
    ]
    np.testing.assert_allclose(found[:40], expected, atol=1e-6)
    np.testing.assert_allclose(found[-9:], (values[first[-9:]] * values[second[-9:]]).sum(1), atol=1e-6)


def plane(
    angle: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return unit_length(np.stack([np.cos(angle), np.sin(angle)], axis=1))


def test_the_error_rate_of_known_angles() -> None:
    """In the plane: two segments of a patient are a normal angle of 0.3 apart, two of others a uniform one up to pi.

    Cosine falls with the angle, so the threshold is the angle t at which t / pi, the share of impostors within it,
    equals the share of genuine pairs beyond it.
    """
    random = np.random.default_rng(1)
    start, step = random.uniform(0, 2 * math.pi, 4000), random.normal(0, 0.3, 4000)
    patient = np.repeat(np.arange(4000), 2)
    angle = np.stack([start, start + step], axis=1).ravel()
    found = verify_patients(Segments(plane(angle), patient, patient), replicates=50)
    low, high = 0.0, math.pi
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle / math.pi < 2 * norm.sf(middle / 0.3) else (low, middle)
    assert found is not None
    rate = found["equal_error_rate"]
    assert rate["value"] == pytest.approx(low / math.pi, abs=0.006)
    assert rate["low"] < low / math.pi < rate["high"]
    assert found["genuine_pairs"] == 4000
    json.dumps(found, allow_nan=False)


def test_nothing_shared_is_guessing_and_nothing_else_is_perfect() -> None:
    """Random directions in many dimensions; and vectors that are the patient's alone."""
    random = np.random.default_rng(2)
    patient = np.repeat(np.arange(600), 3)
    guessing = verify_patients(Segments(unit_length(random.normal(size=(1800, 10))), patient, patient), replicates=30)
    own = unit_length(random.normal(size=(600, 10)))
    perfect = verify_patients(Segments(own[patient], patient, patient), replicates=30)
    assert guessing is not None
    assert perfect is not None
    assert guessing["equal_error_rate"]["low"] - 0.005 < 0.5 < guessing["equal_error_rate"]["high"] + 0.005
    assert perfect["equal_error_rate"]["value"] < 0.001


def test_the_rate_of_random_directions_around_a_patient() -> None:
    """Dimension 3, genuine pairs exactly 60 degrees apart: impostors within it are a cap's share of the sphere, which
    the incomplete beta function gives; a threshold just inside catches none of the genuine ones.
    """
    random = np.random.default_rng(3)
    first = unit_length(random.normal(size=(3000, 3)))
    across = unit_length(np.cross(first, random.normal(size=(3000, 3))))
    second = unit_length(first / 2 + across * math.sqrt(3) / 2)
    values = np.stack([first, second], axis=1).reshape(-1, 3)
    patient = np.repeat(np.arange(3000), 2)
    found = verify_patients(Segments(values, patient, patient), replicates=5)
    cap = betainc(1, 0.5, math.sin(math.pi / 3) ** 2) / 2
    assert cap == pytest.approx(0.25)
    assert found is not None
    # The genuine pairs are one cliff of the curve: it is crossed at the cap's share of false acceptances.
    assert found["equal_error_rate"]["value"] == pytest.approx(cap, abs=0.01)


def test_patients_weigh_the_same_however_long_their_recording() -> None:
    """A hundred patients with two segments that are alike, one with a hundred that are not."""
    random = np.random.default_rng(4)
    alike = np.repeat(unit_length(random.normal(size=(100, 16))), 2, axis=0)
    values = np.concatenate([alike, unit_length(random.normal(size=(100, 16)))])
    patient = np.concatenate([np.repeat(np.arange(100), 2), np.full(100, 100)])
    found = verify_patients(Segments(values, patient, patient), replicates=20)
    assert found is not None
    assert found["genuine_pairs"] == 100 + 4950
    assert found["equal_error_rate"]["value"] < 0.02, "by pairs, it would be near one half"


def test_long_recordings_leave_room_for_others_where_pairs_are_drawn() -> None:
    """Of twenty patients, one has a day: nearly all pairs are hers, within one of her two recordings."""
    random = np.random.default_rng(6)
    patient = np.concatenate([np.zeros(3000, np.int64), np.repeat(np.arange(1, 20), 2)])
    record = np.concatenate([[0], np.ones(2999, np.int64), np.arange(2, 40)])
    values = unit_length(random.normal(size=(20, 16)))[patient]
    for across in (False, True):
        found = verify_patients(Segments(values, record, patient), across_recordings=across, most=400, replicates=20)
        assert found is not None
        assert found["genuine_pairs"] == 20 + 19
        assert found["equal_error_rate"]["value"] < 0.02


def test_across_recordings_pairs_are_of_two() -> None:
    """Segments of a recording are equal, those of a patient's two recordings have nothing in common."""
    random = np.random.default_rng(5)
    record = np.repeat(np.arange(200), 2)
    values = unit_length(random.normal(size=(200, 8)))[record]
    segments = Segments(values, record, record // 2)
    across = verify_patients(segments, across_recordings=True, replicates=20)
    assert across is not None
    assert across["genuine_pairs"] == 100 * 4
    assert across["equal_error_rate"]["value"] == pytest.approx(0.5, abs=0.08)
    single = Segments(values, record, record)
    assert verify_patients(single, across_recordings=True) is None
    assert verify_patients(Segments(values[:2], record[:2], record[:2])) is None
