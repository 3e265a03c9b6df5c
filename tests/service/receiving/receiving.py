"""Receive DICOM on a free port, and die by SIGKILL at a step of a durable write: STORE SPOOL KEY STEP (0 for never)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from clocs.core.storage import files
from clocs.service.receiving.run import DicomSettings, ReceiveSettings, receive


def main(store: str, spool: str, key: str, step: str) -> None:
    """Receive until a batch is stored, or until the step."""
    steps = iter(range(1, 1 << 20))

    def die(_step: str, _path: Path) -> None:
        if next(steps) == int(step):
            os.kill(os.getpid(), signal.SIGKILL)

    files.on_write_step = die
    settings = ReceiveSettings(
        store=Path(store),
        spool=Path(spool),
        key=Path(key),
        dicom=DicomSettings("127.0.0.1", 0, "CLOCS", ("CART1",)),
        poll_seconds=0.1,
        batch_seconds=0,
    )

    async def run() -> None:
        stop = asyncio.Event()

        def report(line: str) -> None:
            print(line, flush=True)
            if line.startswith("stored"):
                stop.set()

        await receive(settings, stop, report)

    asyncio.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])
