"""Verdicts of the filter on both architectures, from a simulation; test_escapes tests the kernel's."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from clocs.service.parsing import syscalls
from clocs.service.parsing.seccomp import Instruction, parser_filter
from clocs.service.parsing.syscalls import MACHINES, NEWEST_CALL, numbers

OWN = 4711
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
CLONE_THREAD, CLONE_NEWNET, THREAD_FLAGS = 0x10000, 0x40000000, 0x3D0F00


def verdict(program: list[Instruction], architecture: int, number: int, *arguments: int) -> int:
    """Run the program on a call, as the kernel does."""
    call = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    loaded = at = 0
    while True:
        operation, if_true, if_false, value = program[at]
        at += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            (loaded,) = struct.unpack_from("<I", call, value)
        else:
            holds = {0x15: loaded == value, 0x25: loaded > value, 0x45: bool(loaded & value)}[operation]
            at += if_true if holds else if_false


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name = str(request.param)
    monkeypatch.setattr("platform.machine", lambda: name)
    return name


def judged(machine: str, name: str, *arguments: int) -> str:
    """The verdict on a call by name: allowed, or the name of its error."""
    (number,) = numbers("\n".join((syscalls.CALLS, syscalls.SOCKETS, syscalls.PROCESSES, syscalls.KERNEL)), name)
    return _named(verdict(parser_filter(OWN), MACHINES[machine].audit_arch, number, *arguments))


def _named(found: int) -> str:
    return "" if found == ALLOW else errno.errorcode[found & ~ERROR]


def test_calls_without_conditions(machine: str) -> None:
    arch = MACHINES[machine].audit_arch
    program = parser_filter(OWN)
    tables = (syscalls.SOCKETS, syscalls.PROCESSES, syscalls.IPC, syscalls.KERNEL, syscalls.FILE_CHANGES)
    for number in numbers("\n".join(tables)):
        assert _named(verdict(program, arch, number)) == "EPERM", number
    for name in ("clone3", "openat2"):
        assert judged(machine, name) == "ENOSYS"
    assert _named(verdict(program, arch, NEWEST_CALL + 1)) == "ENOSYS"
    for number in {"x86_64": (0, 1, 9, 202, 231), "aarch64": (63, 64, 222, 98, 94)}[machine]:
        assert verdict(program, arch, number) == ALLOW  # read, write, mmap, futex, exit_group


def test_threads_and_not_processes(machine: str) -> None:
    assert judged(machine, "clone", THREAD_FLAGS) == ""
    assert THREAD_FLAGS & CLONE_THREAD
    assert judged(machine, "clone", THREAD_FLAGS & ~CLONE_THREAD) == "EPERM"
    assert judged(machine, "clone", THREAD_FLAGS | CLONE_NEWNET) == "EPERM"


@pytest.mark.parametrize("call", ["kill", "tkill", "tgkill"])
def test_signals_to_itself_only(call: str, machine: str) -> None:
    assert judged(machine, call, OWN, 9) == ""
    assert judged(machine, call, 1 << 32 | OWN, 9) == ""  # the kernel regards the lower half
    for other in (0, 1, OWN + 1, 2**32 - 1, 2**32 - OWN):
        assert judged(machine, call, other, OWN) == "EPERM"


def test_files_are_opened_for_reading_only(machine: str) -> None:
    flags = (os.O_WRONLY, os.O_RDWR, os.O_CREAT, os.O_TRUNC, os.O_WRONLY | os.O_RDWR, os.O_RDWR | os.O_TMPFILE)
    assert judged(machine, "openat", 0, 0, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY) == ""
    assert {judged(machine, "openat", 0, 0, flag) for flag in flags} == {"EPERM"}


def test_limits_of_itself_only(machine: str) -> None:
    assert judged(machine, "prlimit64", 0) == judged(machine, "prlimit64", OWN) == ""
    assert judged(machine, "prlimit64", 1) == "EPERM"


def test_descriptors(machine: str) -> None:
    assert judged(machine, "fcntl", 0, 1030) == judged(machine, "ioctl", 0, 0x5401) == ""
    assert {judged(machine, "fcntl", 0, owner) for owner in (8, 10, 15)} == {"EPERM"}
    assert judged(machine, "ioctl", 0, 0x5412) == "EPERM"


def test_other_architectures(machine: str) -> None:
    (other,) = (each for name, each in MACHINES.items() if name != machine)
    assert verdict(parser_filter(OWN), other.audit_arch, 0) == KILL
    assert verdict(parser_filter(OWN), 0x40000003, 0) == KILL  # i386


def test_x32_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for number in (0, 39, 512):
        assert _named(verdict(parser_filter(OWN), MACHINES["x86_64"].audit_arch, 0x40000000 | number)) == "EPERM"
