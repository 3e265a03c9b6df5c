"""Measurements of recordings as extra columns of a store, such as ``measured_heart_rate``."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from clocs.core.recording import Recording
from clocs.measurements.measurements import measure
from clocs.signals.leads import add_derived_leads

PREFIX: Final = "measured_"
"""Beginning of the names of the columns."""


def add_measured_columns(recording: Recording) -> Recording:
    """Measure a recording and add the values to its extra columns, with one decimal.

    A value that cannot be measured has no entry. ``measured_paced`` is always there, and ``measured_regular`` if beats
    were found.

    Args:
        recording: The recording, with or without the leads that follow from I and II.

    Returns:
        The recording with more extra columns.
    """
    measured = measure(add_derived_leads(recording))
    values = {name: item.value for name, item in measured.values().items()}
    columns = {PREFIX + name: f"{value:.1f}" for name, value in values.items() if value is not None}
    columns |= {f"{PREFIX}paced": str(measured.paced).lower()}
    columns |= {} if measured.regular is None else {f"{PREFIX}regular": str(measured.regular).lower()}
    return replace(recording, extra={**recording.extra, **columns})
