"""``kill -9`` of the driver and workers of a grid: every cell runs once, with the results of an undisturbed run."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

import clocs
from clocs.core.hashes import canonical_json, file_hash
from clocs.experiments.workspace import CellTable, Workspace
from reproduction.run_cell import REPLICATES_TABLE
from tests.conftest import ROOT
from tests.faults.gridding import idle, tiny
from tests.faults.test_kills import session, wait_for_orphans

WORKERS = {"processes": "LokyProcess", "ray": "ray::run_task"}
"""Text in the command line of a busy worker."""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid") / "stores"
    clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options={"num_records": 60, "leads": 1}))
    return folder


class Commits:
    """Rows of a table, of any writer."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> Counter[str]:
        """Return the number of rows per cell."""
        lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        return Counter(json.loads(line)["name"] for line in lines)

    def count(self) -> int:
        """Return the number of rows."""
        return self.path.read_bytes().count(b"\n") if self.path.exists() else 0


@dataclass
class Grid:
    """A grid of tiny cells in its own folder, run by the real command in separate processes."""

    folder: Path
    stores: Path
    count: int
    engine: str
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.workspace = Workspace(self.stores, self.folder / "runs", self.folder / "results")
        self.commits = Commits(self.workspace.table.path)

    def start(self) -> subprocess.Popen[bytes]:
        where = ["--stores", self.stores, "--runs", self.workspace.runs, "--results", self.workspace.results]
        how = ["--engine", self.engine, "--workers", 2, "--json"]
        words = [sys.executable, "-m", "tests.faults.gridding", self.count, "run", "tiny", *where, *how]
        with open(self.folder / "log", "ab") as log:
            driver = subprocess.Popen(
                [str(word) for word in words],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                start_new_session=True,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.started.append(driver)
        return driver

    def disturbed(self, driver_kills: int, worker_kills: int, choice: random.Random) -> tuple[bytes, Counter[str]]:
        """Run the grid to its end and kill processes at times, each shortly after a number of cells is done."""
        moments = dict.fromkeys(choice.sample(range(1, self.count), driver_kills), "driver")
        free = sorted(set(range(1, self.count)) - moments.keys())
        moments |= dict.fromkeys(choice.sample(free, worker_kills), "worker")
        hits: Counter[str] = Counter()
        driver = self.start()
        for number, target in sorted(moments.items()):
            while self.commits.count() < number and (driver := self.going(driver)).returncode is None:
                time.sleep(0.005)
            time.sleep(choice.uniform(0, 0.3))
            if target == "worker":
                hits["worker"] += self.kill_worker(driver, choice)
            elif driver.poll() is None:
                driver.kill()
                driver.communicate()
                hits["driver"] += 1
                driver = self.start()
        while (driver := self.going(driver)).returncode is None:
            time.sleep(0.05)
        return driver.communicate()[0], hits

    def going(self, driver: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        """Return the driver, or a new one if Ray does not start on a busy machine."""
        if not driver.poll():
            return driver
        assert "Ray did not start" in self.log(), self.log()
        assert len(self.started) < 100
        driver.communicate()
        return self.start()

    def kill_worker(self, driver: subprocess.Popen[bytes], choice: random.Random) -> bool:
        """Return False if the run ended before a busy worker was found."""
        while driver.poll() is None:
            working = [other for other in session(driver) if _has_text(other, WORKERS[self.engine])]
            if working:
                choice.choice(working).kill()
                return True
            time.sleep(0.01)
        return False

    def calm(self) -> tuple[bytes, list[float]]:
        """Run undisturbed. Return the memory of the driver in MB by number of finished cells."""
        driver, memory = self.start(), [0.0] * (self.count + 1)
        with_memory = psutil.Process(driver.pid)
        while driver.poll() is None:
            try:
                memory[self.commits.count()] = with_memory.memory_info().rss / 2**20
            except psutil.NoSuchProcess:
                break
            time.sleep(0.02)
        output, _ = driver.communicate()
        assert driver.returncode == 0, self.log()
        return output, memory

    def log(self) -> str:
        """Return the last output of the drivers."""
        return (self.folder / "log").read_text()[-2000:]

    def table(self) -> bytes:
        """Return all results sorted by name, without measured times."""
        cells = dict(self.workspace.table.rows())
        for cell in cells.values():
            assert cell.pop("seconds") >= 0
        replicates = dict(CellTable(self.workspace.results / REPLICATES_TABLE).rows())
        encoders = sorted((self.workspace.runs / "encoders").rglob("*.safetensors"))
        return canonical_json([cells, replicates, {path.parent.name: file_hash(path) for path in encoders}])

    def check(self, output: bytes, expected: Grid) -> None:
        """Assert that every cell ran once with identical results, and that no process is left."""
        wanted = {self.workspace.name(cell) for cell in _all_cells(self.count)}
        assert self.commits.names() == Counter(dict.fromkeys(wanted, 1))
        assert self.table() == expected.table()
        for driver in self.started:
            wait_for_orphans(driver)
        found = json.loads(output)["experiments"]["tiny"]
        assert (found["cells"], found["done"], found["to_do"], found["core_hours"]) == (self.count, self.count, 0, 0)


def _has_text(process: psutil.Process, words: str) -> bool:
    try:
        return words in " ".join(process.cmdline())
    except psutil.Error:
        return False


def _all_cells(count: int) -> list[Any]:
    found = {}
    for cell in tiny(count):
        for part in (getattr(cell, "start", None), cell):
            if part is not None:
                found[part.model_dump_json()] = part
    assert len(found) == count
    return list(found.values())


@pytest.fixture(scope="module")
def calm(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """Return a small undisturbed grid."""
    grid = Grid(tmp_path_factory.mktemp("calm"), stores, 5, "serial")
    grid.calm()
    return grid


@pytest.mark.slow
def test_killed_driver_and_worker(calm: Grid, stores: Path, tmp_path: Path) -> None:
    """Repeat if the grid ends before the second kill, because a busy machine may delay this process."""
    for attempt in itertools.count():
        grid = Grid(tmp_path / str(attempt), stores, calm.count, "processes")
        output, hits = grid.disturbed(1, 1, random.Random(2))
        grid.check(output, calm)
        if hits == {"driver": 1, "worker": 1}:
            break


@pytest.mark.slow
def test_killed_ray_worker(calm: Grid, stores: Path, tmp_path: Path) -> None:
    grid = Grid(tmp_path, stores, calm.count, "ray")
    output, hits = grid.disturbed(0, 1, random.Random(4))
    assert hits["worker"] == 1
    grid.check(output, calm)


@pytest.mark.slow
def test_two_drivers_do_not_repeat_cells(calm: Grid, stores: Path, tmp_path: Path) -> None:
    grid = Grid(tmp_path, stores, calm.count, "processes")
    outputs = [driver.communicate()[0] for driver in [grid.start(), grid.start()]]
    assert [driver.returncode for driver in grid.started] == [0, 0], grid.log()
    for output in outputs:
        grid.check(output, calm)


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_500_cells(stores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kill a driver on Ray 20 times and a worker 10 times, and compare with an undisturbed local run."""
    calm = Grid(tmp_path / "calm", stores, 500, "processes")
    _, memory = calm.calm()
    early, late = (max(memory[first:last]) for first, last in ((50, 60), (490, 501)))
    with capsys.disabled():
        print(f"\ndriver's memory: {early:.1f} MB at cell 50, {late:.1f} MB at cell 500")
    assert 0 < late < 1.1 * early
    grid = Grid(tmp_path / "disturbed", stores, 500, "ray")
    began = time.monotonic()
    output, hits = grid.disturbed(20, 10, random.Random(5))
    spent = time.monotonic() - began
    grid.check(output, calm)
    assert hits == {"driver": 20, "worker": 10}
    with capsys.disabled():
        print(f"500 of 500 cells once, table byte-identical after {dict(hits)} kills, {spent:.0f} s")
        print(f"{len(grid.started)} drivers were started")


def check_overhead(found: dict[str, Any], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    early, late = found["memory"]
    assert found["per_cell"] < 0.05
    assert late < 1.1 * early
    with capsys.disabled():
        print(f"\n{what}: {1000 * found['per_cell']:.1f} ms a cell after the first, that came after", end=" ")
        print(f"{found['first']:.1f} s; memory {early:.1f} MB at a tenth of the cells, {late:.1f} MB at the end")


def test_overhead_of_the_grid(stores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty cells through ``run_grid`` take under 50 ms each, with constant memory."""
    check_overhead(idle(500, "serial", stores.parent), "serial, 500 cells", capsys)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_overhead_of_engines(engine: str, stores: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [sys.executable, "-m", "tests.faults.gridding", "500", "idle", engine, str(stores.parent)]
    output = subprocess.run(words, cwd=ROOT, check=True, capture_output=True).stdout
    check_overhead(json.loads(output.splitlines()[-1]), f"{engine}, 500 cells", capsys)
