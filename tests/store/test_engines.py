"""Every engine writes the same bytes."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from clocs.core.engine import Engine
from clocs.core.hashes import file_hash
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets import DATASETS, Dataset, Entry
from clocs.datasets.dataset import Options
from clocs.store.ingest import ingest

TASKS, RECORDS_PER_TASK = 4, 16


def fingerprint(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): file_hash(path) for path in files}


def some(source: Source, options: Options) -> Iterator[Entry]:
    """List the first recordings of CinC 2017."""
    return itertools.islice(DATASETS.get("physionet2017").entries(source, options), TASKS * RECORDS_PER_TASK)


def load_or_die(killed: Path, source: Source, entry: Entry, options: Options) -> Recording:
    """Read a recording. The first process within a task kills itself and leaves a file."""
    if entry.file.endswith("A00020.hea") and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return DATASETS.get("physionet2017").load(source, entry, options)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return replace(DATASETS.get("physionet2017"), entries=some, records_per_shard=RECORDS_PER_TASK)


@pytest.fixture(scope="module")
def expected(dataset: Dataset, real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the fingerprint of an ingest in this process."""
    folder = tmp_path_factory.mktemp("serial")
    store = ingest(dataset, real_data / "cinc2017.zip", folder)
    assert store.manifest.records_in == TASKS * RECORDS_PER_TASK
    return fingerprint(folder)


@pytest.fixture(scope="module")
def _ray() -> Iterator[None]:
    import ray

    yield
    ray.shutdown()


@pytest.mark.parametrize("engine", ["ray", pytest.param("processes", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("_ray")
def test_same_bytes_on_two_workers(
    engine: Engine, dataset: Dataset, expected: dict[str, str], real_data: Path, tmp_path: Path
) -> None:
    ingest(dataset, real_data / "cinc2017.zip", tmp_path / "store", engine=engine, workers=2)
    assert fingerprint(tmp_path / "store") == expected


@pytest.mark.parametrize("engine", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
@pytest.mark.usefixtures("_ray")
def test_a_worker_killed_midway_is_replaced(
    engine: Engine, dataset: Dataset, expected: dict[str, str], real_data: Path, tmp_path: Path
) -> None:
    """The worker is killed by SIGKILL during a task."""
    store, killed = tmp_path / "store", tmp_path / "killed"
    ingest(
        replace(dataset, load=partial(load_or_die, killed)), real_data / "cinc2017.zip", store, engine=engine, workers=2
    )
    assert killed.exists()
    assert fingerprint(store) == expected
