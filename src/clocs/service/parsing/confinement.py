"""Confine a parsing process once its libraries are loaded: it may compute and read its libraries, nothing else.

An upload arrives through a pipe, so no file of the user's is needed. Native code is held by two layers: seccomp filters
system calls and Landlock guards files. An audit hook stops Python code before that, and resource limits hold for both.
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
"""Added to the niceness of what works, so that a busy machine still answers at once, if only that it is busy."""
STATM: Final = "/proc/self/statm"
PACKAGE: Final = Path(__file__).parents[2]
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


@dataclass(frozen=True)
class Confinement:
    """What a parsing process gives up.

    Args:
        seccomp: System calls are filtered.
        landlock: Version of Landlock that guards files; 0: none does.
        folders: Folders that may still be read.
    """

    seccomp: bool
    landlock: int
    folders: tuple[str, ...]

    @property
    def level(self) -> str:
        """The layers by name, such as ``seccomp+landlock 7``, ``seccomp`` or ``none``."""
        layers = ["seccomp"] * self.seccomp + [f"landlock {self.landlock}"] * (self.landlock > 0)
        return "+".join(layers) or "none"


def on_linux() -> bool:
    """Return whether the kernel is Linux, the only one that processes are confined on."""
    return sys.platform == "linux"


def confine(confinement: Confinement) -> None:
    """Confine this process. It cannot be undone.

    Raises:
        OSError: A layer could not be put in place.
    """
    if confinement.landlock:
        restrict_files(confinement.folders, confinement.landlock)
    if confinement.seccomp:
        install_filter()
    raise_fence(confinement.folders)


def library_folders() -> tuple[str, ...]:
    """Return the folders of Python's library, its packages and clocs, without those that lie in others."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {str(PACKAGE), *(sysconfig.get_path(name) for name in names), *sys.path}
    real = sorted({os.path.realpath(folder) for folder in found if os.path.isdir(folder or os.curdir)})
    return tuple(folder for folder in real if not any(_within(folder, other) for other in real if other != folder))


def raise_fence(folders: Sequence[str]) -> None:
    """Let Python code read files of these folders, and neither write, start nor connect to anything.

    It cannot be taken down.
    """

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int):
                return
            place = os.path.realpath(os.fsdecode(path))
            if (flags or 0) & WRITING or not any(_within(place, folder) for folder in folders):
                raise PermissionError("not while parsing")
        elif event.startswith(_FORBIDDEN):
            raise PermissionError("not while parsing")

    sys.addaudithook(check)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def give_way() -> None:
    """Let the thread that answers go before this one, and before all that it starts."""
    if on_linux():  # elsewhere this would hold for the whole process
        os.nice(NICENESS)  # relative: whoever was started niced must not ask for more than it has


def limit_resources(memory_bytes: int) -> None:
    """Allow so much more memory, no file to be written, few to be open, and no core to be dumped."""
    limits = {resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: OPEN_FILES, resource.RLIMIT_CORE: 0}
    if os.path.exists(STATM):  # elsewhere than on Linux, address space is neither reported nor limited
        with open(STATM) as file:
            limits[resource.RLIMIT_AS] = int(file.read().split()[0]) * resource.getpagesize() + memory_bytes
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def limit_cpu(seconds: float) -> None:
    """Allow so much more of the processor's time; beyond, the kernel ends the process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
