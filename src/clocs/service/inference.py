"""Worker threads that run the encoder, one processor each."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from clocs.core.errors import ClocsError
from clocs.core.recording import Recording
from clocs.datasets import DATASETS
from clocs.datasets.dataset import Dataset
from clocs.inference.pretrained import PretrainedEncoder
from clocs.service.parsing.confinement import lower_priority
from clocs.service.parsing.reading import MemorySource

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class WorkerThreads:
    """Thread pool for blocking work, with one thread per active request."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, "clocs-work", initializer=_begin)

    async def warm_up(self, encoder: PretrainedEncoder) -> None:
        """Run the encoder once in every thread, so that the first request does not wait for loading."""
        recording = _synthetic_recording()
        await asyncio.gather(*(self.run(_classify_once, encoder, recording) for _ in range(2 * self._count)))

    async def run(
        self, function: Callable[Arguments, Result], *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> Result:
        """Run a function in a worker thread and return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*arguments, **options))

    def close(self) -> None:
        """Wait for the running work."""
        self._pool.shutdown()


def _begin() -> None:
    torch = sys.modules.get("torch")  # where it runs the encoder: its threads are set in each of ours
    if torch is not None:
        torch.set_num_threads(1)
    lower_priority()


def _synthetic_recording() -> Recording:
    """Return ten seconds of twelve synthetic leads."""
    made: Dataset = DATASETS.get("synthetic")
    options = made.parse_options({"num_records": 1, "leads": 12})
    source = MemorySource({})
    return made.load(source, next(iter(made.entries(source, options))), options)


def _classify_once(encoder: PretrainedEncoder, recording: Recording) -> None:
    with contextlib.suppress(ClocsError):  # an encoder for other units or leads
        encoder.classify(recording)
