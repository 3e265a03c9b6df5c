"""The quality gate by the lead equations: exchanged leads, and what must not be taken for them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clocs.core.recording import Digital, Provenance
from clocs.core.sources import open_source
from clocs.formats import read_from
from clocs.signals.leads import STANDARD_LEADS, add_derived_leads
from clocs.signals.quality import GatePolicy, _normals, assess
from tests.conftest import make_recording
from tests.signals.judged import found, row, swap, twelve


@pytest.mark.parametrize(
    ("pair", "at_least"),
    [
        (("I", "II"), {"III", "aVL", "aVF"}),
        (("II", "III"), {"III", "aVF"}),
        (("aVR", "aVF"), {"aVR", "aVF"}),
        (("III", "V1"), {"III"}),
    ],
)
def test_swapped_leads_are_refused_by_their_equations(pair: tuple[str, str], at_least: set[str]) -> None:
    reasons = found(twelve(swap(*pair)))
    assert {reason for reason, _ in reasons} == {"lead_equations"}
    assert {lead for _, lead in reasons} >= at_least


def test_swapped_leads_of_a_real_record_are_refused(originals: Path) -> None:
    source = open_source(originals / "ptbxl" / "records500" / "00000")
    recording = read_from(source, "00001_hr.hea")
    assert found(recording) == set()
    swapped = replace(recording, leads=("II", "I", *recording.leads[2:]))
    assert {reason for reason, _ in found(swapped)} == {"lead_equations"}


ALIKE: dict[tuple[str, ...], set[tuple[str, str]]] = {
    ("I", "II", "III"): {("I", "III")},  # II = I + III
    ("I", "II", "aVR"): {("I", "II")},  # -2 aVR = I + II
    ("I", "III", "aVR"): {("I", "aVR")},  # -III / 2 = I + aVR
    ("II", "III", "aVR"): {("II", "aVR")},  # III / 2 = II + aVR
    ("II", "III", "aVL"): {("III", "aVL")},  # II / 2 = III + aVL
    ("II", "III", "aVF"): {("II", "III")},  # 2 aVF = II + III
    ("aVR", "aVL", "aVF"): {("aVR", "aVL"), ("aVR", "aVF"), ("aVL", "aVF")},  # their sum is 0
}
"""Leads that change places in the one equation of three leads without changing it: no exchange of them can be seen."""


@pytest.mark.parametrize("limbs", list(itertools.combinations(STANDARD_LEADS[:6], 3)))
def test_exchanged_names_are_found_in_any_three_limb_leads(limbs: tuple[str, ...]) -> None:
    some = twelve().select((*limbs, "V2"))
    assert found(some) == set()
    for one, other in itertools.combinations(some.leads, 2):
        swap = {one: other, other: one}
        wrong = replace(some, leads=tuple(swap.get(lead, lead) for lead in some.leads))
        seen = set() if (one, other) in ALIKE.get(limbs, ()) else {"lead_equations"}
        assert {reason for reason, _ in found(wrong)} == seen, (one, other)


def test_the_equation_of_the_papers_limb_leads() -> None:
    """aVL + 2 aVR + 1.5 II = 0, worked out on paper."""
    (normal,) = _normals(("II", "aVR", "aVL"))
    np.testing.assert_allclose(normal / normal[2], [1.5, 2.0, 1.0])


@pytest.mark.parametrize("pair", list(itertools.combinations(("II", "aVR", "aVL", "V2"), 2)))
def test_exchanged_names_of_chapmans_four_leads_are_found(pair: tuple[str, str], originals: Path) -> None:
    """Their leads were filtered one by one, so that the equations hold to some percent only."""
    source = open_source(originals / "chapman" / "ECGDataDenoised")
    recording = read_from(source, "MUSE_20180111_155115_19000.csv").select(("II", "V2", "aVL", "aVR"))
    assert found(recording) == set()
    swap = dict((pair, pair[::-1]))
    wrong = replace(recording, leads=tuple(swap.get(lead, lead) for lead in recording.leads))
    assert found(wrong) == {("lead_equations", lead) for lead in pair}
    assert all(finding.detail.endswith(swap[finding.lead]) for finding in assess(wrong, GatePolicy()))


def test_leads_at_odds_with_their_equation_are_not_called_exchanged_without_reason() -> None:
    """Noise of a third of their size on one of three: no other naming fits any better."""
    some = twelve().select(("II", "aVR", "aVL", "V2"))
    noise = np.random.default_rng(0).normal(scale=300, size=5000).astype(np.int16)
    digital = some.digital.copy()
    digital[2] += noise
    assert found(replace(some, digital=digital)) == set()


def test_spikes_on_all_leads_do_not_pass_for_a_lead_swap(originals: Path) -> None:
    """CPSC A6000: 17 samples at 32.7 mV on every lead; everywhere else the equations hold to 2 uV."""
    source = open_source(originals / "cpsc2018" / "Training_WFDB")
    recording = read_from(source, "A6000.hea")
    assert np.abs(recording.signal).max() > 30
    assert found(recording) == set()
    swapped = replace(recording, leads=("II", "I", *recording.leads[2:]))
    assert {reason for reason, _ in found(swapped)} == {"lead_equations"}


def test_missing_chest_leads_do_not_hide_swapped_limb_leads() -> None:
    def change(digital: Digital) -> None:
        swap("aVR", "aVL")(digital)
        digital[row("V1")] = -32768

    assert found(twelve(change)) == {("missing", "V1"), ("lead_equations", "aVR"), ("lead_equations", "aVL")}


def test_a_derived_lead_is_not_held_against_its_own_equation() -> None:
    derived = add_derived_leads(make_recording())
    wrong = replace(derived, gain=np.where(np.array(derived.leads) == "III", 300.0, derived.gain))
    assert found(wrong) == set()
    assert found(replace(wrong, provenance=Provenance())) == {("lead_equations", "III")}
