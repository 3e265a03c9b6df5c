"""Duplicates by hash: recordings with equal signals, leads, patients or ids.

Equal signals agree to a microvolt in all leads. For other duplicates see ``clocs.store.near_duplicates``.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from clocs.store.shard import HASH_BYTES

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]


def duplicate_groups(store: StoreReader) -> list[Ints]:
    """Return the indices of recordings with identical signals, one array per group, ordered by first member."""
    known, hashes = _signal_hashes(store)
    keys = _first_64_bits(hashes)
    ascending = np.sort(keys)
    suspects = np.flatnonzero(np.isin(keys, ascending[1:][ascending[1:] == ascending[:-1]]))
    exact = np.ascontiguousarray(hashes[suspects]).view(f"V{HASH_BYTES}").reshape(-1)
    _, inverse, counts = np.unique(exact, return_inverse=True, return_counts=True)
    again = np.flatnonzero(counts[inverse] > 1)
    order = again[np.argsort(inverse[again], kind="stable")]
    members = known[suspects[order]]
    groups = np.split(members, np.flatnonzero(np.diff(inverse[order])) + 1) if len(order) else []
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
    known, hashes = _signal_hashes(store)
    keys = np.zeros(len(store), np.uint64)
    keys[known] = _first_64_bits(hashes)
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
    numbers, keys, first = [np.empty(0, np.int64)], [np.empty(0, np.uint64)], 0
    for batch in store.table(["leads", "lead_hashes"]).to_batches():
        hashes = batch.column("lead_hashes")
        values, rows = hashes.flatten().to_numpy(), pc.list_parent_indices(hashes).to_numpy()
        chosen = records[first + rows] & (values > 0)
        if not all_leads:
            chosen &= _is_most_common_lead(batch.column("leads"), rows)
        numbers.append(first + rows[chosen])
        keys.append(values[chosen])
        first += len(batch)
    return np.concatenate(numbers), np.concatenate(keys)


def _is_most_common_lead(leads: pa.ListArray, rows: Ints) -> npt.NDArray[np.bool_]:
    """Return which leads of all rows are II or, in a row without II, the first: most devices record these."""
    is_second = pc.equal(leads.flatten(), "II").to_numpy(False)
    has_second = np.zeros(len(leads), bool)
    has_second[rows[is_second]] = True
    is_first = np.diff(rows, prepend=-1) > 0
    return np.asarray(is_second | (is_first & ~has_second[rows]))


def _signal_hashes(store: StoreReader) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Return the indices of recordings that are not flat, (N,), and their signal hashes, (N, 16)."""
    chunks = store.table(["signal_hash"]).column(0).chunks
    known = np.flatnonzero(np.concatenate([chunk.is_valid().to_numpy(False) for chunk in chunks] or [[]]))
    empty = np.empty((0, HASH_BYTES), np.uint8)
    return known, np.concatenate([_hash_bytes(chunk.drop_null()) for chunk in chunks] or [empty])


def _first_64_bits(hashes: npt.NDArray[np.uint8]) -> Keys:
    return np.ascontiguousarray(hashes[:, :8]).view("<u8").reshape(-1)


def _hash_bytes(column: pa.FixedSizeBinaryArray) -> npt.NDArray[np.uint8]:
    """Return the bytes of a column without nulls, (rows, 16)."""
    raw = np.frombuffer(column.buffers()[1], np.uint8).reshape(-1, HASH_BYTES)
    return raw[column.offset : column.offset + len(column)]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
