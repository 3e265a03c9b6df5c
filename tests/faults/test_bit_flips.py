"""A full check detects damage anywhere in a store and names the file, regardless of its times."""

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
    """Return a store of two versions with quarantine lists, task records, checksums and a split."""
    folder = tmp_path_factory.mktemp("flips")
    small, large = grown_source(originals, folder)
    small_ingest(small, folder / "store")
    small_ingest(large, folder / "store")
    make_split(open_store(folder / "store"))
    assert verify(folder / "store") == []
    return folder / "store"


def files(store: Path) -> list[str]:
    names = sorted(name for name in fingerprint(store) if (store / name).stat().st_size)
    assert {kind_of(name) for name in names} == {"manifest", "metadata", "quarantine", "receipts", "shards", "splits"}
    return names


def kind_of(name: str) -> str:
    return name.split("-")[0].split("/")[0]


def test_damage_to_every_file_is_detected(store: Path) -> None:
    choice = random.Random(1)
    for name in files(store):
        for _ in range(CASES_PER_FILE):
            damage = draw_damage(store, [name], choice)
            with damaged(store, damage):
                assert [fault.file for fault in verify(store)] == [name], damage
    assert verify(store) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_bit_of_small_files(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Flip every bit of all files except shards. Only the latest version of each file is used."""
    newest = {kind_of(name) + Path(name).suffix: name for name in files(store)}
    chosen = [name for name in newest.values() if not name.endswith(".arrow") or kind_of(name) == "splits"]
    made, unseen = missed(store, chosen)
    with capsys.disabled():
        print(f"\nevery bit: {made.total() - len(unseen)} of {made.total()} found and named ({dict(made)})")
    assert not unseen


def missed(store: Path, names: Iterable[str]) -> tuple[Counter[str], list[str]]:
    """Return the number of flips by kind of file, and the flips that were not detected or misattributed."""
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
def test_other_spelling_of_the_same_value_is_detected(store: Path, spelling: tuple[bytes, bytes]) -> None:
    """A hash of parsed values would not detect these."""
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


def test_ingest_repairs_damaged_task_records(originals: Path, tmp_path: Path) -> None:
    """The task of a damaged record runs again."""
    _, large = grown_source(originals, tmp_path)
    folder = tmp_path / "store"
    small_ingest(large, folder)
    whole = fingerprint(folder)
    for path in sorted((folder / "receipts").iterdir()):
        for damage in (b"", b"[]", b"\xff\xfe\x00", path.read_bytes().replace(b"record", b"\xed\xa0\x80", 1)):
            path.write_bytes(damage)
            small_ingest(large, folder)
            assert fingerprint(folder) == whole
