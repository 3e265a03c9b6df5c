"""Damage to a shard is detected when its bytes are used."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xxhash

import clocs
from clocs.core.errors import IntegrityError, StoreError
from clocs.core.recording import Recording
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF
from clocs.store.checksums import CHUNK_BYTES, CheckedChunks, ChunkHasher, checksums_path, read_checksums
from clocs.store.frames import Frames
from clocs.store.reader import SKIP_CHECKSUMS
from clocs.store.store import Store, open_store
from clocs.store.verify import add_checksums, verify
from tests.conftest import make_recording
from tests.store.conftest import Maker

SAMPLES = 15_000
POLICY = FramePolicy(num_samples=500, num_source_samples=500, leads=("I", "II"))


@pytest.fixture
def store(store_of: Maker) -> Store:
    """Two shards of several chunks each."""
    return store_of(
        [make_recording(seed=n, record_id=f"r{n}", patient_id=f"p{n}", num_samples=SAMPLES) for n in range(8)]
    )


def shard_path(store: Store, number: int = 0) -> Path:
    return store.folder / "shards" / store.shards[number].file


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def test_a_stream_is_hashed_chunk_by_chunk() -> None:
    data = np.random.default_rng(0).bytes(5 * CHUNK_BYTES + 17)
    hasher = ChunkHasher()
    at = 0
    for size in (1, CHUNK_BYTES - 1, 3 * CHUNK_BYTES + 5, 40, len(data)):
        hasher.update(memoryview(data)[at : at + size])
        at += size
    literal = [
        xxhash.xxh3_64_intdigest(data[begin : begin + CHUNK_BYTES]) for begin in range(0, len(data), CHUNK_BYTES)
    ]
    assert hasher.checksums().tolist() == literal
    assert ChunkHasher().checksums().tolist() == []


def test_every_shard_has_checksums_with_its_hash(store: Store) -> None:
    for number, info in enumerate(store.shards):
        path = shard_path(store, number)
        raw = path.read_bytes()
        assert len(raw) > 2 * CHUNK_BYTES, "several chunks, or the tests here show little"
        literal = [
            xxhash.xxh3_64_intdigest(raw[begin : begin + CHUNK_BYTES]) for begin in range(0, len(raw), CHUNK_BYTES)
        ]
        assert read_checksums(path, info.sha256).tolist() == literal
        with pytest.raises(IntegrityError, match="another shard"):
            read_checksums(path, "0" * 64)


def test_damage_is_found_in_every_column(store_of: Maker, varied: list[Recording]) -> None:
    store = store_of(varied, gate=GATE_OFF, per_shard=len(varied))
    path, file = shard_path(store), store.shard(0)._file
    names = file._batch.schema.names
    lasts = [[buffer for buffer in file._batch.column(name).buffers() if buffer and buffer.size][-1] for name in names]
    places = [last.address - file._bytes.address for last in lasts]
    whole = path.read_bytes()
    for name, place in zip(names, places, strict=True):
        flip(path, place)
        opened = open_store(store.folder)
        with pytest.raises(IntegrityError, match=rf"^shards/{re.escape(path.name)}: "):
            opened.shard(0).columns([name])
        path.write_bytes(whole)


def test_only_used_chunks_are_checked(store: Store) -> None:
    path = shard_path(store)
    _, begin = store.shard(0).unchecked_values
    flip(path, begin + 2 * CHUNK_BYTES)
    opened = open_store(store.folder)
    assert opened.recording("r0").record_id == "r0", "its samples lie in other chunks"
    with pytest.raises(IntegrityError, match="do not match their checksum"):
        opened.recording("r1")


def gather_all(store: Store) -> np.ndarray:
    frames = Frames(store, POLICY)
    return frames.gather(np.arange(len(frames)))


@pytest.mark.parametrize("number", [0, 1])
def test_a_gather_checks_its_samples(number: int, store: Store) -> None:
    whole = gather_all(store)
    np.testing.assert_array_equal(gather_all(open_store(store.folder)), whole)
    _, begin = store.shard(number).unchecked_values
    flip(shard_path(store, number), begin + 2 * SAMPLES)  # of the first recording's second lead
    frames = Frames(open_store(store.folder), POLICY)
    with pytest.raises(IntegrityError, match=re.escape(shard_path(store, number).name)):
        frames.gather(np.arange(len(frames)))
    other = np.flatnonzero(np.arange(len(frames)) // (len(frames) // 2) == 1 - number)
    np.testing.assert_array_equal(frames.gather(other), whole[other], err_msg="the other shard is read as before")


def test_checks_end_after_the_first_epoch(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_store(store.folder)
    frames = Frames(opened, POLICY)
    items = np.random.default_rng(0).permutation(len(frames))
    first = [frames.gather(batch) for batch in np.array_split(items, 8)]

    def looked_up(*given: object) -> None:
        raise AssertionError("a chunk was looked up")

    monkeypatch.setattr(opened, "check_samples", looked_up)
    again = [frames.gather(batch) for batch in np.array_split(items, 8)]
    np.testing.assert_array_equal(np.concatenate(again), np.concatenate(first))


def test_other_items_stay_unchecked(store: Store) -> None:
    flip(shard_path(store, 1), store.shard(1).unchecked_values[1])
    frames = Frames(open_store(store.folder), POLICY)
    half = np.arange(len(frames) // 2)
    for _ in range(4):  # as many items as two epochs have
        frames.gather(half)
    with pytest.raises(IntegrityError):
        frames.gather(np.arange(len(frames)))


def test_forked_workers_share_the_flags(store: Store) -> None:
    opened = open_store(store.folder)
    assert not opened.checked.of_file(0).any()
    child = multiprocessing.get_context("fork").Process(target=gather_all, args=(opened,))
    child.start()
    child.join()
    assert child.exitcode == 0
    _, begin = opened.shard(0).unchecked_values
    assert opened.checked.covers(0, np.array([begin]), np.array([begin + 2 * SAMPLES]))


def test_flags_outlast_a_closed_shard(store: Store) -> None:
    opened = open_store(store.folder)
    opened.recording("r0")
    before = opened.checked.of_file(0).copy()
    assert before.any()
    opened.open_shards.close(0)
    assert not opened.shard(0).is_open
    opened.shard(0)
    assert (opened.checked.of_file(0) >= before).all()


def test_windows_over_several_chunks_of_several_files() -> None:
    checked = CheckedChunks([10 * CHUNK_BYTES, 3 * CHUNK_BYTES + 1])
    files, begin = np.array([0, 1, 1]), np.array([CHUNK_BYTES // 2, 0, 2 * CHUNK_BYTES])
    found = {number: chunks.tolist() for number, chunks in checked.missing(files, begin, CHUNK_BYTES + 1)}
    assert found == {0: [0, 1], 1: [0, 1, 2, 3]}
    checked.of_file(0)[1] = True
    assert dict(checked.missing(files[:1], begin[:1], 3 * CHUNK_BYTES)).popitem()[1].tolist() == [0, 2, 3]
    assert checked.covers(0, np.array([CHUNK_BYTES]), np.array([2 * CHUNK_BYTES]))
    assert not checked.covers(0, np.array([CHUNK_BYTES]), np.array([2 * CHUNK_BYTES + 1]))


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def damage_seal(path: Path) -> None:
    flip(path, 40)


@pytest.mark.parametrize("change", [remove, empty, damage_seal])
def test_missing_or_damaged_checksums_are_written_again(change: Callable[[Path], None], store: Store) -> None:
    path = checksums_path(shard_path(store))
    whole = path.read_bytes()
    change(path)
    with pytest.raises(StoreError, match=re.escape(path.name)) as raised:
        open_store(store.folder).recording("r0")
    if change is remove:
        assert f"clocs data checksums {store.folder}" in str(raised.value)
    assert [fault.file for fault in verify(store.folder)] == [f"shards/{path.name}"]
    assert add_checksums(store.folder) == 1
    assert path.read_bytes() == whole
    assert add_checksums(store.folder) == 0
    assert verify(store.folder) == []


def test_checksums_are_not_written_for_a_damaged_shard(store: Store) -> None:
    path = shard_path(store)
    checksums_path(path).unlink()
    flip(path, CHUNK_BYTES)
    with pytest.raises(IntegrityError, match=re.escape(path.name)):
        add_checksums(store.folder)
    assert not checksums_path(path).exists()


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_store_without_checksums_is_read_only_on_request(
    how: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gather_all(store)
    for number in range(2):
        checksums_path(shard_path(store, number)).unlink()
    if how == "environment":
        monkeypatch.setenv(SKIP_CHECKSUMS, "1")
    opened = open_store(store.folder, check=False if how == "argument" else None)
    np.testing.assert_array_equal(gather_all(opened), whole)


def test_checksums_do_not_change_the_hash_of_a_store(store: Store) -> None:
    checksums_path(shard_path(store)).unlink()
    assert open_store(store.folder, check=False).sha256 == store.sha256


def test_a_shard_of_another_size_is_rejected(store: Store) -> None:
    path = shard_path(store)
    raw = path.read_bytes()
    for damaged in (b"", raw[:100], raw[:-1], raw + b"\0" * CHUNK_BYTES):
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match=re.escape(path.name)):
            open_store(store.folder).recording("r0")


def test_no_module_bypasses_checksums() -> None:
    """Columns come from ``CheckedArrow``. Only the gatherer reads raw samples."""
    allowed = {
        r"\._file\._batch\b|\bget_batch\(": {
            "store/arrow_files.py",
            "store/segments.py",  # the list of shards, hashed whole when it is opened
            "inference/classified_rows.py",  # a table of results, which lies outside of stores
            "similarity/archive/archive.py",
            "similarity/index/snapshot.py",
            "similarity/index/volume.py",
        },
        r"\bunchecked_values\b": {"store/shard.py", "store/gatherer.py"},
        r"\bmemory_map\(": {
            "inference/classified_rows.py",
            "store/arrow_files.py",
            "store/segments.py",  # hashed whole when it is opened, like a split
            "store/splits.py",
            "similarity/archive/archive.py",
            "similarity/index/snapshot.py",
            "similarity/index/volume.py",
        },
    }
    root = Path(clocs.__file__).parent
    for pattern, files in allowed.items():
        found = {
            path.relative_to(root).as_posix() for path in root.rglob("*.py") if re.search(pattern, path.read_text())
        }
        assert found == files, pattern
