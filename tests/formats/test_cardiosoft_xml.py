"""CardioSoft XML, compared with its text and with the measurements in the file."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.quality import GatePolicy, assess
from tests.formats.xml_examples import TWO_LEADS, cardiosoft

FILES = ["cardiosoft/ecgprocess_example-XML1.xml", "cardiosoft/heartwise_dummy_ecg.xml"]


def read_example(text: str) -> Recording:
    return read_from(MemorySource({"c.xml": text.encode("latin-1")}), "c.xml")


def test_every_sample_file_is_listed(hospital_files: Path) -> None:
    with zipfile.ZipFile(hospital_files) as archive:
        assert sorted(name for name in archive.namelist() if re.match("cardiosoft/.", name)) == FILES


@pytest.mark.parametrize("name", FILES)
def test_every_file_matches_its_text(name: str, hospital_files: Path) -> None:
    """Compare with the text of the strip, because no other reader of this format was found."""
    strip = open_source(hospital_files).read(name).decode("latin-1").split("<StripData>")[1].split("</StripData>")[0]
    rows = re.findall(r'<WaveformData lead="(\w+)">([^<]*)<', strip)
    recording = read_from(open_source(hospital_files), name)
    assert recording.leads == STANDARD_LEADS == tuple(lead for lead, _ in rows)
    assert recording.digital.tolist() == [[int(word) for word in text.split(",")] for _, text in rows]
    assert (recording.sampling_rate, recording.num_samples, recording.provenance.num_declared_samples) == (
        500.0,
        5000,
        5000,
    )
    assert set(recording.gain) == {200.0}
    assert clocs.read(hospital_files / name).provenance.derived_leads == ()


@pytest.mark.parametrize("name", FILES)
def test_gain_agrees_with_measurements_in_the_file(name: str, hospital_files: Path) -> None:
    """CardioSoft states the heart rate, and the R amplitude of the median beat of each lead in uV."""
    text = open_source(hospital_files).read(name).decode("latin-1")
    stated = re.search(r'<RAmplitude units="uV">([^<]*)<', text)
    sampling_rate = re.search(r'<VentricularRate units="BPM">(\d+)<', text)
    assert stated
    assert sampling_rate
    recording = clocs.read(hospital_files / name)
    beats = 0
    for lead, amplitude in zip(recording.leads, stated[1].split(","), strict=True):
        signal = recording.signal[recording.leads.index(lead)].astype(float)
        if amplitude.strip() and float(amplitude) > 1300:  # higher than any T wave here
            level = np.median(signal)
            peaks = (
                (signal[1:-1] > signal[:-2])
                & (signal[1:-1] >= signal[2:])
                & (signal[1:-1] - level > 0.6e-3 * float(amplitude))
            )
            heights = signal[1:-1][peaks] - level
            assert np.median(heights) == pytest.approx(float(amplitude) / 1000, rel=0.15)
            beats = max(beats, len(heights))
    assert beats == pytest.approx(float(sampling_rate[1]) / 6, abs=1.5)
    assert assess(recording, GatePolicy()) == []


def test_demographics_and_notes(hospital_files: Path) -> None:
    known, unknown = (read_from(open_source(hospital_files), name) for name in FILES)
    assert (known.age, known.sex, known.provenance.notes) == (53.0, "male", ("left out the FullDisclosure",))
    assert (unknown.age, unknown.sex, unknown.provenance.notes) == (None, None, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<CardiologyXML/>", "holds no StripData"),
        (cardiosoft({}), "0 leads"),
        (cardiosoft({"I": ()}), "holds no sample"),
        (cardiosoft({"I": (1, 2), "II": (1,)}), "differ in length"),
        (cardiosoft(resolution='<Resolution units="mV">1</Resolution>'), "not in uVperLsb"),
        (cardiosoft(resolution='<Resolution units="uVperLsb">0</Resolution>'), "is not a voltage"),
        (cardiosoft().replace("300", "3OO"), "no list of whole numbers in <WaveformData>"),
        (cardiosoft().replace('"Hz">500', '"Hz">fast'), "no number in <StripData> SampleRate"),
        (cardiosoft().replace('"Hz"', '"ms"'), "rate in Hz"),
    ],
)
def test_invalid_files_are_rejected_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=rf"c\.xml: .*{message}"):
        read_example(text)


WHEN = """<ObservationDateTime><Hour>7</Hour><Minute>8</Minute><Second>9</Second><Day>15</Day><Month>7</Month>
<Year>2009</Year></ObservationDateTime>"""
BORN = "<BirthDateTime><Day>16</Day><Month>7</Month><Year>1949</Year></BirthDateTime>"


@pytest.mark.parametrize(
    ("patient", "age", "sex"),
    [
        (f'<Age units="YEARS">50</Age>{BORN}<Gender>FEMALE</Gender>', 50.0, "female"),
        (f"{BORN}<Gender>UNKNOWN</Gender>", 59.0, None),
        ('<Age units="MONTHS">6</Age>', 0.5, None),
        ("", None, None),
    ],
)
def test_age_is_stated_or_computed_from_dates(patient: str, age: float | None, sex: str | None) -> None:
    recording = read_example(cardiosoft(about=f"{WHEN}<PatientInfo>{patient}</PatientInfo>"))
    assert (recording.age, recording.sex, recording.patient_id) == (age, sex, "")
    assert recording.digital.tolist() == [list(digital_values) for digital_values in TWO_LEADS.values()]


def test_identity() -> None:
    about = f"""{WHEN}<UID><DICOMStudyUID>1.2.3</DICOMStudyUID></UID><ClinicalInfo><ReasonForStudy>pain</ReasonForStudy>
<Technician><FamilyName>Kay</FamilyName></Technician><DeviceInfo><Desc>CardioSoft</Desc></DeviceInfo></ClinicalInfo>
<PatientVisit><PatientRoom>12</PatientRoom><ReferringDoctor><FamilyName>Lee</FamilyName></ReferringDoctor></PatientVisit>
<PatientInfo><PID>77</PID><Name><FamilyName>Groß</FamilyName></Name>{BORN}<Race>ASIAN</Race></PatientInfo>
<Interpretation><Diagnosis><DiagnosisText>Sinus rhythm</DiagnosisText></Diagnosis></Interpretation>"""
    raw = cardiosoft(about=about).encode("latin-1")
    assert read_identity_from(MemorySource({"c.xml": raw}), "c.xml") == {
        "patient_id": ("77",),
        "patient_name": ("Groß",),
        "birth_date": ("1949-7-16",),
        "physician": ("Lee",),
        "operator": ("Kay",),
        "institution": ("12",),
        "order": ("1.2.3",),
        "free_text": ("pain", "Sinus rhythm"),
        "acquired": ("2009-07-15T07:08:09",),
    }
