"""Training from a store in a bucket, on a real S3 server, with a cache that is smaller than the store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clocs
from clocs.core.errors import ConfigError
from clocs.core.storage.counters import counts
from tests.object_server import disk_use
from tests.training.test_resume import content

NUM_SHARDS = 20
SHARD_BYTES = 336_000
"""A little more than the size of a shard."""
SETTINGS = (
    *("shuffle=blocks", "shuffle_lanes=4", "shuffle_window=1", "batch_size=32", "max_epochs=2", "checkpoint_every=5"),
    *("onnx=false", "method.augmentations=[gaussian_noise]"),
)


def make_store(folder: str | Path) -> clocs.Store:
    """Make a store of twenty shards of eight recordings."""
    dataset = replace(clocs.DATASETS.get("synthetic"), records_per_shard=8)
    store = clocs.ingest(dataset, None, folder, options={"num_records": 8 * NUM_SHARDS, "leads": 4})
    clocs.split(store, seed=1)
    return store


def train(store: clocs.Store, runs: Path, *more: str, **options: Any) -> dict[str, Any]:
    return clocs.pretrain("cmsc-synthetic", [f"store={store.folder}", f"runs={runs}", *SETTINGS, *more], **options)


@pytest.fixture
def stores(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> tuple[clocs.Store, clocs.Store]:
    """Return the same store in a folder and in a bucket, and limit the cache to two fifths of it."""
    monkeypatch.setenv("CLOCS_CACHE_LIMIT", str(8 * SHARD_BYTES))
    local, remote = make_store(tmp_path / "store"), make_store(f"{bucket}/store")
    assert len(local.shards) == NUM_SHARDS
    assert max(info.bytes for info in local.shards) < SHARD_BYTES
    return local, remote


def test_a_small_cache_changes_no_bit(stores: tuple[clocs.Store, clocs.Store], tmp_path: Path) -> None:
    local, remote = stores
    used, before = [], counts()

    def watch(known: dict[str, Any]) -> None:
        used.append(disk_use())

    train(local, tmp_path / "local")
    train(remote, tmp_path / "remote", progress=watch)
    assert content(tmp_path / "remote") == content(tmp_path / "local")
    assert max(used) <= 8 * SHARD_BYTES
    since = {name: value - before[name] for name, value in counts().items()}
    assert since["cache_evictions"] > 0
    assert NUM_SHARDS <= since["cache_misses"] <= 5 * NUM_SHARDS  # two epochs, each with a validation


def test_what_does_not_fit_is_read_in_parts_or_refused(
    stores: tuple[clocs.Store, clocs.Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random batch reads all shards, of which eight fit. Windows of more shards would be fetched again and again."""
    local, remote = stores
    monkeypatch.setenv("CLOCS_CACHE_LIMIT", "1MB")
    with pytest.raises(ConfigError, match="Raise CLOCS_CACHE_LIMIT, or set a lower shuffle_lanes or shuffle_window"):
        train(remote, tmp_path / "runs")
    monkeypatch.setenv("CLOCS_CACHE_LIMIT", "much")
    with pytest.raises(ConfigError, match="expected a size such as 200GB"):
        clocs.open_store(remote.folder).recording(0)
    monkeypatch.setenv("CLOCS_CACHE_LIMIT", str(8 * SHARD_BYTES))
    for all_leads in (False, True):
        expected, found = (clocs.FrameDataset(store, all_leads=all_leads) for store in (local, remote))
        items = list(range(0, len(expected), 7))
        left, right = expected.batch(items), found.batch(items)
        assert all((left[name] == right[name]).all() for name in left)
        assert disk_use() <= 8 * SHARD_BYTES
