"""Bootstrap replicates of a macro AUC, which are small enough to be stored with a result.

All evaluations on the same patients use the same draws. The replicates of two results therefore give the interval of
their difference, and those of several seeds the interval of their mean, without the scores of patients.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from clocs.core.errors import ConfigError
from clocs.metrics.bootstrap import Interval, PatientResampler, Patients, Scores, logit_interval, normal_quantile
from clocs.metrics.ranking import Bools, Floats, Ranking, macro_average

STEPS: Final = (1 << 16) - 1
"""Number of steps between the lowest and the highest stored replicate."""


@dataclass(frozen=True)
class Replicates:
    """Macro AUC on several draws of the test patients."""

    values: Floats
    """Macro AUC on each draw, of shape (R,)."""
    draws: str
    """Hash of the draws. Replicates with different hashes cannot be compared."""
    half_pair: float
    """Half of the contribution of one pair of patients to the AUC. Logits are clipped to it at 0 and 1."""

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
            return cls(low + codes * ((high - low) / STEPS), str(stored["draws"]), float(stored["half_pair"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"Invalid replicates of a result: {error}") from error


def draw_replicates(
    truth: Bools, scores: Scores, patients: Patients, *, replicates: int = 1000, seed: int = 0
) -> Replicates | None:
    """Compute the macro AUC on draws of patients with all of their rows.

    Args:
        truth: Labels of shape (N, K).
        scores: Scores of shape (N, K).
        patients: Patient of each row, of shape (N,).
        replicates: Number of draws.
        seed: Seed of the draws.

    Returns:
        The replicates, or None if a class is too rare.
    """
    resampler, ranking = PatientResampler(truth, patients), Ranking(truth, scores)
    values, digest = [], hashlib.sha256()
    for counts in resampler.draws(replicates, seed):
        digest.update(counts.astype("<u4").tobytes())
        values.append(macro_average(ranking.auc(counts[resampler.member])))
    if len(values) < replicates:
        return None
    return Replicates(np.array(values), digest.hexdigest()[:16], macro_average(resampler.half_pair))


def mean_interval(value: float, runs: Sequence[Replicates], *, level: float = 0.95) -> Interval:
    """Return the interval over patients of the mean AUC of several runs.

    Args:
        value: Mean AUC on all patients.
        runs: Replicates of each run.
        level: Confidence level.

    Returns:
        The interval.

    Raises:
        ConfigError: The runs have different draws.
    """
    _check_same_draws(runs)
    replicate_values = np.mean([run.values for run in runs], axis=0)
    return logit_interval(value, replicate_values, runs[0].half_pair, normal_quantile(level))


def difference_interval(
    value: float, first: Sequence[Replicates], second: Sequence[Replicates], *, level: float = 0.95
) -> Interval:
    """Return the symmetric interval over patients of the difference of two mean AUCs.

    Args:
        value: Difference on all patients.
        first: Replicates of each run of the first side.
        second: Replicates of each run of the second side.
        level: Confidence level.

    Returns:
        The interval.

    Raises:
        ConfigError: The runs have different draws.
    """
    _check_same_draws([*first, *second])
    replicate_values = np.mean([run.values for run in first], axis=0) - np.mean([run.values for run in second], axis=0)
    margin = normal_quantile(level) * float(replicate_values.std(ddof=1))
    return (
        Interval(value, value - margin, value + margin)
        if math.isfinite(margin)
        else Interval(value, math.nan, math.nan)
    )


def _check_same_draws(runs: Sequence[Replicates]) -> None:
    if len({run.draws for run in runs}) > 1:
        raise ConfigError("The results were measured on different draws of patients and cannot be compared.")
