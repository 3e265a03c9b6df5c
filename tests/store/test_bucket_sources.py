"""Ingest of files in a bucket, on a real S3 server: the store of a folder on disk, and known objects are not read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import clocs
from clocs.core.errors import ConfigError
from clocs.core.sources.bucket_source import BucketSource
from clocs.core.storage.counters import counts
from clocs.core.storage.locations import to_location
from clocs.core.storage.object_cache import cache_folder
from tests.conftest import make_recording
from tests.core.test_bucket_source import upload
from tests.store.test_buckets import tree


def write_records(folder: Path, *names: str) -> Path:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        clocs.write(make_recording(leads=("I", "II"), seed=number), path)
    return folder


def names_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    head = BucketSource.head

    def noted(self: BucketSource, name: str, count: int) -> bytes:
        names.append(name)
        return head(self, name, count)

    monkeypatch.setattr(BucketSource, "head", noted)
    return names


def test_a_bucket_gives_the_store_of_a_folder_and_known_objects_are_not_read(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_records(tmp_path / "source", "ward/a.hea", "ward/b.hea", "c.edf")
    upload(folder, f"{bucket}/source")
    store = clocs.ingest("folder", f"{bucket}/source", f"{bucket}/store")
    local = clocs.ingest("folder", folder, tmp_path / "store")
    assert store.table("record_id").equals(local.table("record_id"))
    shards = {name: data for name, data in tree(local.folder).items() if name.startswith("shards/")}
    assert shards == {name: data for name, data in tree(store.folder).items() if name.startswith("shards/")}

    read, before = names_read(monkeypatch), counts()["bucket_bytes_read"]
    assert clocs.ingest("folder", f"{bucket}/source", f"{bucket}/store").manifest.version == 1
    assert read == []
    assert counts()["bucket_bytes_read"] - before < sum(path.stat().st_size for path in folder.rglob("*.*"))
    upload(write_records(tmp_path / "more", "ward/d.hea"), f"{bucket}/source")
    assert len(clocs.ingest("folder", f"{bucket}/source", f"{bucket}/store")) == 4
    assert {name.partition(".")[0] for name in read} == {"ward/d"}


def test_an_object_of_the_same_size_with_other_content_is_read_again(bucket: str, tmp_path: Path) -> None:
    folder = write_records(tmp_path / "source", "a.edf", "b.edf")
    upload(folder, f"{bucket}/source")
    before = clocs.ingest("folder", f"{bucket}/source", tmp_path / "store")
    path = to_location(f"{bucket}/source/a.edf")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.opened.replace(path.key, bytes(data))  # type: ignore[attr-defined]
    after = clocs.ingest("folder", f"{bucket}/source", tmp_path / "store")
    assert after.manifest.version == 2
    differs = [bool((before.recording(row).digital != after.recording(row).digital).any()) for row in (0, 1)]
    assert differs == [True, False]


def test_known_tasks_are_read_by_listings(bucket: str, tmp_path: Path) -> None:
    """A later ingest reads no task record again, and asks for no shard."""
    files, source = write_records(tmp_path / "files", *(f"r{number}.edf" for number in range(12))), tmp_path / "source"
    source.mkdir()
    dataset, requests = replace(clocs.DATASETS.get("folder"), records_per_shard=1), []
    for numbers in (range(10), range(10, 11), range(11, 12)):
        for number in numbers:
            shutil.copy(files / f"r{number}.edf", source)
        before = counts()["bucket_requests"]
        store = clocs.ingest(dataset, source, f"{bucket}/store")
        requests.append(counts()["bucket_requests"] - before)
    assert len(store) == 12
    assert requests[2] <= requests[1]  # although the first had ten task records to compare, and this one eleven


@pytest.mark.parametrize("with_key", [False, True])
def test_an_addition_downloads_no_records_or_shards_of_older_segments(
    bucket: str, tmp_path: Path, with_key: bool
) -> None:
    options = {"key": tmp_path / "key"} if with_key else {}
    if with_key:
        clocs.make_key(tmp_path / "key")

    def add(name: str, *files: str) -> clocs.Store:
        source = write_records(tmp_path / name, *files)
        return clocs.ingest("folder", source, f"{bucket}/store", append=True, options=options)

    first = add("first", "a.edf", "b.edf")
    segment, shard = first.segments[0].info.name, first.shards[0].file
    shutil.rmtree(cache_folder())
    assert len(add("second", "c.edf")) == 3
    copies = [path.name for path in cache_folder().rglob("*.arrow")]
    assert f"{segment}.ids.arrow" in copies
    assert not [name for name in copies if name == f"{segment}.records.arrow" or name.endswith(shard)]
    with pytest.raises(ConfigError, match="Already in the store"):
        add("third", "c.edf", "a.edf")  # the signal of a has another seed than in the first folder
