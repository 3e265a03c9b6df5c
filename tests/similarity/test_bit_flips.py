"""Damage anywhere in an archive or index is found by a full check and when a file is opened."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import ConfigError, IntegrityError
from clocs.similarity.archive.archive import open_archive
from clocs.similarity.index.patient_index import open_index
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.index.updates import add_archive, build_index
from clocs.similarity.index.withdraw import hide_patients, withdraw_from_index
from clocs.similarity.integrity import verify_embeddings
from clocs.store.named_patients import name_patients
from tests.faults.damage.flips import damaged, draw_damage, flipped
from tests.faults.stores import fingerprint
from tests.similarity.archives import clustered, people, write_archive

pytest.importorskip("faiss", reason="needs the extra 'search'")
E = 16
CASES_PER_FILE = 3


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An archive, and an index of two volumes with withdrawn and hidden patients."""
    rows, vectors = people(30, recordings=2), clustered(60, E)
    write_archive(tmp_path / "archive", rows[:40], vectors[:40])
    write_archive(tmp_path / "more", rows[35:], vectors[35:])
    build_index(tmp_path / "archive", tmp_path / "index", "hnsw")
    add_archive(tmp_path / "index", tmp_path / "more")
    withdraw_from_index(tmp_path / "index", ["p2", "p20"])
    hide_patients(Snapshot(tmp_path / "index"), name_patients(["p4"], None, {None}, "index"))
    return tmp_path


@pytest.mark.parametrize("kind", ["archive", "index"])
def test_damage_to_every_file_is_found(place: Path, kind: str) -> None:
    """A full check finds the damage, and so does reading all shards or changing the index."""
    folder, choice = place / kind, random.Random(3)
    for name in (name for name in fingerprint(folder) if (folder / name).stat().st_size):
        for _ in range(CASES_PER_FILE):
            damage = draw_damage(folder, [name], choice)
            with damaged(folder, damage):
                assert [fault.file for fault in verify_embeddings(folder)] == [name], damage
                with pytest.raises(IntegrityError, match=f"^{name}"):
                    open_archive(folder).vectors() if kind == "archive" else add_archive(folder, place / "archive")
    assert verify_embeddings(folder) == []
    open_index(place / "index").search(np.eye(1, E))


def test_a_damaged_shard_prevents_building_an_index(place: Path) -> None:
    name = open_archive(place / "archive").manifest.shards[2].file
    with flipped(place / "archive" / name, 8 * 1000):
        with pytest.raises(IntegrityError, match=name):
            build_index(place / "archive", place / "other")
        with pytest.raises(IntegrityError, match=name):
            add_archive(place / "index", place / "archive")
    assert not (place / "other" / "index.json").exists()


def test_a_damaged_archive_differs_from_a_missing_one(place: Path) -> None:
    """Without its archive an index still answers, but does not say which leads are alike."""
    index = open_index(place / "index")
    path = place / "archive" / "manifest-000001.json"
    with flipped(path, 8 * 100), pytest.raises(IntegrityError, match=f"^{path.name}"):
        index.snapshot.archive(0)
    assert index.snapshot.archive(0) is not None


def test_a_damaged_task_record_is_reported(place: Path) -> None:
    (place / "archive" / "receipts").mkdir()
    (place / "archive" / "receipts" / "a.json").write_bytes(b"{}")
    assert [fault.file for fault in verify_embeddings(place / "archive")] == ["receipts/a.json"]


def test_other_folders_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither"):
        verify_embeddings(tmp_path)
