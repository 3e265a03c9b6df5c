"""Damage anywhere in a store: a full check finds it and names the file, whatever its times say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from clocs.store.splits import make_split
from clocs.store.store import open_store
from clocs.store.verify import verify
from tests.faults.damage.flips import damaged, draw_damage, flipped
from tests.faults.stores import fingerprint, grown_source, small_ingest

CASES_PER_FILE = 4


@pytest.fixture(scope="module")
def store(originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two versions with quarantine lists, receipts, checksums, and a split; every test leaves it as it was."""
    folder = tmp_path_factory.mktemp("flips")
    small, large = grown_source(originals, folder)
    small_ingest(small, folder / "store")
    small_ingest(large, folder / "store")
    make_split(open_store(folder / "store"))
    assert verify(folder / "store") == []
    return folder / "store"


def files(store: Path) -> list[str]:
    names = sorted(name for name in fingerprint(store) if (store / name).stat().st_size)
    assert {kind_of(name) for name in names} == {"manifest", "quarantine", "receipts", "shards", "splits"}
    return names


def kind_of(name: str) -> str:
    return name.split("-")[0].split("/")[0]


def test_damage_to_every_file_is_found(store: Path) -> None:
    choice = random.Random(1)
    for name in files(store):
        for _ in range(CASES_PER_FILE):
            damage = draw_damage(store, [name], choice)
            with damaged(store, damage):
                assert [fault.file for fault in verify(store)] == [name], damage
    assert verify(store) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_bit_of_the_small_files(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All that is not a shard, bit by bit; of two versions' files of one kind, the last."""
    newest = {kind_of(name) + Path(name).suffix: name for name in files(store)}
    chosen = [name for name in newest.values() if not name.endswith(".arrow") or kind_of(name) == "splits"]
    made, unseen = missed(store, chosen)
    with capsys.disabled():
        print(f"\nevery bit: {made.total() - len(unseen)} of {made.total()} found and named ({dict(made)})")
    assert not unseen


def missed(store: Path, names: Iterable[str]) -> tuple[Counter[str], list[str]]:
    """Flips made by kind of file, and those that were not found or laid to another file."""
    made: Counter[str] = Counter()
    unseen = []
    flips = ((file, bit) for file in names for bit in range((store / file).stat().st_size * 8))
    for name, bit in flips:
        with flipped(store / name, bit):
            faults = verify(store)
        made[kind_of(name)] += 1
        if [fault.file for fault in faults] != [name]:
            unseen.append(f"{name} bit {bit}: {faults}")
    assert verify(store) == []
    return made, unseen


@pytest.mark.parametrize("spelling", [(b"0.64", b"0.640"), (b": 1", b":  1")])
def test_another_spelling_of_the_same_value_is_found(store: Path, spelling: tuple[bytes, bytes]) -> None:
    """A hash of parsed values alone would not see these."""
    there = 0
    for name, raw in json_files(store):
        if spelling[0] in raw:
            (store / name).write_bytes(raw.replace(*spelling, 1))
            assert [fault.file for fault in verify(store)] == [name]
            (store / name).write_bytes(raw)
            there += 1
    assert there


def json_files(store: Path) -> Iterator[tuple[str, bytes]]:
    return ((name, (store / name).read_bytes()) for name in files(store) if name.endswith(".json"))


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
