"""A run: a folder named by what goes into it, so that a finished one is never repeated."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clocs.core.files import canonical_json, content_hash, seal, unseal, write_bytes

CODE = 2
"""Raise it when the loop's numbers change: runs of other code have other names."""
METRICS, TIMING = "metrics.jsonl", "timing.jsonl"
PACKAGES = ("clocs", "lightning-fabric", "numpy", "pyarrow", "safetensors", "torch")


class Run:
    """The folder of one run."""

    def __init__(self, runs: Path, label: str, identity: dict[str, Any]) -> None:
        self.identity = {**identity, "code": CODE}
        self.name = f"{label}-{content_hash(self.identity)[:12]}"
        self.folder = runs / self.name
        self.checkpoints = self.folder / "checkpoints"
        self.best = self.folder / "best"
        self._metrics = self.folder / METRICS
        self._timing = self.folder / TIMING

    def begin(self) -> None:
        """Write down what the run is and where it runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self.folder / "config.json", canonical_json(self.identity))
        write_bytes(self.folder / "environment.json", canonical_json(environment()))

    def result(self) -> dict[str, Any] | None:
        """What a finished run found; None while it is not finished."""
        path = self.folder / "result.json"
        return unseal(path.read_bytes(), path.name) if path.exists() else None

    def finish(self, result: dict[str, Any]) -> None:
        """Declare the run finished."""
        write_bytes(self.folder / "result.json", seal(result))

    def log(self, **values: Any) -> None:
        """One line of metrics: values that depend on the run alone, never on the clock."""
        _append(self._metrics, values)

    def log_timing(self, **values: Any) -> None:
        """One line of what the clock said."""
        _append(self._timing, values)

    def speed(self) -> float:
        """Views trained on per second, over all that the clock saw of this run."""
        lines = read_lines(self._timing)
        spent = sum(line["seconds"] for line in lines)
        return float(sum(line["frames"] for line in lines) / spent) if spent else 0.0

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of metrics."""
        return read_lines(self._metrics)

    def rewind(self, step: int) -> None:
        """Forget lines after a step: they will be written again."""
        if self._metrics.exists():
            lines = self._metrics.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if line.endswith(b"\n") and json.loads(line)["step"] <= step]
            write_bytes(self._metrics, b"".join(kept))


def environment() -> dict[str, Any]:
    """Where a run runs: machine and versions."""
    about = {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count()}
    return {**about, "packages": {name: version(name) for name in PACKAGES}}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines; none where there is no file. A run that is still going may be in the middle of the last one."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def finished_epochs(run: Path) -> list[dict[str, Any]]:
    """What the metrics in a run's folder say of each epoch."""
    return [line for line in read_lines(run / METRICS) if "validation_loss" in line]


def _append(path: Path, values: dict[str, Any]) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(values) + "\n")
