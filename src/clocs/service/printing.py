"""Text of printed sheets: who, measurements, classes or why they are withheld, and what produced them."""

from __future__ import annotations

import textwrap
from typing import Final

from clocs.core.recording import Recording
from clocs.drawing.print_sheet import SheetText
from clocs.inference.report import Report
from clocs.inference.results import percent
from clocs.measurements.results import TITLES

MAX_CLASSES: Final = 6
"""Number of classes on a sheet, the most probable first."""
MAX_SET_LINES: Final = 4
"""Number of lines on the classes that cannot be excluded."""
CLASS_WIDTH: Final = 62
"""Characters of a line in the column of classes."""


def sheet_text(report: Report, recording: Recording, identifier: str = "", *, with_time: bool = False) -> SheetText:
    """Return the text of a recording's sheets.

    Args:
        report: Measurements and classes.
        recording: The recording.
        identifier: Identifier that the user typed; empty for none.
        with_time: Also state when it was recorded.
    """
    years = "" if recording.age is None else f"{recording.age:g} years"
    person = "  ".join(part for part in (years, recording.sex or "") if part)
    time = "time not known" if recording.acquired is None else recording.acquired.isoformat(" ", "seconds")
    origin = report.origin
    classifier = report.classification.classifier if report.classification else "none"
    made_by = (
        f"clocs {origin.clocs_version}   encoder {origin.encoder} {origin.encoder_sha256[:16]}   "
        f"classifier {classifier}   gate: {report.gate}"
    )
    return SheetText(
        heading=identifier,
        person=f"{person}\nRecorded: {time}".strip() if with_time else person,
        measurements=tuple(_measurement_lines(report)),
        classes=tuple(_class_lines(report)),
        footer=(made_by, f"{origin.notice} Not confirmed by a physician."),
    )


def _measurement_lines(report: Report) -> list[str]:
    lines = []
    for name, item in report.measurements.values().items():
        title, unit = TITLES[name]
        value = "not measured" if item.value is None else f"{item.value:.0f} {unit}"
        lines.append(f"{title[0].upper()}{title[1:]}: {value}")
    return lines


def _class_lines(report: Report) -> list[str]:
    found = report.classification
    classes = found.classes if found is not None else ()
    lines = [f"{percent(item.probability)} {item.meaning}" for item in classes[:MAX_CLASSES]]
    lines = [textwrap.shorten(line, CLASS_WIDTH) for line in lines]
    if found is None or report.withheld:
        reason = textwrap.wrap(report.withheld, CLASS_WIDTH)
        return ["Classes are withheld:", *reason[: MAX_CLASSES + 1 - len(lines)], *lines]
    rest = len(classes) - len(lines)
    title = f"Classes by {found.classifier}, from {len(found.leads)} leads:"
    said = found.set_statement and f"{found.set_statement[0].upper()}{found.set_statement[1:]}."
    plausible = textwrap.wrap(said, CLASS_WIDTH, max_lines=MAX_SET_LINES, placeholder=" ...")
    return [title, *lines, *([f"and {rest} less probable"] if rest else []), *plausible]
