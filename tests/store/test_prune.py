"""Pruning deletes what no remaining version names, and nothing that a reader or writer may need."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from clocs.core.errors import ConfigError, IntegrityError
from clocs.core.storage.files import lock_folder
from clocs.store.manifest import manifest_path, versions
from clocs.store.prune import prune
from clocs.store.segments import METADATA
from clocs.store.splits import make_split
from clocs.store.store import Store, open_store
from clocs.store.task_records import TASK_RECORDS
from clocs.store.verify import verify
from clocs.store.withdraw import withdraw
from tests.conftest import make_recording
from tests.store.conftest import Maker

NOW = timedelta(0)
DAY = timedelta(days=1)


@pytest.fixture
def store(store_of: Maker) -> Store:
    """Return version 1 of a store with three versions, a split and a frame cache. A patient left at each version."""
    made = store_of(
        [make_recording(seed=n, record_id=f"r{n}", patient_id=f"p{n}") for n in range(8)], per_shard=2, gate=None
    )
    make_split(made)
    made.frames("evaluation").cached()
    withdraw(made, ["p0"])
    withdraw(made, ["p5"])
    return made


def files(folder: Path) -> dict[str, int]:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in paths}


def make_old(folder: Path, pattern: str = "**/*", days: float = 2) -> None:
    for path in folder.glob(pattern):
        os.utime(path, (time.time() - days * 86400,) * 2)


def test_a_dry_run_lists_what_is_deleted(store: Store) -> None:
    before = files(store.folder)
    planned = prune(store.folder, grace=NOW)
    assert planned.dry_run
    assert files(store.folder) == before
    done = prune(store.folder, grace=NOW, dry_run=False)
    after = files(store.folder)
    assert (done.versions, done.files, done.num_bytes) == (planned.versions, planned.files, planned.num_bytes)
    assert set(done.files) == before.keys() - after.keys()
    assert done.num_bytes == sum(before[name] for name in done.files)


def test_only_files_of_the_remaining_version_stay(store: Store) -> None:
    newest = open_store(store.folder)
    done = prune(store.folder, grace=NOW, dry_run=False)
    assert done.versions == (1, 2)
    assert versions(store.folder) == [3]
    shards = {shard.file for shard in newest.shards}
    assert {path.name for path in (store.folder / "shards").glob("*.arrow")} == shards
    assert {path.name.partition(".")[0] for path in (store.folder / "shards").iterdir()} == {
        name.removesuffix(".arrow") for name in shards
    }
    segments = {info.name for info in newest.manifest.segments}
    assert {path.name.partition(".")[0] for path in (store.folder / METADATA).iterdir()} == segments
    assert len(list((store.folder / TASK_RECORDS).iterdir())) == 4
    assert [path.name for path in store.folder.glob("quarantine-*")] == [newest.manifest.quarantine.file]
    assert not [
        path for name in ("splits", "frames") for path in (store.folder / name).glob("*.*") if "lock" not in path.name
    ]
    assert len(list(open_store(store.folder))) == 6
    assert verify(store.folder) == []
    assert prune(store.folder, grace=NOW, dry_run=False).files == ()


def test_the_newest_versions_are_kept(store: Store) -> None:
    second = open_store(store.folder, 2)
    make_split(second, "second")
    prune(store.folder, keep=2, grace=NOW, dry_run=False)
    assert versions(store.folder) == [2, 3]
    assert len(list(open_store(store.folder, 2))) == 7
    assert [path.name for path in sorted((store.folder / "splits").glob("*.*")) if path.suffix] == [
        "second.arrow",
        "second.json",
    ]
    assert verify(store.folder) == []


def test_a_reader_keeps_the_version_that_was_replaced_within_the_grace_period(store: Store) -> None:
    """Its files are old, but it was the newest version until recently."""
    make_old(store.folder)
    os.utime(manifest_path(store.folder, 3))
    reader = open_store(store.folder, 2)
    done = prune(store.folder, grace=DAY, dry_run=False)
    assert done.versions == (1,)
    assert len([recording.num_samples for recording in reader]) == 7
    make_old(store.folder)
    assert prune(store.folder, grace=DAY, dry_run=False).versions == (2,)
    assert verify(store.folder) == []


def test_a_reader_with_open_shards_survives_a_prune_without_grace(store: Store) -> None:
    reader = open_store(store.folder, 1)
    before = [recording.digital.copy() for recording in reader]
    prune(store.folder, grace=NOW, dry_run=False)
    assert all((recording.digital == digital).all() for recording, digital in zip(reader, before, strict=True))


def test_young_files_of_a_writer_are_kept(store: Store) -> None:
    make_old(store.folder)
    young = [store.folder / name for name in ("shards/new.arrow", "frames/new.npy", "metadata/new.ids.arrow")]
    partial = store.folder / "shards" / "newer.arrow.partial"
    for path in (*young, partial):
        path.write_bytes(b"x")
    done = prune(store.folder, grace=DAY, dry_run=False)
    assert done.versions == (1, 2)
    assert all(path.exists() for path in (*young, partial))
    make_old(store.folder)
    assert len(prune(store.folder, grace=DAY, dry_run=False).files) == 4


def test_a_young_task_record_protects_its_shards(store: Store) -> None:
    """A killed ingest is continued with them."""
    manifest_path(store.folder, 3).unlink()
    make_old(store.folder)
    for path in (store.folder / TASK_RECORDS).iterdir():
        os.utime(path)
    used = {shard.file for shard in open_store(store.folder, 2).shards}
    prune(store.folder, grace=DAY, dry_run=False)
    left = {path.name for path in (store.folder / "shards").glob("*.arrow")}
    assert len(left - used) == 1
    assert len(list((store.folder / TASK_RECORDS).iterdir())) == 4


def test_other_files_are_not_touched(store: Store) -> None:
    others = [store.folder / name for name in ("notes.txt", "shards/readme.md", "splits/plan.csv", "frames/a.txt")]
    for path in others:
        path.write_bytes(b"x")
    prune(store.folder, grace=NOW, dry_run=False)
    assert all(path.exists() for path in others)


def test_a_damaged_version_stops_a_prune(store: Store) -> None:
    before = files(store.folder)
    (name,) = {info.name for info in open_store(store.folder).manifest.segments}
    path = store.folder / METADATA / f"{name}.shards.arrow"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IntegrityError, match=r"shards\.arrow"):
        prune(store.folder, grace=NOW, dry_run=False)
    assert files(store.folder).keys() == before.keys()


def test_invalid_arguments_and_links_are_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 1 version"):
        prune(store.folder, keep=0)
    with pytest.raises(ConfigError, match="at least 0"):
        prune(store.folder, grace=-DAY)
    (store.folder / "frames").rename(tmp_path / "elsewhere")
    (store.folder / "frames").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a link"):
        prune(store.folder, grace=NOW)


def test_a_writer_excludes_a_prune(store: Store) -> None:
    with lock_folder(store.folder), pytest.raises(Exception, match="Another process is writing"):
        prune(store.folder)
