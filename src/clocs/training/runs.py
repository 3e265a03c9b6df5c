"""Folder of a run, named by a hash of its inputs, so that a finished run is not repeated."""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clocs.core.errors import ConfigError, IntegrityError
from clocs.core.hashes import seal, unseal
from clocs.core.run_identity import SCHEMA, identity_name
from clocs.core.storage.files import write_bytes
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.training.run_logs import Line, LogDigest, RunLog, parse_all_lines, parse_intact_lines, read_log
from clocs.training.run_mirror import RunMirror

_LOGGER = logging.getLogger(__name__)
CONFIG, ENVIRONMENT, RESULT = "config.json", "environment.json", "result.json"
METRICS, TIMING, RESUMES = "metrics.jsonl", "timing.jsonl", "resumes.jsonl"
PACKAGES = ("clocs", "lightning-fabric", "numpy", "pyarrow", "safetensors", "torch")
KEPT = "epochs"
"""Folder of the encoders that a run keeps besides the best one."""
_LOGS = "logs"
"""Key of a result for the digests of the run's logs."""


class Run:
    """Folder of one run. Its name is a label and a hash of schema number, values and origin.

    Args:
        runs: Folder of all runs.
        label: First part of the run's name.
        values: Values that differ from the defaults, as JSON.
        origin: Hashes of the inputs: store, split, frame policy, initial weights.
        config: All values with defaults, which are written to the folder.
        mirror: Folder in a bucket to which the run is copied; None for no copy.
    """

    def __init__(
        self,
        runs: Path,
        label: str,
        values: Mapping[str, Any],
        origin: Mapping[str, Any],
        config: Mapping[str, Any] | None = None,
        mirror: Path | None = None,
    ) -> None:
        self.config = {"schema": SCHEMA, **(config or {**values, **origin})}
        self.name = identity_name(label, values, origin)
        self.folder = runs / self.name
        self.checkpoints = self.folder / "checkpoints"
        self.best = self.folder / "best"
        self.metrics = RunLog(self.folder / METRICS)
        """Log of reproducible values, with one line per step and one per epoch."""
        self.timing = RunLog(self.folder / TIMING)
        """Log of measured times."""
        self.resumes = RunLog(self.folder / RESUMES)
        """Log of resumes: the checkpoint each time, and why it was chosen."""
        self.mirror = None if mirror is None else RunMirror(self.folder, _in_bucket(mirror), RESULT)
        """Copy of the run in a bucket."""

    def kept_encoder(self, epochs: int) -> Path:
        """Return the folder of the encoder that is kept after some epochs."""
        return self.folder / KEPT / f"{epochs:04d}"

    def begin(self) -> None:
        """Write the config and the environment of the run."""
        _LOGGER.info("run folder: %s", self.folder)
        write_bytes(self.folder / CONFIG, seal(self.config))
        write_bytes(self.folder / ENVIRONMENT, seal(environment()))

    def result(self) -> dict[str, Any] | None:
        """Return the result of a finished run; None if it is not finished."""
        body = _result(self.folder)
        return None if body is None else {key: value for key, value in body.items() if key != _LOGS}

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write the result, with digests of the logs, which marks the run as finished."""
        logs = {log.path.name: log.sync() for log in (self.metrics, self.timing) if log.path.exists()}
        write_bytes(self.folder / RESULT, seal({**result, _LOGS: logs}))
        if self.mirror is not None:
            self.mirror.finish(result["steps"])

    def rewind(self, metrics: LogDigest | None) -> None:
        """Drop the metrics after those of a checkpoint; None drops all metrics."""
        self.metrics.truncate(metrics)
        self.timing.drop_damaged_lines()

    def speed(self) -> float:
        """Return the number of views trained on per second, over all measured times of this run."""
        lines = parse_intact_lines(read_log(self.timing.path, None))
        spent = sum(line["seconds"] for line in lines)
        return float(sum(line["frames"] for line in lines) / spent) if spent else 0.0


def _in_bucket(mirror: Path) -> ObjectPath:
    location = to_location(mirror)
    if not isinstance(location, ObjectPath):
        raise ConfigError(f"mirror={mirror}: not a bucket. Set s3://bucket/folder, or leave it out.")
    return location


def environment() -> dict[str, Any]:
    """Return machine and versions of the current environment."""
    about = {"python": platform.python_version(), "platform": platform.platform(), "cpus": os.cpu_count()}
    return {**about, "packages": {name: version(name) for name in PACKAGES}}


def read_config(run: Path) -> dict[str, Any]:
    """Return the config in a run's folder.

    Raises:
        IntegrityError: The file has changed.
    """
    return unseal((run / CONFIG).read_bytes(), str(run / CONFIG))


def read_environment(run: Path) -> dict[str, Any]:
    """Return the environment in a run's folder.

    Raises:
        IntegrityError: The file has changed.
    """
    return unseal((run / ENVIRONMENT).read_bytes(), str(run / ENVIRONMENT))


def finished_epochs(run: Path) -> list[Line]:
    """Return the metrics of each finished epoch from a run's folder."""
    return [line for line in parse_all_lines(_log(run, METRICS), run / METRICS) if "validation_loss" in line]


def kept_encoders(run: Path) -> dict[int, Path]:
    """Return the folders of the encoders that a run has kept, by the number of epochs before each."""
    return {int(folder.name): folder for folder in sorted((run / KEPT).glob("*"))}


def timings(run: Path) -> list[Line]:
    """Return the measured times from a run's folder."""
    return parse_intact_lines(_log(run, TIMING))


def _log(run: Path, name: str) -> bytes:
    """Read a log, which is verified if the run is finished."""
    digest = (_result(run) or {}).get(_LOGS, {}).get(name)
    try:
        return read_log(run / name, digest)
    except IntegrityError as error:
        advice = f"Restore it from a copy, or delete {run} to train the run again from its start."
        raise IntegrityError(f"{error}. {advice}") from error


def _result(run: Path) -> dict[str, Any] | None:
    path = run / RESULT
    if not path.exists():
        return None
    try:
        return unseal(path.read_bytes(), str(path))
    except IntegrityError as error:
        raise IntegrityError(f"{error}. Delete this file, so that the same command finishes the run again.") from error
