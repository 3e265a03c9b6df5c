"""Checks of the lead equations: swapped leads, and recordings that must not be reported as swapped."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clocs.core.recording import Digital, Provenance
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.signals.lead_equations import _normals
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads
from clocs.signals.quality import GatePolicy, assess
from tests.conftest import make_recording
from tests.signals.faulty_recordings import faults, row, swap_leads, twelve_leads


@pytest.mark.parametrize(
    ("pair", "at_least"),
    [
        (("I", "II"), {"III", "aVL", "aVF"}),
        (("II", "III"), {"III", "aVF"}),
        (("aVR", "aVF"), {"aVR", "aVF"}),
        (("III", "V1"), {"III"}),
    ],
)
def test_swapped_leads_violate_their_equations(pair: tuple[str, str], at_least: set[str]) -> None:
    reasons = faults(twelve_leads(swap_leads(*pair)))
    assert {reason for reason, _ in reasons} == {"lead_equations"}
    assert {lead for _, lead in reasons} >= at_least


def test_swapped_leads_of_a_real_record_are_rejected(originals: Path) -> None:
    source = open_source(originals / "ptbxl" / "records500" / "00000")
    recording = read_from(source, "00001_hr.hea")
    assert faults(recording) == set()
    swapped = replace(recording, leads=("II", "I", *recording.leads[2:]))
    assert {reason for reason, _ in faults(swapped)} == {"lead_equations"}


UNDETECTABLE: dict[tuple[str, ...], set[tuple[str, str]]] = {
    ("I", "II", "III"): {("I", "III")},  # II = I + III
    ("I", "II", "aVR"): {("I", "II")},  # -2 aVR = I + II
    ("I", "III", "aVR"): {("I", "aVR")},  # -III / 2 = I + aVR
    ("II", "III", "aVR"): {("II", "aVR")},  # III / 2 = II + aVR
    ("II", "III", "aVL"): {("III", "aVL")},  # II / 2 = III + aVL
    ("II", "III", "aVF"): {("II", "III")},  # 2 aVF = II + III
    ("aVR", "aVL", "aVF"): {("aVR", "aVL"), ("aVR", "aVF"), ("aVL", "aVF")},  # their sum is 0
}
"""Pairs of leads whose swap does not change the equation of three limb leads, so it cannot be detected."""


@pytest.mark.parametrize("limbs", list(itertools.combinations(STANDARD_LEADS[:6], 3)))
def test_swapped_names_are_detected_in_any_three_limb_leads(limbs: tuple[str, ...]) -> None:
    recording = twelve_leads().select((*limbs, "V2"))
    assert faults(recording) == set()
    for one, other in itertools.combinations(recording.leads, 2):
        swap = {one: other, other: one}
        wrong = replace(recording, leads=tuple(swap.get(lead, lead) for lead in recording.leads))
        expected = set() if (one, other) in UNDETECTABLE.get(limbs, ()) else {"lead_equations"}
        assert {reason for reason, _ in faults(wrong)} == expected, (one, other)


def test_the_equation_of_the_papers_limb_leads() -> None:
    """The equation is aVL + 2 aVR + 1.5 II = 0."""
    (normal,) = _normals(("II", "aVR", "aVL"))
    np.testing.assert_allclose(normal / normal[2], [1.5, 2.0, 1.0])


@pytest.mark.parametrize("pair", list(itertools.combinations(("II", "aVR", "aVL", "V2"), 2)))
def test_swapped_names_of_the_four_leads_of_chapman_are_detected(pair: tuple[str, str], originals: Path) -> None:
    """The leads were filtered separately, so the equations hold only approximately."""
    source = open_source(originals / "chapman" / "ECGDataDenoised")
    recording = read_from(source, "MUSE_20180111_155115_19000.csv").select(("II", "V2", "aVL", "aVR"))
    assert faults(recording) == set()
    swap = dict((pair, pair[::-1]))
    wrong = replace(recording, leads=tuple(swap.get(lead, lead) for lead in recording.leads))
    assert faults(wrong) == {("lead_equations", lead) for lead in pair}
    assert all(finding.detail.endswith(swap[finding.lead]) for finding in assess(wrong, GatePolicy()))


def test_a_noisy_lead_is_not_reported_as_swapped() -> None:
    """With noise of a third of the amplitude on one lead, no swap fits much better."""
    recording = twelve_leads().select(("II", "aVR", "aVL", "V2"))
    noise = np.random.default_rng(0).normal(scale=300, size=5000).astype(np.int16)
    digital = recording.digital.copy()
    digital[2] += noise
    assert faults(replace(recording, digital=digital)) == set()


def test_spikes_on_all_leads_are_not_reported_as_a_swap(originals: Path) -> None:
    """CPSC A6000 has 17 samples at 32.7 mV on every lead. The equations hold to 2 uV elsewhere."""
    source = open_source(originals / "cpsc2018" / "Training_WFDB")
    recording = read_from(source, "A6000.hea")
    assert np.abs(recording.signal).max() > 30
    assert faults(recording) == set()
    swapped = replace(recording, leads=("II", "I", *recording.leads[2:]))
    assert {reason for reason, _ in faults(swapped)} == {"lead_equations"}


def test_missing_chest_leads_do_not_hide_swapped_limb_leads() -> None:
    def change(digital: Digital) -> None:
        swap_leads("aVR", "aVL")(digital)
        digital[row("V1")] = -32768

    assert faults(twelve_leads(change)) == {("missing", "V1"), ("lead_equations", "aVR"), ("lead_equations", "aVL")}


def test_a_derived_lead_is_not_checked_against_its_equation() -> None:
    derived = add_derived_leads(make_recording())
    wrong = replace(derived, gain=np.where(np.array(derived.leads) == "III", 300.0, derived.gain))
    assert faults(wrong) == set()
    assert faults(replace(wrong, provenance=Provenance())) == {("lead_equations", "III")}
