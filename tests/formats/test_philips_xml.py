"""Philips XML, compared with sierraecg and ecgdatakit (independent readers)."""

from __future__ import annotations

import base64
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sierraecg

import clocs
from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from clocs.signals.leads import STANDARD_LEADS
from tests.formats.ecgdatakit_reader import assert_same_recording, read_with_ecgdatakit
from tests.formats.xml_examples import TWO_LEADS, philips

PULSE_FROM = {
    "philips/1_03_129DYPRG.XML": 5264,
    "philips/1_03_repbeats_example.xml": 5264,
    "philips/1_04_01_2020-5-18_15-48-11.xml": 5300,
    "philips/1_04_3191723_ZZDEMOPTONLY_1-04_orig.xml": 5300,
    "philips/1_04_ad4d3d80-d165_1-04_orig.xml": 5300,
    "philips/cvrg_Philips103Example01.xml": 5050,
    "philips/cvrg_ecg_900657176_1.xml": 5300,
    "philips/fox_TRIM3.xml": 5300,
    "philips/fox_pure_orialData.xml": 5300,
}
"""First sample of the calibration pulse in every file."""
FIFTEEN = "philips/cvrg_ecg_900657176_1.xml"
MISDECLARED = ("philips/fox_TRIM3.xml", "philips/fox_pure_orialData.xml")
"""Files that declare UTF-16 and are UTF-8."""
KINDS = ("philips/1_03_129DYPRG.XML", "philips/1_04_01_2020-5-18_15-48-11.xml", FIFTEEN, MISDECLARED[0])
"""One file of each kind."""


def read_example(text: str) -> Recording:
    return read_from(MemorySource({"p.xml": text.encode()}), "p.xml")


def assert_rejected(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=rf"p\.xml: .*{message}"):
        read_example(text)


def test_every_sample_file_is_listed(hospital_files: Path) -> None:
    with zipfile.ZipFile(hospital_files) as archive:
        assert sorted(name for name in archive.namelist() if re.match("philips/.", name)) == list(PULSE_FROM)


@pytest.mark.parametrize("name", PULSE_FROM)
def test_every_file_matches_ecgdatakit(name: str, hospital_files: Path, tmp_path: Path) -> None:
    source = open_source(hospital_files)
    recording = read_from(source, name)
    assert_same_recording(recording, read_with_ecgdatakit(source.read(name), tmp_path))
    assert recording.leads[:12] == STANDARD_LEADS
    assert recording.num_samples == recording.provenance.num_declared_samples == 5500
    assert (recording.sampling_rate, set(recording.gain)) == (500.0, {200.0})


@pytest.mark.parametrize(
    "name", [name if name in KINDS else pytest.param(name, marks=pytest.mark.slow) for name in PULSE_FROM]
)
def test_every_value_matches_sierraecg(name: str, hospital_files: Path, tmp_path: Path) -> None:
    """sierraecg needs a correct declaration in the two files that declare UTF-16. It takes a second per file."""
    raw = open_source(hospital_files).read(name)
    if name in MISDECLARED:
        raw = raw.replace(b'encoding="utf-16"', b'encoding="utf-8"', 1)
        labels = b"<dataacquisition><signalcharacteristics><samplingrate>500</samplingrate></signalcharacteristics>"
        raw = raw.replace(b"<waveforms>", labels + b"</dataacquisition><waveforms>", 1)
    (tmp_path / "p.xml").write_bytes(raw)
    theirs = sierraecg.read_file(str(tmp_path / "p.xml")).leads
    ours = read_from(open_source(hospital_files), name)
    assert ours.leads == tuple(lead.label for lead in theirs)
    np.testing.assert_array_equal(ours.digital, np.stack([lead.samples for lead in theirs]))


def test_fifteen_leads(hospital_files: Path) -> None:
    """The interpretation in the file states: MISSING LEAD(S): V7,V3R,V4R."""
    recording = clocs.read(hospital_files / FIFTEEN)
    assert recording.leads == (*STANDARD_LEADS, "V3R", "V4R", "V7")
    assert recording.provenance.derived_leads == ()
    assert [note.split()[1] for note in recording.provenance.notes[1:]] == ["V3R", "V4R", "V7"]


@pytest.mark.parametrize("name", PULSE_FROM)
def test_calibration_pulse_is_noted(name: str, hospital_files: Path) -> None:
    recording = read_from(open_source(hospital_files), name)
    start = PULSE_FROM[name]
    assert recording.provenance.notes[0] == f"samples from {start} on hold a calibration pulse and no ECG"
    pulse = np.zeros(5500 - start)
    pulse[5350 - start : 5450 - start] = 1.0
    np.testing.assert_array_equal(
        recording.signal[:, start:], np.broadcast_to(pulse, (len(recording.leads), len(pulse)))
    )
    assert not np.array_equal(recording.signal[:, start - 1], np.zeros(len(recording.leads)))


@pytest.mark.parametrize("name", KINDS)
def test_lead_names_in_capitals(name: str, hospital_files: Path) -> None:
    """Four of them are stored as differences from their equations."""
    raw = open_source(hospital_files).read(name)
    text = raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    shouted = re.sub(r'leadlabels="[^"]*"', lambda found: found[0].upper().replace("LEADLABELS", "leadlabels"), text)
    expected = read_from(open_source(hospital_files), name)
    np.testing.assert_array_equal(read_example(re.sub("^<[?].*?[?]>", "", shouted)).digital, expected.digital)


def test_uncompressed_leads() -> None:
    recording = read_example(philips())
    assert recording.digital.tolist() == [list(digital_values) for digital_values in TWO_LEADS.values()]
    assert recording.provenance.notes == ()
    six = " ".join(STANDARD_LEADS[:6])
    assert read_example(philips(bytes(range(24)), labels=six)).digital[2].tolist() == [0x0908, 0x0B0A]


def test_signal_offset_is_the_baseline() -> None:
    recording = read_example(philips().replace('signaloffset="0"', 'signaloffset="50"'))
    np.testing.assert_allclose(recording.signal[1], [0.0, 0.05, -0.6, 0.15], atol=1e-7)


def test_settings_in_signal_characteristics() -> None:
    signal = """<dataacquisition><signalcharacteristics><samplingrate>250</samplingrate>
<signalresolution>2.5</signalresolution><signaloffset>0</signaloffset><acquisitiontype>STD-12</acquisitiontype>
<numberchannelsallocated>12</numberchannelsallocated></signalcharacteristics></dataacquisition>"""
    text = philips(bytes(48), about=signal, version="1.03")
    for attribute in ("samplespersecond", "resolution", "signaloffset", "leadlabels"):
        text = re.sub(rf'{attribute}="[^"]*"', "", text)
    recording = read_example(text)
    assert (recording.sampling_rate, recording.gain[0], recording.leads, recording.num_samples) == (
        250.0,
        400.0,
        STANDARD_LEADS,
        2,
    )


XLI = 'compression="XLI"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<restingecgdata/>", "documentversion is not supported; supported: 1.03"),
        (philips(version="2.0"), "documentversion is not supported; supported: 1.03"),
        (philips().replace("parsedwaveforms", "waves"), "no parsedwaveforms"),
        (philips(more='compression="LZ4"'), "neither XLI nor 2 complete leads"),
        (philips(b"123456"), "neither XLI nor 2 complete leads"),
        (philips(b"1234567", more=XLI), "XLI block 1 is not within the data"),
        (philips(bytes(8), more=XLI), "2 leads are named, but the data hold other leads"),
        (philips(labels=""), "names its leads"),
        (philips().replace("Base64", "Hex"), "not Base64 with 16 bits"),
        (philips().replace('bitspersample="16"', 'bitspersample="8"'), "not Base64 with 16 bits"),
        (philips().replace('samplespersecond="500"', ""), "no number in samplingrate"),
        (philips().replace('samplespersecond="500"', 'samplespersecond="1e300"'), "sampling rate of"),
        (philips().replace('resolution="5"', 'resolution="0"'), "is not a voltage"),
        (philips().replace('signaloffset="0"', 'signaloffset="0.5"'), "signaloffset"),
        (philips().replace('signaloffset="0"', 'signaloffset="1e12"'), "out of range"),
        (philips().replace("</parsed", "?</parsed"), "broken base64 in <parsedwaveforms>"),
    ],
)
def test_invalid_files_are_rejected_with_a_reason(text: str, message: str) -> None:
    assert_rejected(text, message)


def test_damaged_block_is_rejected_or_changes_the_length(hospital_files: Path) -> None:
    raw = open_source(hospital_files).read("philips/fox_TRIM3.xml").decode()
    data = bytearray(base64.b64decode(re.search(r"<parsedwaveforms[^>]*>([^<]*)<", raw)[1]))  # type: ignore[index]
    data[:4] = (10**9).to_bytes(4, "little")
    damaged = re.sub(r"(<parsedwaveforms[^>]*>)[^<]*<", rf"\1{base64.b64encode(data).decode()}<", raw)
    assert_rejected(damaged, "XLI block 1 is not within the data")


def test_declared_duration_takes_no_memory() -> None:
    recording = read_example(philips(more=f'durationperchannel="{10**12}"'))
    assert (recording.num_samples, recording.provenance.num_declared_samples) == (4, 10**12 // 2)


def patient(inside: str) -> str:
    return f"""<dataacquisition date="2009-07-15" time="08:09:10"><machine machineid="M7"/><acquirer>
<operator id="op3"/><institutionname>North</institutionname><orderingclinician id="8">Lee</orderingclinician></acquirer>
</dataacquisition><patient><generalpatientdata>{inside}</generalpatientdata></patient>"""


@pytest.mark.parametrize(
    ("inside", "age", "sex"),
    [
        ("<age><years>50</years></age><sex>Male</sex>", 50.0, "male"),
        ("<age><months>6</months></age><sex>Female</sex>", 0.5, "female"),
        ('<age defaultage="50"><dateofbirth>1949-07-16</dateofbirth></age><sex>Unknown</sex>', 59.0, None),
        ('<age defaultage="50"/>', None, None),
    ],
)
def test_demographics(inside: str, age: float | None, sex: str | None) -> None:
    recording = read_example(philips(about=patient(inside)))
    assert (recording.age, recording.sex, recording.patient_id) == (age, sex, "")


def test_identity() -> None:
    inside = "<patientid>77</patientid><MRN>78</MRN><name><lastname>Groß</lastname><firstname>Ann</firstname></name>"
    inside += "<age><dateofbirth>1949-07-16</dateofbirth></age><sex>Female</sex>"
    order = "<orderinfo><ordernumber>5</ordernumber><reasonfororder>pain</reasonfororder></orderinfo>"
    signed = (
        "<interpretations><interpretation><mdsignatureline>by Kay</mdsignatureline></interpretation></interpretations>"
    )
    raw = philips(about=patient(inside) + order + signed).encode()
    assert read_identity_from(MemorySource({"p.xml": raw}), "p.xml") == {
        "patient_id": ("77", "78"),
        "patient_name": ("Groß", "Ann"),
        "birth_date": ("1949-07-16",),
        "physician": ("Lee", "8", "by Kay"),
        "operator": ("op3",),
        "institution": ("North",),
        "device_serial": ("M7",),
        "order": ("5",),
        "free_text": ("pain",),
        "acquired": ("2009-07-15T08:09:10",),
    }
