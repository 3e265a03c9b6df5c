"""One flipped bit anywhere in an archive or an index: refused, and the file is named."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import ClocsError, ConfigError, IntegrityError
from clocs.similarity.archive.archive import open_archive
from clocs.similarity.index.changes import add_archive, build_index, delete_patients
from clocs.similarity.index.search import open_index
from clocs.similarity.integrity import verify_embeddings
from tests.faults.stores import fingerprint
from tests.faults.test_bit_flips import flip
from tests.similarity.archives import clustered, people, write_archive

pytest.importorskip("faiss", reason="needs the extra 'search'")
E = 16


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An archive, and an index of two volumes with deleted patients."""
    rows, vectors = people(30, recordings=2), clustered(60, E)
    write_archive(tmp_path / "archive", rows[:40], vectors[:40])
    write_archive(tmp_path / "more", rows[35:], vectors[35:])
    build_index(tmp_path / "archive", tmp_path / "index", "hnsw")
    add_archive(tmp_path / "index", tmp_path / "more")
    delete_patients(tmp_path / "index", ["p2", "p20"])
    return tmp_path


def files(folder: Path) -> list[str]:
    return [name for name in fingerprint(folder) if not name.endswith(".seen.json")]


def flips(folder: Path, count: int, seed: int) -> list[tuple[str, int]]:
    """Every file at least once, then at random over files alike."""
    choice = random.Random(seed)
    names = [name for name in files(folder) if (folder / name).stat().st_size]
    picked = names + choice.choices(names, k=max(0, count - len(names)))
    return [(name, choice.randrange((folder / name).stat().st_size * 8)) for name in picked]


def check(place: Path, count: int) -> int:
    """A full check names the file, and so does using it: reading all shards, or opening the index."""
    made = 0
    for kind in ("archive", "index"):
        folder = place / kind
        assert verify_embeddings(folder) == []
        for name, bit in flips(folder, count, seed=3):
            flip(folder / name, bit)
            assert [fault.file for fault in verify_embeddings(folder)] == [name]
            with pytest.raises(IntegrityError, match=Path(name).name):
                open_archive(folder).vectors() if kind == "archive" else open_index(folder)
            flip(folder / name, bit)
            made += 1
        assert verify_embeddings(folder) == []
    open_index(place / "index").search(np.eye(1, E))
    return made


def test_random_flips(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = check(place, 40)
    with capsys.disabled():
        print(f"\nbit flips in embeddings and index: {made} of {made} refused and named")


@pytest.mark.slow
def test_random_flips_in_full(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = check(place, 2000)
    with capsys.disabled():
        print(f"\nbit flips in embeddings and index: {made} of {made} refused and named")


def test_nothing_is_built_of_a_damaged_shard(place: Path) -> None:
    name = open_archive(place / "archive").manifest.shards[2].file
    flip(place / "archive" / name, 8 * 1000)
    with pytest.raises(IntegrityError, match=name):
        build_index(place / "archive", place / "other")
    with pytest.raises(IntegrityError, match=name):
        add_archive(place / "index", place / "archive")
    assert not (place / "other" / "index.json").exists()


def test_a_damaged_receipt_is_named(place: Path) -> None:
    (place / "archive" / "receipts").mkdir()
    (place / "archive" / "receipts" / "a.json").write_bytes(b"{}")
    assert [fault.file for fault in verify_embeddings(place / "archive")] == ["receipts/a.json"]


def test_a_file_that_is_cut_short(place: Path) -> None:
    for kind in ("archive", "index"):
        for name in files(place / kind):
            path = place / kind / name
            whole = path.read_bytes()
            if not whole:
                continue
            path.write_bytes(whole[:-1])
            with pytest.raises(ClocsError, match=path.name):
                open_archive(place / kind).vectors() if kind == "archive" else open_index(place / kind)
            path.write_bytes(whole)


def test_what_is_neither(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither"):
        verify_embeddings(tmp_path)
