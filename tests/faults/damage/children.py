"""Run one case in a process forked from one that has all imports, no open files and one thread."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clocs.core.errors import ClocsError
from tests.faults.damage.uses import Use, digests

PROCESSOR_SECONDS: Final = 30
"""Processor time after which a case counts as hanging. It usually takes a fraction of a second."""
WALL_SECONDS: Final = 600.0
"""Wall time after which an idle case counts as hanging."""
MEMORY: Final = 2 << 30
"""Maximum additional address space of a case in bytes."""


@dataclass(frozen=True)
class Ended:
    """Result of a use."""

    found: tuple[str, ...] = ()
    """Digest of each output, up to an error."""
    error: str = ""
    """Type of the raised error, or the signal that ended the process."""
    typed: bool = False
    """True if it raised an error of clocs."""
    message: str = ""
    imported: tuple[str, ...] = ()
    """Modules that it imported and its parent had not imported."""
    seconds: float = 0.0
    """Processor time in seconds."""


def run_forked(use: Use, folder: Path) -> Ended:
    """Run a use in a child process."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            os.close(reading)
            _in_child(lambda: _ended(use, folder), writing, errors.fileno())
        os.close(writing)
        output, hung = _read(reading, child)
        _, status, used = os.wait4(child, 0)
        errors.seek(0)
        written = errors.read().decode(errors="replace")
    seconds = used.ru_utime + used.ru_stime
    if hung or not output:
        how = "hangs, killed" if hung else f"ended by {_signal(status)}"
        return Ended(error=how, message=written[-2000:], seconds=seconds)
    parts = json.loads(output)
    found, imported = (tuple(parts.pop(name)) for name in ("found", "imported"))
    return Ended(found, **parts, imported=imported, seconds=seconds)


def _in_child(work: Callable[[], dict[str, object]], writing: int, errors: int) -> None:
    """Run in the child and never return, so that exit handlers of the parent do not run."""
    code = 1
    try:
        os.dup2(errors, 1)
        os.dup2(errors, 2)
        faulthandler.enable()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 5))
        with os.fdopen(writing, "w") as out:
            json.dump(work(), out)
        code = 0
    finally:
        os._exit(code)


def _ended(use: Use, folder: Path) -> dict[str, object]:
    found: list[str] = []
    result: dict[str, object] = {"found": found}
    before = set(sys.modules)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.extend(digests(use(folder)))
    except Exception as error:
        result |= {"error": type(error).__name__, "typed": isinstance(error, ClocsError), "message": str(error)}
    return {**result, "imported": sorted(set(sys.modules) - before)}


def _read(handle: int, child: int) -> tuple[bytes, bool]:
    """Return the output of the child, and whether it was killed because it was blocked."""
    parts: list[bytes] = []
    last = time.monotonic() + WALL_SECONDS
    with os.fdopen(handle, "rb", 0) as pipe:
        while select.select([pipe], [], [], max(0.0, last - time.monotonic()))[0]:
            part = pipe.read(1 << 16)
            if not part:
                return b"".join(parts), False
            parts.append(part)
    os.kill(child, signal.SIGKILL)
    return b"", True


def _signal(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "the limit of processor time" if number == signal.SIGXCPU else signal.Signals(number).name
    return f"exit {os.WEXITSTATUS(status)}"
