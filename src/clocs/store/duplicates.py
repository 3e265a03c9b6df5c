"""Recordings that are the same signal under different names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.store.shard import HASH_BYTES, Shard, ShardInfo

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


def duplicate_groups(store: StoreReader) -> list[npt.NDArray[np.int64]]:
    """Numbers of the recordings of each group of identical signals, groups in order of first member."""
    columns = [store.shard(number).column("signal_hash") for number in range(len(store.manifest.shards))]
    known = np.flatnonzero(np.concatenate([column.is_valid().to_numpy(False) for column in columns] or [[]]))
    hashes = np.concatenate([_bytes(column.drop_null()) for column in columns] or [np.empty((0, HASH_BYTES), "u1")])
    keys = np.ascontiguousarray(hashes).view("V16").reshape(-1)
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    again = np.flatnonzero(counts[inverse] > 1)
    order = again[np.argsort(inverse[again], kind="stable")]
    groups = np.split(known[order], np.flatnonzero(np.diff(inverse[order])) + 1) if len(order) else []
    return sorted(groups, key=lambda group: int(group[0]))


def shared_lead_groups(store: StoreReader) -> list[Ints]:
    """Numbers of the recordings that share a lead, whatever it is called: one of them may be an extract of another."""
    records, keys = lead_keys(store, np.ones(len(store), bool), every=True)
    order = np.argsort(keys, kind="stable")
    groups = np.split(records[order], np.flatnonzero(np.diff(keys[order])) + 1) if len(order) else []
    return [np.unique(group) for group in groups if len(group) > 1 and (group != group[0]).any()]


def signal_keys(store: StoreReader) -> Keys:
    """Eight bytes of each recording's signal hash; 0 where there is none. Equal signals have equal keys."""
    keys = np.zeros(len(store), np.uint64)
    for number in range(len(store.manifest.shards)):
        column = store.shard(number).column("signal_hash")
        place = store.first[number] + np.flatnonzero(column.is_valid().to_numpy(False))
        keys[place] = np.ascontiguousarray(_bytes(column.drop_null())[:, :8]).view("<u8").reshape(-1)
    return keys


def patient_keys(store: StoreReader) -> Keys:
    """Eight bytes of a hash of each recording's patient; 0 where ids are not pseudonyms.

    Pseudonyms mean the same in all stores made with one key; other ids may not, many archives count from 1.
    """
    key = store.manifest.options.get("key")
    if key is None:
        return np.zeros(len(store), np.uint64)
    codes = store.table(["patient_id"]).column(0).combine_chunks().dictionary_encode()
    digests = b"".join(_digest(f"{key}/{name}") for name in codes.dictionary.to_pylist())
    return np.asarray(np.frombuffer(digests, np.uint64)[codes.indices.to_numpy()])


def lead_keys(store: StoreReader, records: npt.NDArray[np.bool_], *, every: bool) -> tuple[Ints, Keys]:
    """Of every lead of these recordings, or of one of each, II where it is there: recording numbers, and keys.

    Whoever holds the same ECG with other leads has a lead in common with it.
    """
    numbers, keys = [], []
    for shard_number in range(len(store.manifest.shards)):
        shard, first = store.shard(shard_number), store.first[shard_number]
        for row in np.flatnonzero(records[first : first + shard.info.records]):
            leads = shard.leads[row]
            for digest in shard.lead_hashes(int(row), leads if every else [_telling(leads)]):
                numbers.append(first + row)
                keys.append(int.from_bytes(digest[:8], "little"))
    return np.array(numbers, np.int64), np.array(keys, np.uint64)


def _telling(leads: Sequence[str]) -> str:
    """The lead that most devices and extracts have."""
    return "II" if "II" in leads else leads[0]


def _bytes(column: pa.FixedSizeBinaryArray) -> npt.NDArray[np.uint8]:
    """(rows, 16) of a column without nulls."""
    raw = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, HASH_BYTES)
    return raw[column.offset : column.offset + len(column)]


def repeated_record_ids(folder: Path, shards: tuple[ShardInfo, ...]) -> list[str]:
    """Record ids that occur more than once; 8 bytes of memory a recording."""
    keys = np.concatenate([_id_keys(Shard(folder / info.file, info)) for info in shards] or [np.empty(0, np.uint64)])
    values, counts = np.unique(keys, return_counts=True)
    suspects = set(values[counts > 1].tolist())
    if not suspects:
        return []
    seen: dict[str, int] = {}
    for info in shards:
        shard = Shard(folder / info.file, info)
        for row in np.flatnonzero(np.isin(_id_keys(shard), list(suspects))):
            record_id = shard.column("record_id")[int(row)].as_py()
            seen[record_id] = seen.get(record_id, 0) + 1
    return [record_id for record_id, times in seen.items() if times > 1]


def _id_keys(shard: Shard) -> Keys:
    return np.frombuffer(b"".join(map(_digest, shard.column("record_id").to_pylist())), np.uint64)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
