"""Which frames an encoder is judged on: those it knows, or those of the paper."""

from __future__ import annotations

from typing import Any

import pytest

from clocs.core.errors import ConfigError
from clocs.evaluation.evaluation_frames import FrameChoice, frame_mismatches, frame_policy_for
from clocs.signals.framing import FramePolicy
from clocs.store.store import Store
from tests.inference.conftest import POLICY, about

CHAPMAN = FramePolicy(
    num_samples=2500, num_source_samples="recording", normalization="minmax", excluded_leads=(("r", "V2"),)
)
"""As Chapman's for evaluation: the rate is left open."""


def told(policy: FramePolicy) -> dict[str, Any]:
    found: dict[str, Any] = about(policy)["input"]
    return found


def chosen(input: dict[str, Any], store: Store, choice: FrameChoice, in_channels: int = 1) -> FramePolicy:
    return frame_policy_for({"encoder": {"options": {"in_channels": in_channels}}, "input": input}, store, choice)


def store_with(store: Store, policy: FramePolicy, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same store, with another policy for evaluation."""
    monkeypatch.setattr(Store, "frame_policy", lambda self, purpose: {"evaluation": policy}[purpose])
    return store


def test_the_sampling_rate_of_the_encoder_is_used_for_any_dataset(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Any] = {"leads": ("ECG",), "label_at": "start", "excluded_leads": (("r7", "ECG"),)}
    own = FramePolicy(num_samples=2500, num_segments=2, num_source_samples=256, **kept)
    trained = FramePolicy(
        num_samples=1000, num_segments=2, sampling_rate=100, normalization="minmax", leads=("II", "V2")
    )
    found = chosen(told(trained), store_with(store, own, monkeypatch), "encoder")
    assert found == FramePolicy(num_samples=1000, sampling_rate=100, normalization="minmax", **kept)
    assert frame_mismatches(told(trained), found, store) == []


def test_an_encoder_at_the_sampling_rate_of_the_dataset_has_its_frames(store: Store) -> None:
    trained = FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500)
    assert chosen(told(trained), store, "encoder") == store.frame_policy("evaluation")


def test_an_encoder_without_sampling_rate_needs_its_own_dataset(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="--frames paper"):
        chosen(told(CHAPMAN), store, "encoder")
    here = store_with(store, CHAPMAN, monkeypatch)
    without_exclusion = CHAPMAN.model_copy(update={"excluded_leads": ()})
    assert chosen(told(without_exclusion), here, "encoder") == CHAPMAN
    with pytest.raises(ConfigError, match="--frames paper"):
        chosen(told(FramePolicy(num_samples=2500, num_source_samples=2500, normalization="minmax")), here, "encoder")


def test_an_encoder_of_several_leads_has_its_own_leads(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    own = FramePolicy(num_samples=2500, sampling_rate=500, leads=("II", "V2"), excluded_leads=(("r7", "V2"),))
    trained = FramePolicy(
        num_samples=1000, sampling_rate=100, leads=("I", "II", "V1"), allow_missing_leads=True, unnamed_lead="I"
    )
    found = chosen(told(trained), store_with(store, own, monkeypatch), "encoder", in_channels=3)
    assert found == trained.model_copy(update={"excluded_leads": own.excluded_leads})


def test_frames_of_the_paper_note_another_sampling_rate(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    here = store_with(store, CHAPMAN, monkeypatch)
    assert chosen(told(POLICY), here, "paper") == CHAPMAN
    assert frame_mismatches(told(POLICY), CHAPMAN, store) == [
        "the encoder was trained at 500 Hz, these frames have no stated rate"
    ]
    other = FramePolicy(num_samples=2500, sampling_rate=250)
    assert frame_mismatches(told(CHAPMAN), other, store) == [
        "the encoder was trained at no stated rate, these frames have 250 Hz"
    ]
    assert frame_mismatches(told(CHAPMAN), CHAPMAN, store) == []


def test_another_unit_is_noted_without_normalization(store: Store) -> None:
    steps = {**told(CHAPMAN), "unit": "adu"}
    assert frame_mismatches(steps, CHAPMAN, store) == []  # scaled to 0..1
    (note,) = frame_mismatches(steps, CHAPMAN.model_copy(update={"normalization": "none"}), store)
    assert note == "the encoder was trained on amplitudes in adu, these frames have mV"


def test_raw_steps_are_scaled_for_an_encoder_of_millivolt(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = [shard.model_copy(update={"unit": "adu"}) for shard in store.shards]
    monkeypatch.setattr(store, "shards", shards)
    plain, scaled = (
        FramePolicy(num_samples=2500, sampling_rate=500, normalization=kind) for kind in ("none", "minmax")
    )
    found = chosen(told(plain), store, "encoder")
    assert found.normalization == "typical"
    (note,) = frame_mismatches(told(plain), found, store)
    assert note.endswith("these frames have adu, scaled to the amplitude of a typical lead")
    assert chosen({**told(plain), "unit": "adu"}, store, "encoder").normalization == "none"
    assert chosen(told(scaled), store, "encoder").normalization == "minmax"


def test_frames_of_another_length_are_rejected(store: Store) -> None:
    short = FramePolicy(num_samples=1000, num_segments=2, sampling_rate=100)
    with pytest.raises(ConfigError, match="2500 samples, the encoder takes 1000"):
        chosen(told(short), store, "paper")


def test_a_dataset_without_leads_uses_those_of_the_encoder(store: Store) -> None:
    trained = FramePolicy(num_samples=2500, sampling_rate=500)
    there = sorted(store.leads())
    known = {**told(trained), "leads": ["V6R", there[0]]}
    assert chosen(known, store, "encoder").leads == (there[0],)
    assert chosen({**told(trained), "leads": ["V6R"]}, store, "encoder").leads == (), "then all"


@pytest.mark.parametrize("choice", ["encoder", "paper"])
def test_an_encoder_of_several_leads_has_its_own_leads_in_order(store: Store, choice: FrameChoice) -> None:
    """Whatever leads the dataset's policy names: one is one channel."""
    trained = FramePolicy(num_samples=2500, num_segments=2, sampling_rate=500, allow_missing_leads=True)
    known = {**told(trained), "leads": ["V1", "I"]}
    found = chosen(known, store, choice, in_channels=2)
    assert (found.leads, found.allow_missing_leads, found.num_segments) == (("V1", "I"), True, 1)
