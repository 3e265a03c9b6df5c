"""HL7 annotated ECG, compared with ecgdatakit (an independent reader)."""

from __future__ import annotations

import re
import zipfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clocs
from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from clocs.signals.quality import GatePolicy, assess
from tests.formats.ecgdatakit_reader import assert_same_recording, read_with_ecgdatakit
from tests.formats.xml_examples import TWO_LEADS, aecg, aecg_lead, aecg_series, aecg_time

SHAPES = {
    "aecg/cvrg_TemplateExample1.xml": (3, 10_000, 1000.0),
    "aecg/cvrg_hl7aecg-Example2.xml": (12, 10_000, 1000.0),
    "aecg/fda_minimum_aecg.xml": (1, 13, 500.0),
    "aecg/fda_minimum_aecg_effectiveTime_interval.xml": (1, 13, 500.0),
    "aecg/fda_minimum_aecg_nouuid.xml": (1, 13, 500.0),
    "aecg/fda_subject1_0.xml": (12, 5000, 500.0),
    "aecg/hl7_example_aecg.xml": (12, 5000, 500.0),
    "aecg/liryc_mindray_scrubbed.xml": (12, 1000, 100.0),
}
"""Number of leads, number of samples and sampling rate of every file."""


def read_example(text: str) -> Recording:
    return read_from(MemorySource({"a.xml": text.encode()}), "a.xml")


def assert_rejected(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=rf"a\.xml: .*{message}"):
        read_example(text)


def test_every_sample_file_is_listed(hospital_files: Path) -> None:
    with zipfile.ZipFile(hospital_files) as archive:
        assert sorted(name for name in archive.namelist() if re.match("aecg/.", name)) == list(SHAPES)


@pytest.mark.parametrize("name", SHAPES)
def test_every_file_matches_ecgdatakit(name: str, hospital_files: Path, tmp_path: Path) -> None:
    source = open_source(hospital_files)
    recording = read_from(source, name)
    assert_same_recording(recording, read_with_ecgdatakit(source.read(name), tmp_path))
    assert (*recording.digital.shape, recording.sampling_rate) == SHAPES[name]


def test_digits_of_the_rhythm_are_unchanged(hospital_files: Path) -> None:
    """Compare with a literal walk through the file, which contains the same leads again as beats."""
    name = "aecg/liryc_mindray_scrubbed.xml"
    root = ElementTree.fromstring(open_source(hospital_files).read(name))
    digits = [element.text or "" for element in root.iter("{urn:hl7-org:v3}digits")]
    assert len(digits) == 24
    recording = read_from(open_source(hospital_files), name)
    assert recording.digital.tolist() == [[int(word) for word in text.split()] for text in digits[:12]]
    assert recording.gain.tolist() == [200.0] * 12


def test_very_short_files_are_read(hospital_files: Path) -> None:
    recording = read_from(open_source(hospital_files), "aecg/fda_minimum_aecg.xml")
    assert recording.digital.tolist() == [[-2, -2, -2, -2, -3, -4, -3, -5, -5, -4, -6, -9, -9]]
    assert "short" in [finding.reason for finding in assess(recording, GatePolicy())]


def test_stored_leads_are_not_derived_again(hospital_files: Path) -> None:
    full = clocs.read(hospital_files / "aecg/hl7_example_aecg.xml")
    assert full.provenance.derived_leads == ()
    assert sorted(full.leads) == sorted(["I", "II", "III", "aVR", "aVL", "aVF", *(f"V{n}" for n in range(1, 7))])


def test_leads_are_named_by_code_in_any_order() -> None:
    leads = [aecg_lead(code, str(number)) for number, code in enumerate(("V3R", "AVF", "II", "X", "I"))]
    recording = read_example(aecg(aecg_series(leads[0], leads[1], aecg_time(), *leads[2:])))
    assert recording.leads == ("V3R", "aVF", "II", "X", "I")
    assert recording.digital[:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("increment", "sampling_rate"),
    [
        ('value="0.002" unit="s"', 500.0),
        ('value="2" unit="ms"', 500.0),
        ('value="4000" unit="us"', 250.0),
        ('value="0.0010000" unit="s"', 1000.0),
        ('value="1e-3" unit="s"', 1000.0),
        ('value="0.0033333" unit="s"', 300.0),
        ('value="0.001667" unit="s"', 600.0),
        ('value="1667" unit="us"', 600.0),
        ('value="0.0078125" unit="s"', 128.0),
        ('value="0.003" unit="s"', 1 / 0.003),
        ('value="0.0019996" unit="s"', 1 / 0.0019996),
    ],
)
@pytest.mark.parametrize("code", ["TIME_ABSOLUTE", "TIME_RELATIVE"])
def test_sampling_rate_from_time_increment(increment: str, sampling_rate: float, code: str) -> None:
    """The sampling rate is an integer if its rounded increment is the stated one: 1/300 s is written 0.0033333."""
    recording = read_example(aecg(aecg_series(aecg_time(increment, code), aecg_lead("I", "1 2"))))
    assert recording.sampling_rate == pytest.approx(sampling_rate, rel=1e-14)


@pytest.mark.parametrize(
    ("origin", "scale", "millivolts"),
    [
        ('value="0" unit="uV"', 'value="2.5" unit="uV"', [0.0025, 0.25]),
        ('value="10" unit="uV"', 'value="2.5" unit="uV"', [0.0125, 0.26]),
        ('value="1" unit="uV"', 'value="2.5" unit="uV"', [0.0035, 0.251]),
        ('value="-1" unit="mV"', 'value="5" unit="uV"', [-0.995, -0.5]),
        ('value="0" unit=""', 'value="0.001" unit="mV"', [0.001, 0.1]),
        ("", 'value="1000" unit="nV"', [0.001, 0.1]),
        ('value="0" unit="uV"', 'value="-2.5" unit="uV"', [-0.0025, -0.25]),
    ],
)
def test_value_is_origin_plus_scale_times_digit(origin: str, scale: str, millivolts: list[float]) -> None:
    recording = read_example(aecg(aecg_series(aecg_time(), aecg_lead("I", "1 100", origin=origin, scale=scale))))
    values = (recording.digital - recording.baseline[:, None].astype(float)) / recording.gain[:, None]
    np.testing.assert_allclose(values, [millivolts], rtol=1e-12)


@settings(max_examples=100)
@given(
    st.decimals(-5000, 5000, places=2),
    st.decimals("0.01", 100, places=2),
    st.lists(st.integers(-30_000, 30_000), min_size=1, max_size=5),
)
def test_origin_is_exact_with_scaled_digits(origin: Decimal, scale: Decimal, digits: list[int]) -> None:
    units = {"origin": f'value="{origin}" unit="uV"', "scale": f'value="{scale}" unit="uV"'}
    text = aecg(aecg_series(aecg_time(), aecg_lead("I", " ".join(map(str, digits)), **units)))
    try:
        recording = read_example(text)
    except FormatError:
        assert (Fraction(origin) / Fraction(scale)).denominator > 1000
        return
    values = (recording.digital - recording.baseline[:, None].astype(float)) / recording.gain[:, None]
    expected = [float(origin + scale * digit) / 1000 for digit in digits]
    np.testing.assert_allclose(values[0], expected, rtol=1e-9, atol=1e-9)


def test_representative_beats_are_not_read() -> None:
    beats = aecg_series(aecg_time(), aecg_lead("I", "9 9"), code="REPRESENTATIVE_BEAT")
    assert read_example(aecg(beats, aecg_series())).digital.tolist() == [
        list(digital_values) for digital_values in TWO_LEADS.values()
    ]
    assert_rejected(aecg(beats), "holds no waveform: no series of code RHYTHM")


def test_sequence_set_with_most_leads_is_read_with_a_note() -> None:
    small = aecg_series(
        aecg_time(), aecg_lead("V1", "1 2 3"), aecg_lead("ECG", "1").replace("MDC_ECG_LEAD_", "VENDOR_")
    )
    recording = read_example(aecg(small, aecg_series()))
    assert (recording.leads, recording.provenance.notes) == (("I", "II"), ("left out 1 more sets of rhythm sequences",))
    assert read_example(aecg(small)).provenance.notes == ("left out 1 sequences that are not leads",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<AnnotatedECG/>", "holds no waveform"),
        (
            aecg(aecg_series(aecg_time())),
            "no sequence has the code of a lead",
        ),
        (aecg(aecg_series(aecg_lead("I", "1"))), "no time sequence"),
        (aecg(aecg_series(aecg_time('value="2" unit="min"'), aecg_lead("I", "1"))), "increment"),
        (aecg(aecg_series(aecg_time('value="0" unit="s"'), aecg_lead("I", "1"))), "increment"),
        (aecg(aecg_series(aecg_time('value="1e999999999" unit="s"'), aecg_lead("I", "1"))), "no number"),
        (
            aecg(aecg_series(aecg_time('unit="s"'), aecg_lead("I", "1"))),
            "no number in <sequence> value/increment@value",
        ),
        (aecg(aecg_series(aecg_time(), aecg_lead("I", ""))), "holds no sample"),
        (aecg(aecg_series(aecg_time(), aecg_lead("I", "1 x"))), "no list of whole numbers in <sequence> value/digits"),
        (aecg(aecg_series(aecg_time(), aecg_lead("I", "1", scale=""))), "no number in <sequence> value/scale@value"),
        (aecg(aecg_series(aecg_time(), aecg_lead("I", "1", scale='value="1" unit="mm"'))), "is not a voltage"),
        (
            aecg(aecg_series(aecg_time(), aecg_lead("I", "1", origin='value="1" unit="mm"'))),
            "unit of an origin is not a voltage",
        ),
        (aecg(aecg_series(aecg_time(), aecg_lead("I", "1", origin='value="1e300" unit="V"'))), "out of range"),
        (
            aecg(aecg_series(aecg_time(), aecg_lead("I", "1", origin='value="0.123457" unit="uV"'))),
            "not a multiple of the scale",
        ),
        (aecg(aecg_series(aecg_time(), aecg_lead("I", "1 2"), aecg_lead("II", "1"))), "differ in length"),
    ],
)
def test_invalid_files_are_rejected_with_a_reason(text: str, message: str) -> None:
    assert_rejected(text, message)


def subject(inside: str) -> str:
    """Return the elements about the subject, nested as in the standard."""
    person = f"<subjectDemographicPerson>{inside}</subjectDemographicPerson>"
    person = f"<trialSubject><id extension='S-1'/>{person}</trialSubject>"
    assigned = f"<subjectAssignment><subject>{person}</subject></subjectAssignment>"
    event = f"<componentOf><timepointEvent><componentOf>{assigned}</componentOf></timepointEvent></componentOf>"
    return "<effectiveTime><low value='20200229101112.500'/></effectiveTime>" + event


REPORTED = """<controlVariable><relatedObservation><code code='21612-7'/><value value='46' unit='a'/>
</relatedObservation></controlVariable>"""


@pytest.mark.parametrize(
    ("subject", "age", "sex"),
    [
        (subject("<birthTime value='19800301'/><administrativeGenderCode code='F'/>"), 39.0, "female"),
        (subject("<birthTime value='19800229'/><administrativeGenderCode code='UN'/>"), 40.0, None),
        (subject("<birthTime value='19800229'/><administrativeGenderCode code='M'/>") + REPORTED, 46.0, "male"),
        (subject("<birthTime value='20190829'/>"), 0.5, None),
        (subject("<birthTime value='19801115'/>"), 39.0, None),  # no ninth and tenth digit are an hour
        (subject("<birthTime/><administrativeGenderCode/>"), None, None),
        ("", None, None),
    ],
)
def test_demographics(subject: str, age: float | None, sex: str | None) -> None:
    recording = read_example(aecg(about=subject))
    assert (recording.age, recording.sex, recording.patient_id) == (age, sex, "")


def test_identity() -> None:
    inside = (
        "<name>Dr <given>Ann</given><family>Lee</family></name><birthTime value='19800301'/><PatientID>9</PatientID>"
    )
    raw = aecg(about=subject(inside)).encode()
    assert read_identity_from(MemorySource({"a.xml": raw}), "a.xml") == {
        "patient_id": ("S-1", "9"),
        "patient_name": ("Dr", "Ann", "Lee"),
        "birth_date": ("19800301",),
        "acquired": ("2020-02-29T10:11:12.500000",),
    }


def test_identity_of_a_real_file_is_complete(hospital_files: Path) -> None:
    """Compare with every identifying text of the standard's example, extracted by hand."""
    found = read_identity_from(open_source(hospital_files), "aecg/hl7_example_aecg.xml")
    assert found["patient_name"] == ("Clark",)
    assert found["acquired"] == ("2002-11-22T09:10:00",)
    assert {"John Smith, M.D.", "Doctor John Brown", "INV-087"} <= set(found["physician"])
    assert {"KAB", "TECH-221"} <= set(found["operator"])
    assert {"River City Clinic for the Cardiac Challenged", "TS-035-03"} <= set(found["institution"])
    assert {"PUK-123-TRL-1", "61d1a24f-b47e-41aa-ae95-f8ac302f4eeb"} <= set(found["order"])
    assert found["free_text"] == ("Subject felt dizzy 2 minutes prior to ECG collection",)
