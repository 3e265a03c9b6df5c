"""Recordings that are the same ECG: equal signals under different names, and near duplicates.

Equal signals are found by hash: they are equal to a microvolt in all leads. An export to another format may round to
coarser steps and keep eight leads of twelve. Such near duplicates are found by the shape of one lead, then compared.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.core.recording import Recording, missing_value
from clocs.signals.leads import LEAD_EQUATIONS
from clocs.store.shard import HASH_BYTES, Shard, ShardInfo

if TYPE_CHECKING:
    from clocs.store.reader import StoreReader

Ints = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
_Form = tuple[float, int, str, str]
"""Rate, samples, unit, and the lead that features are taken from."""

BLOCKS: Final = 8
"""Stretches of a recording; the highest and lowest value of each are its features."""
FINE: Final = 20
"""Steps that a lead must span: with fewer, many ECGs would look alike."""
ROUNDING: Final = 1 + 1e-6
"""Times a step: by how much values may differ that are a step apart."""


def duplicate_groups(store: StoreReader) -> list[Ints]:
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
    records, keys = lead_keys(store, np.ones(len(store), bool), all_leads=True)
    order = np.argsort(keys, kind="stable")
    groups = np.split(records[order], np.flatnonzero(np.diff(keys[order])) + 1) if len(order) else []
    return [np.unique(group) for group in groups if len(group) > 1 and (group != group[0]).any()]


def signal_keys(store: StoreReader) -> Keys:
    """Eight bytes of each recording's signal hash; 0 where there is none. Equal signals have equal keys."""
    keys = np.zeros(len(store), np.uint64)
    for number in range(len(store.manifest.shards)):
        column = store.shard(number).column("signal_hash")
        place = store.shard_starts[number] + np.flatnonzero(column.is_valid().to_numpy(False))
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


def lead_keys(store: StoreReader, records: npt.NDArray[np.bool_], *, all_leads: bool) -> tuple[Ints, Keys]:
    """Of every lead of these recordings, or of one of each, II where it is there: recording numbers, and keys.

    Whoever holds the same ECG with other leads has a lead in common with it.
    """
    numbers, keys = [], []
    for shard_number in range(len(store.manifest.shards)):
        shard, first = store.shard(shard_number), store.shard_starts[shard_number]
        for row in np.flatnonzero(records[first : first + shard.info.records]):
            leads = shard.leads[row]
            for digest in shard.lead_hashes(int(row), leads if all_leads else [_telling(leads)]):
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


def near_duplicate_groups(store: StoreReader) -> list[Ints]:
    """Numbers of the recordings of each group, groups in order of their first member.

    Two recordings are the same ECG if they have the same rate and length and differ, in every lead that both files
    hold and at every sample, by no more than the coarser file's step. 150 bytes of memory a recording.
    """
    parents = np.arange(len(store))
    for numbers, features, steps in _by_form(store):
        for one, other in _near(features, steps):
            first, second = int(numbers[one]), int(numbers[other])
            earlier, later = sorted((_root(parents, first), _root(parents, second)))
            if earlier != later and _agree(_taken(store, first), _taken(store, second)):
                parents[later] = earlier
    roots = np.array([_root(parents, number) for number in range(len(store))], np.int64)
    _, inverse, counts = np.unique(roots, return_inverse=True, return_counts=True)
    return [np.flatnonzero(inverse == group) for group in np.flatnonzero(counts > 1)]


def _near(features: Floats, steps: Floats) -> Iterator[tuple[int, int]]:
    """Pairs whose features differ by no more than the coarser one's step.

    Each is looked for around the coarser one, at its own step: fine ones are not compared with each other because a
    coarse one is among them.
    """
    from scipy.spatial import cKDTree

    tree = cKDTree(features)
    rank = np.argsort(np.argsort(steps, kind="stable"))
    for one, (place, step) in enumerate(zip(features, steps, strict=True)):
        near = np.array(tree.query_ball_point(place, step * ROUNDING, p=np.inf))
        yield from ((one, int(other)) for other in near[rank[near] < rank[one]])


def _by_form(store: StoreReader) -> Iterator[tuple[npt.NDArray[np.int64], Floats, Floats]]:
    """Of recordings of one form: their numbers, features (recordings, 2 x blocks) and steps, both in its unit."""
    found: dict[_Form, list[tuple[int, Floats, float]]] = defaultdict(list)
    for number in range(len(store)):
        recording = _taken(store, number)
        lead = next((name for name in ("II", "I") if name in recording.leads), min(recording.leads))
        row = recording.leads.index(lead)
        step = _step(recording, row)
        values = _values(recording, row)
        if len(values) < BLOCKS or np.isnan(values).all() or not np.nanmax(values) - np.nanmin(values) >= FINE * step:
            continue
        blocks = np.array_split(np.nan_to_num(values), BLOCKS)
        features = np.array([*(block.max() for block in blocks), *(block.min() for block in blocks)])
        found[(round(recording.sampling_rate, 3), recording.num_samples, recording.unit, lead)].append(
            (number, features, step)
        )
    for rows in found.values():
        if len(rows) > 1:
            yield (
                np.array([number for number, _, _ in rows]),
                np.stack([features for _, features, _ in rows]),
                np.array([step for _, _, step in rows]),
            )


def _taken(store: StoreReader, number: int) -> Recording:
    shard, row = store.locate(number)
    return store.shard(shard).recording(row)


def _step(recording: Recording, row: int) -> float:
    return 1 / abs(float(recording.gain[row]))


def _agree(one: Recording, other: Recording) -> bool:
    shared = [lead for lead in one.leads if lead in other.leads]
    if {"I", "II"} <= set(shared):
        shared = [lead for lead in shared if lead not in LEAD_EQUATIONS]
    smaller = min((one, other), key=lambda recording: len(recording.leads))
    needed = [lead for lead in smaller.leads if lead not in LEAD_EQUATIONS]
    return set(needed) <= set(shared) and all(_equal(one, other, lead) for lead in shared)


def _equal(one: Recording, other: Recording, lead: str) -> bool:
    rows = [recording.leads.index(lead) for recording in (one, other)]
    step = max(_step(recording, row) for recording, row in zip((one, other), rows, strict=True))
    values = [_values(recording, row) for recording, row in zip((one, other), rows, strict=True)]
    known = ~np.isnan(values[0]) & ~np.isnan(values[1])
    return bool(known.any() and (np.abs(values[0] - values[1])[known] <= step * ROUNDING).all())


def _values(recording: Recording, row: int) -> Floats:
    digital = recording.digital[row]
    values = (digital - float(recording.baseline[row])) / float(recording.gain[row])
    values[digital == missing_value(digital.dtype)] = np.nan
    return np.asarray(values, np.float64)


def _root(parents: npt.NDArray[np.int64], number: int) -> int:
    while parents[number] != number:
        parents[number] = parents[parents[number]]
        number = int(parents[number])
    return number
