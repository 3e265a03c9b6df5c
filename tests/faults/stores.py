"""Small growing stores of real recordings, and comparison of stores."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from clocs.datasets import DATASETS, Dataset
from clocs.store.ingest import ingest
from clocs.store.known_files import FILE as KNOWN_FILES
from clocs.store.store import Store, open_store
from clocs.store.verify import verify

RECORDS_PER_SHARD = 3
FIRST, MORE = 4, 4
"""Number of recordings of version 1, and of those added in two separate tasks."""


def small_dataset(name: str = "folder", records: int = RECORDS_PER_SHARD) -> Dataset:
    """Return a dataset with small shards, so that a few recordings give several tasks."""
    return replace(DATASETS.get(name), records_per_shard=records)


def small_ingest(source: Path, folder: Path) -> Store:
    return ingest(small_dataset(), source, folder)


def unpack(archive: Path, prefix: str, folder: Path, *, skip: int = 0, records: int | None = None) -> None:
    """Unpack the first WFDB records of a zip by name."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as opened:
        headers = sorted(name for name in opened.namelist() if name.startswith(prefix) and name.endswith(".hea"))
        for header in headers[skip : None if records is None else skip + records]:
            for ending in (".hea", ".mat", ".dat"):
                name = header.removesuffix(".hea") + ending
                if name in opened.NameToInfo:
                    (folder / Path(name).name).write_bytes(opened.read(name))


def grown_source(originals: Path, folder: Path) -> tuple[Path, Path]:
    """Return two folders of real CinC 2017 files. The second has additional files, and both have a truncated one."""
    prefix = "cinc2017/training2017/"
    small, large = folder / "small", folder / "large"
    for place in (small, large):
        unpack(originals, prefix, place, records=FIRST)
    unpack(originals, prefix, large, skip=FIRST, records=MORE)
    for place, number in ((small, 1), (large, 1), (large, FIRST + 1)):
        file = sorted(place.glob("*.mat"))[number]
        file.write_bytes(file.read_bytes()[:-1001])
    return small, large


def slice_zip(archive: Path, target: Path, records: int) -> Path:
    """Write a zip with the first records and all tables of a larger one."""
    with zipfile.ZipFile(archive) as opened, zipfile.ZipFile(target, "w") as out:
        names = opened.namelist()
        stems = sorted(name.removesuffix(".hea") for name in names if name.endswith(".hea"))[:records]
        kept = set(stems)
        for name in names:
            if name.rpartition(".")[0] in kept or not name.endswith((".hea", ".dat", ".mat")):
                out.writestr(name, opened.read(name))
    return target


def fingerprint(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file of a store by name, except the lock and the times of known files."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock" and not path.name.startswith(Path(KNOWN_FILES).stem)
    }


def partials(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.partial"))


def check_readable(folder: Path, version: int, recordings: int) -> None:
    """Assert that an earlier version is complete: every byte and every recording."""
    assert verify(folder) == []
    store = open_store(folder, version)
    assert len([recording.num_samples for recording in store]) == recordings


@contextmanager
def scratch_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for large files, below ``CLOCS_SCRATCH`` if it is set."""
    place = os.environ.get("CLOCS_SCRATCH")
    if not place:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=place, prefix="faults-") as folder:
        yield Path(folder)
