"""Compare encoders that were trained with ``shuffle=blocks`` and with the full shuffle.

    python benchmarks/block_shuffle.py [EPOCHS [SEEDS]]

CMSC is trained on the real Chapman dataset, in shards of 64 recordings, for a few epochs. With blocks, 16 lanes mix two
shards each, a fifth of the store. The linear probe of the training loop gives an AUC on validation patients.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measuring import DATA, scratch

import clocs

RECORDS_PER_SHARD = 64
WAYS = {"full": ["shuffle=full"], "blocks": ["shuffle=blocks", "shuffle_lanes=16", "shuffle_window=2"]}


def probe_auc(store: Path, runs: Path, settings: list[str], epochs: int) -> float:
    """Train an encoder, and return the AUC of its last epoch's probe."""
    found: list[float] = []

    def progress(known: dict[str, Any]) -> None:
        if "probe_auc" in known:
            found.append(known["probe_auc"])

    given = [f"store={store}", f"runs={runs}", "onnx=false", f"max_epochs={epochs}", f"online_probe={epochs}"]
    clocs.pretrain("cmsc-chapman", given + settings, progress=progress)
    return found[-1]


def main() -> None:
    """Print a Markdown table: one line a seed, and the mean difference with its standard error."""
    epochs, seeds = (int(text) for text in (*sys.argv[1:], *("4", "3")[len(sys.argv) - 1 :]))
    with scratch() as folder:
        dataset = replace(clocs.DATASETS.get("chapman"), records_per_shard=RECORDS_PER_SHARD)
        store = clocs.ingest(dataset, DATA / "chapman.zip", folder / "store")
        clocs.split(store)
        print(f"{len(store.shards)} shards, {epochs} epochs\n\n| seed | {' | '.join(WAYS)} |\n|---|---|---|")
        rows = []
        before = time.process_time()
        for seed in range(seeds):
            rows.append(
                [
                    probe_auc(folder / "store", folder / f"{name}-{seed}", [*way, f"seed={seed}"], epochs)
                    for name, way in WAYS.items()
                ]
            )
            print(f"| {seed} | {' | '.join(f'{value:.4f}' for value in rows[-1])} |", flush=True)
        gains = np.diff(rows, axis=1)[:, 0]
        spent = time.process_time() - before
        error = gains.std(ddof=1) / len(gains) ** 0.5
        print(f"\nblocks - full: {gains.mean():+.4f} +- {error:.4f}; {spent:.0f} s of processor time")


if __name__ == "__main__":
    main()
