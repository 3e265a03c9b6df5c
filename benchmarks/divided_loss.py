"""Processor time of a rank for the loss of a global batch, which ranks divide: forward and backward, by gloo.

python benchmarks/divided_loss.py
"""

from __future__ import annotations

from statistics import median

import torch
import torch.distributed as dist
from measuring import processor_seconds
from page_tables import table
from torch.multiprocessing.spawn import spawn

from clocs.losses import PatientNCELoss
from clocs.losses.cosine import divided_among_ranks

INSTANCES, VIEWS, SIZE, REPEATS = 8192, 2, 128, 5


def measure(rank: int, ranks: int, port: int, results: torch.multiprocessing.Queue[float]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    values = torch.randn(INSTANCES, VIEWS, SIZE, generator=torch.Generator().manual_seed(0)).requires_grad_()
    patients, loss, seconds = torch.arange(INSTANCES) // 2, PatientNCELoss(), []

    def step() -> None:
        with divided_among_ranks():
            loss(values, patients).backward()

    for _ in range(REPEATS):
        dist.barrier()
        seconds.append(processor_seconds(step))
    results.put(median(seconds))
    dist.destroy_process_group()


def main() -> None:
    rows, context = [], torch.multiprocessing.get_context("spawn")
    for number, ranks in enumerate((1, 2, 4)):
        results = context.Queue()
        spawn(measure, args=(ranks, 29700 + number, results), nprocs=ranks)  # type: ignore[no-untyped-call]
        slowest = max(results.get() for _ in range(ranks))
        rows.append((ranks, slowest))
    cells = [(str(ranks), f"{spent:.2f}", f"{spent / rows[0][1]:.2f}") for ranks, spent in rows]
    print(table(("ranks", "processor time of a rank, s", "against one rank"), cells))


if __name__ == "__main__":
    main()
