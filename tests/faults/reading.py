"""Script: read damaged files and report the outcome. It runs in its own process, so that a crash is detected.

python reading.py DATA PROGRESS HANG_SECONDS KIND FIRST COUNT [KIND FIRST COUNT ...]

Kinds share a process, because its libraries and records are loaded once. A line is printed for each kind.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import ClocsError
from clocs.core.hashes import canonical_json
from clocs.core.recording import Recording
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from clocs.signals.leads import add_derived_leads, drop_derived_leads
from clocs.signals.quality import GatePolicy, assess
from clocs.store.shard import Shard, write_shard
from tests.faults.binary_files import BINARY
from tests.faults.mutating import KINDS, XML, Files, asked, case, enlarged, pool

SECONDS = 2.0
SPARE = 64 << 20
STORED_EVERY = 7
MOST_FAILURES = 20
LARGE = "large "
LARGE_BYTES = 24 << 20


def address_space() -> int:
    """Return the number of bytes of address space of this process, including all libraries."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def allow_processor_time(seconds: int) -> None:
    """Make the kernel end this process with SIGXCPU after more seconds of processor time."""
    limit = int(time.process_time()) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


@contextmanager
def limited(size: int) -> Iterator[None]:
    """Limit the growth of memory to four times the size of a file plus 64 MB."""
    endless = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (address_space() + 4 * size + SPARE, endless))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (endless, endless))


def read_case(files: Files, name: str, folder: Path | None) -> str:
    """Read, assess and derive leads; with a folder also store and read again. Return 'read' or the error name."""
    try:
        recording = read_from(MemorySource(files), name)
        identity = read_identity_from(MemorySource(files), name)
    except ClocsError as error:
        if isinstance(error.__cause__, MemoryError):
            raise MemoryError("refused only after memory ran out") from error
        canonical_json(str(error))  # it will stand in a receipt
        return type(error).__name__
    assert recording.num_samples > 0
    canonical_json([*identity.items()])
    canonical_json([vars(finding) for finding in assess(recording, GatePolicy())])
    recording.physical()
    try:
        add_derived_leads(recording)
    except ClocsError as error:
        canonical_json(str(error))
    if folder is not None:
        _store(recording, folder)
    return "read"


def _store(recording: Recording, folder: Path) -> None:
    info = write_shard(folder / "one.arrow", [drop_derived_leads(recording)])
    back = Shard(folder / info.file, info).recording(0)
    assert np.array_equal(back.digital, recording.digital)
    assert np.array_equal(back.gain, recording.gain)
    assert (back.leads, back.sampling_rate, back.labels) == (recording.leads, recording.sampling_rate, recording.labels)
    assert back.episodes == recording.episodes


def provoked(kind: str) -> str:
    """Provoke a fault, to test that it is detected."""
    if kind == "crash":
        os.abort()
    while kind == "hang":
        pass
    if kind == "greedy":
        with limited(1000):
            return str(np.empty(65 << 20, np.uint8).size)
    if kind == "slow":
        started = time.process_time()
        while time.process_time() - started <= SECONDS:
            pass
        return "read"
    raise ValueError(kind)


def attempt(data: Path, kind: str, number: int, folder: Path) -> tuple[str, float]:
    """Return the outcome of a case and its processor time in seconds, which does not depend on other load."""
    if kind.startswith(LARGE):
        files, name = enlarged(data, kind.removeprefix(LARGE), LARGE_BYTES)
        with limited(sum(map(len, files.values()))):
            recording = read_from(MemorySource(files), name)
        return f"read {recording.num_samples > 1 << 17}", 0.0
    if kind not in KINDS:
        started = time.process_time()
        return provoked(kind), time.process_time() - started
    files, name = case(data, kind, number)
    size = sum(map(len, files.values()))
    started = time.process_time()
    with limited(size):
        outcome = read_case(files, name, folder if number % STORED_EVERY == 0 else None)
    return outcome, time.process_time() - started


def warm_up(data: Path, kind: str, folder: Path) -> None:
    """Load every library and start its threads before memory is measured."""
    if kind not in KINDS and not kind.startswith(LARGE):
        return
    name = kind.removeprefix(LARGE)
    apart = {*XML, *BINARY}
    own = [name] if name in apart else [kind for kind in KINDS if kind not in apart]
    for about in own:
        for name in KINDS[about].pools:
            files = pool(data, name)[0]
            assert read_case(files, asked(files), folder) == "read"


def read_cases(data: Path, kind: str, first: int, count: int, progress: int, hang_seconds: int) -> dict[str, Any]:
    """Read cases of one kind. The number of the current case is written to ``progress``, an open file."""
    outcomes: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        warm_up(data, kind, Path(folder))
        for number in range(first, first + count):
            os.pwrite(progress, number.to_bytes(8, "little"), 0)
            allow_processor_time(hang_seconds)
            try:
                outcome, seconds = attempt(data, kind, number, Path(folder))
                slowest = max(slowest, seconds)
                outcomes[outcome] += 1
                if seconds > SECONDS:
                    failures.append({"number": number, "what": f"took {seconds:.1f} s"})
            except Exception as error:
                place = "".join(traceback.format_tb(error.__traceback__)[-2:])
                failures.append({"number": number, "what": f"{error!r:.300}\n{place}"})
            if len(failures) >= MOST_FAILURES:
                break
    return {"outcomes": outcomes, "failures": failures, "slowest": slowest}


def main() -> None:
    data, progress, hang_seconds, *jobs = sys.argv[1:]
    faulthandler.register(signal.SIGXCPU, chain=True)  # an error names the line that hangs
    warnings.simplefilter("error")
    handle = os.open(progress, os.O_WRONLY)
    for kind, first, count in zip(jobs[::3], jobs[1::3], jobs[2::3], strict=True):
        found = read_cases(Path(data), kind, int(first), int(count), handle, int(hang_seconds))
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
