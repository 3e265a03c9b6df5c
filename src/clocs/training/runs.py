"""A run: a folder named by what goes into it, so that a finished one is never repeated."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clocs.core.errors import IntegrityError, StoreError
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
        write_bytes(self.folder / "config.json", canonical_json(self.identity))
        write_bytes(self.folder / "environment.json", canonical_json(environment()))

    def result(self) -> dict[str, Any] | None:
        """What a finished run found; None while it is not finished."""
        path = self.folder / "result.json"
        if not path.exists():
            return None
        try:
            return unseal(path.read_bytes(), str(path))
        except IntegrityError as error:
            raise IntegrityError(f"{error}. Delete this file, and the same command finishes the run again") from error

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
        return _read_metrics(self._metrics)

    def rewind(self, step: int) -> None:
        """Forget lines after a step, which will be written again, and what a kill left of the last one."""
        metrics = [line for line in self.metrics() if line["step"] <= step]
        for path, kept in ((self._metrics, metrics), (self._timing, read_lines(self._timing))):
            if path.exists():
                write_bytes(path, b"".join(map(_as_line, kept)))


def environment() -> dict[str, Any]:
    """Where a run runs: machine and versions."""
    about = {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count()}
    return {**about, "packages": {name: version(name) for name in PACKAGES}}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines that are whole: a kill, or a full disk, may have torn one. None where there is no file."""
    return [values for values in _parsed(path) if values is not None]


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    """All lines: without one, a run's curves would have a gap that nobody sees."""
    found = []
    for number, values in enumerate(_parsed(path), 1):
        if values is None:
            raise IntegrityError(
                f"{path}: line {number} cannot be read; its bytes have changed. Delete that line to go on with a gap "
                f"in the run's curves, or delete {path.parent}, and the same command trains the run from its start"
            )
        found.append(values)
    return found


def _parsed(path: Path) -> list[dict[str, Any] | None]:
    """Each line, None where it is damaged. A run that is still going may be in the middle of the last one: left out."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [_values(line) for line in lines]


def _values(line: bytes) -> dict[str, Any] | None:
    try:
        values = json.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def finished_epochs(run: Path) -> list[dict[str, Any]]:
    """What the metrics in a run's folder say of each epoch."""
    return [line for line in _read_metrics(run / METRICS) if "validation_loss" in line]


def _append(path: Path, values: dict[str, Any]) -> None:
    try:
        with open(path, "ab") as file:
            file.write(_as_line(values))
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}. Mend that, and the same command continues the run from "
            "its last checkpoint"
        ) from error


def _as_line(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode() + b"\n"
