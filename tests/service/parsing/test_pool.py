"""The pool of parsing processes: results, and replacement after crashes, timeouts and many uploads."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clocs.core.errors import FormatError, SignalError
from clocs.formats import FORMATS
from clocs.service.parsing import confinement
from clocs.service.parsing import pool as pool_module
from clocs.service.parsing.confinement_check import check_confinement
from clocs.service.parsing.pool import ParsingPool
from clocs.service.parsing.reading import first_seconds, read_upload
from clocs.service.problems import ProblemError
from clocs.service.settings import Limits
from clocs.service.uploads import Upload
from tests.conftest import ROOT
from tests.faults.mutating import KINDS
from tests.faults.mutating import pool as file_pool
from tests.service.parsing.launching import NICENESS, lower_priority
from tests.service.parsing.test_reading import zipped
from tests.service.samples import SAMPLES, sample, sample_upload
from tests.service.uploading import upload_of

usual_confinement = functools.cache(check_confinement)
Outcomes = list[str]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine another process may take long to start."""
    monkeypatch.setattr(pool_module, "ACQUIRE_SECONDS", 180.0)


@asynccontextmanager
async def opened(**limits: Any) -> AsyncIterator[tuple[ParsingPool, Outcomes]]:
    outcomes: Outcomes = []
    chosen = Limits.model_validate({"parsing_processes": 1, "parse_seconds": 60, **limits})
    pool = ParsingPool(chosen, usual_confinement(), lambda outcome, place: outcomes.append(outcome))
    await pool.open()
    try:
        yield pool, outcomes
    finally:
        pids = pool.pids
        await pool.close()
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 200))


def test_the_pool_parses_uploads(real_data: Path) -> None:
    """Eight real files, whole, begun and drawn, one after another in one process; refusals in between."""

    async def scenario() -> None:
        async with opened() as (pool, outcomes):
            (pid,) = pool.pids
            held = {os.readlink(file).partition(":")[0] for file in Path(f"/proc/{pid}/fd").iterdir()}
            assert held == {"/dev/null", "pipe"}
            for name in SAMPLES:
                wanted = read_upload(sample(real_data, name))
                found = await pool.recording(sample_upload(real_data, name))
                assert np.array_equal(found.digital, wanted.digital)
                assert (found.leads, found.sampling_rate, found.provenance) == (
                    wanted.leads,
                    wanted.sampling_rate,
                    wanted.provenance,
                )
                with pytest.raises(FormatError, match="not a format clocs knows"):
                    await pool.recording(upload_of({"x.csv": b"nothing"}))
            begun = await pool.beginning(sample_upload(real_data, "scp"))
            assert (begun.seconds, begun.recording.num_samples) == (10.0, 5000)
            png = await pool.drawing(sample_upload(real_data, "scp"), "png", 5.0)
            pdf = await pool.drawing(sample_upload(real_data, "scp"), "pdf", 5.0)
            assert png.startswith(b"\x89PNG")
            assert pdf.startswith(b"%PDF")
            assert outcomes.count("ok") == len(SAMPLES) + 3
            assert pool.pids == [pid]
            mapped = Path(f"/proc/{pid}/maps").read_text()
            assert "numpy" in mapped
            assert "torch" not in mapped

    run(scenario())


def test_limits_are_as_documented() -> None:
    page = " ".join((ROOT / "docs" / "reference" / "service.md").read_text().split())
    assert f"Memory ({Limits().parse_memory_bytes >> 20} MiB above what they start with)" in page
    assert f"so is each after {Limits().files_per_process:,} files" in page
    assert f"parsing is nicer than the service by {confinement.NICENESS}, up to 19" in page


def test_a_recording_over_the_limit_is_refused_but_shown(real_data: Path) -> None:
    async def scenario() -> None:
        async with opened(longest_seconds=9, shown_seconds=2) as (pool, _):
            with pytest.raises(SignalError, match="accepts up to 9 s"):
                await pool.recording(sample_upload(real_data, "scp"))
            begun = await pool.beginning(sample_upload(real_data, "scp"))
            assert (begun.seconds, begun.recording.seconds) == (10.0, 2.0)

    run(scenario())


class Watched(io.BytesIO):
    """The content of an upload; reports when a process was asked to parse it."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.asked = asyncio.Event()

    def read(self, size: int | None = -1) -> bytes:
        self.asked.set()
        return super().read(size)


async def refused(pool: ParsingPool, upload: Upload, *signals: int) -> int:
    """The status of a request whose process is stopped and, once it was asked, sent these signals."""
    (pid,) = pool.pids
    os.kill(pid, signal.SIGSTOP)
    content = Watched(upload.content.read())
    task = asyncio.create_task(pool.recording(replace(upload, content=content)))
    await content.asked.wait()
    for number in signals:
        with contextlib.suppress(ProcessLookupError):  # the first signal may have ended it already
            os.kill(pid, number)
    with pytest.raises(ProblemError) as refusal:
        await task
    return refusal.value.status


def test_a_crashed_process_is_replaced(real_data: Path) -> None:
    async def scenario() -> None:
        async with opened() as (pool, outcomes):
            seen = set(pool.pids)
            for number, status in ((signal.SIGKILL, 422), (signal.SIGXCPU, 504)):
                assert await refused(pool, sample_upload(real_data, "cpsc"), number, signal.SIGCONT) == status
                assert (await pool.recording(sample_upload(real_data, "cpsc"))).num_samples == 5000
                seen |= set(pool.pids)
            assert len(seen) == 3
            assert outcomes == ["crashed", "ok", "timeout", "ok"]

    run(scenario())


def test_a_hanging_process_is_replaced(real_data: Path) -> None:
    async def scenario() -> None:
        async with opened(parse_seconds=0.1) as (pool, outcomes):
            (hanging,) = pool.pids
            assert await refused(pool, sample_upload(real_data, "cpsc")) == 504  # never wakes up
            process = await pool._acquire()
            assert process.pid != hanging
            assert outcomes == ["timeout"]

    run(scenario())


def test_it_ignores_the_signals_that_stop_the_service(real_data: Path) -> None:
    """Ctrl-C and systemd signal whole groups; accepted requests must still be parsed."""

    async def scenario() -> None:
        async with opened() as (pool, _):
            (pid,) = pool.pids
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(pid, number)
            assert (await pool.recording(sample_upload(real_data, "cpsc"))).num_samples == 5000
            assert pool.pids == [pid]

    run(scenario())


def test_memory_is_bounded_and_age_too(real_data: Path) -> None:
    """A zip of 60 kB that would become 60 MB of numbers, and many uploads."""

    async def scenario() -> None:
        bomb = upload_of({"x.zip": zipped({"a.csv": b"0,0,0,0,0,0,0,0,0,0,0,0\n" * 2_500_000})})
        assert bomb.size < 1 << 20
        limits = {"parse_memory_bytes": 64 << 20, "files_per_process": 3}
        async with opened(**limits) as (pool, outcomes):
            before = pool.pids
            with pytest.raises(FormatError, match="more memory"):
                await pool.recording(bomb)
            for _ in range(4):
                assert (await pool.recording(sample_upload(real_data, "cpsc"))).num_samples == 5000
            assert outcomes == ["memory", "ok", "ok", "ok", "ok"]
            assert pool.pids != before

    run(scenario())


def test_it_ends_with_its_service() -> None:
    """A service that is killed takes its processes with it: they see the end of their input."""

    async def scenario() -> None:
        async with opened() as (pool, _):
            (process,) = pool._all
            process._requests.close()
            assert await process._process.wait() == 0

    run(scenario())


def test_every_kind_of_file_is_parsed(real_data: Path) -> None:
    """An undamaged file of each kind, in one confined process, gives what an unconfined one gives."""

    async def scenario() -> None:
        async with opened() as (pool, _):
            formats = set()
            for kind in {name for about in KINDS.values() for name in about.pools}:
                files = file_pool(real_data, kind)[0]
                wanted = first_seconds(read_upload(files), 60)
                found = (await pool.beginning(upload_of(files))).recording
                assert np.array_equal(found.digital, wanted.digital), kind
                assert found.provenance == wanted.provenance
                formats.add(found.provenance.format)
            assert formats == {each.name for each in FORMATS}

    run(scenario())


NICED = """
import asyncio, os
from clocs.service.parsing.pool import ParsingPool
from clocs.service.parsing.confinement_check import check_confinement
from clocs.service.settings import Limits
from tests.service.uploading import upload_of

async def main():
    pool = ParsingPool(Limits(parsing_processes=1), check_confinement())
    await pool.open()
    with open("src/clocs/service/viewer/example.csv", "rb") as file:
        found = await pool.recording(upload_of({"ecg.csv": file.read()}))
    (pid,) = pool.pids
    print(found.num_samples, os.getpriority(os.PRIO_PROCESS, 0), os.getpriority(os.PRIO_PROCESS, pid))
    await pool.close()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="niceness is raised on Linux only")
def test_it_starts_where_priority_was_lowered() -> None:
    """An unprivileged user cannot raise the priority again. ``tests/cli/test_serve.py`` starts a whole service so."""
    done = subprocess.run(
        [sys.executable, "-c", NICED], cwd=ROOT, preexec_fn=lower_priority, capture_output=True, text=True, check=False
    )
    own = max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0))
    assert done.stdout.split() == ["5000", str(own), "19"], done.stderr
