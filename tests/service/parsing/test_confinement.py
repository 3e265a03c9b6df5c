"""The walls around a parsing process, each tried from inside, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEFORE = """
import ctypes, os, resource, signal, socket, subprocess, sys, json, email.message
from clocs.service.parsing.confinement import (
    give_way, library_folders, limit_cpu, limit_resources, raise_fence, restrict_files
)
"""


def outcome(code: str) -> tuple[int, str]:
    """The exit code and what was printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", BEFORE + code], capture_output=True, text=True, check=False, timeout=60
    )
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
    code = f"SECRET = {str(secret)!r}\nraise_fence(library_folders())\ntry:\n    {TRIES[what]}\n    print('done')\n"
    code += "except PermissionError as error:\n    print('refused')\n"
    assert outcome(code) == (0, "refused")
    assert secret.exists()


def test_libraries_can_still_be_imported() -> None:
    assert outcome("raise_fence(library_folders())\nimport wave, colorsys\nprint('done')") == (0, "done")


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("read", "libc.open(SECRET, 0)"),
        ("write", "libc.open(b'/tmp/planted-by-a-test', 0o101, 0o600)"),
        ("start", "libc.execv(b'/bin/true', None)"),
    ],
)
def test_native_code_cannot(what: str, code: str, tmp_path: Path) -> None:
    """Around Python, straight to the kernel."""
    secret = tmp_path / "secret"
    secret.write_text("Winterbottom")
    found = outcome(
        f"SECRET = {str(secret).encode()!r}\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"held = restrict_files(library_folders())\nprint(held, {code}, ctypes.get_errno() == 13)"
    )
    if found[1].startswith("False"):
        pytest.skip("this kernel has no Landlock")
    assert found == (0, "True -1 True")


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


def test_the_time_is_counted_anew_for_each_upload() -> None:
    code = "import time\nfor _ in range(3):\n    limit_cpu(0)\n    start = time.process_time()\n"
    code += "    while time.process_time() - start < 0.7:\n        pass\nprint('done')"
    assert outcome(code) == (0, "done")


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness of their own on Linux only")
def test_a_thread_gives_way_alone() -> None:
    code = """
import threading
niceness = []
thread = threading.Thread(target=lambda: (give_way(), niceness.append(os.getpriority(os.PRIO_PROCESS, 0))))
thread.start(); thread.join()
print(niceness[0] - os.getpriority(os.PRIO_PROCESS, 0))
"""
    assert outcome(code) == (0, "10")
