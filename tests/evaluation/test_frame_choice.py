"""Which frames an encoder is judged on: those it knows, or those of the paper."""

from __future__ import annotations

from typing import Any

import pytest

from clocs.core.errors import ConfigError
from clocs.evaluation.frame_choice import frames_for, rate_mismatch
from clocs.signals.framing import FramePolicy
from clocs.store.store import Store
from tests.evaluation.conftest import POLICY, about

CHAPMAN = FramePolicy(samples=2500, source_samples="recording", normalisation="unit", excluded=(("r", "V2"),))
"""As Chapman's for evaluation: the rate is left open."""


def told(policy: FramePolicy) -> dict[str, Any]:
    found: dict[str, Any] = about(policy)["input"]
    return found


def store_with(store: Store, policy: FramePolicy, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same store, with another policy for evaluation."""
    monkeypatch.setattr(Store, "policy", lambda self, purpose: {"evaluation": policy}[purpose])
    return store


def test_an_encoder_with_a_rate_takes_it_to_any_dataset(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {"leads": ("ECG",), "label_at": "start", "excluded": (("r7", "ECG"),)}
    own = FramePolicy(samples=2500, segments=2, source_samples=256, **kept)
    trained = FramePolicy(samples=1000, segments=2, rate=100, normalisation="unit", leads=("II", "V2"))
    found = frames_for(told(trained), store_with(store, own, monkeypatch), "encoder")
    assert found == FramePolicy(samples=1000, rate=100, normalisation="unit", **kept)
    assert rate_mismatch(told(trained), found) is None


def test_an_encoder_at_the_datasets_own_rate_gets_its_frames(store: Store) -> None:
    trained = FramePolicy(samples=2500, segments=2, rate=500)
    assert frames_for(told(trained), store, "encoder") == store.policy("evaluation")


def test_an_encoder_without_a_rate_knows_its_own_dataset_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="--frames paper"):
        frames_for(told(CHAPMAN), store, "encoder")
    here = store_with(store, CHAPMAN, monkeypatch)
    without_exclusion = CHAPMAN.model_copy(update={"excluded": ()})
    assert frames_for(told(without_exclusion), here, "encoder") == CHAPMAN
    with pytest.raises(ConfigError, match="--frames paper"):
        frames_for(told(FramePolicy(samples=2500, source_samples=2500, normalisation="unit")), here, "encoder")


def test_the_papers_frames_are_the_datasets_and_the_rate_is_noted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = store_with(store, CHAPMAN, monkeypatch)
    assert frames_for(told(POLICY), here, "paper") == CHAPMAN
    note = rate_mismatch(told(POLICY), CHAPMAN)
    assert note == "the encoder was trained at 500.0 Hz, these frames have no stated rate"
    other = FramePolicy(samples=2500, rate=250)
    assert rate_mismatch(told(CHAPMAN), other) == (
        "the encoder was trained at no stated rate, these frames have 250.0 Hz"
    )
    assert rate_mismatch(told(CHAPMAN), CHAPMAN) is None


def test_frames_of_another_length_do_not_fit(store: Store) -> None:
    short = FramePolicy(samples=1000, segments=2, rate=100)
    with pytest.raises(ConfigError, match="2500 samples, the encoder takes 1000"):
        frames_for(told(short), store, "paper")
