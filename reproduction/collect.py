"""Collection of finished cells that were computed into another results folder."""

from __future__ import annotations

from pathlib import Path

from clocs.core.errors import StoreError
from clocs.experiments.workspace import TABLE, CellTable
from reproduction.run_cell import REPLICATES_TABLE, best_kept_name


def collect(source: Path, target: Path) -> int:
    """Add the finished cells of one results folder to another, with their bootstrap replicates.

    Cells that the other folder has, by name, are skipped. Replicates are added before their cell, so that a killed
    command leaves no cell without them.

    Args:
        source: Results folder to read. A grid may be writing to it.
        target: Results folder to add to.

    Returns:
        The number of added cells.

    Raises:
        StoreError: The source has no results.
    """
    if not (source / TABLE).is_file():
        raise StoreError(f"{source} has no {TABLE}. Pass the results folder of a grid.")
    finished, replicates = CellTable(source / TABLE), CellTable(source / REPLICATES_TABLE)
    known, known_replicates = CellTable(target / TABLE), CellTable(target / REPLICATES_TABLE)
    new = [(name, row) for name, row in finished.rows() if known.get(name) is None]
    for name, row in new:
        for drawn in (name, best_kept_name(name)):
            found = replicates.get(drawn)
            if found is not None and known_replicates.get(drawn) is None:
                known_replicates.append(drawn, found)
        known.append(name, row)
    return len(new)
