"""Restrictions of Python code and resources, tested from inside a separate process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clocs.service.parsing import syscalls
from clocs.service.parsing.confinement import NICENESS, Confinement

BEFORE = """
import ctypes, os, resource, signal, socket, subprocess, sys, json, email.message
from clocs.service.parsing.confinement import install_audit_hook, library_folders
from clocs.service.parsing.confinement import limit_cpu, limit_resources, lower_priority
"""


def outcome(code: str) -> tuple[int, str]:
    """The exit code and what was printed."""
    done = subprocess.run([sys.executable, "-P", "-c", BEFORE + code], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip() + done.stderr[-300:]


TRIES = {
    "read": "open('/etc/passwd').read()",
    "read what others have": "open(SECRET).read()",
    "read by a way round": "open(os.path.join(library_folders()[0], '..', '..', '..', '..', '..', 'etc', 'passwd'))",
    "read through the system": "os.open(SECRET, os.O_RDONLY)",
    "write": "open('/tmp/planted-by-a-test', 'w')",
    "write among the libraries": "open(os.path.join(library_folders()[0], 'planted'), 'w')",
    "connect": "socket.create_connection(('127.0.0.1', 9))",
    "start": "subprocess.run(['true'])",
    "start by a shell": "os.system('true')",
    "fork": "os.fork()",
    "delete": "os.remove(SECRET)",
    "make a folder": "os.mkdir('/tmp/planted-by-a-test')",
    "load a library": "ctypes.CDLL('libm.so.6')",
    "kill": "os.kill(os.getppid(), 0)",
}


@pytest.mark.parametrize("what", TRIES)
def test_python_code_cannot(what: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("Winterbottom")
    code = f"SECRET = {str(secret)!r}\ninstall_audit_hook(library_folders())\n"
    code += f"try:\n    {TRIES[what]}\n    print('done')\n"
    code += "except PermissionError as error:\n    print('refused')\n"
    assert outcome(code) == (0, "refused")
    assert secret.exists()


def test_libraries_can_still_be_imported() -> None:
    assert outcome("install_audit_hook(library_folders())\nimport wave, colorsys\nprint('done')") == (0, "done")


def test_levels_are_named() -> None:
    assert Confinement(True, 7, ()).level == "seccomp+landlock 7"
    assert Confinement(True, 0, ()).level == "seccomp"
    assert Confinement(False, 0, ()).level == "none"


HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}
"""Headers of Debian's linux-libc-dev with the call numbers."""


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_of_calls_are_those_of_the_kernels_headers(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls newer than the headers are not compared."""
    if not Path(HEADERS[machine]).exists():
        pytest.skip("no headers of the kernel; on Debian: apt-get install linux-libc-dev")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(HEADERS[machine]).read_text())
    known = {name: int(number) for name, number in defined}
    monkeypatch.setattr("platform.machine", lambda: machine)
    tables = (
        syscalls.CALLS,
        syscalls.SOCKETS,
        syscalls.PROCESSES,
        syscalls.IPC,
        syscalls.KERNEL,
        syscalls.FILE_CHANGES,
    )
    names = [row.split()[0] for table in tables for row in table.strip().replace("\n", ",").split(",")]
    assert len(names) == len(set(names))
    newest = max(known.values())
    for name in names:
        found = syscalls.numbers("\n".join(tables), name)
        assert found == [known[name]] if name in known else found == [] or found[0] > newest - 10, name


@pytest.mark.parametrize("machine", ["riscv64", "i686"])
def test_another_architecture_is_refused(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    with pytest.raises(OSError, match=f"on x86_64 and aarch64 .64 bit., not on {machine}"):
        syscalls.this_machine()


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")
def test_another_thread_is_not_left_out() -> None:
    """Landlock would hold for one thread only, and any other could read files for it."""
    code = """
import threading
from clocs.service.parsing.landlock import restrict_files
end = threading.Event()
threading.Thread(target=end.wait).start()
try:
    restrict_files((), 1)
except OSError as error:
    print(error)
end.set()
"""
    ended, said = outcome(code)
    assert ended == 0
    assert said.startswith("landlock: it applies to one thread only, but several are running: ")


def test_memory_is_bounded() -> None:
    code = "limit_resources(100 << 20)\nkept = bytearray(50 << 20)\ntry:\n    bytearray(100 << 20)\n"
    assert outcome(code + "except MemoryError:\n    print('refused')") == (0, "refused")


def test_nothing_is_written_even_where_it_was_open() -> None:
    code = "file = open('/tmp/planted-by-a-test.' + str(os.getpid()), 'wb', buffering=0)\nos.remove(file.name)\n"
    code += "limit_resources(100 << 20)\ntry:\n    file.write(b'x')\nexcept OSError:\n    print('refused')"
    assert outcome(code) == (0, "refused")


def test_few_files_can_be_open_and_no_core_is_dumped() -> None:
    code = "limit_resources(100 << 20)\nprint(resource.getrlimit(resource.RLIMIT_CORE))\ntry:\n"
    code += "    kept = [os.open('/dev/null', os.O_RDONLY) for _ in range(200)]\nexcept OSError:\n    print('refused')"
    assert outcome(code) == (0, "(0, 0)\nrefused")


def test_the_processors_time_is_bounded() -> None:
    code, said = outcome("limit_cpu(0.2)\nwhile True:\n    pass")
    assert (code, said) == (-24, "")


def test_processor_time_is_limited_per_upload() -> None:
    code = "import time\nfor _ in range(3):\n    limit_cpu(0)\n    start = time.process_time()\n"
    code += "    while time.process_time() - start < 0.7:\n        pass\nprint('done')"
    assert outcome(code) == (0, "done")


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness of their own on Linux only")
@pytest.mark.parametrize("more", [0, 15])
def test_a_thread_lowers_only_its_own_priority(more: int) -> None:
    """Whatever the niceness that it was started with; 19 is the highest."""
    code = f"""
import threading
os.nice({more})
niceness = []
thread = threading.Thread(target=lambda: (lower_priority(), niceness.append(os.getpriority(os.PRIO_PROCESS, 0))))
thread.start(); thread.join()
print(os.getpriority(os.PRIO_PROCESS, 0), niceness[0])
"""
    own = min(19, os.getpriority(os.PRIO_PROCESS, 0) + more)
    assert outcome(code) == (0, f"{own} {min(19, own + NICENESS)}")
