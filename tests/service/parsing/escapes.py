"""A format whose reader tries to escape: it is loaded by a real parsing process and calls the kernel natively.

Its upload is a JSON object of targets. Its recording has one sample for each attempt: the error number, 0 for success.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.formats.reading import Format
from clocs.service.parsing import syscalls

MARK = b"escape "
HERE = -100
"""The working directory, to calls that take one."""
LIBC = ctypes.CDLL(None, use_errno=True)  # loaded before the process is confined
LIBC.syscall.restype = ctypes.c_long
CALLS = "\n".join(
    (syscalls.CALLS, syscalls.SOCKETS, syscalls.PROCESSES, syscalls.IPC, syscalls.KERNEL, syscalls.FILE_CHANGES)
)
X32 = 0x40000000
MMAP = (9, 222)
QUEUED = struct.pack("iii", 0, 0, -1).ljust(128, b"\0")
"""Information of a queued signal: signal 0, as ``sigqueue`` sends it."""


@dataclass(frozen=True)
class Targets:
    """Targets of the escape attempts."""

    secret: str
    """A file outside."""
    folder: str
    """The folder that contains it, writable."""
    library: str
    """A folder that may be read."""
    parent: int
    """The process of the service."""
    victim: int
    """Another process of the same user."""

    def upload(self) -> bytes:
        return MARK + json.dumps(asdict(self)).encode()


Attempt = Callable[[Targets], int]


def call(name: str, *arguments: int | bytes) -> int:
    """Make a system call: its result, or its error number below 0."""
    (number,) = syscalls.numbers(CALLS, name)
    return call_number(number, *arguments)


def call_number(number: int, *arguments: int | bytes) -> int:
    given = [ctypes.c_char_p(item) if isinstance(item, bytes) else ctypes.c_long(item) for item in arguments]
    result = int(LIBC.syscall(ctypes.c_long(number), *given))
    return -ctypes.get_errno() if result == -1 else result


def of(name: str, *arguments: int | bytes) -> Attempt:
    """The same call whatever the targets are."""
    return lambda targets: call(name, *arguments)


def opening(flags: int, path: Callable[[Targets], str]) -> Attempt:
    return lambda targets: call("openat", HERE, path(targets).encode(), flags, 0o600)


def child(name: str, *arguments: int) -> Attempt:
    """Start a process, which ends at once."""

    def attempt(targets: Targets) -> int:
        found = call(name, *arguments)
        if found == 0:
            LIBC._exit(0)
        if found > 0:
            os.waitpid(found, 0)
        return found

    return attempt


def connecting(family: int, kind: int) -> Attempt:
    return lambda targets: call("socket", family, kind, 0)


def through_folder(targets: Targets) -> int:
    """Open a file outside by a descriptor of a folder inside."""
    folder = call("openat", HERE, targets.library.encode(), os.O_RDONLY | os.O_DIRECTORY)
    return call("openat", folder, b"../" * 20 + targets.secret.encode(), os.O_RDONLY)


def signalled_by_file(targets: Targets) -> int:
    """Have the kernel signal another process when a pipe can be read (F_SETOWN)."""
    readable, _ = os.pipe()
    return call("fcntl", readable, 8, targets.parent)


def shared_memory(targets: Targets) -> int:
    found = call("shmget", 0, 4096, 0o600)
    return call("shmctl", found, 0, 0) if found >= 0 else found


def in_folder(name: str, planted: str, *arguments: int) -> Attempt:
    """A call on a path that is not there yet."""
    return lambda targets: call(name, HERE, f"{targets.folder}/{planted}".encode(), *arguments)


def on_secret(name: str, *arguments: int | bytes) -> Attempt:
    return lambda targets: call(name, HERE, targets.secret.encode(), *arguments)


READING: dict[str, Attempt] = {
    "read a file": opening(os.O_RDONLY, lambda targets: targets.secret),
    "list a folder": opening(os.O_RDONLY | os.O_DIRECTORY, lambda targets: targets.folder),
    "read /etc/passwd": opening(os.O_RDONLY, lambda targets: "/etc/passwd"),
    "read by a way round": opening(os.O_RDONLY, lambda targets: f"{targets.library}{'/..' * 20}{targets.secret}"),
    "read through a folder": through_folder,
    "read by /proc/self/root": opening(os.O_RDONLY, lambda targets: f"/proc/self/root{targets.secret}"),
    "read the service's memory": opening(os.O_RDONLY, lambda targets: f"/proc/{targets.parent}/mem"),
    "read the service's environment": opening(os.O_RDONLY, lambda targets: f"/proc/{targets.parent}/environ"),
    "read the service's files": opening(os.O_RDONLY | os.O_DIRECTORY, lambda targets: f"/proc/{targets.parent}/fd"),
}
"""Attempts that only Landlock stops."""

WRITING: dict[str, Attempt] = {
    "create a file": opening(os.O_WRONLY | os.O_CREAT, lambda targets: f"{targets.folder}/created"),
    "create one without a name": opening(os.O_RDWR | os.O_TMPFILE, lambda targets: targets.folder),
    "write a file": opening(os.O_WRONLY, lambda targets: targets.secret),
    "append to a file": opening(os.O_WRONLY | os.O_APPEND, lambda targets: targets.secret),
    "change a file": opening(os.O_RDWR, lambda targets: targets.secret),
    "write among the libraries": opening(
        os.O_WRONLY | os.O_CREAT, lambda targets: f"{targets.library}/planted-by-test"
    ),
    "write the service's memory": opening(os.O_RDWR, lambda targets: f"/proc/{targets.parent}/mem"),
    "make a folder": in_folder("mkdirat", "made", 0o700),
    "make a pipe file": in_folder("mknodat", "piped", 0o010600, 0),
}
"""Attempts that either layer stops."""

CHANGING: dict[str, Attempt] = {
    "empty an open file": opening(os.O_RDONLY | os.O_TRUNC, lambda targets: f"{targets.folder}/emptied"),
    "empty a file": lambda targets: call("truncate", f"{targets.folder}/emptied".encode(), 0),
    "link a file": lambda targets: call(
        "linkat", HERE, targets.secret.encode(), HERE, f"{targets.folder}/linked".encode(), 0
    ),
    "rename a file": lambda targets: call(
        "renameat2", HERE, f"{targets.folder}/old".encode(), HERE, f"{targets.folder}/new".encode(), 0
    ),
    "delete a file": in_folder("unlinkat", "deleted", 0),
    "link by name": lambda targets: call("symlinkat", b"/etc/passwd", HERE, f"{targets.folder}/named".encode()),
    "change rights": on_secret("fchmodat", 0o777),
    "change the owner": on_secret("fchownat", os.getuid(), os.getgid(), 0),
    "change times": on_secret("utimensat", 0, 0),
    "change an attribute": lambda targets: call("setxattr", targets.secret.encode(), b"user.planted", b"x", 1, 0),
    "watch a file": lambda targets: call("inotify_add_watch", -1, targets.secret.encode(), 1),
    "TCP": connecting(2, 1),
    "UDP": connecting(2, 2),
    "TCP over IPv6": connecting(10, 1),
    "UDP over IPv6": connecting(10, 2),
    "a unix stream": connecting(1, 1),
    "unix datagrams": connecting(1, 2),
    "netlink": connecting(16, 3),
    "a pair of sockets": lambda targets: call("socketpair", 1, 1, 0, ctypes.addressof((ctypes.c_int * 2)())),
    "connect": of("connect", -1, 0, 0),
    "send": of("sendto", -1, 0, 0, 0, 0, 0),
    "fork by clone": child("clone", signal.SIGCHLD, 0, 0, 0, 0),
    "a thread of its own namespace": of("clone", 0x7E020000 | 0x00010900, 0, 0, 0, 0),
    "exec": of("execve", b"/absent", 0, 0),
    "exec by descriptor": of("execveat", -1, b"absent", 0, 0, 0),
    "signal the service": lambda targets: call("kill", targets.parent, 0),
    "signal its main thread": lambda targets: call("tkill", targets.parent, 0),
    "signal it as a group": lambda targets: call("tgkill", targets.parent, targets.parent, 0),
    "signal all processes of a group": of("kill", 0, 0),
    "queue a signal": lambda targets: call("rt_sigqueueinfo", targets.parent, 0, QUEUED),
    "queue a signal to a thread": lambda targets: call("rt_tgsigqueueinfo", targets.parent, targets.parent, 0, QUEUED),
    "hold the service": lambda targets: call("pidfd_open", targets.parent, 0),
    "signal what is held": of("pidfd_send_signal", -1, 0, 0, 0),
    "signal by a file": signalled_by_file,
    "trace": lambda targets: call("ptrace", 0x4206, targets.victim, 0, 0),
    "read memory": lambda targets: call("process_vm_readv", targets.parent, 0, 0, 0, 0, 0),
    "write memory": lambda targets: call("process_vm_writev", targets.parent, 0, 0, 0, 0, 0),
    "change limits": lambda targets: call("prlimit64", targets.parent, 4, 0, 0),
    "slow down": lambda targets: call("setpriority", 0, targets.victim, 19),
    "io_uring": lambda targets: call("io_uring_setup", 1, ctypes.addressof(ctypes.create_string_buffer(120))),
    "userfaultfd": of("userfaultfd", 1),
    "bpf": of("bpf", 0, 0, 0),
    "perf": of("perf_event_open", 0, 0, -1, -1, 0),
    "leave the file system's state": of("unshare", 0x200),
    "enter a namespace": of("setns", -1, 0),
    "mount": of("mount", 0, 0, 0, 0, 0),
    "the newer way to mount": of("fsopen", 0, 0),
    "clone a mount": of("open_tree", HERE, b"/", 0),
    "change the root": of("chroot", b"/"),
    "keys": of("keyctl", 0, -1, 1),
    "shared memory": shared_memory,
    "a message queue": of("mq_open", b"absent", 0, 0, 0),
    "a terminal's input": of("ioctl", 0, 0x5412, b"x"),
    "unshare users": of("unshare", 0x10000000),  # last: it takes privileges away
}
"""Attempts that seccomp stops."""

ABSENT: dict[str, Attempt] = {
    "fork by clone3": of("clone3", 0, 0),
    "open by openat2": lambda targets: call("openat2", HERE, targets.secret.encode(), b"\0" * 24, 24),
}
"""Calls that the filter hides."""

if syscalls.numbers(CALLS, "fork"):  # x86-64
    CHANGING["fork"] = child("fork")
    CHANGING["a call of x32"] = lambda targets: call_number(X32 | 39)
    WRITING["create a file by creat"] = lambda targets: call("creat", f"{targets.folder}/creat".encode(), 0o600)
    READING["read a file by open"] = lambda targets: call("open", targets.secret.encode(), os.O_RDONLY)


def size_of(targets: Targets) -> int:
    os.stat(targets.secret)
    return 0


def in_thread(targets: Targets) -> int:
    ran = threading.Event()
    thread = threading.Thread(target=ran.set)
    thread.start()
    thread.join()
    return 0 if ran.is_set() else -1


ALLOWED: dict[str, Attempt] = {
    "a thread": in_thread,
    "a signal to itself": lambda targets: call("kill", os.getpid(), 0),
    "a signal to its own thread": lambda targets: call("tgkill", os.getpid(), threading.get_native_id(), 0),
    "its own limits": of("prlimit64", 0, 4, 0, 0),
    "a file's size": size_of,  # neither layer hides it
    "a library's file": opening(os.O_RDONLY, lambda targets: __file__),
    "executable memory": lambda targets: min(
        0, call_number(MMAP[syscalls.this_machine().column], 0, 4096, 7, 0x22, -1, 0)
    ),
}
"""Operations that parsing needs or may need."""

ATTEMPTS: dict[str, Attempt] = READING | WRITING | CHANGING | ABSENT | ALLOWED


def _recognises(head: bytes, source: Source, name: str) -> bool:
    return head.startswith(MARK)


def _read(source: Source, name: str) -> Recording:
    content = source.read(name)
    if content == MARK + b"abort":
        LIBC.abort()
    targets = Targets(**json.loads(content.removeprefix(MARK)))
    errors = [max(0, -attempt(targets)) for attempt in ATTEMPTS.values()]
    return Recording(
        digital=np.array([errors], np.int16),
        gain=np.ones(1),
        baseline=np.zeros(1, np.int32),
        sampling_rate=500.0,
        leads=("I",),
    )


ESCAPES = Format("escapes", "attempts to escape from a parsing process", _recognises, _read)
