"""The encoder at work: a few threads, one processor each, so that requests share the machine evenly."""

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
from clocs.service.parsing.confinement import give_way
from clocs.service.parsing.reading import MemorySource

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Threads:
    """Where blocking work is done, as much at once as requests are active."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, "clocs-work", initializer=_begin)

    async def warm_up(self, encoder: PretrainedEncoder) -> None:
        """Have every thread load what the first request would wait for."""
        recording = _made_up()
        await asyncio.gather(*(self.run(_try, encoder, recording) for _ in range(2 * self._count)))

    async def run(self, function: Callable[Given, Result], *arguments: Given.args, **options: Given.kwargs) -> Result:
        """The function's result, without holding up other requests."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: function(*arguments, **options))

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown()


def _begin() -> None:
    torch = sys.modules.get("torch")  # where it runs the encoder: its threads are set in each of ours
    if torch is not None:
        torch.set_num_threads(1)
    give_way()


def _made_up() -> Recording:
    """Ten seconds of twelve leads, of nobody."""
    made: Dataset = DATASETS.get("synthetic")
    options = made.parse_options({"num_records": 1, "leads": 12})
    source = MemorySource({})
    return made.load(source, next(iter(made.entries(source, options))), options)


def _try(encoder: PretrainedEncoder, recording: Recording) -> None:
    with contextlib.suppress(ClocsError):  # an encoder for other units or leads
        encoder.classify(recording, any_lead=True)
