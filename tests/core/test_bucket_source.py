"""Folders in a bucket as sources, on a real S3 server: the files of a folder on disk, with few requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.errors import ConfigError, FormatError, StoreError
from clocs.core.sources import source_files
from clocs.core.sources.source import local_path, open_source
from clocs.core.storage.bucket import Bucket
from clocs.core.storage.counters import counts
from clocs.core.storage.locations import to_location
from tests.core.test_sources import TREE, make


def upload(folder: Path, url: str) -> None:
    """Copy a folder to a bucket."""
    for path in folder.rglob("*"):
        if path.is_file():
            target = to_location(url) / path.relative_to(folder).as_posix()
            target.opened.replace(target.key, path.read_bytes())  # type: ignore[attr-defined]


@pytest.fixture
def url(bucket: str, tmp_path: Path) -> str:
    """Return the URL of a folder with the tree, its archive, and an object with the name of a folder."""
    upload(make("folder", tmp_path)[0], f"{bucket}/source")
    upload(make("zip in folder", tmp_path / "zip")[0], f"{bucket}/source")
    place = to_location(f"{bucket}/source-of-others/x")
    place.opened.create(place.key, b"")  # type: ignore[attr-defined]
    return f"{bucket}/source"


def test_names_bytes_and_order_are_those_of_a_folder(url: str, tmp_path: Path) -> None:
    make("zip in folder", tmp_path)
    local, source = open_source(tmp_path / "tree"), open_source(url)
    names = list(source.names())
    assert names == list(local.names())
    assert set(names) == {*TREE, *(f"sub/set.ZIP/{name}" for name in TREE)}
    for name in names:
        assert source.read(name) == local.read(name)
        assert (source.size(name), source.exists(name)) == (local.size(name), True)
    assert source.head("data/1.dat", 5) == bytes(range(5))
    for name in ("data/2.hea", "data", "RECORDS/x", "sub/set.ZIP/none", "source-of-others"):
        assert not source.exists(name)
        with pytest.raises(FormatError, match="no such file in "):
            source.read(name)


def test_a_listing_answers_questions_and_small_files_are_read_once(url: str) -> None:
    source = open_source(url)
    before = counts()["bucket_requests"]
    assert source.size("data/1.hea") == 3
    assert source.exists("data/10.hea")
    assert not source.exists("data/1.mat")
    assert counts()["bucket_requests"] - before == 1  # one listing of the neighbors
    assert source.head("data/1.dat", 100) + source.read("data/1.dat")[100:] == TREE["data/1.dat"]
    assert counts()["bucket_requests"] - before == 2


def test_a_change_of_the_content_alone_changes_the_stamp_and_the_local_copy(url: str) -> None:
    path = to_location(f"{url}/database.csv")
    first, copy = open_source(url).stamp("database.csv"), local_path(open_source(url), "database.csv")
    path.opened.replace(path.key, b"y")  # type: ignore[attr-defined]
    second = open_source(url).stamp("database.csv")
    assert first is not None
    assert second is not None
    assert (first[0], first[1] != second[1]) == (second[0], True)
    assert (copy.read_bytes(), local_path(open_source(url), "database.csv").read_bytes()) == (b"x", b"y")
    with pytest.raises(FormatError, match="Unpack the archive"):
        local_path(open_source(url), "sub/set.ZIP/RECORDS")


def test_a_file_over_the_limit_is_rejected(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "MAX_FILE_BYTES", 256 * 40 - 1)
    with pytest.raises(FormatError, match=r"data/1.dat: larger than"):
        open_source(url).read("data/1.dat")


def test_an_empty_folder_and_a_silent_server_are_no_files(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="no such folder in the bucket"):
        next(open_source(f"{url}-none").names())

    def fail(*_: object) -> bytes:
        raise StoreError("Cannot read: status 503.")

    source = open_source(url)
    assert source.exists("RECORDS")
    monkeypatch.setattr(Bucket, "read", fail)
    with pytest.raises(OSError, match="status 503"):
        source.read("RECORDS")
