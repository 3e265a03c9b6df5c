"""Report on a recording: measurements, classes or why they are withheld, and what produced them."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

from clocs.core.errors import LeadError, SignalError, UnitError
from clocs.core.recording import Recording
from clocs.core.stated_measurements import StatedMeasurements
from clocs.inference.pretrained import PretrainedEncoder
from clocs.inference.results import Classification
from clocs.measurements.measurements import measure
from clocs.measurements.results import Measurements

NOTICE: Final = "For research use only. Not a medical device."
"""Sentence that every output for other people or systems carries."""
GateResult = Literal["passed", "withheld", "unreadable"]
"""Result of the gate: classes are given, classes are withheld, or the file cannot be read."""


@dataclass(frozen=True)
class ReportOrigin:
    """The software that made a report."""

    clocs_version: str
    """Version of the package."""
    encoder: str
    """Name of the encoder."""
    encoder_sha256: str
    """Hash of the encoder's weights."""
    notice: str = NOTICE
    """Statement of research use."""


@dataclass(frozen=True, eq=False)
class Report:
    """Measurements and classes of a recording. For research; not a diagnosis."""

    origin: ReportOrigin
    """The software that made the report."""
    measurements: Measurements
    """Heart rate, intervals and axes."""
    classification: Classification | None
    """Classes, none if they are withheld; None if the recording has other leads, another unit, or is too short."""
    withheld: str
    """Why classes are withheld; empty if they are given."""
    stated: StatedMeasurements = field(default_factory=StatedMeasurements)
    """Measurements that the file states."""

    @property
    def gate(self) -> GateResult:
        """Result of the gate."""
        return "withheld" if self.withheld else "passed"


def report_origin(encoder: PretrainedEncoder) -> ReportOrigin:
    """Return the origin of all reports that an encoder makes."""
    return ReportOrigin(version("clocs"), Path(encoder.name).name, encoder.about["weights_sha256"])


def make_report(encoder: PretrainedEncoder, recording: Recording, *, classifier: str | None = None) -> Report:
    """Measure and classify a recording.

    Args:
        encoder: The encoder.
        recording: The recording.
        classifier: Name of a classifier. None: the first with a set of leads that the recording has.

    Returns:
        The report. Classes are withheld with a reason if the recording fails a check.

    Raises:
        ConfigError: The encoder has no classifier of this name.
        StoreError: The encoder has no classifier.
    """
    found, withheld = None, ""
    try:
        found = encoder.classify(recording, classifier=classifier)
    except (LeadError, SignalError, UnitError) as error:
        withheld = error.message
    else:
        withheld = "; ".join(found.withheld)
    return Report(report_origin(encoder), measure(recording), found, withheld, recording.stated_measurements)
