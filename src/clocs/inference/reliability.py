"""Track records of probabilities: how often patients with such a probability had the class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from clocs.metrics.calibration import Reliability
from clocs.metrics.local_calibration import ClassAdjustment

Fraction = Annotated[float, Field(ge=0, le=1)]
Score = dict[str, float | None]
"""A metric with its 95% interval: ``value``, ``low`` and ``high``; None where it cannot be estimated."""


@dataclass(frozen=True)
class ReliabilityBin:
    """Validation patients with a probability of a class in (low, high]."""

    low: Fraction
    """Lower bound, excluded."""
    high: Fraction
    """Upper bound, included."""
    count: int
    """Number of patients."""
    mean_probability: Fraction
    """Mean probability of the patients."""
    observed: Fraction
    """Fraction of the patients that have the class."""

    def contains(self, probability: float) -> bool:
        """Return whether a probability is in this bin. The lowest bin includes 0."""
        return self.low < probability <= self.high or probability == self.low == 0


@dataclass(frozen=True)
class LocalClass:
    """A class in the labels of one hospital. Its results come from cross-validation over patients."""

    patients: int
    """Number of patients with the class."""
    adjustment: ClassAdjustment
    """Adjustment of the published probability."""
    reliability: tuple[ReliabilityBin, ...]
    """Reliability diagram over patients, without empty bins."""
    scores: dict[str, Score]
    """``auc``, ``brier`` and ``calibration_error``, and the same of the published probabilities with the prefix
    ``published_``."""


@dataclass(frozen=True)
class LocalCalibration:
    """Calibration of one set of leads on the labels of one hospital."""

    patients: int
    """Number of patients."""
    recordings: int
    """Number of recordings."""
    store_sha256: str
    """Hash of the store with the recordings."""
    classes: tuple[LocalClass, ...]
    """Results of each class."""

    def note(self, names: Iterable[str]) -> str:
        """Return a sentence on what was calibrated, for the names of the classes."""
        pairs = zip(names, self.classes, strict=True)
        kept = [f"{name} {item.patients}" for name, item in pairs if item.adjustment.method == "published"]
        stays = f"; too few with the class, so the published calibration stays: {', '.join(kept)}" if kept else ""
        return f"probabilities calibrated on {self.patients:,} patients of your hospital{stays}"


def bin_of(bins: Iterable[ReliabilityBin], probability: float) -> ReliabilityBin | None:
    """Return the bin of a probability, or None if no patient is in it."""
    return next((item for item in bins if item.contains(probability)), None)


def reliability_bins(measured: Reliability) -> list[tuple[ReliabilityBin, ...]]:
    """Return the bins of each class that are not empty."""
    columns = (measured.edges[:-1], measured.edges[1:])
    return [
        tuple(
            ReliabilityBin(float(low), float(high), int(count), float(mean), float(observed))
            for low, high, count, mean, observed in zip(*columns, *rows, strict=True)
            if count
        )
        for rows in zip(measured.count, measured.mean_probability, measured.observed, strict=True)
    ]
