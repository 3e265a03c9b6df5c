"""Embeddings and classifications of a recording."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.inference.reliability import LocalClass, ReliabilityBin, bin_of
from clocs.metrics.intervals import binomial_interval
from clocs.signals.resampling import Floats


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embeddings of a recording, ordered by time, then by lead.

    There is one row a lead and frame; one row a frame where the encoder takes several leads at once.
    """

    values: Floats
    """Embeddings, (rows, E)."""
    lead: tuple[str, ...]
    """Lead of each row, or ``all``, (rows,)."""
    leads: tuple[str, ...]
    """Leads of the recording that are used."""
    start: npt.NDArray[np.float64]
    """Seconds from the recording's first sample to the start of the frame, (rows,)."""
    notes: tuple[str, ...]
    """Corrections and omissions, one sentence each."""

    def pooled(self) -> Floats:
        """Return the mean over all leads and frames, (E,)."""
        return np.asarray(self.values.mean(axis=0))


@dataclass(frozen=True)
class ClassProbability:
    """The probability of one class, with the results of validation patients of similar probability."""

    name: str
    """Name of the class."""
    meaning: str
    """Name of the class in words."""
    probability: float
    """Calibrated probability, 0 to 1."""
    prevalence: float
    """Fraction of training patients that have the class."""
    validation: ReliabilityBin | None
    """Validation patients with a published probability in the same range, judged by the same leads. None: there are
    none."""
    local: LocalClass | None = None
    """The class in the labels of your hospital. None: the classifier was not calibrated there."""

    @property
    def track_record(self) -> str:
        """Sentence on how many validation patients of similar probability had the class."""
        before = "" if self.local is None else "published probability: "
        if self.validation is None:
            return f"{before}no validation patient had such a probability"
        count, low, high = self.validation.count, self.validation.low, self.validation.high
        patients = f"{count:,} validation patient" + ("" if count == 1 else "s")
        record = f"of {patients} with {100 * low:.0f} to {percent(high)}, {percent(self.validation.observed)} had it"
        return before + record

    @property
    def local_record(self) -> str:
        """Sentence on how many patients of your hospital had the class. Empty: it was not calibrated there."""
        if self.local is None:
            return ""
        found = bin_of(self.local.reliability, self.probability)
        few = f"; with the class {self.local.patients}, too few to calibrate: as published"
        note = few if self.local.adjustment.method == "published" else ""
        if found is None:
            return f"in your hospital no patient had such a probability{note}"
        interval = binomial_interval(round(found.count * found.observed), found.count)
        ends = f"95% interval {percent(interval.low)} to {percent(interval.high)}"
        patients = f"{found.count:,} patient" + ("" if found.count == 1 else "s")
        return (
            f"in your hospital, of {patients} with {100 * found.low:.0f} to {percent(found.high)}, "
            f"{percent(found.observed)} had it ({ends}){note}"
        )


def percent(fraction: float) -> str:
    """Format a fraction as the viewer does: halves are rounded up, and only exact 0 and 1 are 0% and 100%."""
    if 0 < fraction < 0.005:
        return "under 1%"
    if 0.995 <= fraction < 1:
        return "over 99%"
    return f"{math.floor(100 * fraction + 0.5)}%"


@dataclass(frozen=True)
class Classification:
    """Class probabilities of a recording. For research; not a diagnosis."""

    classifier: str
    """Name of the classifier."""
    leads: tuple[str, ...]
    """Leads that were used: the largest set of the classifier that the recording has."""
    classes: tuple[ClassProbability, ...]
    """Classes by descending probability. Empty if they are withheld; of a paced recording only a class of pacing."""
    multi_label: bool
    """True if several classes may be true at once; otherwise the probabilities sum to 1."""
    limitations: tuple[str, ...]
    """Limitations of the classifier, one sentence each."""
    notes: tuple[str, ...]
    """Corrections, omissions and doubts about the recording, one sentence each."""
    findings: tuple[str, ...] = ()
    """Findings that need no classifier: ``paced``."""
    withheld: tuple[str, ...] = ()
    """Why classes are withheld, one sentence each. Empty: they are not."""
    prediction_set: tuple[str, ...] | None = None
    """Classes that cannot be excluded, by descending probability: of the validation patients of each class, 95% had it
    in their set. None: classes are withheld or not exclusive."""

    @property
    def set_statement(self) -> str:
        """Sentence on the prediction set. Empty: there is none."""
        if self.prediction_set is None:
            return ""
        named = {item.name: f"{item.name} ({item.meaning})" for item in self.classes}
        likely = ", ".join(named[name] for name in self.prediction_set)
        if not likely:
            return "none of the classes fits"
        return f"cannot tell apart: {likely}" if len(self.prediction_set) > 1 else f"only {likely} fits"
