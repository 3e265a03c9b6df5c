"""An ingest reads new and changed files only."""

import os
from pathlib import Path

import pytest

from clocs import ingest, write
from clocs.core.errors import ConfigError
from clocs.core.sources.folder_source import FolderSource
from clocs.store.known_files import FILE
from tests.conftest import make_recording

LONG_AGO = 1_700_000_000


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Two WFDB records and an EDF file that have not changed for long."""
    folder = tmp_path / "archive"
    folder.mkdir()
    for name in ("a.hea", "b.hea", "c.edf"):
        write(make_recording(leads=("I", "II")), folder / name)
    settle(folder)
    return folder


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are read while recordings are listed and stored."""
    names: list[str] = []
    head = FolderSource.head

    def noted(self: FolderSource, name: str, count: int) -> bytes:
        names.append(name)
        return head(self, name, count)

    monkeypatch.setattr(FolderSource, "head", noted)
    return names


def settle(folder: Path) -> None:
    for path in folder.iterdir():
        os.utime(path, (LONG_AGO, LONG_AGO))


def test_known_files_are_not_read_again(archive: Path, tmp_path: Path, read_names: list[str]) -> None:
    ingest("folder", archive, tmp_path / "store")
    read_names.clear()
    assert len(ingest("folder", archive, tmp_path / "store")) == 3
    assert read_names == []
    write(make_recording(leads=("I", "II")), archive / "d.hea")
    assert len(ingest("folder", archive, tmp_path / "store")) == 4
    assert {name.partition(".")[0] for name in read_names} == {"d"}


@pytest.mark.parametrize("change", ["time", "size"])
def test_a_changed_file_is_read_again(archive: Path, tmp_path: Path, read_names: list[str], change: str) -> None:
    ingest("folder", archive, tmp_path / "store")
    read_names.clear()
    if change == "size":
        with open(archive / "a.hea", "a") as file:
            file.write("# a comment\n")
    os.utime(archive / "a.hea", (LONG_AGO + (change == "time"), LONG_AGO + (change == "time")))
    ingest("folder", archive, tmp_path / "store")
    assert "a.hea" in read_names
    assert "b.hea" not in read_names or change == "size"  # a changed recording is stored again with its shard


def test_a_file_that_changed_just_now_is_not_remembered(archive: Path, tmp_path: Path, read_names: list[str]) -> None:
    os.utime(archive / "c.edf")
    ingest("folder", archive, tmp_path / "store")
    read_names.clear()
    ingest("folder", archive, tmp_path / "store")
    assert set(read_names) == {"c.edf"}


def test_a_signal_file_that_was_cut_is_noticed_though_its_header_is_known(archive: Path, tmp_path: Path) -> None:
    assert len(ingest("folder", archive, tmp_path / "store")) == 3
    signal = next(path for path in archive.iterdir() if path.stem == "b" and path.suffix != ".hea")
    signal.write_bytes(signal.read_bytes()[:-100])
    os.utime(signal, (LONG_AGO, LONG_AGO))
    store = ingest("folder", archive, tmp_path / "store")
    assert len(store) == 2
    assert store.manifest.quarantined == {"length": 1}


def test_damaged_answers_are_ignored(archive: Path, tmp_path: Path, read_names: list[str]) -> None:
    first = ingest("folder", archive, tmp_path / "store")
    path = tmp_path / "store" / FILE
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    read_names.clear()
    assert ingest("folder", archive, tmp_path / "store").sha256 == first.sha256
    assert "a.hea" in read_names


def test_appended_files_are_added_without_reading_others(archive: Path, tmp_path: Path, read_names: list[str]) -> None:
    first = ingest("folder", archive, tmp_path / "store")
    night = tmp_path / "night"
    night.mkdir()
    write(make_recording(leads=("I", "II"), seed=1), night / "d.hea")
    read_names.clear()
    store = ingest("folder", night, tmp_path / "store", append=True)
    assert store.table("record_id").column(0).to_pylist() == [
        *first.table("record_id").column(0).to_pylist(),
        "d",
    ]
    assert {name.partition(".")[0] for name in read_names} == {"d"}
    again = ingest("folder", night, tmp_path / "store", append=True)
    assert again.manifest.version == store.manifest.version, "appended twice, nothing changes"
    read_names.clear()
    assert len(ingest("folder", archive, tmp_path / "store")) == len(first)
    assert read_names == [], "an addition does not forget the files of the folder"
    other = tmp_path / "other"
    other.mkdir()
    write(make_recording(leads=("I", "II"), seed=2), other / "a.hea")
    with pytest.raises(ConfigError, match="Already in the store: a"):
        ingest("folder", other, tmp_path / "store", append=True)
