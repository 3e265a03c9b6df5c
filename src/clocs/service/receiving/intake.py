"""Intake of received ECGs: parsed in confined processes, pseudonymized, and added to the store by batches."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from clocs.core.errors import ClocsError, ConfigError
from clocs.core.privacy.pseudonyms import PatientKey
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets import DATASETS, Entry
from clocs.datasets.redaction import deidentify_recording
from clocs.service.parsing.pool import ParsingPool
from clocs.service.problems import ProblemError
from clocs.service.receiving.spool import Spool, read_parsed
from clocs.service.uploads import Upload
from clocs.store.ingest import ingest
from clocs.store.manifest import versions
from clocs.store.store import Store
from clocs.store.summary import quarantined_rows

TRY_AGAIN = (503, 504)
"""Statuses of the pool that say nothing about the file."""


async def parse_incoming(spool: Spool, pool: ParsingPool, key: PatientKey) -> int:
    """Parse all received files, and return the number of recordings. Files that cannot be parsed are refused."""
    parsed = 0
    for name in spool.names("incoming"):
        content = spool.read(name)
        try:
            found = await pool.identified(Upload(io.BytesIO(content), (("ecg", len(content)),), ""))
        except ProblemError as error:
            if error.status in TRY_AGAIN:
                continue
            spool.refuse(name, error.detail)
        except ClocsError as error:
            spool.refuse(name, error.message)
        else:
            free = deidentify_recording(found, key, name=name, patient=found.patient_id, keep=("notes",))
            spool.finish(name, free if found.patient_id else replace(free, patient_id=""))
            parsed += 1
    return parsed


@dataclass(frozen=True)
class Intake:
    """Numbers of recordings of a batch."""

    stored: int
    quarantined: int


def take_in(spool: Spool, store: Path, key: Path) -> Intake:
    """Add all parsed recordings to a store as one version, and remove them from the spool.

    A killed intake is repeated: recordings that are in the store already are only removed from the spool.

    Args:
        spool: The spool.
        store: Folder of the store, which may be new.
        key: Key file of the pseudonyms.
    """
    names = spool.names("parsed")
    known: set[str] = set()
    if names and versions(store):
        opened = Store(store)
        known = {str(row["record_id"]) for row in quarantined_rows(opened)}
        known |= {name for name in names if _is_stored(opened, name)}
    new = [name for name in names if name not in known]
    before = _counts(store)
    if new:
        dataset = replace(DATASETS.get("folder"), entries=_Entries(tuple(new)), load=_load, incremental=False)
        ingest(dataset, spool.folder / "parsed", store, options={"key": key}, append=True)
    for name in names:
        spool.remove_parsed(name)
    after = _counts(store)
    return Intake(after[0] - before[0], after[1] - before[1])


def _counts(store: Path) -> tuple[int, int]:
    if not versions(store):
        return 0, 0
    opened = Store(store)
    return len(opened), sum(opened.manifest.quarantined.values())


def _is_stored(store: Store, name: str) -> bool:
    try:
        store.index_of(name)
    except ConfigError:
        return False
    return True


@dataclass(frozen=True)
class _Entries:
    """Entries of parsed recordings, as a function of source and options."""

    names: tuple[str, ...]

    def __call__(self, source: Source, options: object) -> Iterator[Entry]:
        return (Entry(file=name, record_id=name) for name in self.names)


def _load(source: Source, entry: Entry, options: object) -> Recording:
    """Read a parsed recording, which has pseudonyms already."""
    recording = read_parsed(Path(source.path) / entry.file)
    return replace(recording, record_id=entry.file, patient_id=recording.patient_id or entry.file)
