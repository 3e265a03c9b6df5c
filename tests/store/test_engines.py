"""Whichever engine runs an ingest, the same bytes come out."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from clocs.core.engine import Engine
from clocs.core.files import file_hash
from clocs.core.sources import Source
from clocs.datasets import DATASETS, Dataset, Entry
from clocs.datasets.dataset import Options
from clocs.store.ingest import ingest


def fingerprint(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): file_hash(path) for path in files}


def some(source: Source, options: Options) -> Iterator[Entry]:
    """The first recordings of CinC 2017's archive: six tasks of its seventeen."""
    whole = DATASETS.get("physionet2017")
    return itertools.islice(whole.entries(source, options), 6 * whole.records_per_shard)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return replace(DATASETS.get("physionet2017"), entries=some)


@pytest.fixture(scope="module")
def expected(dataset: Dataset, real_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """In process."""
    folder = tmp_path_factory.mktemp("serial")
    store = ingest(dataset, real_data / "cinc2017.zip", folder)
    assert store.manifest.records_in == 6 * dataset.records_per_shard
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
    """kill -9 of a real worker while it works on a task."""
    store, killed = tmp_path / "store", threading.Event()

    def kill_one() -> None:
        until = time.monotonic() + 60
        while not killed.is_set() and time.monotonic() < until:
            started = any((store / "shards").glob("*.arrow")) if (store / "shards").exists() else False
            for child in psutil.Process().children(recursive=True) if started else []:
                try:
                    words = " ".join(child.cmdline())
                    works = "loky" in words if engine == "processes" else words.startswith("ray::run_task")
                    if works and "resource_tracker" not in words and child.cpu_times().user > 0.2:
                        os.kill(child.pid, signal.SIGKILL)
                        killed.set()
                        return
                except psutil.Error:
                    continue
            time.sleep(0.02)

    killer = threading.Thread(target=kill_one)
    killer.start()
    ingest(dataset, real_data / "cinc2017.zip", store, engine=engine, workers=2)
    ended = killed.is_set()
    killed.set()
    killer.join()
    assert ended, "no worker was found to kill"
    assert fingerprint(store) == expected
