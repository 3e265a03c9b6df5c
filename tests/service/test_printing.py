"""Text of printed sheets: classes, classes that cannot be excluded, and reasons to withhold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import clocs
from clocs.core.recording import Recording
from clocs.inference.recordings import as_recording
from clocs.inference.report import Report
from clocs.inference.results import ClassProbability
from clocs.service.printing import CLASS_WIDTH, MAX_SET_LINES, sheet_text
from tests.inference.test_fhir import FOUND, ORIGIN


@pytest.fixture(scope="module")
def recording() -> Recording:
    return as_recording(np.zeros((1, 500)), sampling_rate=500, leads=["II"], unit="mV")


@pytest.fixture(scope="module")
def report(recording: Recording) -> Report:
    return Report(ORIGIN, clocs.measure(recording), FOUND, "")


@pytest.mark.parametrize(
    ("plausible", "said"),
    [
        (None, ""),
        ((), "None of the classes fits."),
        (("AFIB",), "Only AFIB (meaning of AFIB) fits."),
        (("AFIB", "SR"), "Cannot tell apart: AFIB (meaning of AFIB), SR (meaning of SR)."),
    ],
)
def test_classes_that_cannot_be_excluded(
    plausible: tuple[str, ...] | None, said: str, report: Report, recording: Recording
) -> None:
    found = replace(FOUND, prediction_set=plausible)
    title, first, second, *rest = sheet_text(replace(report, classification=found), recording).classes
    assert (title, first, second) == ("Classes by mine, from 2 leads:", "80% meaning of AFIB", "20% meaning of SR")
    assert " ".join(rest) == said
    assert all(len(line) <= CLASS_WIDTH for line in rest)


def test_long_lists_are_marked_as_cut(report: Report, recording: Recording) -> None:
    classes = tuple(ClassProbability(f"C{at}", "a long meaning of it", 0.05, 0.05, None) for at in range(20))
    found = replace(FOUND, classes=classes, prediction_set=tuple(item.name for item in classes))
    lines = sheet_text(replace(report, classification=found), recording).classes
    assert lines[7] == "and 14 less probable"
    assert len(lines) == 8 + MAX_SET_LINES
    assert lines[-1].endswith(" ...")


def test_withheld_classes_have_no_set(report: Report, recording: Recording) -> None:
    found = replace(FOUND, classes=(), withheld=("paced",))
    lines = sheet_text(replace(report, classification=found, withheld="paced"), recording).classes
    assert lines == ("Classes are withheld:", "paced")
