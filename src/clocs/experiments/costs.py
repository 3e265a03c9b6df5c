"""What cells will cost, from what finished ones of their kind have cost.

Cost is taken to grow with the frames that a cell trains on or embeds. So a cell that nobody has run yet is estimated
from others: the same method and dataset if there are any, else the same dataset, else the same kind of cell, else
``DEFAULTS``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median

from clocs.experiments.cells import Cell, Evaluation, Pretraining
from clocs.experiments.measures import MEASURES
from clocs.experiments.paper_numbers import SINGLE_LEAD, counts

DEFAULTS: dict[str, float] = {
    "pretraining": 0.15,
    "finetune": 0.2,
    "linear": 0.4,
    **{measure: 0.4 for measure in MEASURES},
}
"""Seconds for a thousand frames where nothing of that kind is finished: what one core of a cloud machine took for
CMSC on Chapman, and for random weights on PhysioNet 2017; for measures, as for a linear evaluation."""
OTHER_FRAMES = 10_000
"""Training frames of datasets that the paper does not have."""
PAPER_LEADS = 4
SEGMENTED = frozenset({"cmsc", "cmlc", "cmsmlc"})
VIEWS = {"supervised": 1, "mtssl": 6}
"""Frames that pass the network for each in the dataset; of others, two."""
BASES = ("same method, dataset and preset", "same method and dataset", "same dataset", "same kind", "default")


@dataclass(frozen=True)
class Estimate:
    """Seconds of one core, and what they are taken from: one of ``BASES``."""

    seconds: float
    basis: str


def work(cell: Cell) -> float:
    """Thousands of frames that pass the network in training; of frozen ones, the training frames there are."""
    if isinstance(cell, Evaluation):
        frames = _training_frames(cell.dataset, cell.leads)
        return frames * (cell.epochs * cell.fraction if cell.protocol == "finetune" else 1)
    if cell.principal:
        return sum(_training_frames(dataset, cell.leads) for dataset in cell.datasets)
    views = VIEWS.get(cell.method, 2)
    if cell.config.get("steps") is not None:
        return float(views * cell.config["steps"] * cell.config.get("batch", 256)) / 1000
    segmented = cell.method in SEGMENTED
    return views * cell.epochs * sum(_training_frames(dataset, cell.leads, segmented) for dataset in cell.datasets)


@lru_cache
def _training_frames(dataset: str, leads: int, segmented: bool = False) -> float:
    """Thousands, by the paper's tables 3, for its own methods, and 4."""
    pairs = counts(table=3, split="train", dataset=dataset, method="cmsc") if segmented else ()
    frames = counts(table=4, split="train", dataset=dataset, quantity="instances")
    known = next((count.value for count in (*pairs, *frames)), OTHER_FRAMES)
    return known / 1000 * (1 if dataset in SINGLE_LEAD else leads / PAPER_LEADS)


def _likenesses(cell: Cell) -> Iterator[tuple[str, ...]]:
    """What a cell has in common with others, most first; always its kind and network."""
    kind = cell.protocol if isinstance(cell, Evaluation) else "linear" if cell.principal else "pretraining"
    start = cell.start if isinstance(cell, Evaluation) else cell
    network = "cnn" if start is None else str(start.config.get("encoder", {}).get("name", "cnn"))
    if cell.preset == "trial":  # changes too much to tell of others
        network = "trial"
    yield kind, network, cell.dataset, cell.method, cell.preset
    yield kind, network, cell.dataset, cell.method
    yield kind, network, cell.dataset
    yield kind, network


class Costs:
    """Learns from finished cells, and estimates others."""

    def __init__(self) -> None:
        self._rates: dict[tuple[str, ...], list[float]] = defaultdict(list)
        """Seconds for a unit of work, of each finished cell."""

    @classmethod
    def of_results(cls, results: Path) -> Costs:
        """From all finished cells of a results folder, whatever experiment wanted them."""
        costs = cls()
        for path in sorted((results / "cells").glob("*.json")):
            try:
                known = json.loads(path.read_bytes())
                kind = Evaluation if "protocol" in known["cell"] else Pretraining
                costs.learn(kind.model_validate(known["cell"]), known["seconds"])
            except (OSError, ValueError, KeyError, TypeError):  # of another version, or damaged: no harm to an estimate
                continue
        return costs

    def learn(self, cell: Cell, seconds: float | None) -> None:
        """Add a finished cell; None: nobody looked at the clock."""
        if isinstance(cell, Pretraining) and cell.principal:  # with the time of its training
            return
        if seconds is not None and seconds >= 0 and (amount := work(cell)):
            for key in _likenesses(cell):
                self._rates[key].append(float(seconds) / amount)

    def estimate(self, cell: Cell) -> Estimate:
        """What a cell will cost, if it uses all epochs as often as those before it did."""
        amount = work(cell)
        keys = list(_likenesses(cell))
        for key, basis in zip(keys, BASES, strict=False):
            if key in self._rates:  # the median: a run that was stopped for an hour tells nothing of others
                return Estimate(amount * median(self._rates[key]), basis)
        return Estimate(amount * DEFAULTS[keys[-1][0]], BASES[-1])
