"""Frames with missing leads equal those of a literal version."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import GATE_OFF
from clocs.store.frames import Frames
from clocs.store.lead_derivation import lead_derivation, lead_plan
from tests.conftest import make_recording
from tests.store.conftest import Maker

Frame = npt.NDArray[np.float64]
POLICIES = st.fixed_dictionaries(
    {
        "num_samples": st.sampled_from([500, 1250]),
        "num_segments": st.integers(1, 2),
        "sampling_rate": st.just(500.0),
        "leads": st.lists(st.sampled_from(STANDARD_LEADS), min_size=1, unique=True).map(tuple),
        "normalization": st.sampled_from(["none", "minmax", "typical"]),
        "normalization_scope": st.sampled_from(["lead", "frame"]),
        "allow_missing_leads": st.booleans(),
        "excluded_leads": st.lists(
            st.tuples(st.sampled_from(["r0", "r1", "wide", "gap"]), st.sampled_from(STANDARD_LEADS)), max_size=3
        ).map(tuple),
    }
)


def literal(recording: Recording, policy: FramePolicy) -> list[tuple[int, Frame, list[bool]]]:
    """Return index, values (segments, leads, samples) and mask of every frame, in plain Python."""
    length, found = policy.num_samples * policy.num_segments, []
    rows = dict(zip(recording.leads, recording.physical().astype(np.float64), strict=True))
    if policy.unnamed_lead is not None and policy.unnamed_lead not in rows and "ECG" in rows:
        rows[policy.unnamed_lead] = rows["ECG"]
    for number in range(recording.num_samples // length):
        windows = {}
        for lead in policy.leads:
            window = rows[lead][number * length : (number + 1) * length] if lead in rows else np.array([np.nan])
            if not np.isnan(window).any() and (recording.record_id, lead) not in policy.excluded_leads:
                windows[lead] = window
        mask = [lead in windows for lead in policy.leads]
        if any(mask) if policy.allow_missing_leads else all(mask):
            frame = np.zeros((policy.num_segments, len(policy.leads), policy.num_samples))
            for segment in range(policy.num_segments):
                cut = slice(segment * policy.num_samples, (segment + 1) * policy.num_samples)
                pieces = {lead: window[cut] for lead, window in windows.items()}
                for lead, piece in pieces.items():
                    of = piece if policy.normalization_scope == "lead" else np.concatenate(list(pieces.values()))
                    frame[segment, policy.leads.index(lead)] = scaled(piece, of, policy.normalization)
            found.append((number, frame, mask))
    return found


def scaled(values: Frame, of: Frame, how: str) -> Frame:
    if how == "minmax":
        return np.asarray((values - of.min()) / (of.max() - of.min()))
    return np.asarray((values - of.mean()) * 0.15 / of.std()) if how == "typical" else values


@pytest.fixture
def at_one_rate(varied: list[Recording]) -> list[Recording]:
    """Return recordings with different leads, gains and gaps; one has V1 and V2, one an unnamed lead."""
    few = make_recording(("V1", "V2"), seed=20, record_id="few", patient_id="p20", num_samples=6000)
    unnamed = make_recording(("ECG",), seed=21, record_id="unnamed", patient_id="p21", num_samples=6000)
    digital = few.digital.copy()
    digital[:, 1000:1010] = np.iinfo(digital.dtype).min
    return [*(each for each in varied if each.sampling_rate == 500), replace(few, digital=digital), unnamed]


def test_frames_with_missing_leads_equal_a_literal_loop(store_of: Maker, at_one_rate: list[Recording]) -> None:
    store = store_of(at_one_rate, gate=GATE_OFF, per_shard=3)

    @settings(max_examples=60, deadline=None)
    @given(options=POLICIES, named=st.booleans(), chosen=st.integers(1, 2 ** len(at_one_rate) - 1))
    def check(options: dict[str, Any], named: bool, chosen: int) -> None:
        records = np.array([chosen >> number & 1 for number in range(len(store))], bool)
        policy = FramePolicy(**options, unnamed_lead="II" if named and "II" in options["leads"] else None)
        if policy.unnamed_lead is None:
            records[-1] = False
        frames = Frames(store, policy, records=records, all_leads=True)
        numbers, at, _ = frames.locate(np.arange(len(frames)))
        views, masks = frames.views(np.arange(len(frames))), frames.lead_mask(np.arange(len(frames)))
        ours = {(int(r), int(n)): (v, m) for r, n, v, m in zip(numbers, at, views, masks, strict=True)}
        expected = {
            (int(record), number): (frame, mask)
            for record in np.flatnonzero(records)
            for number, frame, mask in literal(store.recording(int(record)), policy)
        }
        assert ours.keys() == expected.keys()
        for key, (frame, mask) in expected.items():
            assert ours[key][1].tolist() == mask, key
            np.testing.assert_allclose(ours[key][0], frame, atol=3e-4, err_msg=str(key))
            assert not ours[key][0][:, ~np.array(mask)].any()

    check()


def test_an_unnamed_lead_becomes_the_channel_of_the_policy(store_of: Maker) -> None:
    store = store_of([make_recording(("ECG",)), make_recording(("I", "II"), seed=1, record_id="r1")], gate=GATE_OFF)
    policy = FramePolicy(num_samples=2500, sampling_rate=500, leads=("I", "V1"), allow_missing_leads=True)
    with pytest.raises(ConfigError, match=r"unnamed lead \('ECG'\) but no lead of I, V1. Set unnamed_lead"):
        Frames(store, policy, all_leads=True)
    frames = Frames(store, policy.model_copy(update={"unnamed_lead": "V1"}), all_leads=True)
    assert frames.lead_mask([0, len(frames) - 1]).tolist() == [[False, True], [True, False]]
    plain = Frames(store, FramePolicy(num_samples=2500, sampling_rate=500, leads=("ECG",)))
    np.testing.assert_array_equal(frames.gather([0])[0, 1], plain.gather([0])[0])
    single = Frames(store, FramePolicy(num_samples=2500, sampling_rate=500, leads=("V1",), unnamed_lead="V1"))
    assert single.locate([0])[2].tolist() == ["V1"]
    with pytest.raises(ValidationError, match=r"unnamed_lead 'V6' is not in leads\. Choose from I, V1"):
        FramePolicy(num_samples=2500, sampling_rate=500, leads=("I", "V1"), unnamed_lead="V6")


def test_missing_leads_of_resampled_frames_stay_zero(store_of: Maker) -> None:
    gapped = make_recording(("I", "II", "V1"), num_samples=5000, sampling_rate=250.0)
    digital = gapped.digital.copy()
    digital[2, 1300] = np.iinfo(digital.dtype).min
    stores = store_of([gapped], gate=GATE_OFF), store_of([replace(gapped, digital=digital)], name="gap", gate=GATE_OFF)
    policy = FramePolicy(num_samples=1000, sampling_rate=500, leads=("V1", "aVL", "V6"), allow_missing_leads=True)
    whole, frames = (Frames(store, policy, all_leads=True) for store in stores)
    items = np.arange(len(frames))
    assert frames.lead_mask(items)[:, 0].tolist() == [number != 2 for number in items]
    assert frames.lead_mask(items)[:, 1:].tolist() == [[True, False]] * len(items)
    expected = whole.gather(items)
    expected[2, 0] = 0
    np.testing.assert_array_equal(frames.gather(items), expected)


def test_each_stored_lead_is_read_once() -> None:
    """Eight stored leads give twelve. Two derived leads also read I and II."""
    stored = ("V6", "I", "II", "V1", "V2", "V3", "V4", "V5")
    policy = FramePolicy(num_samples=2500, sampling_rate=500, leads=STANDARD_LEADS)
    made = lead_derivation(stored, policy, all_leads=True)
    assert made is not None
    plan = lead_plan(made)
    assert (plan.width, plan.channels, sorted(plan.stored.tolist())) == (12, 12, list(range(8)))
    two = lead_derivation(stored, policy.model_copy(update={"leads": ("aVF", "V1", "III")}), all_leads=True)
    assert two is not None
    plan = lead_plan(two)
    assert (plan.width, plan.channels, sorted(plan.stored.tolist())) == (3, 5, [1, 2, 3])
