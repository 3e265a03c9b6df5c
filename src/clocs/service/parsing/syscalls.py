"""System calls without a Python function, and their numbers on x86-64 and aarch64."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from typing import Final

NEWEST_CALL: Final = 469
"""Highest call number that was reviewed (Linux 6.17). Newer calls are refused as if the kernel lacked them."""
NO_NEW_PRIVILEGES: Final = 38
"""Operation of ``prctl`` that unprivileged processes need before they confine themselves."""


@dataclass(frozen=True)
class Machine:
    """A supported processor architecture."""

    column: int
    """Column of this machine's call numbers in the tables."""
    audit_arch: int
    """Architecture as the kernel passes it to a filter."""
    foreign_bit: int | None
    """Bit in the numbers of a second set of calls (x32)."""


MACHINES: Final = {"x86_64": Machine(0, 0xC000003E, 0x40000000), "aarch64": Machine(1, 0xC00000B7, None)}


def this_machine() -> Machine:
    """Return the architecture of this process.

    Raises:
        OSError: The architecture is not supported.
    """
    name = platform.machine()
    if name not in MACHINES or sys.maxsize < 2**32 or sys.byteorder != "little":
        raise OSError(f"system calls can be filtered on {' and '.join(MACHINES)} (64 bit), not on {name}")
    return MACHINES[name]


def system_call(name: str, *arguments: int) -> int:
    """Make a system call and return its result.

    Raises:
        OSError: The kernel refused it.
    """
    (number,) = numbers(CALLS, name)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    result = int(libc.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments)))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return result


def numbers(table: str, *names: str) -> list[int]:
    """Return the numbers of a table's calls on this machine, or of the named ones, without calls that it lacks."""
    column = this_machine().column
    rows = [row.split() for row in table.replace("\n", ",").split(",") if row.strip()]
    return [int(row[1 + column]) for row in rows if row[1 + column] != "-" and (not names or row[0] in names)]


CALLS: Final = """
prctl 157 167, seccomp 317 277
landlock_create_ruleset 444 444, landlock_add_rule 445 445, landlock_restrict_self 446 446
clone 56 220, clone3 435 435, open 2 -, openat 257 56, openat2 437 437, fcntl 72 25, ioctl 16 29, prlimit64 302 261
kill 62 129, tkill 200 130, tgkill 234 131
"""
"""Name, number on x86-64 and number on aarch64 of calls that are made, or allowed with certain arguments only."""

SOCKETS: Final = """
socket 41 198, socketpair 53 199, connect 42 203, accept 43 202, accept4 288 242, bind 49 200, listen 50 201
sendto 44 206, sendmsg 46 211, sendmmsg 307 269, recvfrom 45 207, recvmsg 47 212, recvmmsg 299 243
getsockname 51 204, getpeername 52 205, setsockopt 54 208, getsockopt 55 209, shutdown 48 210
"""
PROCESSES: Final = """
fork 57 -, vfork 58 -, execve 59 221, execveat 322 281
rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240, pidfd_send_signal 424 424, pidfd_open 434 434, pidfd_getfd 438 438
ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440
process_mrelease 448 448, kcmp 312 272, move_pages 279 239, migrate_pages 256 238
setpriority 141 140, ioprio_set 251 30, sched_setaffinity 203 122, sched_setattr 314 274, sched_setparam 142 118
sched_setscheduler 144 119
"""
"""Calls that start, signal, inspect, change or slow down processes."""
IPC: Final = """
shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semctl 66 191, semop 65 193, semtimedop 220 192
msgget 68 186, msgctl 71 187, msgsnd 69 189, msgrcv 70 188, mq_open 240 180, mq_unlink 241 181, mq_timedsend 242 182
mq_timedreceive 243 183, mq_notify 244 184, add_key 248 217, request_key 249 218, keyctl 250 219
"""
KERNEL: Final = """
io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, io_setup 206 0, io_submit 209 2
userfaultfd 323 282, bpf 321 280, perf_event_open 298 241, personality 135 92, modify_ldt 154 -
iopl 172 -, ioperm 173 -, syslog 103 116
unshare 272 97, setns 308 268, chroot 161 51, pivot_root 155 41, mount 165 40, umount2 166 39, move_mount 429 429
open_tree 428 428, open_tree_attr 467 467, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433
mount_setattr 442 442, statmount 457 457, listmount 458 458
reboot 169 142, kexec_load 246 104, kexec_file_load 320 294, init_module 175 105, finit_module 313 273
delete_module 176 106, swapon 167 224, swapoff 168 225, acct 163 89, quotactl 179 60, quotactl_fd 443 443
settimeofday 164 170, clock_settime 227 112, clock_adjtime 305 266, adjtimex 159 171, sethostname 170 161
setdomainname 171 162, vhangup 153 58
setuid 105 146, setgid 106 144, setreuid 113 145, setregid 114 143, setresuid 117 147, setresgid 119 149
setgroups 116 159, setfsuid 122 151, setfsgid 123 152, capset 126 91
"""
"""Calls into kernel subsystems, and calls that need privileges."""
FILE_CHANGES: Final = """
creat 85 -, truncate 76 45, ftruncate 77 46, fallocate 285 47, mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -
unlinkat 263 35, rename 82 -, renameat 264 38, renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -
symlinkat 266 36, mknod 133 -, mknodat 259 33, chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452
chown 92 -, fchown 93 55, lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88
setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, removexattr 197 14, lremovexattr 198 15
fremovexattr 199 16, removexattrat 466 466, file_setattr 469 469, name_to_handle_at 303 264, open_by_handle_at 304 265
fanotify_init 300 262, fanotify_mark 301 263, inotify_init 253 -, inotify_init1 294 26, inotify_add_watch 254 27
"""
"""Calls that change, watch or open files by other means than ``open``."""
