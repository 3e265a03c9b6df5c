"""Native code in a real parsing process tries to escape, at every level of confinement.

These tests fail, and are not skipped, on a Linux kernel that cannot confine: a service would not start there either.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clocs.service.parsing.confinement import Confinement
from clocs.service.parsing.confinement_check import check_confinement
from clocs.service.parsing.landlock import landlock_version
from clocs.service.parsing.pool import ParsingPool
from clocs.service.problems import ProblemError
from clocs.service.settings import Limits
from tests.conftest import ROOT
from tests.service.parsing.escapes import (
    ABSENT,
    ALLOWED,
    ATTEMPTS,
    CHANGING,
    MARK,
    READING,
    WRITING,
    Targets,
)
from tests.service.uploading import upload_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are confined on Linux only")

ENTRY_POINTS = "[clocs.formats]\nescapes = tests.service.parsing.escapes:ESCAPES\n"
ABOUT = "escapes-1.dist-info"
PREPARED = ("emptied", "old", "deleted")
Errors = dict[str, str]


@pytest.fixture(scope="module")
def confinement(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Confinement]:
    """Return the confinement of this machine while the hostile format is installed."""
    about = tmp_path_factory.mktemp("site") / ABOUT
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: escapes\nVersion: 1\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    path = [str(about.parent), str(ROOT), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path))
        yield check_confinement()


@pytest.fixture(scope="module")
def victim() -> Iterator[int]:
    """A process of the same user, which waits."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process.pid


async def parsed(confinement: Confinement, content: bytes, reports: list[str]) -> list[int]:
    """The samples that a parsing process makes of an upload."""
    pool = ParsingPool(Limits(parsing_processes=1), confinement, lambda outcome, place: reports.append(outcome))
    await pool.open()
    try:
        recording = await pool.recording(upload_of({"escape.bin": content}))
    finally:
        await pool.close()
    return [int(value) for value in recording.digital[0]]


def errors_at(confinement: Confinement, folder: Path, victim: int) -> Errors:
    """The names of the errors that attempts ended with; empty for success."""
    secret = folder / "secret"
    for name in (secret.name, *PREPARED):
        (folder / name).write_text("Winterbottom")
    secret.chmod(0o600)
    (library,) = (folder for folder in confinement.folders if Path(folder, ABOUT).exists())
    targets = Targets(str(secret), str(folder), library, os.getpid(), victim)
    found = asyncio.run(parsed(confinement, targets.upload(), []))
    names = [errno.errorcode[number] if number else "" for number in found]
    return dict(zip(ATTEMPTS, names, strict=True))


def refused(folder: Path) -> bool:
    """Return True if everything in a folder is unchanged."""
    names = {path.name for path in folder.iterdir()}
    return names == {"secret", *PREPARED} and {(folder / name).read_text() for name in names} == {"Winterbottom"}


SECCOMP: Errors = dict.fromkeys(WRITING | CHANGING, "EPERM") | dict.fromkeys(ABSENT, "ENOSYS")
FREE: Errors = dict.fromkeys(ALLOWED, "")


NEVER = {
    *("watch a file", "connect", "send", "exec", "exec by descriptor", "signal what is held", "enter a namespace"),
    *("a thread of its own namespace", "bpf", "perf", "mount", "the newer way to mount", "a message queue"),
    *("a call of x32", "fork by clone3", "a terminal's input"),
}
"""Attempts with invalid arguments, since valid ones would do harm: unconfined they fail otherwise than by EPERM."""
SOMETIMES = {
    *(
        "read the service's memory",
        "read the service's environment",
        "read the service's files",
        "trace",
        "read memory",
    ),
    *(
        "write the service's memory",
        "write memory",
        "hold the service",
        "io_uring",
        "userfaultfd",
        "keys",
        "unshare users",
    ),
    *("leave the file system's state", "change the root", "clone a mount", "change an attribute", "netlink"),
    *("TCP over IPv6", "UDP over IPv6"),
}
"""Attempts that succeed for some users, kernels and containers only."""


def test_this_kernel_has_landlock(confinement: Confinement) -> None:
    assert confinement.level == f"seccomp+landlock {landlock_version()}"
    assert landlock_version() >= 1


@pytest.mark.parametrize("version", ["the kernel's", "the first"])
def test_nothing_escapes(version: str, confinement: Confinement, tmp_path: Path, victim: int) -> None:
    chosen = replace(confinement, landlock=1) if version == "the first" else confinement
    found = errors_at(chosen, tmp_path, victim)
    assert found == dict.fromkeys(READING, "EACCES") | SECCOMP | FREE
    assert refused(tmp_path)


def test_without_landlock_files_can_be_read_and_nothing_else(
    confinement: Confinement, tmp_path: Path, victim: int
) -> None:
    found = errors_at(replace(confinement, landlock=0), tmp_path, victim)
    for name in READING.keys() & SOMETIMES:  # the kernel may guard processes by other rules
        del found[name]
    assert found == dict.fromkeys(READING.keys() - SOMETIMES, "") | SECCOMP | FREE
    assert refused(tmp_path)


def test_without_seccomp_landlock_still_guards_files(confinement: Confinement, tmp_path: Path, victim: int) -> None:
    """The second layer by itself: what the first would have hidden."""
    found = errors_at(replace(confinement, seccomp=False), tmp_path, victim)
    files = READING | WRITING
    assert {name: found[name] for name in files} == dict.fromkeys(files, "EACCES")


def test_attempts_are_real(confinement: Confinement, tmp_path: Path, victim: int) -> None:
    """Unconfined, what any user can do succeeds, so that the other tests prove something."""
    found = errors_at(replace(confinement, seccomp=False, landlock=0), tmp_path, victim)
    possible = ATTEMPTS.keys() - NEVER - SOMETIMES
    assert {name: found[name] for name in possible} == dict.fromkeys(possible, "")
    assert not refused(tmp_path)
    if os.getuid() == 0:
        assert [name for name in NEVER & ATTEMPTS.keys() if found[name] == "EPERM"] == []


def test_abort_still_ends_the_process(confinement: Confinement) -> None:
    """The C library signals its own thread: a damaged heap ends the process, and the service says so."""
    reports: list[str] = []
    with pytest.raises(ProblemError) as refusal:
        asyncio.run(parsed(confinement, MARK + b"abort", reports))
    assert (refusal.value.status, reports) == (422, ["crashed"])


CALL_OF_32_BITS = """
import ctypes, mmap
from clocs.service.parsing.seccomp import install_filter
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
install_filter()
print("filtered", flush=True)
run()
print("called")
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="only x86-64 has a second way to call")
def test_calls_of_another_architecture_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", CALL_OF_32_BITS], capture_output=True, text=True, check=False)
    assert done.stdout == "filtered\n"
    assert -done.returncode in (signal.SIGSYS, signal.SIGSEGV)  # the latter where the kernel has no such calls
