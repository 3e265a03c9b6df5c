"""Tasks of a bucket carry URLs alone, so that they run on machines that share no files."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clocs
from clocs.core import engine
from clocs.core.errors import ConfigError, StoreError
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.training.run_mirror import RunMirror
from clocs.training.shipped import find_encoder_folder, shipped_encoders
from tests.core.test_bucket_source import upload
from tests.faults.stores import small_dataset
from tests.ray_cluster import can_hide_folders, two_nodes
from tests.store.test_bucket_sources import write_records
from tests.store.test_buckets import tree

NAME = "cmsc-chapman"


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bytes]:
    """The pickles of all tasks. Each task runs as its pickle says, in another folder and with an empty cache."""
    found: list[bytes] = []

    def run(
        function: Callable[[Any], Any], tasks: Iterator[Any], *, engine: str, workers: int
    ) -> Iterator[tuple[int, Any]]:
        for number, task in enumerate(tasks):
            found.append(pickle.dumps((function, task)))
            with monkeypatch.context() as node:
                node.setenv("CLOCS_CACHE", str(tmp_path / "node"))
                node.chdir("/")
                called, sent = pickle.loads(found[-1])
                yield number, called(sent)

    monkeypatch.setattr(engine, "run", run)
    return found


def test_tasks_of_a_bucket_carry_no_path_of_this_machine(bucket: str, tmp_path: Path, carried: list[bytes]) -> None:
    folder = write_records(tmp_path / "source", *(f"{name}.hea" for name in "abcd"))
    upload(folder, f"{bucket}/source")
    upload(shipped_encoders()[NAME], f"{bucket}/encoder")
    store = clocs.ingest(small_dataset(), f"{bucket}/source", f"{bucket}/store")
    encoders = {"a": NAME, "b": f"{bucket}/encoder"}
    archives = [clocs.embed_store(name, store, f"{bucket}/{out}", any_lead=True) for out, name in encoders.items()]
    assert len(carried) == 2 + 2 * len(store.shards)
    paths = (tmp_path, Path(clocs.__file__).parent, Path.cwd(), Path.home())
    for sent in carried:
        assert not [path for path in paths if os.fsencode(path) + b"/" in sent]
        assert not [
            name for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID") if os.environ[name].encode() in sent
        ]
    local = clocs.ingest(small_dataset(), folder, tmp_path / "store")
    expected = tree(local.folder / "shards")
    assert tree(store.folder / "shards") == expected
    vectors = clocs.embed_store(NAME, local, tmp_path / "archive", any_lead=True).vectors()
    for archive in archives:
        np.testing.assert_array_equal(archive.vectors(), vectors)


def test_an_encoder_in_a_bucket_is_copied_once_and_again_after_a_change(bucket: str) -> None:
    folder = shipped_encoders()[NAME]
    upload(folder, f"{bucket}/run/best")
    first = find_encoder_folder(f"{bucket}/run")
    assert first == find_encoder_folder(f"{bucket}/run")
    assert tree(first) == tree(folder)
    upload(shipped_encoders()["cmsc-physionet2020"], f"{bucket}/run/best")
    assert (
        clocs.load_encoder(f"{bucket}/run").about["weights_sha256"] != clocs.load_encoder(NAME).about["weights_sha256"]
    )
    with pytest.raises(ConfigError, match="nothing has no encoder"):
        find_encoder_folder(f"{bucket}/nothing")


def test_the_copy_of_a_run_is_an_encoder(bucket: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(shipped_encoders()[NAME], run / "best")
    (run / "result.json").write_text("{}")
    location = to_location(bucket)
    assert isinstance(location, ObjectPath)
    RunMirror(run, location, "result.json").finish(1)
    assert tree(find_encoder_folder(f"{bucket}/run")) == tree(run / "best")


def test_an_encoder_that_a_node_lacks_is_named(tmp_path: Path) -> None:
    shutil.copytree(shipped_encoders()[NAME], tmp_path / "encoder")
    sent = pickle.dumps(clocs.load_encoder(tmp_path / "encoder"))
    shutil.rmtree(tmp_path / "encoder")
    with pytest.raises(StoreError, match=r"encoder: there is no such folder on .*s3://bucket/folder"):
        pickle.loads(sent)


@pytest.mark.slow
@pytest.mark.skipif(not can_hide_folders(), reason="needs a mount namespace")
def test_two_nodes_that_share_no_files(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second node finds this machine's temporary folders and real data empty."""
    records = [f"{number:02d}.edf" for number in range(24)]
    folder, cache = write_records(tmp_path / "source", *records), tmp_path / "node"
    shutil.make_archive(str(tmp_path / "zipped" / "files"), "zip", folder)
    upload(tmp_path / "zipped", f"{bucket}/source")
    upload(shipped_encoders()[NAME], f"{bucket}/encoder")
    shutil.copytree(shipped_encoders()[NAME], tmp_path / "encoder")
    monkeypatch.setenv("CLOCS_CACHE", str(cache))
    hidden = [Path("/tmp"), *([] if tmp_path.is_relative_to("/tmp") else [tmp_path])]
    with two_nodes(hidden) as second:
        store = clocs.ingest(small_dataset(), f"{bucket}/source", f"{bucket}/store", engine="ray", workers=2)
        copies = second / cache.relative_to("/")
        archives_read = [path.name for path in (copies / "objects").rglob("*.zip")]
        embed = partial(clocs.embed_store, store=store, any_lead=True, engine="ray", workers=2)
        archive = embed(f"{bucket}/encoder", folder=f"{bucket}/archive")
        shards = list((copies / "shards" / "files").iterdir())
        with pytest.raises(StoreError, match="there is no such folder on"):
            embed(tmp_path / "encoder", folder=f"{bucket}/other")
    assert len(archives_read) == 1
    assert 0 < len(shards) < len(store.shards)
    local = clocs.ingest(small_dataset(), tmp_path / "zipped", tmp_path / "store")
    assert tree(store.folder / "shards") == tree(local.folder / "shards")
    vectors = clocs.embed_store(NAME, local, tmp_path / "archive", any_lead=True).vectors()
    np.testing.assert_array_equal(archive.vectors(), vectors)
    with capsys.disabled():
        print(f"\nof {len(store.shards)} shards the second node embedded {len(shards)}")
