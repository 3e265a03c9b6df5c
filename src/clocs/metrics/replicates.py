"""Bootstrap replicates of a metric, which are small enough to be stored with a result.

All evaluations on the same patients use the same draws. The replicates of two results therefore give the interval of
their difference, and those of several runs the interval of their mean, without the scores of patients.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from clocs.core.errors import ConfigError
from clocs.metrics.intervals import Floats, Interval, combined_interval, normal_interval, normal_quantile

STEPS: Final = (1 << 16) - 1
"""Number of steps between the lowest and the highest stored replicate."""


@dataclass(frozen=True)
class Replicates:
    """A metric on several draws of the test patients, for example the macro AUC of a run."""

    values: Floats
    """The metric on each draw, of shape (R,)."""
    draws: str
    """Hash of the draws. Replicates with different hashes cannot be compared."""
    half_pair: float | None
    """Half of the contribution of one pair of patients to an AUC, or of one patient to another metric between 0 and 1.
    Logits are clipped to it at 0 and 1. None for a metric with symmetric intervals."""

    def as_dict(self) -> dict[str, Any]:
        """Return the replicates for JSON, each as one of 65,536 values between the lowest and the highest."""
        low, high = float(self.values.min()), float(self.values.max())
        scaled = (self.values - low) * (STEPS / (high - low) if high > low else 0.0)
        codes = base64.b64encode(np.rint(scaled).astype("<u2").tobytes()).decode()
        return {"draws": self.draws, "half_pair": self.half_pair, "low": low, "high": high, "codes": codes}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Replicates:
        """Read replicates from the result of :meth:`as_dict`.

        Args:
            stored: Result of :meth:`as_dict`.

        Returns:
            The replicates.

        Raises:
            ConfigError: A value is missing or invalid.
        """
        try:
            codes = np.frombuffer(base64.b64decode(stored["codes"], validate=True), "<u2")
            low, high = float(stored["low"]), float(stored["high"])
            half_pair = None if stored["half_pair"] is None else float(stored["half_pair"])
            return cls(low + codes * ((high - low) / STEPS), str(stored["draws"]), half_pair)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"Invalid replicates of a result: {error}") from error


def mean_interval(
    value: float, runs: Sequence[Replicates], *, by_run: Sequence[float] | None = None, level: float = 0.95
) -> Interval:
    """Return the interval of the mean of several runs.

    Args:
        value: Mean on all patients.
        runs: Replicates of each run.
        by_run: Value of each run on all patients. If given, the interval is over patients and runs, for example over
            draws of labels. None: it is over patients.
        level: Confidence level.

    Returns:
        The interval.

    Raises:
        ConfigError: The runs have different draws.
    """
    _check_same_draws(runs)
    drawn, half_pair = np.stack([run.values for run in runs]), runs[0].half_pair
    if by_run is not None:
        return combined_interval(np.asarray(by_run, np.float64), drawn, half_pair, level=level)
    return normal_interval(value, drawn.mean(axis=0), half_pair, normal_quantile(level))


def difference_interval(
    value: float,
    first: Sequence[Replicates],
    second: Sequence[Replicates],
    *,
    by_run: Sequence[float] | None = None,
    level: float = 0.95,
) -> Interval:
    """Return the symmetric interval of the difference of two means of runs.

    Args:
        value: Difference on all patients.
        first: Replicates of each run of the first side.
        second: Replicates of each run of the second side.
        by_run: Difference of each pair of runs on all patients. If given, the interval is over patients and runs, and
            the sides have the same runs in the same order. None: it is over patients.
        level: Confidence level.

    Returns:
        The interval.

    Raises:
        ConfigError: The runs have different draws, or the sides different numbers of runs that are resampled.
    """
    _check_same_draws([*first, *second])
    sides = [np.stack([run.values for run in side]) for side in (first, second)]
    if by_run is None:
        gaps = sides[0].mean(axis=0) - sides[1].mean(axis=0)
        return normal_interval(value, gaps, None, normal_quantile(level))
    if not len(first) == len(second) == len(by_run):
        raise ConfigError(f"Expected pairs of runs, got {len(first)} and {len(second)} runs.")
    return combined_interval(np.asarray(by_run, np.float64), sides[0] - sides[1], None, level=level)


def _check_same_draws(runs: Sequence[Replicates]) -> None:
    if len({run.draws for run in runs}) > 1:
        raise ConfigError("The results were measured on different draws of patients and cannot be compared.")
