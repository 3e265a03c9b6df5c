"""Compare another seed of the joint network of clocs-base with the shipped one.

    python benchmarks/encoder_pretraining.py STORES joint1 2700 1
    python benchmarks/encoder_assembly.py STORES joint1 clocs-base-seed-1
    clocs benchmark clocs-base-seed-1 --stores STORES --out OUT --task physionet2020:cpsc2018
    python benchmarks/encoder_seeds.py OUT

The finished cells of ``OUT`` are copied to ``results/encoder-seeds.json``, from which the table of the page is made;
without ``OUT``, the table alone. The controls are not needed: the benchmark can be stopped after the encoder's cell.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from encoder_search import PAGE
from measuring import ROOT
from page_tables import table, write_tables

from clocs.evaluation.benchmark.summary import summarize

SHIPPED, SEEDS = ROOT / "results" / "benchmark.json", ROOT / "results" / "encoder-seeds.json"
ENCODER, FEATURES, SELECTION = "clocs-base", "embedding", "validation"


def results_of(cells: list[dict[str, Any]], encoder: str) -> dict[tuple[str, float], dict[str, float]]:
    """Return the macro AUC of an encoder by task and fraction of the labels, with its interval."""
    return {
        (row["task"]["title"], result["label_fraction"]): result["macro"]["auc"]
        for row in cells
        if Path(row["encoder"]["name"]).name == encoder and not row["cell"].get("leads")
        for result in row["rows"]
        if (result["features"], result["selection"]) == (FEATURES, SELECTION)
    }


def main(arguments: list[str]) -> None:
    """Copy the rows of a run, and write the table."""
    name = f"{ENCODER}-seed-1"
    if arguments:
        cells = [json.loads(line) for line in (Path(arguments[0]) / "cells.jsonl").read_text().splitlines()]
        kept = summarize([cell for cell in cells if Path(cell["encoder"]["name"]).name == name])
        for cell in kept:  # a folder has a path, which says nothing about the encoder
            cell["name"] = cell["encoder"]["name"] = cell["cell"]["encoder"] = name
        SEEDS.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    shipped = results_of(json.loads(SHIPPED.read_text())["rows"], ENCODER)
    other = results_of(json.loads(SEEDS.read_text()), name)
    rows = [
        (task, f"{fraction:.0%}", *(f"{auc['value']:.3f} ({auc['low']:.3f} to {auc['high']:.3f})" for auc in pair))
        for (task, fraction), pair in ((key, (shipped[key], other[key])) for key in other)
    ]
    write_tables(PAGE, {"seeds": table(("task", "labels", "shipped, seed 0", "seed 1"), rows)})


if __name__ == "__main__":
    main(sys.argv[1:])
