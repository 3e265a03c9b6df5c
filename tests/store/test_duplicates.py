"""Recordings with equal signals have equal keys, whatever their ids."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clocs.core.recording import Recording
from clocs.store.duplicates import duplicate_groups, signal_keys
from tests.conftest import make_recording
from tests.store.conftest import Maker

EIGHT = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")


def flat(name: str) -> Recording:
    return replace(make_recording(record_id=name), digital=np.zeros((3, 5000), np.int16))


def test_equal_signals_have_equal_keys_and_flat_signals_have_none(
    store_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clocs.store.writer.assess", lambda recording, policy: [])  # it would refuse flat signals
    signals = [make_recording(seed=number, record_id=f"r{number}", patient_id=f"p{number}") for number in range(5)]
    again = replace(signals[1], record_id="again", patient_id="someone", labels=("AF",))
    store = store_of([*signals, flat("f0"), again, flat("f1"), flat("f2")], per_shard=2)
    assert [shard.records for shard in store.shards] == [2, 2, 2, 2, 1]
    keys = signal_keys(store)
    np.testing.assert_array_equal(keys == 0, [False] * 5 + [True, False, True, True])
    assert keys[1] == keys[6]
    assert len(set(keys.tolist())) == 6
    assert [group.tolist() for group in duplicate_groups(store)] == [[1, 6]]


def test_a_key_is_the_start_of_the_stored_hash(store_of: Maker) -> None:
    made = [make_recording(seed=number, record_id=f"r{number}") for number in range(7)]
    store = store_of(made, per_shard=3)
    kept = [value.as_py()[:8] for value in store.table(["signal_hash"]).column(0)]
    assert signal_keys(store).astype("<u8").tobytes() == b"".join(kept)
    np.testing.assert_array_equal(signal_keys(store_of(made[::-1], name="other"))[::-1], signal_keys(store))
