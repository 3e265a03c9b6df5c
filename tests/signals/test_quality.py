"""The quality gate: each planted fault is found, in its lead and for its reason, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from pydantic import ValidationError

from clocs.core.recording import Provenance, Recording, missing_value
from clocs.signals.leads import add_derived_leads
from clocs.signals.quality import GATE_OFF, REASONS, GatePolicy, assess
from tests.conftest import make_recording
from tests.signals.judged import EVERYTHING, Change, arms_exchanged, found, heart, put, row, swap, twelve

PLANTED: dict[str, tuple[Recording, set[tuple[str, str]]]] = {
    "length": (replace(twelve(), provenance=Provenance(num_declared_samples=5001)), {("length", "")}),
    "short": (make_recording(num_samples=499), {("short", "")}),
    "missing": (twelve(put("V2", -32768, 17, 18)), {("missing", "V2")}),
    "flat": (twelve(put("V3", 40, 0, 5000)), {("flat", "V3")}),
    "amplitude": (replace(make_recording(), gain=np.array([1000.0, 1.0, 1000.0])), {("amplitude", "II")}),
    "saturated": (twelve(put("V5", 2500, 1000, 1101)), {("saturated", "V5")}),
    "lead_equations": (twelve(swap("aVR", "aVL")), {("lead_equations", "aVR"), ("lead_equations", "aVL")}),
    "sampling_rate": (
        replace(heart(), sampling_rate=250.0, provenance=Provenance(heart_rate=68)),
        {("sampling_rate", "")},
    ),
    "electrodes": (arms_exchanged(), {("electrodes", "I")}),
}


def test_a_lead_at_its_nearer_rail_is_saturated_whatever_the_other_end_does() -> None:
    def clip(digital: np.ndarray) -> None:
        digital[row("V5"), 1000:1101] = 2500
        digital[row("V5"), 3000] = -2600

    assert found(twelve(clip)) == {("saturated", "V5")}


def test_a_rate_at_which_no_beat_can_be_seen_is_refused() -> None:
    assert found(replace(heart(), sampling_rate=49.9)) == {("sampling_rate", "")}
    assert found(replace(heart(), sampling_rate=1.0), GatePolicy()) == set(), "only where rates are judged"


def test_each_reason_has_a_planted_fault() -> None:
    """``unreadable`` is the reader's: such a file never becomes a recording."""
    assert set(PLANTED) == set(REASONS) - {"unreadable"}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_with_its_lead_and_reason(fault: str) -> None:
    recording, expected = PLANTED[fault]
    assert found(recording) == expected
    assert all(finding.detail for finding in assess(recording, EVERYTHING))


@pytest.mark.parametrize("fault", PLANTED)
def test_with_the_gate_off_everything_passes(fault: str) -> None:
    assert assess(PLANTED[fault][0], GATE_OFF) == []


OFF_ALONE: dict[str, dict[str, bool | None]] = {
    "length": {"match_header_length": False},
    "short": {"min_seconds": None},
    "missing": {"max_missing": None},
    "flat": {"min_span": None},
    "amplitude": {"max_amplitude": None},
    "saturated": {"max_saturated_seconds": None},
    "lead_equations": {"max_lead_equation_error": None},
    "sampling_rate": {"check_sampling_rate": False},
    "electrodes": {"check_electrodes": False},
}


@pytest.mark.parametrize("fault", PLANTED)
def test_each_check_can_be_switched_off_alone(fault: str) -> None:
    policy = EVERYTHING.model_copy(update=OFF_ALONE[fault])
    assert found(PLANTED[fault][0], policy) == set()
    others = [name for name in PLANTED if name != fault]
    assert all(found(PLANTED[name][0], policy) == PLANTED[name][1] for name in others)


def test_a_clean_recording_passes_with_measured_and_with_derived_leads() -> None:
    assert found(twelve()) == set()
    assert found(add_derived_leads(make_recording())) == set()


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        (put("V5", 2500, 1000, 1100), True),  # 0.2 s exactly
        (put("V5", 1900, 1000, 3000), True),  # long, but below the floor
        (put("V5", -2500, 1000, 1101), False),  # at the other end
        (put("V3", 32000, 0, 50), True),  # spikes on 1 % of the samples
        (put("V3", 32000, 0, 51), False),
    ],
)
def test_limits_are_where_the_policy_says(change: Change, passes: bool) -> None:
    assert (found(twelve(change)) == set()) is passes


def test_microvolt_declared_as_millivolt_is_refused_in_every_lead() -> None:
    wrong = replace(make_recording(), gain=np.full(3, 1.0))
    assert found(wrong) == {("amplitude", lead) for lead in wrong.leads}


def test_millivolt_declared_as_volt_is_refused_as_flat() -> None:
    wrong = replace(make_recording(), gain=np.full(3, 1e6))
    assert found(wrong) == {("flat", lead) for lead in wrong.leads}


@pytest.mark.parametrize(("spikes", "flat"), [(50, True), (51, False)])
def test_spikes_do_not_hide_a_flat_lead(spikes: int, flat: bool) -> None:
    """As in millivolt declared as microvolt: 1 % of the samples may stand out of what is within 0.01 mV."""
    digital = np.tile(np.array([0, 9], np.int16), 2500)
    digital[: spikes // 2] = 60
    digital[-(spikes - spikes // 2) :] = -30
    strip = replace(make_recording(leads=("II",)), digital=digital[None])
    assert found(strip) == ({("flat", "II")} if flat else set())


def test_raw_steps_are_judged_without_a_scale() -> None:
    strip = replace(make_recording(leads=("ECG",)), unit="adu", gain=np.ones(1))
    assert found(strip) == set()
    assert found(replace(strip, digital=np.full((1, 5000), 7, np.int16))) == {("flat", "ECG")}


def test_a_negative_gain_turns_a_lead_over_and_changes_no_verdict() -> None:
    recording = make_recording()
    assert found(replace(recording, gain=-recording.gain)) == set()
    assert found(replace(recording, gain=np.array([1000.0, -1.0, 1000.0]))) == {("amplitude", "II")}


@pytest.mark.parametrize(("share", "passes"), [(0.01, False), (0.02, True)])
def test_some_missing_samples_may_be_allowed(share: float, passes: bool) -> None:
    recording = twelve(put("V2", -32768, 0, 100))
    assert (found(recording, GatePolicy(max_missing=share)) == set()) is passes


CONTENT = arrays(
    np.int16,
    st.tuples(st.integers(1, 6), st.integers(0, 60)),
    elements=st.one_of(st.integers(-32768, 32767), st.sampled_from([-32768, 32767, 0])),
)


@settings(max_examples=150)
@given(
    CONTENT,
    st.permutations(["I", "II", "III", "aVR", "V1", "ECG"]),
    st.sampled_from([0.5, 200.0, -200.0, 1000.0]),
    st.integers(-40_000, 40_000),
    st.sampled_from(["mV", "adu"]),
)
def test_any_content_is_judged_and_the_order_of_leads_does_not_matter(
    digital: npt.NDArray[np.int16], names: list[str], gain: float, zero: int, unit: str
) -> None:
    count = len(digital)
    recording = Recording(
        digital=digital,
        gain=np.full(count, gain),
        baseline=np.full(count, zero, np.int32),
        sampling_rate=20.0,
        leads=tuple(names[:count]),
        unit="mV" if unit == "mV" else "adu",
    )
    verdict = found(recording)
    assert {reason for reason, _ in verdict} <= set(REASONS)
    assert {lead for _, lead in verdict} <= {"", *recording.leads}
    assert found(recording.select(recording.leads[::-1])) == verdict
    absent = (digital == missing_value(np.int16)).any(axis=1)
    assert {lead for reason, lead in verdict if reason == "missing"} == {
        lead for lead, any_absent in zip(recording.leads, absent, strict=True) if any_absent
    }


@pytest.mark.parametrize("wrong", [{"min_seconds": -1}, {"max_missing": 2}, {"max_amplitud": 5}])
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        GatePolicy.model_validate(wrong)


def test_a_calibration_pulse_at_the_end_is_no_fault_of_the_leads() -> None:
    """As Philips carts write it: 1 mV on all leads at once, which no heart can make."""
    beats = add_derived_leads(make_recording(("I", "II", "V1"), num_samples=5500))
    held = replace(beats, provenance=replace(beats.provenance, derived_leads=()))
    assert assess(held, GatePolicy()) == []
    pulse = held.digital.copy()
    pulse[:, 5000:] = 0
    pulse[:, 5300:5500] = np.round(held.gain)[:, None]
    assert assess(replace(held, digital=pulse), GatePolicy()) == []
    pulse[:, 5300:5500] = np.round(5 * held.gain)[:, None]
    pulse[2, 5300:5500] = 0
    found = assess(replace(held, digital=pulse), GatePolicy())
    assert "lead_equations" in {finding.reason for finding in found}, "on some leads only, it is one"
