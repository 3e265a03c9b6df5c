"""What a parsing process may do once its libraries are loaded: compute, and read its libraries; nothing else.

An upload comes to it through a pipe, so it needs no file of the user's.

Three walls. Resource limits hold for all code. An audit hook stops Python code from opening, writing, starting or
connecting to anything. Landlock, where the kernel has it (Linux 5.13 and newer), stops native code as well.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import sys
from collections.abc import Sequence
from typing import Any, Final

OPEN_FILES: Final = 64
NICENESS: Final = 10
"""Of what works, so that a full machine still answers at once, if only that it is busy."""
STATM: Final = "/proc/self/statm"
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES: Final = 38
_READING: Final = 1 << 2 | 1 << 3
"""The rights to read files and to list folders."""
_FILE_RIGHTS: Final = {1: 13, 2: 14, 3: 15}
"""By version of Landlock: how many rights over files it knows."""
_NET_VERSION: Final = 4
_BENEATH: Final = 1
_FORBIDDEN: Final = (
    "subprocess.",
    "socket.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.kill",
    "shutil.",
    "ctypes.dlopen",
)
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def give_way() -> None:
    """Let the thread that answers go before this one, and before all that it starts."""
    if sys.platform == "linux":  # elsewhere this would hold for the whole process
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)


def limit_resources(memory_bytes: int) -> None:
    """From now on: so much more memory, no file written, few open, no core dumped."""
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: OPEN_FILES, resource.RLIMIT_CORE: 0}
    if os.path.exists(STATM):  # elsewhere than on Linux, address space is neither told nor limited
        with open(STATM) as file:
            limits[resource.RLIMIT_AS] = int(file.read().split()[0]) * resource.getpagesize() + memory_bytes
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def limit_cpu(seconds: float) -> None:
    """From now on so much more of the processor's time; beyond, the kernel ends the process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def raise_fence(libraries: Sequence[str]) -> None:
    """From now on, Python code may read files of these folders, and neither write, start nor connect to anything.

    It cannot be taken down.
    """
    roots = tuple(os.path.realpath(folder) for folder in libraries)

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int):
                return
            place = os.path.realpath(os.fsdecode(path))
            if (flags or 0) & _WRITING or not any(place.startswith(root + os.sep) for root in roots):
                raise PermissionError("not while parsing")
        elif event.startswith(_FORBIDDEN):
            raise PermissionError("not while parsing")

    sys.addaudithook(check)


def library_folders() -> list[str]:
    """Where Python, its packages and their data lie."""
    found = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.dirname(__file__)), *sys.path}
    return sorted(folder for folder in found if folder and os.path.isdir(folder))


def restrict_files(folders: Sequence[str]) -> bool:
    """Let this process read beneath these folders only, and write and connect nowhere; False where Landlock is not."""
    if sys.platform != "linux":
        return False
    system = ctypes.CDLL(None, use_errno=True)
    version = _call(system, _CREATE, 0, 0, 1)
    if version < 1:
        return False
    rights = (1 << _FILE_RIGHTS.get(version, max(_FILE_RIGHTS.values()))) - 1
    handled = (ctypes.c_uint64 * 2)(rights, 3 if version >= _NET_VERSION else 0)
    size = 16 if version >= _NET_VERSION else 8
    rules = _call(system, _CREATE, ctypes.addressof(handled), size, 0)
    if rules < 0:
        return False
    try:
        for folder in folders:
            place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            try:
                rule = _READING.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
                held = ctypes.create_string_buffer(rule)
                if _call(system, _ADD, rules, _BENEATH, ctypes.addressof(held), 0):
                    return False
            finally:
                os.close(place)
        if system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            return False
        return _call(system, _RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)


def _call(system: ctypes.CDLL, number: int, *arguments: int) -> int:
    system.syscall.restype = ctypes.c_long
    return int(system.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments)))
