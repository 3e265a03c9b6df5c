"""Filter of system calls: a process can compute, use its open files and start threads.

The filter is a classic BPF program that the kernel runs before each call. A refused call fails with EPERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from typing import Final

from clocs.service.parsing.syscalls import (
    CALLS,
    FILE_CHANGES,
    IPC,
    KERNEL,
    NEWEST_CALL,
    NO_NEW_PRIVILEGES,
    PROCESSES,
    SOCKETS,
    numbers,
    system_call,
    this_machine,
)

Instruction = tuple[int, int, int, int]
"""Operation, instructions to skip if the comparison is true, instructions to skip if it is false, and value."""

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW, _ERROR, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_DENY: Final = _ERROR | errno.EPERM
_ABSENT: Final = _ERROR | errno.ENOSYS
"""Refusal as if the kernel lacked the call, so that libraries fall back to an older one."""
_SET_FILTER, _ALL_THREADS = 1, 1

WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CLONE_THREAD: Final = 0x00010000
_NEW_NAMESPACES: Final = 0x7E020000
_OWNER_OF_SIGNALS: Final = (8, 10, 15, 1024, 1026)
"""Commands of ``fcntl`` that let files signal other processes: F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY.
"""
_DESCRIPTOR_REQUESTS: Final = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)
"""Requests of ``ioctl`` about a descriptor itself: TCGETS (terminal check), FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""


def install_filter() -> None:
    """Filter all further calls of this process and its threads irrevocably.

    Raises:
        OSError: The kernel refused the filter, or the architecture is not supported.
    """
    install(parser_filter(os.getpid()))


def install(program: Iterable[Instruction]) -> None:
    """Install a filter for this process and all its threads."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    held = ctypes.create_string_buffer(code, len(code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code) // 8, ctypes.addressof(held)))
    system_call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    unwilling = system_call("seccomp", _SET_FILTER, _ALL_THREADS, ctypes.addressof(header))
    if unwilling:
        raise OSError(f"seccomp: thread {unwilling} has another filter")


def parser_filter(pid: int) -> list[Instruction]:
    """Return the filter of a parsing process with this id."""
    program = _for_this_machine()
    program += [(_GREATER, 0, 1, NEWEST_CALL), (_RETURN, 0, 0, _ABSENT)]
    for table in (SOCKETS, PROCESSES, IPC, KERNEL, FILE_CHANGES):
        program += refuse(numbers(table), errno.EPERM)
    program += refuse(numbers(CALLS, "clone3", "openat2"), errno.ENOSYS)  # their arguments cannot be looked at
    program += _only_if("clone", [*_bits(0, _NEW_NAMESPACES, _DENY), *_bits(0, _CLONE_THREAD, _ALLOW), _end(_DENY)])
    for name in ("kill", "tkill", "tgkill"):
        program += _only_if(name, [*_values(0, (pid,), _ALLOW), _end(_DENY)])
    program += _only_if("prlimit64", [*_values(0, (0, pid), _ALLOW), _end(_DENY)])
    program += _only_if("open", [*_bits(1, WRITING, _DENY), _end(_ALLOW)])
    program += _only_if("openat", [*_bits(2, WRITING, _DENY), _end(_ALLOW)])
    program += _only_if("fcntl", [*_values(1, _OWNER_OF_SIGNALS, _DENY), _end(_ALLOW)])
    program += _only_if("ioctl", [*_values(1, _DESCRIPTOR_REQUESTS, _ALLOW), _end(_DENY)])
    return [*program, _end(_ALLOW)]


def refusing_filter(calls: Iterable[int], error: int) -> list[Instruction]:
    """Return a filter that fails these calls with this error and allows all others."""
    return [*_for_this_machine(), *refuse(calls, error), _end(_ALLOW)]


def refuse(calls: Iterable[int], error: int) -> list[Instruction]:
    """Return instructions that fail these calls; the call number stays loaded."""
    return [step for number in calls for step in ((_EQUAL, 0, 1, number), _end(_ERROR | error))]


def _for_this_machine() -> list[Instruction]:
    """Return instructions that end a process of another architecture, refuse x32, and load the call number."""
    machine = this_machine()
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, machine.audit_arch),
        _end(_KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine.foreign_bit is not None:
        program += [(_ANY_BIT, 0, 1, machine.foreign_bit), _end(_DENY)]
    return program


def _only_if(name: str, steps: list[Instruction]) -> list[Instruction]:
    """Return the steps for one call, skipped for others; they must end with a verdict."""
    return [part for number in numbers(CALLS, name) for part in ((_EQUAL, 0, len(steps), number), *steps)]


def _bits(argument: int, bits: int, verdict: int) -> list[Instruction]:
    return [_load(argument), (_ANY_BIT, 0, 1, bits), _end(verdict)]


def _values(argument: int, values: tuple[int, ...], verdict: int) -> list[Instruction]:
    return [_load(argument), *(step for value in values for step in ((_EQUAL, 0, 1, value), _end(verdict)))]


def _load(argument: int) -> Instruction:
    """Load the lower half of an argument, which is all that the kernel uses of the compared arguments."""
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument)


def _end(verdict: int) -> Instruction:
    return (_RETURN, 0, 0, verdict)
