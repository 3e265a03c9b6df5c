"""The results folder as the report sees it: finished cells by what they are, not by the hashes in their names.

So no store is needed to read it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from clocs.core.errors import ConfigError, StoreError
from clocs.core.files import content_hash
from clocs.experiments.cells import EPOCHS, Cell, Evaluation, key_of
from clocs.experiments.costs import Costs
from clocs.experiments.paper_numbers import SINGLE_LEAD, Condition, Method, results
from clocs.experiments.place import finished_cells
from clocs.signals.leads import STANDARD

Level = Literal["frame", "recording"]
LEVELS: Final[tuple[Level, ...]] = ("frame", "recording")
MOST_SEEDS: Final = 20
"""Looked for."""
FINETUNE_EPOCHS: Final[int] = Evaluation.model_fields["epochs"].default
"""At most, of a fine-tuning that is held against the paper."""
_SHARED: Final = {"dataset", "preset", "embedding", "leads", "seed", "epochs", "config"}
CELL_FIELDS: Final = frozenset(_SHARED | {"protocol", "start", "fraction"})
START_FIELDS: Final = frozenset(_SHARED | {"method", "options"})
"""What cells of the paper have; others go beyond it."""


@dataclass(frozen=True)
class Finished:
    """A finished cell."""

    name: str
    body: Mapping[str, Any]
    folder: Path

    @property
    def cell(self) -> dict[str, Any]:
        """What was done."""
        return dict(self.body["cell"])

    @property
    def start(self) -> dict[str, Any] | None:
        """The pre-training behind an evaluation."""
        return self.cell.get("start")

    @property
    def is_evaluation(self) -> bool:
        """Whether it judges an encoder by test patients; trials of a search judge by others."""
        return "protocol" in self.cell and "test" in self.body["result"]

    @property
    def is_pretraining(self) -> bool:
        """Whether an encoder came of it."""
        return "method" in self.cell

    @property
    def seed(self) -> int:
        """Of an evaluation or a pre-training."""
        return int(self.cell["seed"])

    @property
    def seconds(self) -> float | None:
        """Of one core; None: not measured."""
        return self.body.get("seconds")

    @property
    def scores(self) -> Path:
        """Where the test scores of an evaluation are, if they were kept."""
        return self.folder / "scores" / f"{self.name}.npz"

    @property
    def still_improving(self) -> bool:
        """Whether a run got better to its end. Early cells that had so many steps did not say so."""
        result = self.body["result"]
        by_steps = self.cell.get("config", {}).get("steps") == result.get("steps", 0)
        return bool(self.body.get("still_improving")) or (by_steps and result["best_epoch"] == result["epochs"] - 1)

    def auc(self, level: Level) -> Mapping[str, float | None]:
        """Macro AUC with the ends of its interval over patients."""
        found: Mapping[str, float | None] = self.body["result"][self.cell.get("part", "test")][level]["auc"]
        return found

    def test_data(self) -> tuple[str, ...]:
        """Hashes of the store and split whose patients judge."""
        return tuple(self.body["data"][self.cell["dataset"]])


Runs = Mapping[int, Finished]
"""The same evaluation by seed."""


class Results:
    """All finished cells of a folder; of one that was done by several versions of the code, the newest."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "cells").is_dir():
            raise StoreError(f"{folder} holds no results: it has no folder 'cells'. 'clocs reproduce' makes one")
        self.folder = folder
        self._by_content: dict[str, Finished] = {}
        self._conditions: dict[int, Mapping[tuple[str, Condition], Runs]] = {}
        """By epochs of pre-training."""
        for name, body in finished_cells(folder):
            self._keep(Finished(name, body, folder))

    def _keep(self, found: Finished) -> None:
        key = content_hash(found.cell)
        known = self._by_content.get(key)
        codes = [each.body["code"] for each in (known, found) if each is not None]
        if known is not None and codes[0] == codes[1]:
            raise ConfigError(f"{known.name} and {found.name} are the same cell on other data; keep one of them")
        if known is None or codes[1] > codes[0]:
            self._by_content[key] = found

    @cached_property
    def finished(self) -> tuple[Finished, ...]:
        """By name."""
        return tuple(sorted(self._by_content.values(), key=lambda each: each.name))

    @property
    def trained(self) -> tuple[Finished, ...]:
        """Pre-trainings; encoders as they start are none, nor is another last layer for one."""
        made = (each for each in self.finished if each.is_pretraining and each.cell["epochs"])
        return tuple(each for each in made if not each.cell.get("principal"))

    @property
    def judged(self) -> tuple[Finished, ...]:
        """Evaluations by test patients."""
        return tuple(each for each in self.finished if each.is_evaluation)

    def of(self, cell: Cell) -> Finished | None:
        """A cell of the grid, if it is done."""
        return self._by_content.get(key_of(cell))

    def seeds(self, cell: Callable[[int], Cell]) -> Runs:
        """What is done of a cell that has a seed."""
        found = {seed: self.of(cell(seed)) for seed in range(MOST_SEEDS)}
        return {seed: each for seed, each in found.items() if each is not None}

    def has(self, key: str) -> bool:
        """Whether a cell is done, by its ``key_of``."""
        return key in self._by_content

    def evaluations(self, condition: Condition, preset: str = "paper", epochs: int = EPOCHS) -> Runs:
        """All seeds of what the paper calls one experiment, by one preset; empty where there are none.

        ``epochs``: the cap of its pre-training.
        """
        return self._by_condition(epochs).get((preset, condition), {})

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What has a result by the preset ``paper``."""
        return tuple(condition for preset, condition in self._by_condition(EPOCHS) if preset == "paper")

    @cached_property
    def costs(self) -> Costs:
        """What finished cells tell of others."""
        return Costs.of_results(self.folder)

    def _by_condition(self, epochs: int) -> Mapping[tuple[str, Condition], Runs]:
        if epochs not in self._conditions:
            found: dict[tuple[str, Condition], dict[int, Finished]] = defaultdict(dict)
            for each in self.finished:
                condition = condition_of(each, epochs)
                if condition is not None:
                    found[each.cell["preset"], condition][each.seed] = each
            self._conditions[epochs] = {key: dict(sorted(runs.items())) for key, runs in found.items()}
        return self._conditions[epochs]


def condition_of(found: Finished, epochs: int = EPOCHS) -> Condition | None:
    """An evaluation in the paper's terms; None where something was done that the paper has no word for.

    ``epochs``: what its pre-training has at most.
    """
    if not found.is_evaluation or not _as_in_paper(found.cell, CELL_FIELDS, FINETUNE_EPOCHS):
        return None
    cell, start = found.cell, found.start
    told = {name: cell[name] for name in ("protocol", "embedding", "fraction", "leads")}
    if start is None or start["epochs"] == 0:
        return condition("random", cell["dataset"], None, **told)
    same = ("preset", "embedding", "leads")
    if not _as_in_paper(start, START_FIELDS, epochs) or any(start[name] != cell[name] for name in same):
        return None
    options = dict(start["options"])
    if "perturbations" in options:
        steps = [each if isinstance(each, Mapping) else {"name": each} for each in options.pop("perturbations")]
        if any(step.keys() - {"name", "probability"} for step in steps):
            return None
        told["perturbations"] = tuple(str(step["name"]) for step in steps)
    if "decay" in options:
        told["decay"] = options.pop("decay")
    return None if options else condition(start["method"], cell["dataset"], start["dataset"], **told)


def _as_in_paper(cell: Mapping[str, Any], fields: Set[str], epochs: int) -> bool:
    """Whether a cell changes nothing but what the paper varies; all twelve leads are named in its config."""
    named = {"leads"} if cell["leads"] == len(STANDARD) else set()
    return cell["epochs"] == epochs and cell.keys() <= fields and cell.get("config", {}).keys() <= named


def condition(method: Method, evaluation: str, pretraining: str | None = None, **told: Any) -> Condition:
    """An experiment of the paper, with its usual options unless told: E = 128, F = 0.5, four leads."""
    usual: dict[str, Any] = {"protocol": "linear", "embedding": 128, "fraction": 0.5, "leads": 4}
    if method == "random" and evaluation in SINGLE_LEAD:
        told["leads"] = 1
    usual["perturbations"] = _usual_perturbations(method, pretraining)
    usual["decay"] = 0.9 if method == "byol" else None
    named = {"method": method, "evaluation": evaluation, "pretraining": pretraining}
    return Condition.model_validate({**usual, **told, **named})


def _usual_perturbations(method: Method, pretraining: str | None) -> tuple[str, ...] | None:
    """In the paper's own tables; None where it does not say."""
    if method == "mtssl":
        return results(method="mtssl", pretraining=pretraining)[0].perturbations
    return None if method in ("simclr", "byol") else ()
