"""Script: ``python -m reproduction`` with the additional experiment ``tiny`` of small real cells on synthetic data.

python -m tests.faults.gridding COUNT run tiny [OPTION]...   the command itself
python -m tests.faults.gridding COUNT idle ENGINE FOLDER     tasks that do nothing: what the grid itself takes
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from clocs.core.engine import Engine
from clocs.experiments import grid
from clocs.experiments.workspace import Workspace
from reproduction.__main__ import main
from reproduction.cells import AnyCell, Evaluation, Pretraining
from reproduction.experiments import EXPERIMENTS, Experiment
from reproduction.run_cell import run_cell

EVALUATED = 4
"""Every fourth pre-training is also evaluated, so four pre-trainings give five cells."""


def tiny(count: int, seeds: Iterable[int] = (0,)) -> Iterator[AnyCell]:
    """Iterate over ``count`` cells, including the pre-trainings that others depend on."""
    for seed in range(count * EVALUATED // (EVALUATED + 1)):
        config = {"max_steps": 6, "batch_size": 16, "checkpoint_every": 2}
        pretraining = Pretraining(
            method="cmsc",
            dataset="synthetic",
            preset="recommended",
            embedding_dim=16,
            seed=seed,
            max_epochs=1,
            config=config,
        )
        if seed % EVALUATED:
            yield pretraining
        else:
            yield Evaluation(
                protocol="linear",
                start=pretraining,
                dataset="synthetic",
                preset="recommended",
                embedding_dim=16,
                seed=seed,
            )


def report_done(task: grid.CellTask) -> grid.TaskOutcome:
    """Report all cells as done."""
    return grid.TaskOutcome(tuple(task.workspace.name(cell) for cell in task.cells))


def idle(count: int, engine: Engine, folder: Path) -> dict[str, Any]:
    """Return processor time until the first cell and per later cell, and memory of the driver in MB."""
    began, memory, times = time.process_time(), [], []

    def progress(done: grid.TaskOutcome) -> None:
        times.extend([time.process_time() - began] * len(done.names))
        memory.extend([psutil.Process().memory_info().rss / 2**20] * len(done.names))

    workspace = Workspace(folder / "stores", folder / "runs", folder / "results")
    with patch.object(grid, "run_task", report_done):
        summary = grid.run_grid(list(tiny(count)), workspace, run_cell, engine=engine, workers=2, progress=progress)
    assert summary.finished == len(times) == count
    per_cell = (times[-1] - times[0]) / (count - 1)
    return {"first": times[0], "per_cell": per_cell, "memory": [memory[count // 10], memory[-1]]}


if __name__ == "__main__":
    cells = int(sys.argv.pop(1))
    if sys.argv[1] == "idle":
        print(json.dumps(idle(cells, sys.argv[2], Path(sys.argv[3]))))  # type: ignore[arg-type]
    else:
        EXPERIMENTS["tiny"] = Experiment("tiny", "Small cells", partial(tiny, cells))
        main()
