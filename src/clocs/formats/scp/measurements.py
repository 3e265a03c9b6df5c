"""Read the global measurements of an SCP-ECG record: section 7.

The section starts with a header, followed by the marks of each type of beat, of which the first is the reference. Then
come the pacing spikes, the type of each beat, and in newer records heart rates and QTc.
"""

from __future__ import annotations

from typing import Final

from clocs.core.errors import FormatError
from clocs.formats.byte_fields import unpack
from clocs.formats.scp.record import Record

UNDEFINED_TIME, UNDEFINED_AXIS = 29999, 999
"""Values that mean undefined. Some writers use 0 for undefined rates and intervals."""
HEADER: Final = "<BBHH"
"""Number of beat types, number of pacing spikes, and mean RR and PP intervals in ms."""
HEADER_BYTES, BEAT_BYTES, SPIKE_BYTES = 6, 16, 10
"""Size of the header, of the marks of a beat type, and of what is stored of each pacing spike."""
BEAT: Final = "<5H3h"
"""Start and end of P, start and end of QRS and end of T in ms, and the axes of P, QRS and T in degrees."""
QTC_NAMES: Final = {1: "qtc_bazett"}
"""Stated measurement by the code of the formula of QTc. Hodges and formulas of manufacturers have others."""


def read_stated(record: Record) -> dict[str, float | None]:
    """Return the stated measurements, none if section 7 is missing or damaged."""
    try:
        section = record.section(7)
        if section is None:
            return {}
        num_types, num_spikes, interval, _ = unpack(HEADER, section.body, 0, record.name)
        stated: dict[str, float | None] = {"heart_rate": 60_000 / interval if _is_defined(interval) else None}
        if num_types:
            stated |= _from_beat(unpack(BEAT, section.body, HEADER_BYTES, record.name))
    except FormatError:
        return {}
    rest = HEADER_BYTES + num_types * BEAT_BYTES + num_spikes * SPIKE_BYTES
    return stated | _from_rest(section.body[rest:], record.name)


def _is_defined(value: int) -> bool:
    return value not in (0, UNDEFINED_TIME)


def _from_beat(values: tuple[int, ...]) -> dict[str, float | None]:
    """Return intervals and axes from the marks of the reference beat."""
    p_onset, p_offset, onset, offset, t_offset = (None if time == UNDEFINED_TIME else time for time in values[:5])
    p_axis, qrs_axis, t_axis = (None if axis == UNDEFINED_AXIS else axis for axis in values[5:])
    between = {
        "p_duration": (p_onset, p_offset),
        "pr_interval": (p_onset, onset),
        "qrs_duration": (onset, offset),
        "qt_interval": (onset, t_offset),
    }
    found: dict[str, float | None] = {
        name: end - start for name, (start, end) in between.items() if start is not None and end is not None
    }
    return found | {"p_axis": p_axis, "qrs_axis": qrs_axis, "t_axis": t_axis}


def _from_rest(rest: bytes, name: str) -> dict[str, float | None]:
    """Return ventricular rate and QTc, which older records lack."""
    try:
        (num_beats,) = unpack("<H", rest, 0, name)
        rate, _, corrected, formula = unpack("<HHHB", rest, 2 + num_beats, name)
    except FormatError:
        return {}
    found: dict[str, float | None] = {"heart_rate": rate} if _is_defined(rate) else {}
    return found | ({QTC_NAMES.get(formula, "qtc_interval"): corrected} if _is_defined(corrected) else {})
