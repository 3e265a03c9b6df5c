"""Recordings of a folder or a store in chunks that worker processes read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from clocs.core.errors import ClocsError, ConfigError, MissingExtraError
from clocs.core.hashes import content_hash
from clocs.core.privacy.pseudonyms import read_key
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.core.storage.locations import to_location
from clocs.datasets import DATASETS, Entry
from clocs.datasets.dataset import Options
from clocs.datasets.redaction import deidentify_recording
from clocs.formats.reading import missing_companions
from clocs.store.manifest import versions
from clocs.store.store import Store

RECORDS_PER_CHUNK: Final = 32
"""Maximum number of recordings of a chunk. A killed command classifies at most these again in each worker."""


@dataclass(frozen=True)
class NamedRecording:
    """A recording with its name in the table, or the reason why it cannot be read."""

    name: str
    """Relative path, record id or pseudonym."""
    recording: Recording | None
    """The recording; None if it cannot be read."""
    reason: str = ""
    """Why it cannot be read."""


@dataclass(frozen=True)
class FolderChunk:
    """Some files of a folder or zip archive."""

    source: str
    options: Options
    """Options of the dataset ``folder``. With a key, recordings get pseudonyms."""
    entries: tuple[Entry, ...]
    digest: str
    """Hash of names, sizes and times of the files, keyed if there is a key."""

    def __len__(self) -> int:
        return len(self.entries)

    def read(self) -> Iterator[NamedRecording]:
        """Read the recordings in order."""
        dataset, source = DATASETS.get("folder"), open_source(self.source)
        for entry in self.entries:
            name = dataset.redact(entry, self.options).file
            try:
                yield NamedRecording(name, dataset.load(source, entry, self.options))
            except (OSError, MemoryError, ConfigError, MissingExtraError):
                raise  # not an error of the file
            except ClocsError as error:
                yield NamedRecording(name, None, error.message)
            except Exception as error:  # a defect of a reader must not end the command
                yield NamedRecording(name, None, f"unexpected {type(error).__name__}")


@dataclass(frozen=True)
class StoreChunk:
    """A range of recordings of a store."""

    store: Store
    first: int
    last: int
    """End of the range, excluded."""
    key: Path | None
    """Key of pseudonyms for a store that has none."""
    digest: str
    """Hash of the store's content and the range."""

    def __len__(self) -> int:
        return self.last - self.first

    def read(self) -> Iterator[NamedRecording]:
        """Read the recordings in order."""
        for number in range(self.first, self.last):
            recording = self.store.recording(number)
            if self.key is not None:
                names = {"name": recording.record_id, "patient": recording.patient_id}
                recording = deidentify_recording(recording, read_key(self.key), **names)
            yield NamedRecording(recording.record_id, recording)


Chunk = FolderChunk | StoreChunk
"""Some recordings that one task reads."""


def read_chunks(source: Path, key: Path | None) -> Iterator[Chunk]:
    """Divide the recordings of a source into chunks.

    Args:
        source: A store, or a folder or zip archive of ECG files.
        key: Key file. With it, recordings are named by their pseudonyms.

    Yields:
        Chunks in a fixed order.

    Raises:
        ConfigError: The source has no recordings, or the key is not that of the store.
    """
    return _store_chunks(Store(source), key) if versions(source) else _folder_chunks(source, key)


def _folder_chunks(folder: Path, key: Path | None) -> Iterator[FolderChunk]:
    source, dataset = open_source(folder), DATASETS.get("folder")
    options = dataset.parse_options({"key": key})
    entries = dataset.entries(source, options)
    path = str(to_location(folder).absolute())
    num_chunks = 0
    while chunk := tuple(islice(entries, RECORDS_PER_CHUNK)):
        files = [(entry.file, source.stamp(entry.file), missing_companions(source, entry.file)) for entry in chunk]
        yield FolderChunk(path, options, chunk, options.digest(files))
        num_chunks += 1
    if not num_chunks:
        raise ConfigError(f"{folder} has no ECG file and is not a store. Pass another folder.")


def _store_chunks(store: Store, key: Path | None) -> Iterator[StoreChunk]:
    own_key = store.manifest.options.get("key")
    if key is not None and own_key and own_key != read_key(key).fingerprint:
        raise ConfigError(f"{store.folder} has pseudonyms of another key. Pass that key, or none.")
    used = None if own_key else key  # the ids of a store with a key are pseudonyms already
    names = [store.sha256, read_key(used).fingerprint if used else ""]
    for first in range(0, len(store), RECORDS_PER_CHUNK):
        last = min(first + RECORDS_PER_CHUNK, len(store))
        yield StoreChunk(store, first, last, used, content_hash([*names, first, last]))
