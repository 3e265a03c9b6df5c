"""De-identification of an archive or a store into a new store, with counts of the removed fields."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from clocs.core.errors import ConfigError, FormatError
from clocs.core.privacy.pseudonyms import PatientKey, read_key
from clocs.core.recording import Recording
from clocs.core.sources.source import Source, open_source
from clocs.core.stated_measurements import STATED_COLUMNS
from clocs.core.storage.files import is_inside
from clocs.datasets import Dataset, Entry
from clocs.datasets.dataset import Options, SplitPolicy
from clocs.datasets.redaction import POOLED_AGE, KeepField, column_identity, deidentify_recording
from clocs.formats.reading import detect_format, read_identity_from
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF
from clocs.store.ingest import ingest
from clocs.store.manifest import versions
from clocs.store.store import Store, open_store
from clocs.store.task_records import Progress
from clocs.store.task_targets import store_tasks


@dataclass(frozen=True)
class DeidentificationResult:
    """A de-identified store, with counts of the removed fields."""

    store: Store
    """The new store."""
    removed: dict[str, int]
    """Number of files of the archive, or recordings of the store, with each removed field."""


class StoreOptions(Options):
    """Options that identify the original store and the key, without paths."""

    store: str
    """Hash of the original store."""
    key: str
    """Fingerprint of the key."""
    keep: tuple[KeepField, ...]
    """Typed fields that stay."""

    @property
    def is_pseudonymous(self) -> bool:
        """True: recordings have pseudonyms."""
        return True


def deidentify(
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    key: str | os.PathLike[str],
    *,
    keep: Iterable[KeepField] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> DeidentificationResult:
    """De-identify an archive or a store into a new store.

    Ids are replaced by keyed hashes, ages over 90 are pooled, and typed text is removed. Measurements that a file
    states are kept. The quarantine list and the splits of a store are not copied. Check the result with
    :func:`clocs.scan_identities`.

    Args:
        source: An archive (folder or zip of ECG files) or a store.
        folder: Folder of the new store.
        key: Key file, made by :func:`clocs.make_key`. It must be outside of both folders.
        keep: Typed fields to keep: ``labels``, ``notes``, ``leads``, ``site``, ``extra``. Extra columns of a store
            that may identify a person are always removed.
        workers: Number of parallel workers.
        progress: Called with the recordings done and the quarantined recordings.

    Returns:
        The new store, and the number of recordings with each removed field.

    Raises:
        ConfigError: The key is inside a folder of recordings, or the folders are inside one another.

    Example:
        >>> original = clocs.ingest("synthetic", None, "store", options={"num_records": 2})
        >>> key = clocs.make_key("patients.key")
        >>> result = clocs.deidentify(original, "shared", "patients.key")
        >>> result.removed["labels, left out"]
        2
        >>> result.store.recording(0).labels
        ()
    """
    kept = tuple(sorted(keep))
    path, key_path = Path(source), Path(key)
    if is_inside(key_path, Path(folder)) or is_inside(key_path, path):
        raise ConfigError(f"{key} is beside the recordings that it protects. Move the key elsewhere.")
    if not versions(path):
        options = {"key": key_path, "keep": kept}
        store = ingest("folder", path, folder, options=options, workers=workers, progress=progress)
        removed = count_identity_fields(open_source(path)) + _count_pooled_ages(store)
        return DeidentificationResult(store, dict(removed))
    if is_inside(Path(folder), path) or is_inside(path, Path(folder)):
        raise ConfigError(f"{folder} and {path} are inside one another. Choose a separate folder for the new store.")
    original = open_store(path)
    store_options = {"store": original.sha256, "key": read_key(key_path).fingerprint, "keep": kept}
    columns = _kept_columns(original, kept)
    dataset = _as_dataset(original, key_path, columns)
    store = ingest(dataset, None, folder, gate=GATE_OFF, options=store_options, workers=workers, progress=progress)
    return DeidentificationResult(store, _count_removed(original, kept, columns))


def parse_keep(names: Iterable[str]) -> tuple[KeepField, ...]:
    """Parse the names of fields to keep, with commas between them.

    Raises:
        ConfigError: A name is unknown.
    """
    parts = [part for name in names for part in name.split(",") if part]
    unknown = sorted(set(parts) - set(get_args(KeepField)))
    if unknown:
        raise ConfigError(f"{', '.join(unknown)} cannot be kept. Choose from {', '.join(get_args(KeepField))}.")
    return tuple(kept for kept in get_args(KeepField) if kept in parts)


def count_identity_fields(source: Source) -> Counter[str]:
    """Count the files of an archive with each identity field. Unreadable files are skipped."""
    counts: Counter[str] = Counter()
    for name in source.names():
        try:
            if name.endswith(".hea") or detect_format(source, name) is not None:
                counts.update(read_identity_from(source, name).keys())
        except FormatError:
            continue
    return counts


def _count_pooled_ages(store: Store) -> Counter[str]:
    ages = store.table(["age"]).column(0).to_pylist()
    return +Counter({f"ages given as {POOLED_AGE:g}, which stands for it and more": ages.count(POOLED_AGE)})


def _kept_columns(store: Store, keep: tuple[str, ...]) -> frozenset[str]:
    """Return the extra columns that stay: stated measurements; others if they are kept and identify nobody."""
    stated = frozenset(STATED_COLUMNS).intersection(store.extra_types)
    names = list(store.extra_types.keys() - stated) if "extra" in keep else []
    table = store.table(["patient_id", "record_id", "source"])
    ids = list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if names else []
    texts = {name: ["" if value is None else str(value) for value in _values(store, name)] for name in names}
    return stated | {name for name in names if not column_identity(name, texts[name], ids)}


def _values(store: Store, column: str) -> list[Any]:
    return list(store.table(column).column(0).to_pylist())


def _as_dataset(store: Store, key: Path, columns: frozenset[str]) -> Dataset:
    """Return the recordings of a store as a dataset, with its policies."""
    metadata, patient_key = store.manifest.dataset, read_key(key)
    frame_policies = {name: FramePolicy.model_validate(policy) for name, policy in metadata["frame_policies"].items()}
    folder, version = str(store.folder.absolute()), store.manifest.version
    return Dataset(
        **{name: metadata[name] for name in ("name", "title", "licence", "citation", "homepage")},
        classes={name: tuple(labels) for name, labels in metadata["classes"].items()},
        tasks=store_tasks(store),
        frame_policies={name: _pseudonymized_policy(policy, patient_key) for name, policy in frame_policies.items()},
        split=SplitPolicy.model_validate(metadata["split"]),
        entries=functools.partial(_entries, len(store)),
        load=functools.partial(_load, folder, version, key, columns),
        options=StoreOptions,
        needs_source=False,
    )


def _pseudonymized_policy(policy: FramePolicy, key: PatientKey) -> FramePolicy:
    """Replace the record ids in a frame policy by pseudonyms."""
    return policy.model_copy(
        update={"excluded_leads": tuple((key.record(name), lead) for name, lead in policy.excluded_leads)}
    )


def _entries(count: int, source: Source, options: StoreOptions) -> Iterator[Entry]:
    return (Entry(str(number)) for number in range(count))


def _load(
    folder: str,
    version: int,
    key: Path,
    columns: frozenset[str],
    source: Source,
    entry: Entry,
    options: StoreOptions,
) -> Recording:
    store = _open_cached(folder, version)
    shard, row = store.locate(int(entry.file))
    recording = store.shard(shard).recording(row)
    recording = replace(recording, extra={name: text for name, text in recording.extra.items() if name in columns})
    name, patient = recording.record_id, recording.patient_id
    return deidentify_recording(recording, read_key(key), name=name, patient=patient, keep=options.keep)


@functools.lru_cache(maxsize=1)
def _open_cached(folder: str, version: int) -> Store:
    return open_store(folder, version)


def _count_removed(store: Store, keep: tuple[str, ...], columns: frozenset[str]) -> dict[str, int]:
    """Count the recordings with each removed field."""
    counts: Counter[str] = Counter()
    for row in _rows(store):
        counts["ids of patient and record, file name and hash, replaced"] += 1
        counts[f"ages over {POOLED_AGE:g}, pooled"] += (row["age"] or 0) > POOLED_AGE
        counts["times of recordings, shifted"] += row["acquired"] is not None
        for field in ("site", "labels", "notes"):
            counts[f"{field}, left out"] += bool(row[field]) and field not in keep
    for name in store.extra_types:
        if name not in columns:
            counts[f"column {name}, left out"] += sum(value is not None for value in _values(store, name))
    return dict(+counts)


def _rows(store: Store) -> Iterator[dict[str, Any]]:
    columns = ["age", "acquired", "site", "labels", "notes"]
    for number in range(len(store.shards)):
        yield from store.shard(number).columns(columns).to_pylist()
