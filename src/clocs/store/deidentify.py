"""A store in which nobody is named, made of an archive or of another store, and a count of what was taken out."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from clocs.core.errors import ConfigError, FormatError
from clocs.core.files import is_inside
from clocs.core.pseudonyms import PatientKey, read_key
from clocs.core.recording import Recording
from clocs.core.sources import Source, open_source
from clocs.datasets import Dataset, Entry
from clocs.datasets.dataset import Options, SplitPolicy
from clocs.datasets.redaction import POOLED_AGE, KeepField, deidentify_recording
from clocs.formats.reading import detect_format, read_identity_from
from clocs.signals.framing import FramePolicy
from clocs.signals.quality import GATE_OFF
from clocs.store.ingest import ingest
from clocs.store.manifest import versions
from clocs.store.store import Store, open_store
from clocs.store.task_records import Progress


@dataclass(frozen=True)
class DeidentificationResult:
    """A new store, and what does not stand in it."""

    store: Store
    removed: dict[str, int]
    """By identity field: of an archive the files that hold it, of a store the recordings that had it."""


class StoreOptions(Options):
    """Names what a store was made from; no path is kept."""

    store: str
    """Its hash."""
    key: str
    """The key's fingerprint."""
    keep: tuple[KeepField, ...]

    @property
    def pseudonymous(self) -> bool:
        """Always."""
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
    """Make a de-identified store of an archive or a store.

    Of a store, what was quarantined and its splits stay behind; of an archive, whatever ``ingest`` refuses is refused.
    """
    kept = tuple(sorted(keep))
    place, secret = Path(source), Path(key)
    if is_inside(secret, Path(folder)) or is_inside(secret, place):
        raise ConfigError(f"{key} lies beside the recordings it is to protect; keep the key elsewhere")
    if not versions(place):
        options = {"key": secret, "keep": kept}
        made = ingest("folder", place, folder, options=options, workers=workers, progress=progress)
        return DeidentificationResult(made, dict(identities(open_source(place)) + _pooled(made)))
    if is_inside(Path(folder), place) or is_inside(place, Path(folder)):
        raise ConfigError(f"{folder} and {place} lie in one another; a store is never changed in place")
    original = open_store(place)
    given = {"store": original.sha256, "key": read_key(secret).fingerprint, "keep": kept}
    copied = _as_dataset(original, secret)
    made = ingest(copied, None, folder, gate=GATE_OFF, options=given, workers=workers, progress=progress)
    return DeidentificationResult(made, _taken_out(original, kept))


def parse_keep(names: Iterable[str]) -> tuple[KeepField, ...]:
    """Names of fields to keep; others than there are, are refused."""
    given = [part for name in names for part in name.split(",") if part]
    unknown = sorted(set(given) - set(get_args(KeepField)))
    if unknown:
        raise ConfigError(f"{', '.join(unknown)} cannot be kept; what files say can: {', '.join(get_args(KeepField))}")
    return tuple(kept for kept in get_args(KeepField) if kept in given)


def identities(source: Source) -> Counter[str]:
    """How many files of an archive hold each identity field; files that cannot be read are passed over."""
    found: Counter[str] = Counter()
    for name in source.names():
        try:
            if name.endswith(".hea") or detect_format(source, name) is not None:
                found.update(read_identity_from(source, name).keys())
        except FormatError:
            continue
    return found


def _pooled(store: Store) -> Counter[str]:
    ages = store.table(["age"]).column(0).to_pylist()
    return +Counter({f"ages given as {POOLED_AGE:g}, which stands for it and more": ages.count(POOLED_AGE)})


def _as_dataset(store: Store, key: Path) -> Dataset:
    """The recordings of a store as a dataset to be ingested, with the policies they came with."""
    about, secret = store.manifest.dataset, read_key(key)
    frames = {purpose: FramePolicy.model_validate(policy) for purpose, policy in about["frames"].items()}
    place, version = str(store.folder.absolute()), store.manifest.version
    return Dataset(
        **{name: about[name] for name in ("name", "title", "licence", "citation", "homepage")},
        classes={name: tuple(labels) for name, labels in about["classes"].items()},
        frames={purpose: _under_pseudonyms(policy, secret) for purpose, policy in frames.items()},
        split=SplitPolicy.model_validate(about["split"]),
        entries=functools.partial(_entries, len(store)),
        load=functools.partial(_load, place, version, key),
        options=StoreOptions,
        needs_source=False,
    )


def _under_pseudonyms(policy: FramePolicy, key: PatientKey) -> FramePolicy:
    """Recordings of which a lead is left out are named in the policy."""
    return policy.model_copy(
        update={"excluded_leads": tuple((key.record(name), lead) for name, lead in policy.excluded_leads)}
    )


def _entries(count: int, source: Source, options: StoreOptions) -> Iterator[Entry]:
    return (Entry(str(number)) for number in range(count))


def _load(place: str, version: int, key: Path, source: Source, entry: Entry, options: StoreOptions) -> Recording:
    store = _opened(place, version)
    shard, row = store.locate(int(entry.file))
    recording = store.shard(shard).recording(row)
    name, patient = recording.record_id, recording.patient_id
    return deidentify_recording(recording, read_key(key), name=name, patient=patient, keep=options.keep)


@functools.lru_cache(maxsize=1)
def _opened(place: str, version: int) -> Store:
    return open_store(place, version)


def _taken_out(store: Store, keep: tuple[str, ...]) -> dict[str, int]:
    """Of how many recordings, by what is in the columns."""
    found: Counter[str] = Counter()
    for row in _rows(store):
        found["ids of patient and record, file name and hash, replaced"] += 1
        found[f"ages over {POOLED_AGE:g}, pooled"] += (row["age"] or 0) > POOLED_AGE
        for field in ("site", "labels", "notes"):
            found[f"{field}, left out"] += bool(row[field]) and field not in keep
    return dict(+found)


def _rows(store: Store) -> Iterator[dict[str, Any]]:
    columns = ["age", "site", "labels", "notes"]
    for number in range(len(store.manifest.shards)):
        yield from store.shard(number).columns(columns).to_pylist()
