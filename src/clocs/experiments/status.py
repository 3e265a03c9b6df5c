"""How a grid stands: what is done, what the rest will cost, and what has to be there first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from clocs.experiments.cells import Cell, Pretraining, chain_of, key_of
from clocs.experiments.costs import Costs, Estimate
from clocs.experiments.paper_numbers import SINGLE_LEAD
from clocs.experiments.place import Place
from clocs.signals.leads import STANDARD, derivable
from clocs.store.store import open_store

FULL_DOWNLOADS = "publishers' full downloads (12 leads)"


def needs(cell: Cell, place: Place) -> list[str]:
    """What is not there: stores, and leads that the data at hand do not hold."""
    found: dict[str, None] = {}
    for part in chain_of(cell):
        for dataset in part.datasets if isinstance(part, Pretraining) else (part.dataset,):
            there = place.has_store(dataset)
            if not there:
                found[f"store of {dataset}"] = None
            all_leads = part.leads == len(STANDARD) and dataset not in SINGLE_LEAD
            if all_leads and not (there and _holds_all_leads(place.store(dataset))):
                found[FULL_DOWNLOADS] = None
    return list(found)


@lru_cache(maxsize=64)
def _holds_all_leads(store: Path) -> bool:
    held = (info.leads or () for info in open_store(store).manifest.shards)
    return all(set(STANDARD) <= {*leads, *derivable(leads)} for leads in held)


@dataclass(frozen=True)
class State:
    """How a cell stands."""

    done: bool
    needs: tuple[str, ...]
    cost: Estimate


def states(cells: Iterable[Cell], place: Place, costs: Costs, kept: Container[str] = ()) -> dict[str, State]:
    """By content, each once, with the pre-trainings that cells wait for.

    Without its stores nobody can tell what a cell's file would be called. Then one of the same content counts, if
    ``kept`` has its key: so results that came with the project are seen where no data are.
    """
    found: dict[str, State] = {}
    for cell in cells:
        for part in chain_of(cell):
            key = key_of(part)
            if key not in found:
                named = all(place.has_store(dataset) for dataset in part.datasets)
                done = place.file(part).exists() if named else key in kept
                found[key] = State(done, tuple(needs(part, place)), costs.estimate(part))
    return found


def totals(known: Mapping[str, State]) -> dict[str, Any]:
    """Cells done and to do, what those will cost, and what keeps some of them from being run, as JSON."""
    waiting = [state for state in known.values() if not state.done]
    ready = [state for state in waiting if not state.needs]
    return {
        "cells": len(known),
        "done": len(known) - len(waiting),
        "to_do": len(waiting),
        "runnable": len(ready),
        "core_hours": _hours(waiting),
        "runnable_core_hours": _hours(ready),
        "estimated_from": dict(Counter(state.cost.basis for state in waiting)),
        "needs": dict(Counter(need for state in waiting for need in state.needs)),
    }


def _hours(some: Iterable[State]) -> float:
    return sum(state.cost.seconds for state in some) / 3600
