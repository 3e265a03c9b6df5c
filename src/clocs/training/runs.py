"""A run: a folder named by what goes into it, so that a finished one is never repeated."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clocs.core.errors import IntegrityError
from clocs.core.files import seal, unseal, write_bytes
from clocs.core.run_identity import SCHEMA, identity_name
from clocs.training.run_logs import Line, RunLog, Stated, checked_log, every_line, whole_lines

_LOGGER = logging.getLogger(__name__)
CONFIG, ENVIRONMENT, RESULT = "config.json", "environment.json", "result.json"
METRICS, TIMING, RESUMES = "metrics.jsonl", "timing.jsonl", "resumes.jsonl"
PACKAGES = ("clocs", "lightning-fabric", "numpy", "pyarrow", "safetensors", "torch")
_LOGS = "logs"
"""Of a result: what it states of the run's logs."""


class Run:
    """The folder of one run.

    Args:
        runs: The folder of all runs.
        label: How the run's name begins.
        values: Values that differ from the defaults, as JSON.
        origin: Hashes of the inputs: store, split, frame policy, given initial weights.
        config: All values, defaults spelled out, for readers of the run's folder.

    The rest of the name is a hash of schema number, values and origin.
    """

    def __init__(
        self,
        runs: Path,
        label: str,
        values: Mapping[str, Any],
        origin: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = {"schema": SCHEMA, **(config or {**values, **origin})}
        self.name = identity_name(label, values, origin)
        self.folder = runs / self.name
        self.checkpoints = self.folder / "checkpoints"
        self.best = self.folder / "best"
        self.metrics = RunLog(self.folder / METRICS)
        """Values that depend on the run alone, never on the clock: a line a step and a line an epoch."""
        self.timing = RunLog(self.folder / TIMING)
        """What the clock said."""
        self.resumes = RunLog(self.folder / RESUMES)
        """A line for each time that the run was continued: from which checkpoint, and why from that one."""

    def begin(self) -> None:
        """Write down what the run is and where it runs."""
        _LOGGER.info("run folder: %s", self.folder)
        write_bytes(self.folder / CONFIG, seal(self.config))
        write_bytes(self.folder / ENVIRONMENT, seal(environment()))

    def result(self) -> dict[str, Any] | None:
        """Return what a finished run found; None while it is not finished."""
        body = _result(self.folder)
        return None if body is None else {key: value for key, value in body.items() if key != _LOGS}

    def finish(self, result: Mapping[str, Any]) -> None:
        """Declare the run finished; the result states the logs, which are checked by that when they are read."""
        logs = {log.path.name: log.sync() for log in (self.metrics, self.timing) if log.path.exists()}
        write_bytes(self.folder / RESULT, seal({**result, _LOGS: logs}))

    def rewind(self, metrics: Stated | None) -> None:
        """Go back to the metrics that a checkpoint states, None for the start; later ones will be written again."""
        self.metrics.cut(metrics)
        self.timing.mend()

    def speed(self) -> float:
        """Return the views trained on per second, over all that the clock saw of this run."""
        lines = whole_lines(checked_log(self.timing.path, None))
        spent = sum(line["seconds"] for line in lines)
        return float(sum(line["frames"] for line in lines) / spent) if spent else 0.0


def environment() -> dict[str, Any]:
    """Return where a run runs: machine and versions."""
    about = {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count()}
    return {**about, "packages": {name: version(name) for name in PACKAGES}}


def read_config(run: Path) -> dict[str, Any]:
    """Return what a run is, as its folder says; changed bytes are refused."""
    return unseal((run / CONFIG).read_bytes(), str(run / CONFIG))


def read_environment(run: Path) -> dict[str, Any]:
    """Return where a run ran, as its folder says; changed bytes are refused."""
    return unseal((run / ENVIRONMENT).read_bytes(), str(run / ENVIRONMENT))


def finished_epochs(run: Path) -> list[Line]:
    """Return what the metrics in a run's folder say of each epoch."""
    return [line for line in every_line(_log(run, METRICS), run / METRICS) if "validation_loss" in line]


def timings(run: Path) -> list[Line]:
    """Return what the clock said of a run."""
    return whole_lines(_log(run, TIMING))


def _log(run: Path, name: str) -> bytes:
    """Read a log, checked by the result's hash once the run is finished."""
    stated = (_result(run) or {}).get(_LOGS, {}).get(name)
    try:
        return checked_log(run / name, stated)
    except IntegrityError as error:
        advice = f"Restore it from a copy, or delete {run}, and the same command trains the run again from its start"
        raise IntegrityError(f"{error}. {advice}") from error


def _result(run: Path) -> dict[str, Any] | None:
    path = run / RESULT
    if not path.exists():
        return None
    try:
        return unseal(path.read_bytes(), str(path))
    except IntegrityError as error:
        raise IntegrityError(f"{error}. Delete this file, and the same command finishes the run again") from error
