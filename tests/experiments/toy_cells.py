"""Toy cells that add numbers, for tests of a grid without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from clocs.core.errors import ConfigError
from clocs.experiments.cells import Cell, Workload
from clocs.experiments.workspace import Workspace


class Number(Cell):
    """A cell that writes a number to a file."""

    kind: ClassVar[str] = "number"

    value: int
    seed: int = 0
    dataset: str = ""

    @property
    def label(self) -> str:
        return f"number-{self.value}"

    @property
    def datasets(self) -> tuple[str, ...]:
        return (self.dataset,) if self.dataset else ()

    def workload(self) -> Workload:
        similar = (("same value", ("number", str(self.value))), ("same kind", ("number",)))
        return Workload(float(self.value), similar, default_rate=2.0)

    def file(self, workspace: Workspace) -> Path:
        return workspace.runs / f"{self.value}-{self.seed}.txt"

    def has_output(self, workspace: Workspace) -> bool:
        return self.file(workspace).exists()


class Sum(Cell):
    """A cell that adds to the number of another cell."""

    kind: ClassVar[str] = "sum"

    number: Number
    more: int = 1

    @property
    def label(self) -> str:
        return f"sum-{self.number.value}-{self.more}"

    @property
    def datasets(self) -> tuple[str, ...]:
        return self.number.datasets

    @property
    def requires(self) -> tuple[Cell, ...]:
        return (self.number,)

    def workload(self) -> Workload:
        return Workload(1.0, (("same kind", ("sum",)),), default_rate=5.0)


def run_toy(cell: Number | Sum, workspace: Workspace) -> dict[str, Any]:
    """Compute a cell, and log its label."""
    workspace.runs.mkdir(parents=True, exist_ok=True)
    with open(workspace.runs / "computed", "a") as file:
        file.write(f"{cell.label}\n")
    if isinstance(cell, Number):
        if cell.value < 0:
            raise ConfigError("a number must not be negative")
        if cell.value == 13:
            raise ZeroDivisionError("division by zero")
        cell.file(workspace).write_text(str(cell.value))
        return {"result": cell.value, "seconds": 1.0}
    return {"result": int(cell.number.file(workspace).read_text()) + cell.more, "seconds": 3.0}


def computed(workspace: Workspace) -> list[str]:
    """Return the labels of all computed cells, in order."""
    path = workspace.runs / "computed"
    return path.read_text().split() if path.exists() else []
