"""Share of the ten nearest test patients who have the same diagnosis, by encoder and store.

Measure, then write the table of the docs page from the committed results:

    python benchmarks/similar_patients.py measure STORE ...
    python benchmarks/similar_patients.py page

A store has a split ``default`` and classes. Random weights are those of the paper's network.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from page_tables import table, write_tables

from clocs.evaluation.scoring import format_interval
from clocs.similarity.scoring.scores import score_similarity

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results" / "similar-patients.json", ROOT / "docs" / "how-to" / "similarity.md"
ENCODERS = ("clocs-base", "clocs-small", "random")
TITLES = {"physionet2020": "CPSC 2018, nine findings", "ptbxl": "PTB-XL, superclasses"}


def measure(folders: list[str]) -> list[dict[str, Any]]:
    """Score every encoder on every store."""
    return [{**score_similarity(encoder, folder), "encoder": encoder} for folder in folders for encoder in ENCODERS]


def page_table(found: list[dict[str, Any]]) -> str:
    """Return the table of the docs page."""
    rows = []
    for row in found:
        agreement = row["agreement"]
        scores = [format_interval(agreement[mean]) for mean in ("macro", "micro")]
        name = "random weights" if row["encoder"] == "random" else f"`{row['encoder']}`"
        rows.append([TITLES[row["dataset"]], name, *scores, f"{agreement['chance']['macro']:.3f}"])
    return table(["test patients of", "encoder", "mean over classes", "mean over patients", "chance, classes"], rows)


def main(arguments: list[str]) -> None:
    """Measure, or write the page."""
    if len(arguments) > 1 and arguments[0] == "measure":
        RESULTS.write_text(json.dumps(measure(arguments[1:]), indent=1) + "\n")
    elif arguments == ["page"]:
        write_tables(PAGE, {"similar patients": page_table(json.loads(RESULTS.read_text()))})
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
