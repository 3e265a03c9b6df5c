"""The status of a grid: what is done, what the rest will cost, and which inputs are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clocs.experiments.cells import Cell, chain_of
from clocs.experiments.costs import Costs, Estimate
from clocs.experiments.workspace import Workspace


@dataclass(frozen=True)
class Status:
    """The status of one cell."""

    done: bool
    missing_inputs: tuple[str, ...]
    cost: Estimate


def statuses(
    cells: Iterable[Cell], workspace: Workspace, costs: Costs, known_keys: Container[str] = ()
) -> dict[str, Status]:
    """Return the status of each cell and of those it requires, each once, by key.

    Without its stores, the name of a cell is not known. A cell then counts as done if ``known_keys`` has its key, so
    that results which came with the project are seen where no data are.
    """
    found: dict[str, Status] = {}
    for cell in cells:
        for part in chain_of(cell):
            if part.key not in found:
                named = all(workspace.has_store(dataset) for dataset in part.datasets)
                done = workspace.result(part) is not None if named else part.key in known_keys
                found[part.key] = Status(done, tuple(part.missing_inputs(workspace)), costs.estimate(part))
    return found


def totals(known: Mapping[str, Status]) -> dict[str, Any]:
    """Count cells that are done and to do, with their cost and missing inputs, as JSON."""
    waiting = [status for status in known.values() if not status.done]
    ready = [status for status in waiting if not status.missing_inputs]
    return {
        "cells": len(known),
        "done": len(known) - len(waiting),
        "to_do": len(waiting),
        "runnable": len(ready),
        "core_hours": _hours(waiting),
        "runnable_core_hours": _hours(ready),
        "estimated_from": dict(Counter(status.cost.basis for status in waiting)),
        "missing_inputs": dict(Counter(each for status in waiting for each in status.missing_inputs)),
    }


def _hours(some: Iterable[Status]) -> float:
    return sum(status.cost.seconds for status in some) / 3600
