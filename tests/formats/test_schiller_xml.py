"""Schiller XML, compared with its text and with the measurements in the file."""

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
from tests.formats.xml_examples import TWO_LEADS, schiller

FILE = "schiller/cvrg_schiller_scrubbed.xml"


def read_example(text: str) -> Recording:
    return read_from(MemorySource({"s.xml": text.encode()}), "s.xml")


def test_every_sample_file_is_listed(hospital_files: Path) -> None:
    with zipfile.ZipFile(hospital_files) as archive:
        assert [name for name in archive.namelist() if re.match("schiller/.", name)] == [FILE]


def test_file_matches_its_text(hospital_files: Path) -> None:
    """Compare with the text of the rhythms, because no other reader of this format was found."""
    rhythms = open_source(hospital_files).read(FILE).decode().split("<type>ECG_RHYTHMS</type>")[1]
    rows = [[int(word) for word in text.split(",")] for text in re.findall(r"<data>([^<]*)<", rhythms)]
    recording = clocs.read(hospital_files / FILE)
    assert (recording.leads, recording.provenance.derived_leads) == (STANDARD_LEADS, ())
    assert recording.digital.tolist() == rows
    assert (recording.sampling_rate, recording.num_samples, recording.provenance.num_declared_samples) == (
        500.0,
        4998,
        4998,
    )
    assert (recording.age, recording.sex) == (None, "male")


def test_sampling_rate_and_gain_agree_with_measurements_in_the_file(hospital_files: Path) -> None:
    """The file states 59 beats per minute and the R amplitude of the mean beat of aVL. Limb leads are consistent."""
    text = open_source(hospital_files).read(FILE).decode()
    stated = re.search(r"<name>HR</name>\s*<value>(\d+)<", text)
    assert stated
    recording = clocs.read(hospital_files / FILE)
    signal = dict(zip(recording.leads, recording.signal.astype(float), strict=True))
    steep = np.flatnonzero(np.abs(np.diff(signal["V2"])) > 0.4 * np.abs(np.diff(signal["V2"])[10:]).max())
    beats = steep[np.flatnonzero(np.diff(steep, prepend=-1000) > 200)]
    between = np.diff(beats[beats > 10]) / recording.sampling_rate
    assert 60 / np.mean(between) == pytest.approx(float(stated[1]), abs=1.5)
    np.testing.assert_allclose(signal["III"], signal["II"] - signal["I"], atol=1e-6)
    r_wave = re.findall(r"<name>R_AMPL</name>\s*<value>([\d.]+)<", text)[STANDARD_LEADS.index("aVL")]
    heights = [signal["aVL"][beat - 60 : beat + 60].max() for beat in beats[1:-1]]
    assert np.median(heights) - np.median(signal["aVL"]) == pytest.approx(float(r_wave), rel=0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (schiller(kind="ECG_AVERAGES"), "no wavedata of type ECG_RHYTHMS"),
        (schiller({}), "0 leads"),
        (schiller({"I": (1, 2), "II": (1,)}), "differ in length"),
        (schiller(exponent="2"), "exponent other than 1"),
        (schiller(form="BASE64"), "not COMMASEPARATE"),
        (schiller().replace(">UV<", ">BPM<"), "is not a voltage"),
        (schiller().replace("300", ""), "no list of whole numbers in <channel> data"),
    ],
)
def test_invalid_files_are_rejected_with_a_reason(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=rf"s\.xml: .*{message}"):
        read_example(text)


def test_averaged_beats_are_not_read_and_further_events_are_noted() -> None:
    event = re.search("<event>.*</event>", schiller(), re.S)
    assert event
    first = event[0].replace("ECG_RHYTHMS", "ECG_AVERAGES").replace("300", "999")
    recording = read_example(
        schiller().replace("<eventdata>", f"<eventdata>{first}").replace("</eventdata>", f"{event[0]}</eventdata>")
    )
    assert recording.digital.tolist() == [list(digital_values) for digital_values in TWO_LEADS.values()]
    assert recording.provenance.notes == ("left out 1 more events with rhythms",)


ABOUT = """<patdata><id>77</id><lastname>Groß</lastname><birthdate>19491116</birthdate><gender>FEMALE</gender></patdata>
<examdescript><startdatetime><date>20091115</date><time>070815</time></startdatetime><user_id>op3</user_id>
<order_id>5</order_id><idu><aquiring_institute><name>North</name></aquiring_institute><referring_user><name>Lee</name>
</referring_user></idu></examdescript>"""


def test_demographics_and_identity() -> None:
    recording = read_example(schiller(about=ABOUT))
    assert (recording.age, recording.sex, recording.patient_id) == (59.0, "female", "")
    assert read_identity_from(MemorySource({"s.xml": schiller(about=ABOUT).encode()}), "s.xml") == {
        "patient_id": ("77",),
        "patient_name": ("Groß",),
        "birth_date": ("19491116",),
        "physician": ("Lee",),
        "operator": ("op3",),
        "institution": ("North",),
        "order": ("5",),
        "acquired": ("2009-11-15T07:08:15",),
    }
