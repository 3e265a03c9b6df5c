"""What an encoder and its classifiers return for a recording."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.inference.classifier import ReliabilityBin
from clocs.signals.resampling import Floats


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings of a recording, ordered by time, then by lead.

    There is one a lead and frame; one a frame where the encoder takes several leads at once.
    """

    values: Floats
    """(rows, E)"""
    lead: tuple[str, ...]
    """(rows,), the lead of each row, or ``all``."""
    leads: tuple[str, ...]
    """The leads of the recording that are used."""
    start: npt.NDArray[np.float64]
    """(rows,), seconds from the recording's first sample."""
    notes: tuple[str, ...]
    """What was corrected or left out, a sentence each."""

    def pooled(self) -> Floats:
        """(E,), the mean over all leads and frames."""
        return np.asarray(self.values.mean(axis=0))


@dataclass(frozen=True)
class ClassProbability:
    """What a classifier says about one class."""

    name: str
    meaning: str
    probability: float
    prevalence: float
    """The fraction of training patients that had the class."""
    validation: ReliabilityBin | None
    """Validation patients with a probability in the same range; None: there were none, or they are no measure of it."""
    incomparable: str = ""
    """Why validation patients are no measure of it, as where a lead is missing that they had; else empty."""

    @property
    def track_record(self) -> str:
        """How often such a probability was right."""
        if self.incomparable:
            return f"not known: {self.incomparable}"
        if self.validation is None:
            return "no validation patient had such a probability"
        many, low, high = self.validation.count, self.validation.low, self.validation.high
        patients = f"{many:,} validation patient" + ("" if many == 1 else "s")
        return f"of {patients} with {100 * low:.0f} to {_percent(high)}, {_percent(self.validation.observed)} had it"


def _percent(share: float) -> str:
    """Halves up, as the viewer rounds; never 0% or 100% of what is neither."""
    if 0 < share < 0.005:
        return "under 1%"
    if 0.995 <= share < 1:
        return "over 99%"
    return f"{math.floor(100 * share + 0.5)}%"


@dataclass(frozen=True)
class Classification:
    """What a classifier says about a recording. For research; not a diagnosis."""

    classifier: str
    """Its name."""
    classes: tuple[ClassProbability, ...]
    """The most probable first."""
    multi_label: bool
    """Whether several may be true at once; else the probabilities sum to 1."""
    limitations: tuple[str, ...]
    notes: tuple[str, ...]
    """What was corrected, left out, or looks wrong in the recording, a sentence each."""
