"""Keys of the recordings that an encoder has seen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import IntegrityError
from clocs.store.store import Store, open_store
from clocs.training.seen_recordings import FILE, load_seen_keys, save_seen_keys, seen_keys


def literal_key(store: Store, record: int) -> int:
    """Return eight bytes of BLAKE2b of sampling rate, and of names and microvolts of the sorted leads."""
    shard, row = store.locate(record)
    recording = store.shard(shard).recording(row)
    digest = hashlib.blake2b(b"500.0", digest_size=16)
    for lead in sorted(recording.leads):
        digest.update(lead.encode() + recording.digital[recording.leads.index(lead)].astype("<i4").tobytes())
    return int.from_bytes(digest.digest()[:8], "little")


def literal_lead_key(store: Store, record: int) -> int:
    """Return eight bytes of BLAKE2b of sampling rate and microvolts of lead II, or of the first lead."""
    shard, row = store.locate(record)
    recording = store.shard(shard).recording(row)
    lead = recording.leads.index("II") if "II" in recording.leads else 0
    digest = hashlib.blake2b(b"500.0" + recording.digital[lead].astype("<i4").tobytes(), digest_size=16)
    return int.from_bytes(digest.digest()[:8], "little")


def test_training_and_validation_signals_are_listed_whole_and_by_a_lead(store: Path) -> None:
    place = open_store(store)
    split = place.split()
    used = np.flatnonzero(split.mask("train") | split.mask("validation")).tolist()
    keys = seen_keys(place, split)
    assert keys.tolist() == sorted(key(place, record) for key in (literal_key, literal_lead_key) for record in used)
    assert 0 < len(keys) == 2 * (len(place) - split.mask("test").sum())


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    keys = np.array([1, 2**63, 2**64 - 1], np.uint64)
    sha256 = save_seen_keys(tmp_path, keys)
    assert sha256 == hashlib.sha256((tmp_path / FILE).read_bytes()).hexdigest()
    np.testing.assert_array_equal(load_seen_keys(tmp_path, sha256), keys)


DAMAGES: list[Callable[[Path], object]] = [
    lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\0"),
    lambda path: path.write_bytes(path.read_bytes()[:-3]),
    lambda path: path.write_bytes(b""),
    Path.unlink,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(damage: Callable[[Path], object], tmp_path: Path) -> None:
    sha256 = save_seen_keys(tmp_path, np.array([5, 7, 2**64 - 1], np.uint64))
    damage(tmp_path / FILE)
    with pytest.raises(IntegrityError, match=FILE):
        load_seen_keys(tmp_path, sha256)
