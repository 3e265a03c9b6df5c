"""Cells that count to a number: what a grid does with cells, without any training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from clocs.core.errors import ConfigError
from clocs.experiments.cells import Cell, Workload
from clocs.experiments.workspace import Workspace


class Number(Cell):
    """Writes a file that sums read."""

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
    """Adds to a number."""

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
    """Compute a cell, and note that it was computed."""
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
    """Labels of all cells that were computed, in order."""
    path = workspace.runs / "computed"
    return path.read_text().split() if path.exists() else []
