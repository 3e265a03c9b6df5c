"""Splits of a store into train, validation and test parts, by patient and by signal."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from clocs.core.errors import ConfigError, IntegrityError, LeakError, StoreError
from clocs.core.hashes import content_hash, file_hash, seal, unseal
from clocs.core.seeds import generator
from clocs.core.storage.files import lock_folder, write_bytes
from clocs.core.storage.object_cache import local_copy
from clocs.datasets.dataset import Part, SplitPolicy
from clocs.store.arrow_files import column_view, write_arrow
from clocs.store.duplicates import duplicate_groups
from clocs.store.frames import Frames
from clocs.store.patient_clusters import patient_clusters, reexported_groups
from clocs.store.reader import StoreLike, StoreReader, open_reader

SPLITS = "splits"
"""Folder of the splits within a store."""
VALID_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PARTS: tuple[str, ...] = (*get_args(Part), "unused")
"""Parts of a split. Recordings without a frame under the evaluation policy are ``unused``."""


@dataclass(frozen=True)
class Split:
    """The part of every recording of a store version."""

    name: str
    """Name of the split."""
    sha256: str
    """Hash of the split."""
    metadata: dict[str, Any]
    """Hash of the store, how the split was made, and counts."""
    parts: npt.NDArray[np.int8]
    """Part of each recording, as an index into ``PARTS``, (recordings,)."""

    def mask(self, part: str) -> npt.NDArray[np.bool_]:
        """Return which recordings belong to a part, (recordings,) bool."""
        if part not in PARTS:
            raise ConfigError(f"Expected a part of {', '.join(PARTS)}, got '{part}'.")
        return np.asarray(self.parts == PARTS.index(part))

    @property
    def allows_duplicates(self) -> bool:
        """Return whether the split was made to allow identical signals in different parts."""
        return bool(self.metadata.get("allow_duplicates"))


def make_split(
    store: StoreLike,
    name: str = "default",
    *,
    seed: int = 0,
    policy: SplitPolicy | None = None,
    allow_duplicates: bool = False,
    like: str | None = None,
) -> Split:
    """Split the patients of a store at random into train, validation and test parts, and save the split.

    All recordings of a patient are in one part. Patients with identical signals are in the same part. If a part has no
    patients, a warning says so.

    Args:
        store: A store or its folder.
        name: Name of the split. An existing split with this name must be equal.
        seed: Random seed.
        policy: Fractions of the parts; by default the dataset's.
        allow_duplicates: True to allow identical signals of different patients in different parts, and record it.
        like: Name of a split of an earlier version. Its patients keep their parts.

    Returns:
        The saved split.

    Raises:
        ConfigError: The name is invalid, another split has it, or no patient is in the split ``like``.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 20})
        >>> split = clocs.split(store, seed=1)
        >>> split.metadata["patients"]
        {'test': 2, 'train': 7, 'validation': 1}
        >>> int(split.mask("test").sum())
        4
    """
    check_split_name(name)
    store = open_reader(store)
    policy = policy or SplitPolicy.model_validate(store.manifest.dataset["split"])
    patient, num_patients = store.patient_codes()
    used = has_frames(store)
    cluster = np.arange(num_patients) if allow_duplicates else patient_clusters(store)
    parts = np.full(len(store), PARTS.index("unused"), np.int8)
    present = np.unique(patient[used])
    earlier = read_split_file(store.folder, like) if like is not None else None
    earlier_parts = _earlier_parts(store, earlier, present) if earlier is not None else None
    patient_parts = _assign_parts(cluster[present], policy, generator(seed, "split"), earlier_parts)
    by_patient = np.full(num_patients, PARTS.index("unused"), np.int8)
    by_patient[present] = patient_parts
    parts[used] = by_patient[patient[used]]
    metadata = {
        "store": store.sha256,
        "seed": seed,
        "policy": policy.model_dump(mode="json"),
        "group_duplicates": not allow_duplicates,
        **count_parts(store, parts, allow_duplicates),
        **({"like": earlier.sha256} if earlier is not None else {}),
    }
    warn_of_empty_parts(metadata, [part for part in PARTS[:3] if getattr(policy, part)])
    return save_split(store, name, parts, metadata)


def count_parts(store: StoreReader, parts: npt.NDArray[np.int8], allow_duplicates: bool) -> dict[str, Any]:
    """Return the numbers of patients and recordings of each part, as JSON.

    If duplicates are allowed, this is recorded with the number of recordings with an identical signal in another part.
    """
    patient = store.patient_codes()[0]
    return {
        "patients": {part: len(np.unique(patient[parts == index])) for index, part in enumerate(PARTS[:3])},
        "records": {part: int((parts == index).sum()) for index, part in enumerate(PARTS)},
        **({"allow_duplicates": True, "shared_signals": _count_shared(store, parts)} if allow_duplicates else {}),
    }


def _count_shared(store: StoreReader, parts: npt.NDArray[np.int8]) -> int:
    used = [group[parts[group] != PARTS.index("unused")] for group in duplicate_groups(store)]
    return sum(len(group) for group in used if len(np.unique(parts[group])) > 1)


def warn_of_empty_parts(metadata: dict[str, Any], requested: Iterable[str]) -> None:
    """Warn of requested parts without patients."""
    empty = [part for part in requested if not metadata["patients"][part]]
    if empty:
        reason = "there are too few patients, or many share signals and must stay together"
        if not any(metadata["patients"].values()):
            reason = "no recording is long enough for a frame, or has the leads"
        warnings.warn(f"No patient is in the {' and '.join(empty)} part: {reason}.", stacklevel=3)


def check_split_name(name: str) -> None:
    """Raise an error if a name cannot be that of a split."""
    if not VALID_NAME.fullmatch(name):
        raise ConfigError(
            f"Invalid split name '{name}'. Use letters, digits, '.', '_', '-'; begin with a letter or digit."
        )


def has_frames(store: StoreReader) -> npt.NDArray[np.bool_]:
    """Return which recordings have a frame under the evaluation policy, (recordings,) bool."""
    if "evaluation" not in store.manifest.dataset["frame_policies"]:
        return np.ones(len(store), bool)
    return np.asarray(Frames(store, store.frame_policy("evaluation")).frames_per_record() > 0)


def _earlier_parts(store: StoreReader, split: Split, present: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """Return the part of each patient in an earlier split; -1 for new patients."""
    table = pa.ipc.open_file(pa.BufferReader((store.folder / SPLITS / f"{split.name}.arrow").read_bytes())).read_all()
    names = table.column("patient_id").to_pylist()
    used = split.parts != PARTS.index("unused")
    part_of = {name: part for name, part, is_used in zip(names, split.parts.tolist(), used, strict=True) if is_used}
    ids = store.table(["patient_id"]).column(0).combine_chunks().dictionary_encode().dictionary.to_pylist()
    parts = np.array([part_of.get(ids[number], -1) for number in present], np.int8)
    if not (parts >= 0).any():
        raise ConfigError(
            f"No patient of this version is in split '{split.name}', because the ids differ. Ingest with the same "
            "table and key as before, or make a split without `like`."
        )
    return parts


def _assign_parts(
    cluster: npt.NDArray[np.int64],
    policy: SplitPolicy,
    random: np.random.Generator,
    earlier: npt.NDArray[np.int8] | None = None,
) -> npt.NDArray[np.int8]:
    """Assign clusters of patients to parts, in random order, each to the first part with enough room.

    The remainder's part receives the rest. Clusters with an ``earlier`` part keep it. With several earlier parts they
    go to the training part, so that no patient moves from training to test.
    """
    count = len(cluster)
    sizes = {part: int(getattr(policy, part) * count + 1e-9) for part in PARTS[:3]}
    sizes[policy.remainder] += count - sum(sizes.values())
    _, member, cluster_sizes = np.unique(cluster, return_inverse=True, return_counts=True)
    room = {PARTS.index(part): sizes[part] for part in PARTS[:3] if part != policy.remainder}
    by_cluster = np.full(len(cluster_sizes), PARTS.index(policy.remainder), np.int8)
    fixed = np.full(len(cluster_sizes), len(PARTS), np.int8)
    if earlier is not None:
        np.minimum.at(fixed, member[earlier >= 0], earlier[earlier >= 0])
    for number in np.flatnonzero(fixed < len(PARTS)).tolist():
        by_cluster[number] = fixed[number]
        if fixed[number] in room:
            room[fixed[number]] -= int(cluster_sizes[number])
    for number in random.permutation(len(cluster_sizes)).tolist():
        if fixed[number] < len(PARTS):
            continue
        part = next((part for part, left in room.items() if left >= cluster_sizes[number]), None)
        if part is not None:
            by_cluster[number] = part
            room[part] -= int(cluster_sizes[number])
    return by_cluster[member]


def save_split(store: StoreReader, name: str, parts: npt.NDArray[np.int8], metadata: dict[str, Any]) -> Split:
    """Save a part for every recording as a split and return it. Leaks are not checked: see ``check_leaks``.

    Args:
        store: The store.
        name: Name of the split. A name that another split has is refused.
        parts: Indices into ``PARTS``, one for each recording in the store's order.
        metadata: JSON that is saved with the split. ``store`` must be the hash of the store.
    """
    path = store.folder / SPLITS / f"{name}.arrow"
    columns = [column.combine_chunks() for column in store.table(["record_id", "patient_id"]).columns]
    columns.append(pa.DictionaryArray.from_arrays(pa.array(parts), pa.array(PARTS)))
    batch = pa.RecordBatch.from_arrays(columns, ["record_id", "patient_id", "part"])
    json_path = path.with_suffix(".json")
    if not json_path.exists():
        with lock_folder(path.parent, wait=True):
            if not json_path.exists():  # one of several concurrent processes writes both files
                write_bytes(json_path, seal({"about": metadata, "arrow_sha256": write_arrow(path, batch).sha256}))
    saved = read_split_file(store.folder, name)
    if saved.metadata != metadata or not np.array_equal(saved.parts, parts):
        raise ConfigError(f"split '{name}' exists and differs. Choose another name (--name NEW).")
    return saved


def read_split_file(folder: Path, name: str) -> Split:
    """Read a saved split and verify its hashes."""
    path = folder / SPLITS / f"{name}.json"
    if not path.exists():
        known = ", ".join(sorted(found.stem for found in (folder / SPLITS).glob("*.json"))) or "none"
        raise StoreError(f"{folder} has no split '{name}'. Its splits: {known}. Make one: clocs data split")
    try:
        body = unseal(path.read_bytes(), f"{SPLITS}/{path.name}")
        table = local_copy(path.with_suffix(".arrow"), body["arrow_sha256"])
        if body["arrow_sha256"] != file_hash(table):
            raise IntegrityError(f"{SPLITS}/{name}.arrow: does not match its hash")
        with pa.memory_map(str(table)) as source:
            column = pa.ipc.open_file(source).read_all().column("part").combine_chunks()
    except (OSError, ValueError, KeyError, AttributeError, TypeError, pa.ArrowException) as error:
        raise IntegrityError(f"{SPLITS}/{path.name}: cannot be read: {error!r:.200}") from error
    return Split(name, content_hash(body), body["about"], column_view(column.indices, np.int8).copy())


def load_split(store: StoreReader, name: str = "default", *, thorough: bool = False) -> Split:
    """Read a saved split, and raise an error if it is of another store version or leaks; see ``check_leaks``.

    Identical signals in different parts are no error if the split was made to allow them.
    """
    split = read_split_file(store.folder, name)
    if split.metadata["store"] != store.sha256:
        raise StoreError(
            f"split '{name}' was made for another version of {store.folder}. Make a split of this version in which "
            f"patients keep their parts (clocs data split {store.folder} --name NEW --like {name}), then pass "
            "split=NEW to clocs pretrain, or --split NEW."
        )
    check_leaks(store, split, allow_duplicates=split.allows_duplicates, thorough=thorough)
    return split


def check_leaks(store: StoreLike, split: Split, *, allow_duplicates: bool = False, thorough: bool = False) -> None:
    """Check that no patient and no signal is in two parts of a split.

    Args:
        store: A store or its folder.
        split: The split.
        allow_duplicates: True to allow identical signals of different patients in different parts.
        thorough: True to also compare recordings of different formats, leads and steps. This reads every signal.

    Returns:
        None if the split does not leak.

    Raises:
        LeakError: A patient or signal is in two parts. The message names both recordings.
        StoreError: The split belongs to another store.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 20})
        >>> split = clocs.split(store)
        >>> clocs.check_leaks(store, split)
        >>> split.parts[0] = (split.parts[0] + 1) % 3  # another part than the same patient's other recording
        >>> clocs.check_leaks(store, split)
        Traceback (most recent call last):
        clocs.core.errors.LeakError: split 'default' leaks: ...
    """
    store = open_reader(store)
    if len(split.parts) != len(store):
        raise StoreError(f"split '{split.name}' has {len(split.parts)} recordings, but the store has {len(store)}")
    patient, num_patients = store.patient_codes()
    used = np.flatnonzero(split.parts != PARTS.index("unused"))
    first = np.full(num_patients, -1, np.int64)
    first[patient[used[::-1]]] = used[::-1]  # the first used recording of each patient
    crossing = used[split.parts[used] != split.parts[first[patient[used]]]]
    if len(crossing):
        one, other = int(first[patient[crossing[0]]]), int(crossing[0])
        raise LeakError(_leak_message(store, split, one, other, "belong to one patient"))
    if allow_duplicates:
        return
    duplicates = [(group, "are the same signal") for group in duplicate_groups(store)]
    duplicates += [(group, "are one ECG in several files") for group in (reexported_groups(store) if thorough else [])]
    for group, reason in duplicates:
        parts = split.parts[group]
        members = group[parts != PARTS.index("unused")]
        others = members[split.parts[members] != split.parts[members[0]]] if len(members) else members
        if len(others):
            raise LeakError(_leak_message(store, split, int(members[0]), int(others[0]), reason))


def _leak_message(store: StoreReader, split: Split, one: int, other: int, reason: str) -> str:
    ids = store.table(["record_id"]).column(0)
    part = [PARTS[split.parts[number]] for number in (one, other)]
    return (
        f"split '{split.name}' leaks: records '{ids[one]}' ({part[0]}) and '{ids[other]}' ({part[1]}) {reason}. "
        "Make a new split: clocs data split."
    )
