"""Stores in a bucket, on a real S3 server: the same bytes as in a folder, and never overwritten."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import torch

import clocs
from clocs import encoders, methods
from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.storage import files, object_writes
from clocs.core.storage.bucket import Bucket
from clocs.core.storage.counters import counts
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.core.storage.object_cache import cache_folder, local_copy
from clocs.store.manifest import read_manifest, write_manifest
from tests.object_server import SECRET

TWELVE = {"num_records": 40, "leads": 12}


def ingest(folder: str | Path, num_records: int = 12) -> clocs.Store:
    return clocs.ingest("synthetic", None, folder, options={"num_records": num_records})


def tree(folder: Path) -> dict[str, bytes]:
    """The content of every file by its path in the folder, without what only a folder has: lock and task records."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {PurePosixPath(path.relative_to(folder)).as_posix(): path.read_bytes() for path in paths}


def test_a_store_in_a_bucket_has_the_bytes_of_one_in_a_folder(bucket: str, tmp_path: Path) -> None:
    local, remote = ingest(tmp_path / "store"), ingest(f"{bucket}/store")
    assert tree(remote.folder) == tree(local.folder)
    assert remote.sha256 == local.sha256
    assert ingest(f"{bucket}/store").manifest.version == 1
    for records in ([0], [3, 11]):
        expected, found = (store.frames("evaluation").gather(records) for store in (local, remote))
        np.testing.assert_array_equal(found, expected)
    split = clocs.split(remote, seed=3)
    assert clocs.open_store(f"{bucket}/store").split().sha256 == split.sha256 == clocs.split(local, seed=3).sha256
    assert clocs.verify(f"{bucket}/store") == []


def test_opening_a_store_takes_two_requests_however_many_shards_it_has(bucket: str) -> None:
    ingest(f"{bucket}/store")
    before = counts()["bucket_requests"]
    clocs.open_store(f"{bucket}/store")
    assert counts()["bucket_requests"] - before == 2  # the list of versions and the newest manifest


def test_a_shard_is_downloaded_once(bucket: str) -> None:
    store = ingest(f"{bucket}/store")
    store.recording(0)
    before = counts()
    again = clocs.open_store(f"{bucket}/store")
    np.testing.assert_array_equal(again.recording(5).digital, store.recording(5).digital)
    since = {name: value - before[name] for name, value in counts().items()}
    assert since["cache_misses"] == 0
    assert since["bucket_requests"] == 2
    shutil.rmtree(cache_folder())
    np.testing.assert_array_equal(clocs.open_store(again).recording(5).digital, store.recording(5).digital)


def test_a_damaged_object_is_refused(bucket: str) -> None:
    store = ingest(f"{bucket}/store")
    path = store.folder / "shards" / store.shards[0].file
    shutil.rmtree(cache_folder())
    data = bytearray(path.read_bytes())
    data[-2000] ^= 1
    files.write_bytes(path, bytes(data), replace=True)
    with pytest.raises(IntegrityError, match="does not match its hash"):
        clocs.open_store(f"{bucket}/store").recording(0)
    assert [fault.file for fault in clocs.verify(store.folder)][:1] == [f"shards/{path.name}"]


def test_of_two_writers_one_is_told_the_version_and_can_repeat(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(f"{bucket}/store", 12)

    def other_writer(step: str, path: Path) -> None:
        if step == "before write" and path.name.startswith("manifest"):
            monkeypatch.setattr(files, "on_write_step", lambda step, path: None)
            write_manifest(
                to_location(f"{bucket}/store"),
                read_manifest(to_location(f"{bucket}/store"), 1).model_copy(
                    update={"version": 2, "software": {"clocs": "another"}}
                ),
            )

    monkeypatch.setattr(files, "on_write_step", other_writer)
    with pytest.raises(StoreError, match=r"Another writer has committed version 2 of .*same command again"):
        ingest(f"{bucket}/store", 16)
    assert clocs.open_store(f"{bucket}/store").manifest.software == {"clocs": "another"}
    assert ingest(f"{bucket}/store", 16).manifest.version == 3


def test_a_server_that_overwrites_is_refused(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(self: Bucket, key: str, data: bytes | Path) -> bool:
        return self.replace(key, data) is not None

    object_writes._check_bucket.cache_clear()
    monkeypatch.setattr(Bucket, "create", overwrite)
    with pytest.raises(StoreError, match=r"ignores If-None-Match.*Use a server with conditional writes"):
        ingest(f"{bucket}/store")
    assert not list(to_location(bucket).rglob("*"))


def test_a_wrong_secret_is_named_without_being_repeated(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrongwrongwrong")
    with pytest.raises(StoreError, match=r"access denied.*Check the credentials") as caught:
        clocs.open_store(f"{bucket}/store")
    assert "wrongwrong" not in str(caught.value)


def test_no_credentials_say_what_to_set(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ConfigError, match=r"No credentials for s3://.*AWS_PROFILE"):
        clocs.open_store(f"{bucket}/store")


def test_credentials_stay_out_of_objects_pickles_and_copies(bucket: str) -> None:
    store = ingest(f"{bucket}/store")
    store.recording(0)
    copies = [path.read_bytes() for path in cache_folder().rglob("*") if path.is_file()]
    assert copies
    for content in (*tree(store.folder).values(), *copies, pickle.dumps(store), repr(store).encode()):
        assert SECRET.encode() not in content
    assert pickle.loads(pickle.dumps(store)).sha256 == store.sha256


def test_a_missing_object_is_no_copy(bucket: str) -> None:
    with pytest.raises(FileNotFoundError):
        local_copy(ObjectPath("ecgs", "nothing/here/at.all"))
    with pytest.raises(StoreError, match="is not a finished store"):
        clocs.open_store(f"{bucket}/nothing")


def test_training_and_embedding_from_a_bucket_equal_those_from_a_folder(bucket: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    stores = [clocs.ingest("synthetic", None, f"{root}/store", options=TWELVE) for root in (tmp_path, bucket)]
    weights, vectors = [], []
    for number, store in enumerate(stores):
        clocs.split(store)
        torch.manual_seed(0)
        method = methods.CMSC(encoders.ResNet(in_channels=2, embedding_dim=8, width=4, depth=1))
        folder = tmp_path / f"runs{number}"
        made = clocs.pretrain(method, store, leads="I,II", batch_size=16, max_steps=2, runs=folder, onnx=False)
        weights.append([path.read_bytes() for path in sorted(Path(made["best"]).glob("*.safetensors"))])
        place = f"{(tmp_path, bucket)[number]}/archive"
        clocs.embed_store("cmsc-chapman", store, place)
        assert clocs.embed_store("cmsc-chapman", store, place).manifest.version == 1
        vectors.append(clocs.open_archive(place).vectors())
    assert weights[0]
    assert weights[0] == weights[1]
    np.testing.assert_array_equal(vectors[0], vectors[1])
