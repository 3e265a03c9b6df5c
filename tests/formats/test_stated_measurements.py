"""Values that files state: of genuine files as their texts have them, and what must give no value."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.core.stated_measurements import STATED_COLUMNS, StatedMeasurements, plausible_measurements
from clocs.formats import read_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.scp_encoding import Scp, record, scp_leads
from tests.formats.xml_examples import aecg, cardiosoft, muse, philips, schiller

NAMES = tuple(STATED_COLUMNS.values())
NO = None
# In the order of NAMES: rate, P, PR, QRS, QT, QTc without a formula, Bazett, Fridericia, axes of P, QRS and T.
EXAMPLE = (NO, 102, 148, 120, 420, 443, NO, NO, 44, -61, 86)
GENUINE = {
    "muse/braveheart_example1.xml": (48, 106, 138, 96, 452, 403, NO, 419, 51, 20, 40),
    "muse/cvrg_MUSE_20080710.xml": (69, NO, 180, 56, 388, 416, NO, 406, 76, 64, 61),
    "philips/1_03_129DYPRG.XML": (41, NO, 151, 135, 476, 393, NO, NO, 66, -21, 59),
    "philips/1_04_ad4d3d80-d165_1-04_orig.xml": (41, NO, 144, 102, 564, NO, 466, 497, 19, 85, 53),
    "philips/fox_TRIM3.xml": (NO,) * 11,
    "cardiosoft/ecgprocess_example-XML1.xml": (50, 106, 174, 92, 440, 401, NO, NO, 56, 55, 45),
    "schiller/cvrg_schiller_scrubbed.xml": (59, 122, 214, 146, 458, 454, NO, NO, 91, -67, -30),
    "aecg/liryc_mindray_scrubbed.xml": (57, NO, 192, 88, 418, NO, NO, NO, 60, 64, 11),
    "aecg/hl7_example_aecg.xml": EXAMPLE,
    "scp/ecgtoolkit_Example.scp": EXAMPLE,
    "dicom/ecgtoolkit_Example.dcm": (NO, NO, *EXAMPLE[2:]),
    "dicom/pydicom_waveform_ecg_scrubbed.dcm": (61.1, NO, 161, 75, 368, 370, NO, NO, 74, 52, 57),
    "scp/scptools_anon_ECG_20081029_105642_ANON000010.scp": (80, NO, NO, 87, 357, NO, 412, NO, NO, 44, 57),
}
"""Values read in the files' texts, and in a listing of their bytes. One recording is in three formats."""


def stated_in(raw: bytes) -> dict[str, float]:
    return read_from(MemorySource({"f": raw}), "f").stated_measurements.values()


@pytest.mark.parametrize("name", GENUINE)
def test_values_of_genuine_files(name: str, hospital_files: Path) -> None:
    found = read_from(open_source(hospital_files), name).stated_measurements
    assert found == StatedMeasurements(**dict(zip(NAMES, GENUINE[name], strict=True)))


def section_7(times: tuple[int, ...], axes: tuple[int, ...], *, interval: int = 1000, qtc: int = 29999) -> bytes:
    beat = struct.pack("<5H3h", *times, *axes)
    return struct.pack("<BBHH", 1, 0, interval, 29999) + beat + struct.pack("<HHHHBH", 0, 29999, 29999, qtc, 1, 0)


def scp_with(body: bytes) -> bytes:
    rows = np.zeros((2, 500), np.int64)
    return record(Scp({**scp_leads(rows).sections, 7: body}))


def test_undefined_values_of_scp_and_damaged_sections() -> None:
    nothing = section_7((29999,) * 5, (999,) * 3, interval=29999)
    assert stated_in(scp_with(nothing)) == {}
    whole = scp_with(section_7((100, 200, 260, 350, 640), (0, 999, -170), qtc=401))
    expected = {"heart_rate": 60, "p_duration": 100, "pr_interval": 160, "qrs_duration": 90, "qt_interval": 380}
    assert stated_in(whole) == {**expected, "qtc_bazett": 401, "p_axis": 0, "t_axis": -170}
    assert stated_in(scp_with(nothing[:5])) == {}  # breaks off
    damaged = bytearray(whole)
    damaged[whole.index(struct.pack("<HHH", 260, 350, 640))] ^= 1
    assert stated_in(bytes(damaged)) == {}


WORDS = ("Failed", "Indeterminate", "Ada Winterbottom", "0", "nan", "1e9", "-5", "999999", "")


@pytest.mark.parametrize("text", WORDS)
def test_texts_and_implausible_numbers_give_no_value(text: str) -> None:
    values = f"<VentricularRate>{text}</VentricularRate><PRInterval>{text}</PRInterval>"
    measured = f"<RestingECGMeasurements>{values}</RestingECGMeasurements>"
    block = f"<globalmeasurements><heartrate>{text}</heartrate><meanqrsdur>{text}</meanqrsdur></globalmeasurements>"
    annotation = f"""<subjectOf><annotationSet><component><annotation><code code="MDC_ECG_TIME_PD_QT"/>
<value value="{text}" unit="ms"/></annotation></component></annotationSet></subjectOf>"""
    named = f"<annotation_global><name>QT</name><value>{text}</value></annotation_global>"
    for file in (
        muse(about=measured),
        cardiosoft(about=measured),
        philips(about=block),
        aecg(about=annotation),
        schiller(about=named),
    ):
        recording = read_from(MemorySource({"f": file.encode()}), "f")
        assert recording.stated_measurements == StatedMeasurements()
        assert "Winterbottom" not in repr(recording)


def test_annotations_of_one_lead_and_of_a_second_reader_are_left_out() -> None:
    def annotation(value: int, unit: str = "ms", more: str = "") -> str:
        code = '<code code="MDC_ECG_TIME_PD_QT"/>'
        return f'<component><annotation>{code}<value value="{value}" unit="{unit}"/>{more}</annotation></component>'

    lead = '<support><supportingROI><component><code code="MDC_ECG_LEAD_II"/></component></supportingROI></support>'
    first = annotation(300, more=lead) + annotation(400) + annotation(0, "s") + annotation(402)
    sets = "".join(f"<annotationSet>{rows}</annotationSet>" for rows in (first, annotation(500)))
    assert stated_in(aecg(about=f"<subjectOf>{sets}</subjectOf>").encode()) == {"qt_interval": 400}


def test_an_axis_of_zero_needs_an_interval_of_its_wave() -> None:
    assert plausible_measurements({"p_axis": 0, "qrs_axis": 0, "t_axis": 0, "qt_interval": 400}).values() == {
        "qt_interval": 400,
        "t_axis": 0,
    }
    assert plausible_measurements({"t_axis": 264}).t_axis == -96


def test_a_value_may_be_a_half() -> None:
    stated = muse(about="<RestingECGMeasurements><QTInterval>400.5</QTInterval></RestingECGMeasurements>")
    found: Recording = read_from(MemorySource({"f": stated.encode()}), "f")
    assert found.stated_measurements.qt_interval == 400.5
