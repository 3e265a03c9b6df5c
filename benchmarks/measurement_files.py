"""Measurements of files beside the values that the files themselves state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clocs
from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.formats.reading import read_from
from clocs.measurements.axes import angle_difference
from clocs.signals.leads import add_derived_leads

COMPARED = (
    "heart_rate",
    "p_duration",
    "pr_interval",
    "qrs_duration",
    "qt_interval",
    "qtc_bazett",
    "qrs_axis",
    "t_axis",
)


def measure_files(archive: Path) -> list[dict[str, Any]]:
    """Measure all files of a folder or archive that state measurements.

    Args:
        archive: Folder or zip archive of ECG files.

    Returns:
        Name, our values and stated values of each file, in order. A QTc whose formula is not named counts as Bazett's.
    """
    source, rows = open_source(archive), []
    for name in source.names():
        try:
            recording = add_derived_leads(read_from(source, name))
        except FormatError:
            continue
        stated = recording.stated_measurements.values()
        if "qtc_interval" in stated:
            stated.setdefault("qtc_bazett", stated.pop("qtc_interval"))
        if kept := {key: value for key, value in stated.items() if key in COMPARED}:
            measured = clocs.measure(recording).values()
            values = {key: measured[key].value for key in COMPARED}
            ours = {key: None if value is None else round(value, 1) for key, value in values.items()}
            rows.append({"file": name, "age": recording.age, "ours": ours, "stated": kept})
    return rows


def differences(rows: list[dict[str, Any]], name: str) -> list[float]:
    """Return the differences of one value, ours less that of the file, where both exist."""
    pairs = [(row["ours"][name], row["stated"].get(name)) for row in rows]
    both = [(ours, stated) for ours, stated in pairs if ours is not None and stated is not None]
    if name.endswith("axis"):
        return [float(angle_difference(ours, stated)) for ours, stated in both]
    return [ours - stated for ours, stated in both]
