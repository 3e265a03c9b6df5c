"""Bootstrap replicates of a macro AUC, small enough to be stored with a result.

Every evaluation of the same patients is measured on the same draws. The replicates of two results therefore give the
interval of their difference, and those of several seeds the interval of their mean, without any score of a patient.
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
from clocs.metrics.bootstrap import Cohort, Interval, Patients, Scores, logit_interval, normal_quantile
from clocs.metrics.ranking import Bools, Floats, Ranking, macro_average

STEPS: Final = (1 << 16) - 1
"""Steps between the lowest and the highest replicate when they are stored."""


@dataclass(frozen=True)
class Replicates:
    """The macro AUC on each of several draws of the test patients."""

    values: Floats
    """(R,)"""
    draws: str
    """Hash of the draws. Replicates are comparable only where it is equal."""
    half_pair: float
    """Half of what one pair of patients adds to the AUC: the closest to 0 and 1 that a logit is taken."""

    def as_dict(self) -> dict[str, Any]:
        """Return the replicates as JSON, each as one of 65,536 values between the lowest and the highest."""
        low, high = float(self.values.min()), float(self.values.max())
        scaled = (self.values - low) * (STEPS / (high - low) if high > low else 0.0)
        codes = base64.b64encode(np.rint(scaled).astype("<u2").tobytes()).decode()
        return {"draws": self.draws, "half_pair": self.half_pair, "low": low, "high": high, "codes": codes}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Replicates:
        """Read what ``as_dict`` returned."""
        try:
            codes = np.frombuffer(base64.b64decode(stored["codes"], validate=True), "<u2")
            low, high = float(stored["low"]), float(stored["high"])
            return cls(low + codes * ((high - low) / STEPS), str(stored["draws"]), float(stored["half_pair"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"not the replicates of a result: {error}") from error


def draw_replicates(
    truth: Bools, scores: Scores, patients: Patients, *, replicates: int = 1000, seed: int = 0
) -> Replicates | None:
    """Measure the macro AUC on draws of the patients, each with all of their rows.

    Args:
        truth: (N, K).
        scores: (N, K).
        patients: (N,) the patient of each row.
        replicates: Number of draws.
        seed: Seed of the draws.

    Returns:
        The replicates, or None where a class is too rare to be drawn that often.
    """
    cohort, ranking = Cohort(truth, patients), Ranking(truth, scores)
    values, digest = [], hashlib.sha256()
    for times in cohort.draws(replicates, seed):
        digest.update(times.astype("<u4").tobytes())
        values.append(macro_average(ranking.auc(times[cohort.member])))
    if len(values) < replicates:
        return None
    return Replicates(np.array(values), digest.hexdigest()[:16], macro_average(cohort.half_pair))


def mean_interval(value: float, runs: Sequence[Replicates], *, level: float = 0.95) -> Interval:
    """Return the interval over patients of the mean AUC of several runs.

    Args:
        value: The mean AUC on all patients.
        runs: The replicates of each run.
        level: Coverage of the interval.
    """
    _refuse_other_draws(runs)
    drawn = np.mean([run.values for run in runs], axis=0)
    return logit_interval(value, drawn, runs[0].half_pair, normal_quantile(level))


def difference_interval(
    value: float, first: Sequence[Replicates], second: Sequence[Replicates], *, level: float = 0.95
) -> Interval:
    """Return the interval over patients of the difference of two mean AUCs. It is symmetric.

    Args:
        value: The difference on all patients.
        first: The replicates of each run of the first side.
        second: The replicates of each run of the second side.
        level: Coverage of the interval.
    """
    _refuse_other_draws([*first, *second])
    drawn = np.mean([run.values for run in first], axis=0) - np.mean([run.values for run in second], axis=0)
    reach = normal_quantile(level) * float(drawn.std(ddof=1))
    return (
        Interval(value, value - reach, value + reach) if math.isfinite(reach) else Interval(value, math.nan, math.nan)
    )


def _refuse_other_draws(runs: Sequence[Replicates]) -> None:
    if len({run.draws for run in runs}) > 1:
        raise ConfigError("these results were measured on different draws of patients and cannot be compared")
