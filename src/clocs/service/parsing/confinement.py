"""Confinement of parsing processes: they can compute and read their libraries, and nothing else.

Uploads arrive through a pipe, so no user file is needed. Two layers restrict native code: seccomp filters system calls
and Landlock restricts files. An audit hook stops Python code earlier, and resource limits apply to both.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clocs.service.parsing.landlock import restrict_files
from clocs.service.parsing.seccomp import WRITING, install_filter

OPEN_FILES: Final = 64
NICENESS: Final = 10
"""Increase of the niceness of worker processes and threads, so that a busy service still responds at once."""
STATM: Final = "/proc/self/statm"
PACKAGE: Final = Path(__file__).parents[2]
_FORBIDDEN_EVENTS: Final = (
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


@dataclass(frozen=True)
class Confinement:
    """Restrictions of a parsing process.

    Args:
        seccomp: True if system calls are filtered.
        landlock: Version of Landlock that restricts files; 0 for no restriction.
        folders: Folders that can be read.
    """

    seccomp: bool
    landlock: int
    folders: tuple[str, ...]

    @property
    def level(self) -> str:
        """Names of the layers, such as ``seccomp+landlock 7``, ``seccomp`` or ``none``."""
        layers = ["seccomp"] * self.seccomp + [f"landlock {self.landlock}"] * (self.landlock > 0)
        return "+".join(layers) or "none"


def on_linux() -> bool:
    """Return True if the system is Linux, the only one with confinement."""
    return sys.platform == "linux"


def confine(confinement: Confinement) -> None:
    """Confine this process irrevocably.

    Raises:
        OSError: A layer could not be installed.
    """
    if confinement.landlock:
        restrict_files(confinement.folders, confinement.landlock)
    if confinement.seccomp:
        install_filter()
    install_audit_hook(confinement.folders)


def library_folders() -> tuple[str, ...]:
    """Return the folders of Python's standard library, its packages and clocs, without nested ones."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {str(PACKAGE), *(sysconfig.get_path(name) for name in names), *sys.path}
    real = sorted({os.path.realpath(folder) for folder in found if os.path.isdir(folder or os.curdir)})
    return tuple(folder for folder in real if not any(_within(folder, other) for other in real if other != folder))


def install_audit_hook(folders: Sequence[str]) -> None:
    """Restrict Python code irrevocably to reading files in these folders.

    It cannot write files, start processes or open connections.
    """

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int):
                return
            target = os.path.realpath(os.fsdecode(path))
            if (flags or 0) & WRITING or not any(_within(target, folder) for folder in folders):
                raise PermissionError("not while parsing")
        elif event.startswith(_FORBIDDEN_EVENTS):
            raise PermissionError("not while parsing")

    sys.addaudithook(check)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def lower_priority() -> None:
    """Lower the scheduling priority of this thread and its children below that of the event loop."""
    if on_linux():  # on other systems this would affect the whole process
        os.nice(NICENESS)  # relative, because a process must not raise its own priority


def limit_resources(memory_bytes: int) -> None:
    """Limit additional memory, forbid writing files and core dumps, and limit the number of open files."""
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: OPEN_FILES, resource.RLIMIT_CORE: 0}
    if os.path.exists(STATM):  # only Linux reports and limits the address space
        with open(STATM) as file:
            limits[resource.RLIMIT_AS] = int(file.read().split()[0]) * resource.getpagesize() + memory_bytes
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def limit_cpu(seconds: float) -> None:
    """Limit additional processor time in seconds; the kernel ends the process beyond it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
