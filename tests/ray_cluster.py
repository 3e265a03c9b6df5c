"""A Ray cluster of two nodes for tests. The second node finds the folders of the first empty."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.object_server import free_port

STARTS = 8
"""Attempts to start a node, which gives up after 30 s on a busy machine."""
_STARTED = b"Ray runtime started"


def can_hide_folders() -> bool:
    """Return whether this process may start others in a mount namespace of their own."""
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@contextlib.contextmanager
def two_nodes(hidden: Sequence[Path]) -> Iterator[Path]:
    """Start two nodes of one processor each, connect this process, and end them.

    Args:
        hidden: Folders that are empty for the second node, each below none of the others.

    Yields:
        The root folder of the second node's files.
    """
    import ray

    start = [str(Path(sys.executable).with_name("ray")), "start", "--num-cpus=1", "--disable-usage-stats", "--block"]
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/var/tmp") as folder, contextlib.ExitStack() as nodes:
        port = 0

        def head() -> list[str]:
            nonlocal port
            port = free_port()
            return [*start, "--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"]

        def second() -> list[str]:
            mounts = "".join(f"mount -t tmpfs none '{path}' && " for path in hidden)
            joined = " ".join([*start, f"--address=127.0.0.1:{port}"])
            return ["unshare", "-m", "sh", "-c", f"{mounts} exec {joined}"]

        nodes.enter_context(_started(head, Path(folder, "head.log")))
        process = nodes.enter_context(_started(second, Path(folder, "second.log")))
        ray.init(f"127.0.0.1:{port}", log_to_driver=False)
        nodes.callback(ray.shutdown)
        yield Path(f"/proc/{process}/root")


@contextlib.contextmanager
def _started(command: Callable[[], Sequence[str]], log: Path) -> Iterator[int]:
    """Start a node and run it until the end of the context. The value is its process id."""
    for _ in range(STARTS):
        with open(log, "wb") as file:
            process = subprocess.Popen(command(), stdout=file, stderr=file, start_new_session=True)
        while process.poll() is None and _STARTED not in log.read_bytes():
            time.sleep(0.2)
        if process.poll() is None:
            break
    else:
        raise RuntimeError(log.read_text()[-2000:])
    try:
        yield process.pid
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
