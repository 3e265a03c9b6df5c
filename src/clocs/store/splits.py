"""Splits: who trains and who tests. By patient, and by signal where one has several names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.core.errors import ConfigError, IntegrityError, LeakError, StoreError
from clocs.core.files import content_hash, file_hash, lock_folder, seal, unseal, write_bytes
from clocs.core.seeds import generator
from clocs.datasets.dataset import Part, SplitPolicy
from clocs.store.arrow_files import write_arrow
from clocs.store.duplicates import duplicate_groups, near_duplicate_groups, shared_lead_groups
from clocs.store.frames import Frames
from clocs.store.reader import StoreLike, StoreReader, open_reader

SPLITS = "splits"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PARTS: tuple[str, ...] = (*get_args(Part), "unused")
"""``unused``: recordings without a single frame under the dataset's evaluation policy."""


@dataclass(frozen=True)
class Split:
    """A part for every recording of one store version."""

    name: str
    sha256: str
    metadata: dict[str, Any]
    """Store hash, seed, policy, counts."""
    parts: npt.NDArray[np.int8]
    """(recordings,), places in ``PARTS``."""

    def mask(self, part: str) -> npt.NDArray[np.bool_]:
        """Which recordings belong to a part."""
        if part not in PARTS:
            raise ConfigError(f"no part '{part}'; there are {', '.join(PARTS)}")
        return np.asarray(self.parts == PARTS.index(part))


def make_split(
    store: StoreLike,
    name: str = "default",
    *,
    seed: int = 0,
    policy: SplitPolicy | None = None,
    group_duplicates: bool = True,
    like: str | None = None,
) -> Split:
    """Split a store's patients at random, once, and save it with a hash.

    Patients who share a signal stay together unless ``group_duplicates`` is off. A name that is taken
    by another split is refused. ``like``: a split of an earlier version, whose patients keep their parts.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"'{name}' cannot name a split: letters, digits, '.', '_' and '-', a letter or digit first")
    store = open_reader(store)
    policy = policy or SplitPolicy.model_validate(store.manifest.dataset["split"])
    patient, patients = store.patient_codes()
    used = _used(store)
    cluster = _clusters(store, patient, patients, group_duplicates)
    parts = np.full(len(store), PARTS.index("unused"), np.int8)
    present = np.unique(patient[used])
    earlier = read_split_file(store.folder, like) if like is not None else None
    known = _known(store, earlier, present) if earlier is not None else None
    shares = _deal(cluster[present], policy, generator(seed, "split"), known)
    by_patient = np.full(patients, PARTS.index("unused"), np.int8)
    by_patient[present] = shares
    parts[used] = by_patient[patient[used]]
    about = {
        "store": store.sha256,
        "seed": seed,
        "policy": policy.model_dump(mode="json"),
        "group_duplicates": group_duplicates,
        "patients": {part: int((shares == place).sum()) for place, part in enumerate(PARTS[:3])},
        "records": {part: int((parts == place).sum()) for place, part in enumerate(PARTS)},
        **({"like": earlier.sha256} if earlier is not None else {}),
    }
    return _save(store, name, parts, about)


def _used(store: StoreReader) -> npt.NDArray[np.bool_]:
    if "evaluation" not in store.manifest.dataset["frames"]:
        return np.ones(len(store), bool)
    return np.asarray(Frames(store, store.frame_policy("evaluation")).frames_per_record() > 0)


def _clusters(
    store: StoreReader, patient: npt.NDArray[np.int64], patients: int, group_duplicates: bool
) -> npt.NDArray[np.int64]:
    """A number for each patient, shared by those connected through identical signals."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if not group_duplicates:
        return np.arange(patients)
    groups = [*duplicate_groups(store), *_in_other_files(store)]
    pairs = [(patient[group[0]], patient[member]) for group in groups for member in group[1:]]
    if not pairs:
        return np.arange(patients)
    left, right = np.array(pairs).T
    graph = coo_array((np.ones(len(pairs), np.int8), (left, right)), shape=(patients, patients))
    return np.asarray(connected_components(graph, directed=False)[1]).astype(np.int64)


def _in_other_files(store: StoreReader) -> list[npt.NDArray[np.int64]]:
    """Recordings that are one ECG, exported more than once: other steps, other leads, so no equal signals."""
    kinds = {kind for number in range(len(store.manifest.shards)) for kind in _kinds_of_file(store, number)}
    return [*near_duplicate_groups(store), *shared_lead_groups(store)] if len(kinds) > 1 else []


def _kinds_of_file(store: StoreReader, shard: int) -> set[tuple[str, tuple[str, ...], tuple[float, ...]]]:
    """Format, leads and gains; of one kind, the same ECG is the same signal."""
    formats, leads, gains = (store.shard(shard).column(name).to_pylist() for name in ("format", "leads", "gain"))
    return {(name, tuple(has), tuple(by)) for name, has, by in zip(formats, leads, gains, strict=True)}


def _known(store: StoreReader, split: Split, present: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """The part that an earlier split gave each of these patients; -1 where it gave none."""
    with pa.memory_map(str(store.folder / SPLITS / f"{split.name}.arrow")) as source:
        names = pa.ipc.open_file(source).read_all().column("patient_id").to_pylist()
    used = split.parts != PARTS.index("unused")
    given = {name: part for name, part, is_used in zip(names, split.parts.tolist(), used, strict=True) if is_used}
    ids = store.table(["patient_id"]).column(0).combine_chunks().dictionary_encode().dictionary.to_pylist()
    known = np.array([given.get(ids[number], -1) for number in present], np.int8)
    if not (known >= 0).any():
        raise ConfigError(
            f"nobody of this version is in split '{split.name}': its patients have other ids, as without the table or "
            "key of an earlier ingest, and might change sides. Ingest as before, or make a split that is like none"
        )
    return known


def _deal(
    cluster: npt.NDArray[np.int64],
    policy: SplitPolicy,
    random: np.random.Generator,
    known: npt.NDArray[np.int8] | None = None,
) -> npt.NDArray[np.int8]:
    """A part for each patient: whole clusters, in random order, each to the first part that has room for it.

    What rounding leaves over, and clusters for which no part has room, go to the remainder's part. Clusters of somebody
    whose part is ``known`` go there; of several, to the one that trained: so nobody who trained comes to test.
    """
    count = len(cluster)
    sizes = {part: int(getattr(policy, part) * count + 1e-9) for part in PARTS[:3]}
    sizes[policy.remainder] += count - sum(sizes.values())
    _, member, members = np.unique(cluster, return_inverse=True, return_counts=True)
    room = {PARTS.index(part): sizes[part] for part in PARTS[:3] if part != policy.remainder}
    by_cluster = np.full(len(members), PARTS.index(policy.remainder), np.int8)
    fixed = np.full(len(members), len(PARTS), np.int8)
    if known is not None:
        np.minimum.at(fixed, member[known >= 0], known[known >= 0])
    for number in np.flatnonzero(fixed < len(PARTS)).tolist():
        by_cluster[number] = fixed[number]
        if fixed[number] in room:
            room[fixed[number]] -= int(members[number])
    for number in random.permutation(len(members)).tolist():
        if fixed[number] < len(PARTS):
            continue
        part = next((part for part, left in room.items() if left >= members[number]), None)
        if part is not None:
            by_cluster[number] = part
            room[part] -= int(members[number])
    return by_cluster[member]


def _save(store: StoreReader, name: str, parts: npt.NDArray[np.int8], about: dict[str, Any]) -> Split:
    path = store.folder / SPLITS / f"{name}.arrow"
    columns = [column.combine_chunks() for column in store.table(["record_id", "patient_id"]).columns]
    columns.append(pa.DictionaryArray.from_arrays(pa.array(parts), pa.array(PARTS)))
    batch = pa.RecordBatch.from_arrays(columns, ["record_id", "patient_id", "part"])
    told = path.with_suffix(".json")
    if not told.exists():
        with lock_folder(path.parent, wait=True):
            if not told.exists():  # of two makers at once, one writes both files
                write_bytes(told, seal({"about": about, "arrow_sha256": write_arrow(path, batch)[0]}))
    made = read_split_file(store.folder, name)
    if made.metadata != about or not np.array_equal(made.parts, parts):
        raise ConfigError(f"split '{name}' exists and differs; a split is made once. Choose another: --name NEW")
    return made


def read_split_file(folder: Path, name: str) -> Split:
    """A saved split as it is, with its hashes checked."""
    path = folder / SPLITS / f"{name}.json"
    if not path.exists():
        known = ", ".join(sorted(found.stem for found in (folder / SPLITS).glob("*.json"))) or "none"
        raise StoreError(f"no split '{name}' in {folder}; there are: {known}. Make one: clocs data split")
    try:
        body = unseal(path.read_bytes(), f"{SPLITS}/{path.name}")
        if body["arrow_sha256"] != file_hash(path.with_suffix(".arrow")):
            raise IntegrityError(f"{SPLITS}/{name}.arrow: does not match its hash")
        with pa.memory_map(str(path.with_suffix(".arrow"))) as source:
            column = pa.ipc.open_file(source).read_all().column("part").combine_chunks()
    except (OSError, ValueError, KeyError, AttributeError, TypeError, pa.ArrowException) as error:
        raise IntegrityError(f"{SPLITS}/{path.name}: cannot be read: {error!r:.200}") from error
    return Split(name, content_hash(body), body["about"], column.indices.to_numpy().astype(np.int8))


def load_split(
    store: StoreReader, name: str = "default", *, allow_duplicates: bool = False, thorough: bool = False
) -> Split:
    """A saved split, refused if it was made for other data or leaks, as ``check_leaks`` says."""
    split = read_split_file(store.folder, name)
    if split.metadata["store"] != store.sha256:
        raise StoreError(
            f"split '{name}' was made for another version of {store.folder}. Make one for this one, in which patients "
            f"keep their parts (clocs data split {store.folder} --name NEW --like {name}), and name that: split=NEW "
            "for clocs pretrain, or --split NEW"
        )
    check_leaks(store, split, allow_duplicates=allow_duplicates, thorough=thorough)
    return split


def check_leaks(store: StoreLike, split: Split, *, allow_duplicates: bool = False, thorough: bool = False) -> None:
    """Refuse a split in which one patient, or one signal, is in two parts; both records are named.

    ``thorough``: also one ECG in several files, for which every signal is read.
    """
    store = open_reader(store)
    if len(split.parts) != len(store):
        raise StoreError(f"split '{split.name}' covers {len(split.parts)} recordings, the store has {len(store)}")
    patient, patients = store.patient_codes()
    used = np.flatnonzero(split.parts != PARTS.index("unused"))
    first = np.full(patients, -1, np.int64)
    first[patient[used[::-1]]] = used[::-1]  # the first used recording of each patient
    crossing = used[split.parts[used] != split.parts[first[patient[used]]]]
    if len(crossing):
        here, there = int(first[patient[crossing[0]]]), int(crossing[0])
        raise LeakError(_both(store, split, here, there, "belong to one patient"))
    same = [(group, "are the same signal") for group in ([] if allow_duplicates else duplicate_groups(store))]
    same += [(group, "are one ECG in several files") for group in (_in_other_files(store) if thorough else [])]
    for group, how in same:
        parts = split.parts[group]
        members = group[parts != PARTS.index("unused")]
        other = members[split.parts[members] != split.parts[members[0]]] if len(members) else members
        if len(other):
            raise LeakError(_both(store, split, int(members[0]), int(other[0]), how))


def _both(store: StoreReader, split: Split, here: int, there: int, how: str) -> str:
    ids = store.table(["record_id"]).column(0)
    part = [PARTS[split.parts[number]] for number in (here, there)]
    return (
        f"split '{split.name}' leaks: records '{ids[here]}' ({part[0]}) and '{ids[there]}' ({part[1]}) {how}. "
        "Make a new split: clocs data split."
    )
