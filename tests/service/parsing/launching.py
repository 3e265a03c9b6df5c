"""Start programs with lowered priority, or under a kernel without certain system calls."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable

from clocs.service.parsing.seccomp import install, refusing_filter
from clocs.service.parsing.syscalls import CALLS, numbers

NICENESS = 15
_DROP_FROM_BOUNDING_SET, _CAPABILITY_SYS_NICE = 24, 23


def lower_priority() -> None:
    """Be nice, without the right to be less nice again; called between fork and exec."""
    os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(_DROP_FROM_BOUNDING_SET, _CAPABILITY_SYS_NICE, 0, 0, 0)


def hiding(call: str, error: int) -> Callable[[], None]:
    """Return what makes a system call fail for the program that is started, and for all that it starts."""
    program = refusing_filter(numbers(CALLS, call), error)
    return lambda: install(program)
