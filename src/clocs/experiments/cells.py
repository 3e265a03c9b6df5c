"""Cells of a grid. A cell is one computation, described by its fields."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from clocs.core.run_identity import identity_hash, non_default_values

if TYPE_CHECKING:
    from clocs.experiments.workspace import Workspace


@dataclass(frozen=True)
class Workload:
    """The amount of work of a cell, and the groups of similar cells that its cost is estimated from."""

    amount: float
    """Amount of work, in a unit that cells of one kind share, such as thousands of frames."""
    similar: tuple[tuple[str, tuple[str, ...]], ...]
    """Groups of cells with a similar cost per unit, the most similar first: description and key of each group."""
    default_rate: float
    """Seconds per unit if no cell of these groups is finished."""


class Cell(BaseModel):
    """One computation of a grid. A subclass adds fields; equal fields are the same cell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: ClassVar[str]
    """Name of the subclass in a table of cells."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The readable part of the cell's name."""

    @property
    @abstractmethod
    def datasets(self) -> tuple[str, ...]:
        """The datasets that the cell depends on, directly or through a required cell."""

    @abstractmethod
    def workload(self) -> Workload:
        """Return the workload, from which the cost is estimated."""

    @property
    def requires(self) -> tuple[Cell, ...]:
        """Cells that must be computed first, in this order. Each cell reads the files of the one before it."""
        return ()

    @property
    def initial_weights_sha256(self) -> str | None:
        """Hash of initial weights that no cell computes, such as those of a shipped encoder."""
        return None

    def missing_inputs(self, workspace: Workspace) -> list[str]:
        """Return descriptions of the inputs that are missing: by default, stores of datasets."""
        return [f"store of {dataset}" for dataset in self.datasets if not workspace.has_store(dataset)]

    def has_output(self, workspace: Workspace) -> bool:
        """Return whether the files that other cells read exist. Cells without such files return True."""
        return True

    def describe(self) -> dict[str, Any]:
        """Return the kind and all values that differ from the defaults, as JSON."""
        return {"kind": self.kind, **non_default_values(self)}

    @property
    def key(self) -> str:
        """Hash of the description. Unlike the name it does not depend on the data."""
        return identity_hash(self.describe())


def chain_of(cell: Cell) -> tuple[Cell, ...]:
    """Return all cells that must be computed first, followed by the cell itself."""
    return (*cell.requires, cell)
