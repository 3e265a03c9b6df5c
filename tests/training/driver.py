"""A training process for tests: trains, stops itself on request, or writes one step's gradients."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

import clocs.core.storage.files
import clocs.training.loop as loops
from clocs.core.storage.object_cache import ShardCopy
from clocs.training.config_resolution import resolve_config
from clocs.training.pretrain import pretrain
from clocs.training.state import TrainingState
from tests.training import token_method  # noqa: F401  (registers the method)


def main() -> None:
    config, extra, *overrides = sys.argv[1:]
    told: dict[str, Any] = json.loads(extra)
    if "gradients" in told:
        _write_gradients(told["gradients"], told.get("seed", 0))
    if "kill_at_write" in told:
        _kill_at_write(int(told["kill_at_write"]))

    if "kill_at_fetch" in told:
        _kill_at_fetch(int(told["kill_at_fetch"]))

    def progress(known: dict[str, Any]) -> None:
        if "loss" in known and known["step"] == told.get("stop_at"):
            os.kill(os.getpid(), signal.SIGKILL)

    result = pretrain(resolve_config(config, overrides), progress=progress)
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps(result))


def _write_gradients(path: str, seed: int) -> None:
    """Replace training by one step on a fixed global batch; keep its loss and gradients."""

    def train(self: loops.Loop, about: object, start: object, progress: object) -> TrainingState:
        items = np.random.default_rng(seed).permutation(len(self.data.train))[: self.config.batch_size]
        loss = self.step(self.share.make(self.data.train, items, "train", 0, 0))
        if self.is_rank_zero:
            gradients = {name: value.grad for name, value in self.method.named_parameters() if value.grad is not None}
            save_file({"loss": torch.tensor(loss, dtype=torch.float64), **gradients}, path)
        self.state.best_loss = loss
        return self.state

    loops.Loop.train = train  # type: ignore[method-assign]


def _kill_at_write(count: int) -> None:
    """Kill the process at the n-th step of a durable write."""
    calls = 0

    def reached(step: str, path: object) -> None:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)

    clocs.core.storage.files.on_write_step = reached


def _kill_at_fetch(count: int) -> None:
    """Kill the process in the n-th download of a shard, when half of it is written."""
    calls = itertools.count(1)

    def fetch(self: ShardCopy, target: Path) -> None:
        if next(calls) == count:
            target.write_bytes(self.path.read_bytes()[: self.num_bytes // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        whole(self, target)

    whole, ShardCopy.fetch = ShardCopy.fetch, fetch  # type: ignore[method-assign]


main()
