"""Commands about pseudonyms, identities and archives."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from clocs.store.store import open_store
from tests.cli.conftest import Clocs


@pytest.fixture
def muse(hospital_files: Path, tmp_path: Path) -> Path:
    """A folder of MUSE files, one of them named after its patient's number, and a file that is no ECG."""
    folder = tmp_path / "muse"
    folder.mkdir()
    with zipfile.ZipFile(hospital_files) as archive:
        (folder / "159357456.xml").write_bytes(archive.read("muse/cvrg_MUSE_20080710.xml"))
        (folder / "b.xml").write_bytes(archive.read("muse/braveheart_example1.xml"))
    (folder / "scan.pdf").write_bytes(b"%PDF-1.7")
    return folder


def test_an_archive_is_ingested_with_a_key_and_scanned(muse: Path, clocs: Clocs, tmp_path: Path) -> None:
    key, store, plain = tmp_path / "key", tmp_path / "store", tmp_path / "plain"
    assert "readable only by you" in clocs("data", "make-key", key)
    assert "--key FILE" in clocs("data", "ingest", "folder", muse, plain)
    found = clocs("data", "scan-identities", plain, "--against", muse, code=1)
    assert "patient_id" in found
    assert "159357456" not in found, "a finding is not repeated in a log"
    assert "--key" not in clocs("data", "ingest", "folder", muse, store, "--key", key)
    assert "none of" in clocs("data", "scan-identities", store, "--against", muse)
    picture = tmp_path / "archive.png"
    told = json.loads(clocs("data", "report", store, "--source", muse, "--key", key, "--plot", picture, "--json"))
    assert told["formats"] == {"muse-xml": 2}
    assert told["outcomes"] == {"stored": 2, "not an ECG": 1}
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "not an ECG: scan.pdf" in clocs("data", "report", store, "--source", muse, "--key", key)


def test_a_store_is_deidentified_and_removals_are_reported(muse: Path, clocs: Clocs, tmp_path: Path) -> None:
    key, plain, out = tmp_path / "key", tmp_path / "plain", tmp_path / "out"
    clocs("data", "make-key", key)
    clocs("data", "ingest", "folder", muse, plain)
    told = json.loads(clocs("data", "deidentify", plain, out, "--key", key, "--json"))
    assert (told["recordings"], told["refused"]) == (2, {})
    assert told["removed"] == {"ids of patient and record, file name and hash, replaced": 2}
    told = json.loads(clocs("data", "deidentify", muse, tmp_path / "other", "--key", key, "--json"))
    assert told["removed"]["patient_id"] == 1
    before, after = (open_store(each).table(["stated_heart_rate"]).column(0).to_pylist() for each in (plain, out))
    assert None not in before
    assert sorted(before) == sorted(after), "stated measurements stay"
    assert "all files match" in clocs("data", "verify", out)


def test_a_key_in_a_store_and_an_absent_key_are_refused(muse: Path, clocs: Clocs, tmp_path: Path) -> None:
    store = tmp_path / "store"
    clocs("data", "ingest", "folder", muse, store)
    assert "must not get the key" in clocs("data", "make-key", store / "keys" / "key", code=1)
    assert "make-key" in clocs("data", "deidentify", muse, tmp_path / "out", "--key", tmp_path / "absent", code=1)
    assert not (tmp_path / "out" / "manifest-000001.json").exists()
