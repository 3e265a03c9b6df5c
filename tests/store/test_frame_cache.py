"""Cached frames equal computed frames."""

from __future__ import annotations

import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clocs.core.recording import Recording
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF
from clocs.store.frames import Frames
from tests.conftest import make_recording
from tests.store.conftest import Maker

LEADS = ("II", "V2", "aVL")
CUT = FramePolicy(num_samples=2500, num_source_samples=2500, leads=LEADS)
STRETCHED = FramePolicy(num_samples=500, num_source_samples=256, leads=LEADS)


def test_the_cache_equals_gather_and_is_named_by_its_content(store_of: Maker, tmp_path: Path) -> None:
    store = store_of([make_recording(seed=n, record_id=f"r{n}") for n in range(3)])
    frames = Frames(store, STRETCHED)
    items = np.arange(len(frames))
    np.testing.assert_array_equal(frames.cached(tmp_path / "cache").gather(items), frames.gather(items))
    other = Frames(store, CUT)
    other.cached(tmp_path / "cache")
    frames.cached(tmp_path / "cache")
    assert len(list((tmp_path / "cache").glob("*.npy"))) == 2


DAMAGES: list[Callable[[bytes], bytes]] = [
    lambda raw: raw[:-100],
    lambda raw: raw[:50],
    lambda raw: b"",
    lambda raw: raw + raw,
    lambda raw: bytes(128) + raw[128:],
    lambda raw: raw.replace(b"False", b"True "),
    lambda raw: raw.replace(b", 500)", b", 250)"),
    lambda raw: raw[:-5] + bytes([raw[-5] ^ 1]) + raw[-4:],
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_written_again(damage: Callable[[bytes], bytes], store_of: Maker, tmp_path: Path) -> None:
    frames = Frames(store_of([make_recording(record_id="r0")]), STRETCHED)
    frames.cached(tmp_path)
    (path,) = tmp_path.glob("*.npy")
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert path.read_bytes() != whole
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged\. It is written again"):
        frames.cached(tmp_path)
    items = np.arange(len(frames))
    np.testing.assert_array_equal(frames.cached(tmp_path).gather(items), frames.gather(items))
    assert path.read_bytes() == whole


def test_frames_of_a_read_only_store_are_cached_in_a_private_folder(
    store_of: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of([make_recording(sampling_rate=250)])
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    cached = Frames(store, FramePolicy(num_samples=500, sampling_rate=500)).cached()
    assert cached._cache is not None
    place = cached._cache.path.parent
    assert not place.is_relative_to(store.folder)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert not (store.folder / "frames").exists()


@pytest.mark.parametrize("all_leads", [False, True])
def test_one_cache_serves_any_selection_of_recordings(
    store_of: Maker, varied: list[Recording], tmp_path: Path, all_leads: bool
) -> None:
    store = store_of(varied, gate=GATE_OFF, per_shard=3)
    random = np.random.default_rng(0)
    for _ in range(4):
        mask = random.random(len(store)) < 0.5
        for policy in (STRETCHED, FramePolicy(num_samples=300, num_source_samples=600)):
            if all_leads and not policy.leads:
                continue
            frames = Frames(store, policy, records=mask, all_leads=all_leads)
            items = random.permutation(len(frames))
            cached = pickle.loads(pickle.dumps(frames.cached(tmp_path / "cache")))
            np.testing.assert_array_equal(cached.gather(items), frames.gather(items))
    assert len(list((tmp_path / "cache").glob("*.npy"))) == (1 if all_leads else 2)
