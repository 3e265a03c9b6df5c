"""Duplicates by hash: recordings with equal signals, leads, patients or ids.

Equal signals agree to a microvolt in all leads. For other duplicates see ``clocs.store.near_duplicates``.
"""

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


def duplicate_groups(store: StoreReader) -> list[Ints]:
    """Return the indices of recordings with identical signals, one array per group, ordered by first member."""
    columns = [store.shard(number).column("signal_hash") for number in range(len(store.manifest.shards))]
    known = np.flatnonzero(np.concatenate([column.is_valid().to_numpy(False) for column in columns] or [[]]))
    hashes = np.concatenate(
        [_hash_bytes(column.drop_null()) for column in columns] or [np.empty((0, HASH_BYTES), "u1")]
    )
    keys = np.ascontiguousarray(hashes).view("V16").reshape(-1)
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    again = np.flatnonzero(counts[inverse] > 1)
    order = again[np.argsort(inverse[again], kind="stable")]
    groups = np.split(known[order], np.flatnonzero(np.diff(inverse[order])) + 1) if len(order) else []
    return sorted(groups, key=lambda group: int(group[0]))


def shared_lead_groups(store: StoreReader) -> list[Ints]:
    """Return the indices of recordings that share a lead under any name, one array per group.

    One of them may be an extract of another.
    """
    records, keys = lead_keys(store, np.ones(len(store), bool), all_leads=True)
    order = np.argsort(keys, kind="stable")
    groups = np.split(records[order], np.flatnonzero(np.diff(keys[order])) + 1) if len(order) else []
    return [np.unique(group) for group in groups if len(group) > 1 and (group != group[0]).any()]


def signal_keys(store: StoreReader) -> Keys:
    """Return 64 bits of each recording's signal hash, (recordings,); 0 for a flat signal."""
    keys = np.zeros(len(store), np.uint64)
    for number in range(len(store.manifest.shards)):
        column = store.shard(number).column("signal_hash")
        indices = store.shard_starts[number] + np.flatnonzero(column.is_valid().to_numpy(False))
        keys[indices] = np.ascontiguousarray(_hash_bytes(column.drop_null())[:, :8]).view("<u8").reshape(-1)
    return keys


def patient_keys(store: StoreReader) -> Keys:
    """Return a 64-bit hash of each recording's patient, (recordings,); 0 if ids are not pseudonyms.

    Pseudonyms of one key identify the same patient in all stores. Other ids may not: many archives count from 1.
    """
    key = store.manifest.options.get("key")
    if key is None:
        return np.zeros(len(store), np.uint64)
    codes = store.table(["patient_id"]).column(0).combine_chunks().dictionary_encode()
    digests = b"".join(_digest(f"{key}/{name}") for name in codes.dictionary.to_pylist())
    return np.asarray(np.frombuffer(digests, np.uint64)[codes.indices.to_numpy()])


def lead_keys(store: StoreReader, records: npt.NDArray[np.bool_], *, all_leads: bool) -> tuple[Ints, Keys]:
    """Return 64-bit hashes of single leads, which find the same ECG with other leads.

    Args:
        store: The store.
        records: Recordings to hash, a mask over the store, (recordings,).
        all_leads: True to hash every lead, False for one lead of each recording, II if it exists.

    Returns:
        Index of the recording of each lead, and the hash, (N,) each.
    """
    numbers, keys = [], []
    for shard_number in range(len(store.manifest.shards)):
        shard, first = store.shard(shard_number), store.shard_starts[shard_number]
        for row in np.flatnonzero(records[first : first + shard.info.records]):
            leads = shard.leads[row]
            for digest in shard.lead_hashes(int(row), leads if all_leads else [_most_common_lead(leads)]):
                numbers.append(first + row)
                keys.append(int.from_bytes(digest[:8], "little"))
    return np.array(numbers, np.int64), np.array(keys, np.uint64)


def _most_common_lead(leads: Sequence[str]) -> str:
    """Return the lead that most devices and extracts record."""
    return "II" if "II" in leads else leads[0]


def _hash_bytes(column: pa.FixedSizeBinaryArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of a column without nulls, (rows, 16)."""
    raw = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, HASH_BYTES)
    return raw[column.offset : column.offset + len(column)]


def repeated_record_ids(folder: Path, shards: tuple[ShardInfo, ...]) -> list[str]:
    """Return the record ids that occur more than once. It needs 8 bytes of memory per recording."""
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
