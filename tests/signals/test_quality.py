"""The quality gate reports every fault with its lead and reason, and no other."""

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
from clocs.core.stated_measurements import StatedMeasurements
from clocs.signals.leads import add_derived_leads
from clocs.signals.quality import GATE_OFF, REASONS, GatePolicy, assess
from tests.conftest import make_recording
from tests.signals.faulty_recordings import (
    ALL_CHECKS,
    Change,
    faults,
    row,
    set_samples,
    sinus_rhythm,
    swap_leads,
    swapped_arms,
    twelve_leads,
)

FAULTS: dict[str, tuple[Recording, set[tuple[str, str]]]] = {
    "length": (replace(twelve_leads(), provenance=Provenance(num_declared_samples=5001)), {("length", "")}),
    "short": (make_recording(num_samples=499), {("short", "")}),
    "missing": (twelve_leads(set_samples("V2", -32768, 17, 18)), {("missing", "V2")}),
    "flat": (twelve_leads(set_samples("V3", 40, 0, 5000)), {("flat", "V3")}),
    "amplitude": (replace(make_recording(), gain=np.array([1000.0, 1.0, 1000.0])), {("amplitude", "II")}),
    "saturated": (twelve_leads(set_samples("V5", 2500, 1000, 1101)), {("saturated", "V5")}),
    "lead_equations": (twelve_leads(swap_leads("aVR", "aVL")), {("lead_equations", "aVR"), ("lead_equations", "aVL")}),
    "sampling_rate": (
        replace(sinus_rhythm(), sampling_rate=250.0, stated_measurements=StatedMeasurements(heart_rate=68)),
        {("sampling_rate", "")},
    ),
    "electrodes": (swapped_arms(), {("electrodes", "I")}),
}


def test_a_lead_is_saturated_at_either_extreme() -> None:
    def clip(digital: np.ndarray) -> None:
        digital[row("V5"), 1000:1101] = 2500
        digital[row("V5"), 3000] = -2600

    assert faults(twelve_leads(clip)) == {("saturated", "V5")}


def test_a_sampling_rate_too_low_for_beats_is_rejected() -> None:
    assert faults(replace(sinus_rhythm(), sampling_rate=49.9)) == {("sampling_rate", "")}
    assert faults(replace(sinus_rhythm(), sampling_rate=1.0), GatePolicy()) == set(), (
        "only if sampling rates are checked"
    )


def test_each_reason_has_an_example() -> None:
    """An ``unreadable`` file never becomes a recording."""
    assert set(FAULTS) == set(REASONS) - {"unreadable"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_reported_with_its_lead_and_reason(fault: str) -> None:
    recording, expected = FAULTS[fault]
    assert faults(recording) == expected
    assert all(finding.detail for finding in assess(recording, ALL_CHECKS))


@pytest.mark.parametrize("fault", FAULTS)
def test_every_recording_passes_with_the_gate_off(fault: str) -> None:
    assert assess(FAULTS[fault][0], GATE_OFF) == []


@pytest.mark.parametrize("policy", [GATE_OFF, GatePolicy(min_span=None)], ids=["off", "no-span"])
@pytest.mark.parametrize("value", [0, -7, missing_value(np.int16)])
def test_a_recording_of_constant_leads_never_passes(policy: GatePolicy, value: int) -> None:
    made = make_recording()
    constant = replace(made, digital=np.full_like(made.digital, value))
    assert {finding.reason for finding in assess(constant, policy)} <= {"flat", "missing"}
    assert assess(constant, policy)
    one_lead = made.digital.copy()
    one_lead[:2] = 0
    assert assess(replace(made, digital=one_lead), GATE_OFF) == []


DISABLED: dict[str, dict[str, bool | None]] = {
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


@pytest.mark.parametrize("fault", FAULTS)
def test_each_check_can_be_disabled_separately(fault: str) -> None:
    policy = ALL_CHECKS.model_copy(update=DISABLED[fault])
    assert faults(FAULTS[fault][0], policy) == set()
    others = [name for name in FAULTS if name != fault]
    assert all(faults(FAULTS[name][0], policy) == FAULTS[name][1] for name in others)


def test_a_clean_recording_passes_with_measured_and_with_derived_leads() -> None:
    assert faults(twelve_leads()) == set()
    assert faults(add_derived_leads(make_recording())) == set()


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        (set_samples("V5", 2500, 1000, 1100), True),  # exactly 0.2 s
        (set_samples("V5", 1900, 1000, 3000), True),  # long, but below the floor
        (set_samples("V5", -2500, 1000, 1101), False),  # at the other end
        (set_samples("V3", 32000, 0, 50), True),  # spikes on 1 % of the samples
        (set_samples("V3", 32000, 0, 51), False),
    ],
)
def test_limits_of_the_policy_are_exact(change: Change, passes: bool) -> None:
    assert (faults(twelve_leads(change)) == set()) is passes


def test_microvolt_declared_as_millivolt_is_rejected_in_every_lead() -> None:
    wrong = replace(make_recording(), gain=np.full(3, 1.0))
    assert faults(wrong) == {("amplitude", lead) for lead in wrong.leads}


def test_millivolt_declared_as_volt_is_rejected_as_flat() -> None:
    wrong = replace(make_recording(), gain=np.full(3, 1e6))
    assert faults(wrong) == {("flat", lead) for lead in wrong.leads}


@pytest.mark.parametrize(("spikes", "flat"), [(50, True), (51, False)])
def test_spikes_do_not_hide_a_flat_lead(spikes: int, flat: bool) -> None:
    """If 99 % of the samples are within 0.01 mV, the lead is flat."""
    digital = np.tile(np.array([0, 9], np.int16), 2500)
    digital[: spikes // 2] = 60
    digital[-(spikes - spikes // 2) :] = -30
    strip = replace(make_recording(leads=("II",)), digital=digital[None])
    assert faults(strip) == ({("flat", "II")} if flat else set())


def test_raw_steps_are_checked_without_a_scale() -> None:
    strip = replace(make_recording(leads=("ECG",)), unit="adu", gain=np.ones(1))
    assert faults(strip) == set()
    assert faults(replace(strip, digital=np.full((1, 5000), 7, np.int16))) == {("flat", "ECG")}


def test_a_negative_gain_does_not_change_the_result() -> None:
    recording = make_recording()
    assert faults(replace(recording, gain=-recording.gain)) == set()
    assert faults(replace(recording, gain=np.array([1000.0, -1.0, 1000.0]))) == {("amplitude", "II")}


@pytest.mark.parametrize(("fraction", "passes"), [(0.01, False), (0.02, True)])
def test_some_missing_samples_may_be_allowed(fraction: float, passes: bool) -> None:
    recording = twelve_leads(set_samples("V2", -32768, 0, 100))
    assert (faults(recording, GatePolicy(max_missing=fraction)) == set()) is passes


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
def test_any_content_can_be_checked_and_the_order_of_leads_does_not_matter(
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
    result = faults(recording)
    assert {reason for reason, _ in result} <= set(REASONS)
    assert {lead for _, lead in result} <= {"", *recording.leads}
    assert faults(recording.select(recording.leads[::-1])) == result
    absent = (digital == missing_value(np.int16)).any(axis=1)
    assert {lead for reason, lead in result if reason == "missing"} == {
        lead for lead, any_absent in zip(recording.leads, absent, strict=True) if any_absent
    }


@pytest.mark.parametrize("values", [{"min_seconds": -1}, {"max_missing": 2}, {"max_amplitud": 5}])
def test_invalid_policies_are_rejected(values: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        GatePolicy.model_validate(values)


def test_a_calibration_pulse_is_not_a_fault() -> None:
    """Philips devices end a recording with a pulse of 1 mV on all leads, which violates the lead equations."""
    beats = add_derived_leads(make_recording(("I", "II", "V1"), num_samples=5500))
    measured = replace(beats, provenance=replace(beats.provenance, derived_leads=()))
    assert assess(measured, GatePolicy()) == []
    pulse = measured.digital.copy()
    pulse[:, 5000:] = 0
    pulse[:, 5300:5500] = np.round(measured.gain)[:, None]
    assert assess(replace(measured, digital=pulse), GatePolicy()) == []
    pulse[:, 5300:5500] = np.round(5 * measured.gain)[:, None]
    pulse[2, 5300:5500] = 0
    findings = assess(replace(measured, digital=pulse), GatePolicy())
    assert "lead_equations" in {finding.reason for finding in findings}, "a pulse on some leads only is a fault"
