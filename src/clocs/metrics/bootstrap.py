"""Bootstrap intervals of metrics. Patients are resampled with all of their rows.

Rows of a patient are similar, so intervals from resampled rows would be too narrow. With few positive patients, all
bootstrap intervals are too narrow: with 5, a 95 % interval covers the true value in about 90 % of the cohorts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from clocs.metrics.intervals import (
    Difference,
    Interval,
    combined_interval,
    draw_runs,
    normal_interval,
    normal_quantile,
)
from clocs.metrics.ranking import Bools, Floats, macro_average
from clocs.metrics.replicates import Replicates
from clocs.metrics.resampling import PatientResampler, Patients, draw_counts


class Metrics(Protocol):
    """Metrics of N rows of scores, as functions of row weights. :class:`ClassMetrics` is one."""

    @property
    def truth(self) -> Bools:
        """Return the labels of shape (N, K). Every draw of patients has the same classes."""

    @property
    def patients(self) -> Patients:
        """Return the patient of each row, of shape (N,)."""

    @property
    def symmetric(self) -> frozenset[str]:
        """Return the names of metrics that are not bounded by 0 and 1."""

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Return metrics by name, of shape (K, B) for metrics of classes or (B,), from weights of shape (N, B)."""


@dataclass(frozen=True)
class Bootstrap:
    """Metrics of D runs on all patients and on R draws of patients. Runs have the same rows."""

    values: Mapping[str, Floats]
    """Metrics on all patients by name, of shape (D, K) for metrics of classes or (D,)."""
    replicate_values: Mapping[str, Floats]
    """Metrics on draws of patients by name, of shape (D, K, R) or (D, R)."""
    resampler: PatientResampler
    """The draws of patients."""
    symmetric: frozenset[str]
    """Names of metrics with symmetric intervals."""
    seed: int
    """Seed of the draws."""
    draws: str
    """Hash of the draws. Bootstraps with different hashes cannot be compared."""

    def macro(
        self, name: str, *, classes: Bools | None = None, level: float = 0.95, resample_runs: bool = False
    ) -> Interval:
        """Return the interval of a metric, as the mean over classes and runs.

        Args:
            name: Name of the metric.
            classes: Classes of the mean, of shape (K,); None for all classes. Undefined classes are left out.
            level: Confidence level.
            resample_runs: Whether the interval is over patients and runs, see :func:`combined_interval`, or over
                patients only.

        Returns:
            The interval.
        """
        by_run, replicate_values = self._macro(name, classes)
        clip = self._macro_clip(name, classes)
        return self._interval(by_run, replicate_values, clip, level, resample_runs)

    def classes(self, name: str, *, level: float = 0.95, resample_runs: bool = False) -> tuple[Interval, ...]:
        """Return the intervals of a metric of each class, as the mean over runs.

        Args:
            name: Name of the metric.
            level: Confidence level.
            resample_runs: Like that of :meth:`macro`.

        Returns:
            K intervals. Classes with fewer than ``MIN_PATIENTS`` positive or negative patients have NaN ends.
        """
        clips = self._class_clips(name)
        found = [
            self._interval(by_run, replicate_values, None if clips is None else clips[index], level, resample_runs)
            for index, (by_run, replicate_values) in enumerate(
                zip(self.values[name].T, self.replicate_values[name].swapaxes(0, 1), strict=True)
            )
        ]
        return tuple(
            replace(interval, low=math.nan, high=math.nan) if is_rare else interval
            for interval, is_rare in zip(found, self.resampler.rare, strict=True)
        )

    def difference(
        self,
        other: Bootstrap,
        name: str,
        *,
        classes: Bools | None = None,
        level: float = 0.95,
        resample_runs: bool = False,
    ) -> Difference:
        """Return the metric of this bootstrap minus that of another one, with the same draws of patients for both.

        Args:
            other: Bootstrap with the same draws, see ``draws_of`` of :func:`bootstrap`.
            name: Name of the metric.
            classes: Like those of :meth:`macro`.
            level: Confidence level.
            resample_runs: Whether the interval is over patients and runs, or over patients only. The runs of both
                sides are then drawn in pairs: they need the same number of runs in the same order.

        Returns:
            The difference of the means over classes and runs, with a symmetric interval.

        Raises:
            ValueError: The bootstraps have different draws of patients, or different runs that are resampled.
        """
        if self.draws != other.draws:
            raise ValueError("The bootstraps have different draws of patients. Pass draws_of= to bootstrap().")
        (first, first_drawn), (second, second_drawn) = self._macro(name, classes), other._macro(name, classes)
        if not resample_runs:
            first, second = first.mean(keepdims=True), second.mean(keepdims=True)
            first_drawn, second_drawn = (drawn.mean(axis=0, keepdims=True) for drawn in (first_drawn, second_drawn))
        elif len(first) != len(second):
            raise ValueError(f"Expected the same runs on both sides, got {len(first)} and {len(second)} runs.")
        gaps = first_drawn - second_drawn
        found = self._interval(first - second, gaps, None, level, resample_runs)
        drawn = draw_runs(gaps, self.seed) if len(gaps) > 1 else gaps[0]
        fraction = float(np.mean(drawn <= 0)) if np.isfinite(drawn).all() else math.nan
        return Difference(found.value, found.low, found.high, fraction)

    def replicates(self, name: str, *, classes: Bools | None = None) -> tuple[Replicates, ...] | None:
        """Return the replicates of the mean over classes of each run, or None if a class is too rare for them.

        Args:
            name: Name of the metric.
            classes: Like those of :meth:`macro`.

        Returns:
            Replicates to be stored with a result, one for each run.
        """
        _, replicate_values = self._macro(name, classes)
        if not np.isfinite(replicate_values).all():
            return None
        clip = self._macro_clip(name, classes)
        return tuple(Replicates(run, self.draws, clip) for run in replicate_values)

    def _interval(
        self, by_run: Floats, replicate_values: Floats, clip: float | None, level: float, resample_runs: bool
    ) -> Interval:
        if resample_runs:
            return combined_interval(by_run, replicate_values, clip, level=level, seed=self.seed)
        return normal_interval(float(by_run.mean()), replicate_values.mean(axis=0), clip, normal_quantile(level))

    def _macro(self, name: str, classes: Bools | None) -> tuple[Floats, Floats]:
        """Return the mean over classes on all patients (D,) and on draws (D, R)."""
        values, drawn = self.values[name], self.replicate_values[name]
        if values.ndim == 1:
            return values, drawn
        defined = ~np.isnan(values).any(axis=0) & (True if classes is None else classes)
        number = defined.sum() or np.nan
        return values[:, defined].sum(axis=1) / number, drawn[:, defined].sum(axis=1) / number

    def _class_clips(self, name: str) -> list[float] | None:
        """Return half of what a pair of patients, or a patient, contributes to the metric of each class."""
        found = self.resampler
        if name in self.symmetric:
            return None
        if name in ("auc", "average_precision"):
            return [float(clip) for clip in found.half_pair]
        counts = {"sensitivity": found.positive, "specificity": found.negative}.get(
            name, np.full(len(found.rare), found.size)
        )
        return [0.5 / count if count else math.nan for count in counts.tolist()]

    def _macro_clip(self, name: str, classes: Bools | None) -> float | None:
        if name in self.symmetric:
            return None
        half_pair = self.resampler.half_pair
        if name in ("auc", "average_precision"):
            return macro_average(half_pair if classes is None else half_pair[classes])
        return 0.5 / max(self.resampler.size, 1)


def bootstrap(
    metrics: Metrics | Sequence[Metrics], *, replicates: int = 1000, seed: int = 0, draws_of: Bootstrap | None = None
) -> Bootstrap:
    """Compute metrics on all patients and on random draws of patients with all of their rows.

    Args:
        metrics: Metrics of one run, or of several runs on the same rows.
        replicates: Number of draws.
        seed: Seed of the draws.
        draws_of: Bootstrap of the same patients whose draws are used again, for a comparison. Its rows may differ, for
            example by longer frames. ``replicates`` and ``seed`` must be the same.

    Returns:
        The metrics, from which intervals and differences are computed. If classes are so rare that nearly every draw
        loses one, replicates are NaN, and so are the ends of intervals.

    Raises:
        ValueError: The runs have different rows, the sides of a comparison have different patients, or an option is
            out of range.

    Example:
        >>> from clocs.metrics.class_metrics import ClassMetrics
        >>> random = np.random.default_rng(0)
        >>> truth = random.random((200, 2)) < 0.4
        >>> drawn = bootstrap(ClassMetrics(truth, truth + random.normal(size=(200, 2)), np.arange(200)))
        >>> interval = drawn.macro("auc")
        >>> interval.low < interval.value < interval.high
        True
    """
    runs = list(metrics) if isinstance(metrics, Sequence) else [metrics]
    if not runs:
        raise ValueError("Expected the scores of at least one run.")
    first = runs[0]
    for run in runs[1:]:
        if not (np.array_equal(run.truth, first.truth) and np.array_equal(run.patients, first.patients)):
            raise ValueError("Runs have different rows. Pass runs with the same labels and patients.")
    resampler = PatientResampler(first.truth, first.patients) if draws_of is None else draws_of.resampler
    member, digest = resampler.patient_indices(first.patients), hashlib.sha256()
    values = _by_run(runs, np.ones((len(member), 1)))
    blocks: list[dict[str, Floats]] = []
    for counts in resampler.blocks(replicates, seed, len(member)):
        digest.update(np.ascontiguousarray(counts.T, "<u4").tobytes())
        blocks.append(_by_run(runs, counts[member]))
    drawn = {}
    for name, value in values.items():
        drawn[name] = np.full((*value.shape[:-1], replicates), np.nan)
        known = np.concatenate([value[..., :0], *(block[name] for block in blocks)], axis=-1)
        drawn[name][..., : known.shape[-1]] = known
    on_all = {name: value[..., 0] for name, value in values.items()}
    return Bootstrap(on_all, drawn, resampler, first.symmetric, seed, digest.hexdigest()[:16])


def _by_run(runs: Sequence[Metrics], weights: Floats) -> dict[str, Floats]:
    """Return the metrics of all runs by name, of shape (D, K, B) or (D, B)."""
    found = [run(weights) for run in runs]
    return {name: np.stack([each[name] for each in found]) for name in found[0]}


def bootstrap_metrics(
    measure: Callable[[Floats], Floats], size: int, *, replicates: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[Interval, ...]:
    """Return bootstrap intervals of M metrics between 0 and 1 of patients instead of rows.

    A draw in which a metric is undefined is repeated, if the metric is defined on all patients.

    Args:
        measure: Function of the number of times that each patient is drawn, of shape (size,). It returns the metrics,
            of shape (M,), with NaN for undefined ones.
        size: Number of patients.
        replicates: Number of replicates.
        level: Confidence level.
        seed: Seed of the draws.

    Returns:
        An interval for each metric.
    """
    quantile, value = normal_quantile(level), measure(np.ones(size))
    replicate_values, num_replicates = np.full((replicates, *value.shape), np.nan), 0
    for counts in draw_counts(size, replicates, seed):
        metrics = measure(counts)
        if np.array_equal(np.isnan(metrics), np.isnan(value)):
            replicate_values[num_replicates] = metrics
            num_replicates += 1
        if num_replicates == replicates:
            break
    columns = zip(value.tolist(), replicate_values.T, strict=True)
    return tuple(normal_interval(single, column, 0.5 / size, quantile) for single, column in columns)
