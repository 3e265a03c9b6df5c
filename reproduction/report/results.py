"""Finished cells for the report, found by their content and not by their name. No store is needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import ConfigError, StoreError
from clocs.experiments.status import Costs
from clocs.experiments.workspace import TABLE, CellTable
from clocs.metrics.replicates import Replicates
from clocs.signals.leads import STANDARD_LEADS
from reproduction.cells import EPOCHS, AnyCell, Evaluation, Level, Pretraining, parse_cell
from reproduction.paper_numbers import SINGLE_LEAD, Condition, Method, results
from reproduction.run_cell import REPLICATES_TABLE

MAX_SEEDS: Final = 20
"""Number of seeds that are searched."""
FINETUNE_EPOCHS: Final[int] = Evaluation.model_fields["max_epochs"].default
"""Maximum number of epochs of a fine-tuning that is compared with the paper."""


@dataclass(frozen=True)
class FinishedCell:
    """A finished cell."""

    name: str
    cell: AnyCell
    row: Mapping[str, Any]
    replicates: Mapping[str, Replicates]
    """Bootstrap replicates of the AUC of an evaluation, by level."""

    @property
    def result(self) -> Mapping[str, Any]:
        """Result of the cell."""
        found: Mapping[str, Any] = self.row["result"]
        return found

    @property
    def is_test(self) -> bool:
        """True if it is an evaluation on test patients."""
        return "test" in self.result

    @property
    def seconds(self) -> float | None:
        """Seconds of one core. None: not measured."""
        return self.row.get("seconds")

    @property
    def still_improving(self) -> bool:
        """True if a run improved until its end. Early rows of runs by steps do not have this value."""
        by_steps = self.cell.config.get("max_steps") == self.result.get("steps", 0)
        at_end = by_steps and self.result["best_epoch"] == self.result["epochs"] - 1
        return bool(self.row.get("still_improving")) or at_end

    def auc(self, level: Level) -> Mapping[str, float | None]:
        """Return the macro AUC with the ends of its interval over patients."""
        assert isinstance(self.cell, Evaluation)
        found: Mapping[str, float | None] = self.result[self.cell.part][level]["auc"]
        return found

    def test_data(self) -> tuple[str, ...]:
        """Return the hashes of the store and split whose patients are tested."""
        return tuple(self.row["origin"]["data"][self.cell.dataset])


Runs = Mapping[int, FinishedCell]
"""Finished cells of one evaluation, by seed."""


class Results:
    """All finished cells of a results folder."""

    def __init__(self, folder: Path, *, may_be_empty: bool = False) -> None:
        if not may_be_empty and not (folder / TABLE).is_file():
            raise StoreError(f"{folder} has no {TABLE}. Run 'python -m reproduction run NAME' first.")
        self.folder = folder
        self._by_key: dict[str, FinishedCell] = {}
        self._conditions: dict[int, Mapping[tuple[str, Condition], Runs]] = {}
        """Runs by condition, by maximum number of epochs of pre-training."""
        replicates = dict(CellTable(folder / REPLICATES_TABLE).rows())
        for name, row in CellTable(folder / TABLE).rows():
            drawn = {level: Replicates.from_dict(each) for level, each in replicates.get(name, {}).items()}
            self._add(FinishedCell(name, _parse_row(name, row), row, drawn))

    def _add(self, found: FinishedCell) -> None:
        known = self._by_key.setdefault(found.cell.key, found)
        if known is not found:
            raise ConfigError(f"{known.name} and {found.name} are the same cell on other data; keep one of them.")

    @cached_property
    def finished(self) -> tuple[FinishedCell, ...]:
        """All cells, by name."""
        return tuple(sorted(self._by_key.values(), key=lambda each: each.name))

    @property
    def trained(self) -> tuple[FinishedCell, ...]:
        """Pre-trainings, without untrained encoders and without replaced last layers."""
        return tuple(
            each
            for each in self.finished
            if isinstance(each.cell, Pretraining) and each.cell.max_epochs and not each.cell.pca
        )

    @property
    def tested(self) -> tuple[FinishedCell, ...]:
        """Evaluations on test patients."""
        return tuple(each for each in self.finished if each.is_test)

    def get(self, cell: AnyCell) -> FinishedCell | None:
        """Return the result of a cell, or None."""
        return self._by_key.get(cell.key)

    def seeds(self, cell: Callable[[int], AnyCell]) -> Runs:
        """Return the results of a cell by seed."""
        found = {seed: self.get(cell(seed)) for seed in range(MAX_SEEDS)}
        return {seed: each for seed, each in found.items() if each is not None}

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the finished cells."""
        return frozenset(self._by_key)

    def training_seconds(self, cell: AnyCell) -> float | None:
        """Return the time of a cell with that of the training behind a replaced last layer; None if unknown."""
        parts = (cell.trained, cell) if isinstance(cell, Pretraining) and cell.pca else (cell,)
        times = [found.seconds if (found := self.get(part)) is not None else None for part in parts]
        known = [time for time in times if time is not None]
        return sum(known) if len(known) == len(times) else None

    def evaluations(self, condition: Condition, preset: str = "paper", max_epochs: int = EPOCHS) -> Runs:
        """Return all seeds of one experiment of the paper.

        Args:
            condition: The experiment.
            preset: The preset that it was computed by.
            max_epochs: Maximum number of epochs of its pre-training.
        """
        return self._by_condition(max_epochs).get((preset, condition), {})

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Experiments of the paper that have a result by the preset ``paper``."""
        return tuple(condition for preset, condition in self._by_condition(EPOCHS) if preset == "paper")

    @cached_property
    def costs(self) -> Costs:
        """Costs of the finished cells."""
        costs = Costs()
        for each in self.finished:
            costs.learn(each.cell, each.seconds)
        return costs

    def _by_condition(self, max_epochs: int) -> Mapping[tuple[str, Condition], Runs]:
        if max_epochs not in self._conditions:
            found: dict[tuple[str, Condition], dict[int, FinishedCell]] = defaultdict(dict)
            for each in self.finished:
                condition = condition_of(each.cell, max_epochs) if each.is_test else None
                if condition is not None:
                    found[each.cell.preset, condition][each.cell.seed] = each
            self._conditions[max_epochs] = {key: dict(sorted(runs.items())) for key, runs in found.items()}
        return self._conditions[max_epochs]


def _parse_row(name: str, row: Mapping[str, Any]) -> AnyCell:
    try:
        _ = row["result"], row["origin"]
        return parse_cell(row["cell"])
    except (KeyError, ValueError, TypeError) as error:
        raise StoreError(f"{name} is not a finished cell of the reproduction: {error}") from error


def condition_of(cell: AnyCell, max_epochs: int = EPOCHS) -> Condition | None:
    """Return the condition of an evaluation, or None if the paper has no such experiment.

    Args:
        cell: The cell.
        max_epochs: Maximum number of epochs of its pre-training.
    """
    if not isinstance(cell, Evaluation) or cell.protocol not in ("linear", "finetune"):
        return None
    if cell.part != "test" or cell.shipped or not _only_paper_changes(cell, FINETUNE_EPOCHS):
        return None
    values: dict[str, Any] = {
        name: getattr(cell, name) for name in ("protocol", "embedding_dim", "label_fraction", "leads")
    }
    start = cell.start
    if start is None or start.max_epochs == 0:
        return None if _is_other_network(start) else condition("random", cell.dataset, None, **values)
    same = all(getattr(start, name) == getattr(cell, name) for name in ("preset", "embedding_dim", "leads"))
    if not same or start.extra_datasets or start.pca or not _only_paper_changes(start, max_epochs):
        return None
    options = dict(start.options)
    if "augmentations" in options:
        steps = [each if isinstance(each, Mapping) else {"name": each} for each in options.pop("augmentations")]
        if any(step.keys() - {"name", "probability"} for step in steps):
            return None
        values["augmentations"] = tuple(str(step["name"]) for step in steps)
    if "decay" in options:
        values["decay"] = options.pop("decay")
    return None if options else condition(start.method, cell.dataset, start.dataset, **values)  # type: ignore[arg-type]


def _only_paper_changes(cell: AnyCell, max_epochs: int) -> bool:
    """Return whether a cell changes only what the paper varies; all twelve leads are named in its config."""
    named = {"leads"} if cell.leads == len(STANDARD_LEADS) else set()
    return cell.max_epochs == max_epochs and cell.config.keys() <= named


def _is_other_network(start: Pretraining | None) -> bool:
    """Return whether untrained weights are not those of the paper's network."""
    return start is not None and (start.preset != "paper" or bool(start.config) or start.pca)


def condition(method: Method, evaluation: str, pretraining: str | None = None, **values: Any) -> Condition:
    """Return an experiment of the paper, by default with E = 128, F = 0.5 and four leads."""
    usual: dict[str, Any] = {"protocol": "linear", "embedding_dim": 128, "label_fraction": 0.5, "leads": 4}
    if method == "random" and evaluation in SINGLE_LEAD:
        values["leads"] = 1
    usual["augmentations"] = _usual_augmentations(method, pretraining)
    usual["decay"] = 0.9 if method == "byol" else None
    named = {"method": method, "evaluation": evaluation, "pretraining": pretraining}
    return Condition.model_validate({**usual, **values, **named})


def _usual_augmentations(method: Method, pretraining: str | None) -> tuple[str, ...] | None:
    """Return the augmentations of the paper's tables, or None if it does not state them."""
    if method == "mtssl":
        return results(method="mtssl", pretraining=pretraining)[0].augmentations
    return None if method in ("simclr", "byol") else ()
