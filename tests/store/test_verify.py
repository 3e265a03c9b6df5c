"""``verify`` names the damaged file."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.errors import StoreError
from clocs.store.splits import make_split
from clocs.store.store import Store
from clocs.store.verify import verify
from tests.conftest import make_recording
from tests.store.conftest import Maker


@pytest.fixture
def store(store_of: Maker) -> Store:
    made = store_of([make_recording(seed=n, record_id=f"r{n}", patient_id=f"p{n}", num_samples=2500) for n in range(6)])
    make_split(made)
    return made


def files(store: Store) -> list[Path]:
    return sorted(path for path in store.folder.rglob("*") if path.is_file() and path.name != ".lock")


def test_an_intact_store_has_no_faults(store: Store) -> None:
    seen: list[tuple[int, int]] = []
    assert verify(store.folder, progress=lambda done, total: seen.append((done, total))) == []
    assert seen[-1][0] == seen[-1][1] == sum(shard.bytes for shard in store.shards)


def test_a_changed_byte_in_any_file_is_found(store: Store) -> None:
    assert len(files(store)) == 15, "manifest, quarantine, shards, segment, receipts, checksums, a split's two files"
    for path in files(store):
        before = path.read_bytes()
        if not before:
            continue
        path.write_bytes(before[:-3] + bytes([before[-3] ^ 1]) + before[-2:])
        (fault,) = verify(store.folder)
        assert path.name.partition(".")[0] in fault.file
        path.write_bytes(before)


def test_a_missing_and_a_truncated_shard_are_named(store: Store) -> None:
    first, second = sorted((store.folder / "shards").glob("*.arrow"))
    first.unlink()
    second.write_bytes(second.read_bytes()[:-1])
    faults = {fault.file: fault.problem for fault in verify(store.folder)}
    assert "cannot be read" in faults[f"shards/{first.name}"]
    assert "but the manifest states" in faults[f"shards/{second.name}"]


@pytest.mark.parametrize(("lost", "named"), [("json", "json"), ("arrow", "arrow")])
def test_a_missing_file_of_a_split_is_named(lost: str, named: str, store: Store) -> None:
    (store.folder / "splits" / f"default.{lost}").unlink()
    assert [fault.file for fault in verify(store.folder)] == [f"splits/default.{named}"]


def test_a_folder_without_a_store_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a finished store"):
        verify(tmp_path)
