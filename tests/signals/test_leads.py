"""Names of leads, and leads computed from I and II."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clocs.core.errors import LeadError
from clocs.core.recording import Recording, missing_value
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads, canonical_lead, derivable_leads, drop_derived_leads
from tests.conftest import make_recording

WEIGHTS = {"III": (-1, 1), "aVR": (-0.5, -0.5), "aVL": (1, -0.5), "aVF": (-0.5, 1)}
"""Weights of I and II after Einthoven (1912) and Goldberger (1942), independent of the code."""
PAIRS = arrays(np.int16, (2, 20), elements=st.integers(-32768, 32767))
BASELINES = st.tuples(st.integers(-5000, 5000), st.integers(-5000, 5000))


def pair(
    digital: npt.NDArray[np.int16] | npt.NDArray[np.int32],
    gain: tuple[float, float] = (1000.0, 1000.0),
    baseline: tuple[int, int] = (0, 0),
) -> Recording:
    return Recording(
        digital=digital,
        gain=np.array(gain),
        baseline=np.array(baseline, np.int32),
        sampling_rate=500.0,
        leads=("I", "II"),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("I", "I"),
        ("ii", "II"),
        ("AVR", "aVR"),
        ("avl", "aVL"),
        ("aVF", "aVF"),
        ("v1", "V1"),
        (" V6 ", "V6"),
        ("Lead II", "II"),
        ("ECG Lead aVR", "aVR"),
        ("ECG", "ECG"),
        ("MLII", "MLII"),
        ("ECG  Lead   X", "ECG Lead X"),
        ("V7", "V7"),
        ("", ""),
    ],
)
def test_names_get_their_standard_spelling(name: str, expected: str) -> None:
    assert canonical_lead(name) == expected


@pytest.mark.parametrize("lead", STANDARD_LEADS)
def test_a_standard_name_is_kept_in_any_case(lead: str) -> None:
    assert {canonical_lead(lead), canonical_lead(lead.upper()), canonical_lead(lead.lower())} == {lead}


def test_derivable_leads() -> None:
    assert derivable_leads(("I", "II", "V2")) == ("III", "aVR", "aVL", "aVF")
    assert derivable_leads(("I", "II", "aVR")) == ("III", "aVL", "aVF")
    assert derivable_leads(("II", "V2")) == ()
    assert derivable_leads(STANDARD_LEADS) == ()


@given(PAIRS, BASELINES)
def test_derived_leads_are_exact_in_integers(digital: npt.NDArray[np.int16], baseline: tuple[int, int]) -> None:
    """With equal gains, twice a derived value is an integer number of steps."""
    made = add_derived_leads(pair(digital, baseline=baseline))
    one, two = (
        [None if value == -32768 else value - zero for value in row]
        for row, zero in zip(digital.tolist(), baseline, strict=True)
    )
    for lead, (first, second) in WEIGHTS.items():
        row = made.leads.index(lead)
        twice = 2 * 1000.0 / made.gain[row]
        assert made.baseline[row] == 0
        for a, b, value in zip(one, two, made.digital[row].tolist(), strict=True):
            if a is None or b is None:
                assert value == missing_value(made.digital.dtype)
            else:
                assert twice * value == 2 * first * a + 2 * second * b


@given(PAIRS, BASELINES, st.tuples(st.sampled_from([200.0, 1000.0, 4880.0]), st.sampled_from([300.0, 999.5])))
def test_derived_leads_with_different_gains_are_accurate_to_half_a_step(
    digital: npt.NDArray[np.int16], baseline: tuple[int, int], gain: tuple[float, float]
) -> None:
    made = add_derived_leads(pair(digital, gain, baseline))
    absent = (digital == -32768).any(axis=0)
    volts = (digital - np.array(baseline, np.float64)[:, None]) / np.array(gain)[:, None]
    step = 1 / (2 * max(gain))
    for lead, weights in WEIGHTS.items():
        row = made.leads.index(lead)
        values = made.digital[row] / made.gain[row]
        missing = made.digital[row] == missing_value(made.digital.dtype)
        np.testing.assert_array_equal(missing, absent)
        assert np.all(np.abs(values - np.array(weights) @ volts)[~absent] <= step / 2 * (1 + 1e-9))


@given(PAIRS, st.permutations(["II", "I", "V2", "X"]))
def test_dropping_derived_leads_restores_the_recording(digital: npt.NDArray[np.int16], order: list[str]) -> None:
    recording = Recording(np.concatenate([digital, digital[::-1]]), np.full(4, 500.0), np.zeros(4, np.int32), 500.0,
                      ("I", "II", "V2", "X")).select(tuple(order))  # fmt: skip
    made = add_derived_leads(recording)
    back = drop_derived_leads(made)
    assert made.leads == ("I", "II", "III", "aVR", "aVL", "aVF", "V2", "X")
    assert made.provenance.derived_leads == ("III", "aVR", "aVL", "aVF")
    assert back.provenance.derived_leads == ()
    np.testing.assert_array_equal(back.select(recording.leads).physical(), recording.physical())


def test_leads_that_were_read_are_not_replaced() -> None:
    recording = make_recording(leads=("I", "II", "aVR"))
    made = add_derived_leads(recording)
    np.testing.assert_array_equal(made.select(("aVR",)).digital, recording.select(("aVR",)).digital)
    assert made.provenance.derived_leads == ("III", "aVL", "aVF")


def test_a_derived_lead_stays_marked_when_others_are_added_later() -> None:
    made = add_derived_leads(add_derived_leads(make_recording()).select(("I", "II", "III")))
    assert made.provenance.derived_leads == ("III", "aVR", "aVL", "aVF")
    assert drop_derived_leads(made).leads == ("I", "II")


def test_a_recording_without_derivable_leads_is_not_changed() -> None:
    recording = make_recording(leads=("II", "V2"))
    assert add_derived_leads(recording) is recording
    assert drop_derived_leads(recording) is recording


def test_values_too_large_to_be_added_are_rejected() -> None:
    huge = np.array([[2**31 - 1], [2**31 - 1]], np.int32)
    with pytest.raises(LeadError, match=r"big.*derive_leads=False"):
        add_derived_leads(replace(pair(huge), record_id="big"))


@pytest.mark.parametrize("folder", ["ptbxl", "cpsc2018"])
def test_derived_leads_equal_the_published_ones(originals: Path, folder: str) -> None:
    """The publishers rounded every lead to 1 uV, so the difference is at most 2 uV.

    A6000 has simultaneous spikes of 32 mV on all leads, which violate the lead equations.
    """
    source = open_source(originals / folder)
    errors, records = [], 0
    for name in source.names():
        if name.endswith(".hea") and "A6000" not in name:
            records += 1
            recording = read_from(source, name)
            made = add_derived_leads(recording.select(("I", "II")))
            leads = tuple(WEIGHTS)
            assert made.provenance.derived_leads == leads
            error = 1000 * np.abs(made.select(leads).physical() - recording.select(leads).physical())
            assert error.max() <= 2.001, name
            errors.append(error.ravel())
    assert records == {"ptbxl": 66, "cpsc2018": 19}[folder]
    all_errors = np.concatenate(errors)
    assert np.mean(all_errors <= 1.001) > 0.95
    assert all_errors.mean() < 0.6
