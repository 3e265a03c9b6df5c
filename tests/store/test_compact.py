"""Compaction merges small shards, and a later ingest neither undoes it nor reads files again."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from clocs.core.recording import Recording
from clocs.formats.writing import write
from clocs.store.compact import Compaction, compact
from clocs.store.ingest import ingest
from clocs.store.prune import prune
from clocs.store.segments import COLUMNS
from clocs.store.splits import make_split
from clocs.store.store import Store, open_store
from clocs.store.verify import verify
from clocs.store.withdraw import withdraw
from tests.conftest import make_recording
from tests.store.conftest import Maker
from tests.store.test_incremental import Counting

NIGHTS = ("ab", "cd", "e", "fg")
"""Files that are added every night, the second of the first night too short to be stored."""


def add_night(source: Path, store: Path, names: str) -> tuple[Store, str]:
    """Add files to a source and ingest it. Return the store and the files that were read."""
    source.mkdir(exist_ok=True)
    for name in names:
        num_samples = 300 if name == "b" else 2500 + ord(name)
        write(
            make_recording(("II",), num_samples=num_samples, seed=ord(name), record_id=name),
            source / f"{name}.csv",
            "csv",
        )
    counting = Counting()
    made = ingest(counting.dataset, source, store)
    return made, "".join(counting.read)


@pytest.fixture
def grown(tmp_path: Path) -> Store:
    """Return a store that grew for four nights, with four small shards in four segments."""
    for names in NIGHTS:
        store, _ = add_night(tmp_path / "source", tmp_path / "store", names)
    assert [shard.records for shard in store.shards] == [1, 2, 1, 2]
    return store


def content(store: Store) -> list[tuple[str, str, bytes]]:
    return [(item.record_id, item.provenance.source, item.digital.tobytes()) for item in store]


def test_the_same_recordings_in_the_same_order(grown: Store) -> None:
    before = content(grown)
    done = compact(grown)
    assert done == Compaction(version=5, shards_before=4, shards=1)
    after = open_store(grown.folder)
    assert content(after) == before
    assert [after.index_of(name) for name, *_ in before] == list(range(6))
    about, old = after.manifest, grown.manifest
    assert (about.records_in, about.stored, about.quarantined) == (old.records_in, old.stored, old.quarantined)
    assert verify(grown.folder) == []


def test_shards_have_at_most_the_number_of_recordings_and_nothing_is_left_to_merge(grown: Store) -> None:
    assert compact(grown, records_per_shard=3).shards == 2
    assert [shard.records for shard in open_store(grown.folder).shards] == [3, 3]
    again = compact(grown, records_per_shard=3)
    assert again == Compaction(version=5, shards_before=2, shards=2)


@pytest.mark.parametrize("is_pruned", [False, True])
def test_an_ingest_after_it_reads_only_new_files(grown: Store, tmp_path: Path, is_pruned: bool) -> None:
    compact(grown)
    if is_pruned:
        prune(grown.folder, grace=timedelta(0), dry_run=False)
    compacted = open_store(grown.folder)
    same, read = add_night(tmp_path / "source", grown.folder, "")
    assert (read, same.manifest) == ("", compacted.manifest)
    more, read = add_night(tmp_path / "source", grown.folder, "h")
    assert (read, len(more.shards)) == ("h", 2)
    assert content(more)[:6] == content(compacted)
    assert verify(grown.folder) == []


def test_a_patient_leaves_a_compacted_store(grown: Store, tmp_path: Path) -> None:
    compact(grown)
    withdraw(grown, ["c"])
    prune(grown.folder, grace=timedelta(0), dry_run=False)
    after, read = add_night(tmp_path / "source", grown.folder, "")
    assert (read, [name for name, *_ in content(after)]) == ("", [*"adefg"])
    assert after.manifest.withdrawn == 1
    assert verify(grown.folder) == []


def test_patients_keep_their_parts_in_a_split_like_the_earlier_one(grown: Store) -> None:
    before = make_split(grown)
    compact(grown)
    after = make_split(open_store(grown.folder), "compacted", like="default")
    assert np.array_equal(before.parts, after.parts)


def test_different_recordings_are_merged_unchanged(store_of: Maker, varied: list[Recording]) -> None:
    store = store_of(varied, per_shard=2, gate=None)
    before = [store.recording(number) for number in range(len(store))]
    assert compact(store).shards == 1
    after = open_store(store.folder)
    for one, other in zip(before, after, strict=True):
        assert (one.record_id, one.leads, one.sampling_rate, one.labels) == (
            other.record_id,
            other.leads,
            other.sampling_rate,
            other.labels,
        )
        np.testing.assert_array_equal(one.physical(), other.physical())
    assert after.table(COLUMNS).equals(store.table(COLUMNS))


def test_a_store_with_other_tasks_stays(tmp_path: Path) -> None:
    store = ingest("synthetic", None, tmp_path / "store", options={"num_records": 6})
    assert compact(store) == Compaction(version=1, shards_before=1, shards=1)
    shutil.rmtree(store.folder / "receipts")
    assert compact(store).version == 1
