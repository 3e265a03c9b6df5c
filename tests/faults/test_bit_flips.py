"""One flipped bit anywhere in a store: found by a full check, and the file is named."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from clocs.core.errors import IntegrityError
from clocs.store.manifest import read_manifest
from clocs.store.splits import make_split, read_split_file
from clocs.store.store import open_store
from clocs.store.verify import verify
from tests.faults.stores import fingerprint, grown_source, small_ingest


@pytest.fixture
def store(originals: Path, tmp_path: Path) -> Path:
    """Two versions with quarantine lists, receipts, and a split."""
    small, large = grown_source(originals, tmp_path)
    folder = tmp_path / "store"
    small_ingest(small, folder)
    small_ingest(large, folder)
    make_split(open_store(folder))
    assert verify(folder) == []
    return folder


def files(store: Path) -> list[str]:
    names = sorted(fingerprint(store))
    kinds = {name.split("-")[0].split("/")[0] for name in names}
    assert kinds == {"manifest", "quarantine", "receipts", "shards", "splits"}
    return names


def flip(path: Path, bit: int) -> None:
    """In place; done twice it undoes itself."""
    handle = os.open(path, os.O_RDWR)
    try:
        byte = os.pread(handle, 1, bit // 8)[0]
        os.pwrite(handle, bytes([byte ^ (1 << bit % 8)]), bit // 8)
    finally:
        os.close(handle)


def missed(store: Path, flips: Iterable[tuple[str, int]]) -> tuple[Counter[str], list[str]]:
    """Flips made by kind of file, and those that were not found or laid to another file."""
    made: Counter[str] = Counter()
    unseen = []
    for name, bit in flips:
        flip(store / name, bit)
        faults = verify(store)
        flip(store / name, bit)
        made[name.split("-")[0].split("/")[0]] += 1
        if [fault.file for fault in faults] != [name]:
            unseen.append(f"{name} bit {bit}: {faults}")
    assert verify(store) == []
    return made, unseen


def random_flips(store: Path, count: int, seed: int) -> list[tuple[str, int]]:
    """Half of them over the files alike, half over the bytes alike: shards hold nearly all bytes."""
    choice = random.Random(seed)
    names = files(store)
    sizes = [(store / name).stat().st_size for name in names]
    picked = choice.choices(range(len(names)), k=count // 2) + choice.choices(range(len(names)), sizes, k=count // 2)
    return [(names[place], choice.randrange(sizes[place] * 8)) for place in picked if sizes[place]]


def test_random_flips(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, unseen = missed(store, random_flips(store, 200, seed=1))
    assert not unseen
    with capsys.disabled():
        print(f"\nbit flips: {made.total()} of {made.total()} found and named")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_random_flips_in_full(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, unseen = missed(store, random_flips(store, 10_000, seed=2))
    with capsys.disabled():
        print(f"\nbit flips: {made.total() - len(unseen)} of {made.total()} found and named ({dict(made)})")
    assert not unseen
    assert made.total() == 10_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_bit_of_the_small_files(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All that is not a shard, bit by bit; of two versions' files of one kind, the last."""
    newest = {name.split("-")[0].split("/")[0] + Path(name).suffix: name for name in files(store)}
    chosen = [name for name in newest.values() if not name.startswith("shards/")]
    flips = ((name, bit) for name in chosen for bit in range((store / name).stat().st_size * 8))
    made, unseen = missed(store, flips)
    with capsys.disabled():
        print(f"\nevery bit: {made.total() - len(unseen)} of {made.total()} found and named ({dict(made)})")
    assert not unseen


@pytest.mark.parametrize("spelling", [(b"0.64", b"0.640"), (b": 1", b":  1")])
def test_another_spelling_of_the_same_value_is_found(store: Path, spelling: tuple[bytes, bytes]) -> None:
    """A hash of parsed values alone would not see these."""
    there = 0
    for name in files(store):
        path = store / name
        raw = path.read_bytes()
        if path.suffix == ".json" and spelling[0] in raw:
            path.write_bytes(raw.replace(*spelling, 1))
            assert [fault.file for fault in verify(store)] == [name]
            path.write_bytes(raw)
            there += 1
    assert there


def test_damaged_files_are_refused_when_opened(store: Path) -> None:
    for name, opens in (
        ("manifest-000002.json", lambda: read_manifest(store)),
        ("splits/default.json", lambda: read_split_file(store, "default")),
        ("splits/default.arrow", lambda: read_split_file(store, "default")),
    ):
        flip(store / name, 8 * 20)
        with pytest.raises(IntegrityError):
            opens()
        flip(store / name, 8 * 20)


def test_ingest_mends_what_it_can_make_again(originals: Path, tmp_path: Path) -> None:
    """A damaged receipt is as none: its task runs again."""
    _, large = grown_source(originals, tmp_path)
    folder = tmp_path / "store"
    small_ingest(large, folder)
    whole = fingerprint(folder)
    for path in sorted((folder / "receipts").iterdir()):
        for damage in (b"", b"[]", b"\xff\xfe\x00", path.read_bytes().replace(b"record", b"\xed\xa0\x80", 1)):
            path.write_bytes(damage)
            small_ingest(large, folder)
            assert fingerprint(folder) == whole
