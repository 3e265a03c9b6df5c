"""MUSE XML, compared with ecgdatakit and muse2wfdb (independent readers)."""

from __future__ import annotations

import base64
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import wfdb
from muse2wfdb.converter import muse_to_wfdb

import clocs
from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.ecgdatakit_reader import assert_same_recording, read_with_ecgdatakit
from tests.formats.xml_examples import TWO_LEADS, muse, muse_lead, muse_waveform

FILES = [*(f"muse/braveheart_example{number}.xml" for number in range(1, 5)), "muse/cvrg_MUSE_20080710.xml"]
EIGHT_LEADS = ("I", "II", "V1", "V2", "V3", "V4", "V5", "V6")


def read_example(text: str) -> Recording:
    return read_from(MemorySource({"m.xml": text.encode("latin-1")}), "m.xml")


def assert_rejected(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=rf"m\.xml: .*{message}"):
        read_example(text)


def test_every_sample_file_is_listed(hospital_files: Path) -> None:
    with zipfile.ZipFile(hospital_files) as archive:
        assert sorted(name for name in archive.namelist() if re.match("muse/.", name)) == FILES


@pytest.mark.parametrize("name", FILES)
def test_every_file_matches_ecgdatakit(name: str, hospital_files: Path, tmp_path: Path) -> None:
    source = open_source(hospital_files)
    recording = read_from(source, name)
    assert_same_recording(recording, read_with_ecgdatakit(source.read(name), tmp_path))
    assert recording.leads == EIGHT_LEADS
    assert recording.digital.dtype == np.int16
    assert recording.num_samples == recording.provenance.num_declared_samples
    assert recording.seconds == 10.0
    assert recording.provenance.notes == ()


@pytest.mark.parametrize("name", FILES)
def test_twelve_leads_match_muse2wfdb(name: str, hospital_files: Path, tmp_path: Path) -> None:
    """muse2wfdb derives four leads in floating point and rounds to 16 bits of the range of a lead: 13 to 44 nV."""
    (tmp_path / "m.xml").write_bytes(open_source(hospital_files).read(name))
    muse_to_wfdb(str(tmp_path / "m.xml"), str(tmp_path / "theirs"))
    theirs = wfdb.rdrecord(str(tmp_path / "theirs"))
    ours = clocs.read(hospital_files / name).select(tuple(theirs.sig_name))
    values = (ours.digital - ours.baseline[:, None].astype(np.float64)) / ours.gain[:, None]
    half_steps = np.ptp(values, axis=1) / 2**17
    assert np.all(np.abs(values - theirs.p_signal.T).max(axis=1) <= 1.01 * half_steps)
    assert half_steps.max() < 45e-6
    assert ours.sampling_rate == theirs.fs


def test_digital_values_are_unchanged(hospital_files: Path) -> None:
    """Compare with numpy on the base64 text after the word Rhythm."""
    raw = open_source(hospital_files).read(FILES[0]).decode("latin-1").split("<WaveformType>Rhythm")[1]
    texts = re.findall(r"<WaveFormData>([^<]*)<", raw)
    recording = read_from(open_source(hospital_files), FILES[0])
    expected = np.stack([np.frombuffer(base64.b64decode(text), "<i2") for text in texts])
    np.testing.assert_array_equal(recording.digital, expected)
    np.testing.assert_allclose(recording.gain, 1000 / 4.88, rtol=1e-15)


@pytest.mark.parametrize("order", [("Median", "Rhythm"), ("Rhythm", "Median")])
def test_rhythm_is_read_before_or_after_the_median_beat(order: tuple[str, str]) -> None:
    waveforms = {
        "Median": muse_waveform("Median", muse_lead("I", (9, 9)), base="1000"),
        "Rhythm": muse_waveform(
            "Rhythm", *(muse_lead(lead, digital_values) for lead, digital_values in TWO_LEADS.items())
        ),
    }
    recording = read_example(muse(*(waveforms[kind] for kind in order)))
    assert recording.digital.tolist() == [list(digital_values) for digital_values in TWO_LEADS.values()]
    assert recording.sampling_rate == 500.0


def test_median_beat_alone_is_rejected() -> None:
    assert_rejected(
        muse(muse_waveform("Median", muse_lead("I", (1, 2)))), "none of its 1 Waveform elements is a Rhythm"
    )
    assert_rejected("<RestingECG/>", "none of its 0 Waveform")
    assert_rejected(muse(muse_waveform("Rhythm")), "0 leads")


@pytest.mark.parametrize("name", FILES[:2])
@pytest.mark.parametrize("place", [0.3, 0.5, 0.99])
def test_checksum_detects_changed_samples(name: str, place: float, hospital_files: Path) -> None:
    raw = bytearray(open_source(hospital_files).read(name))
    rhythm = raw.index(b"<WaveformType>Rhythm")
    start = raw.index(b"<WaveFormData>", rhythm) + len(b"<WaveFormData>")
    end = raw.index(b"<", start)
    at = next(at for at in range(start + int((end - start) * place), end) if chr(raw[at]).isalnum())
    raw[at] = ord("A") if raw[at] != ord("A") else ord("B")
    with pytest.raises(FormatError, match="samples of lead I do not match their LeadDataCRC32"):
        read_from(MemorySource({"m.xml": bytes(raw)}), "m.xml")


def test_checksums_are_optional() -> None:
    assert read_example(muse(muse_waveform("Rhythm", muse_lead("I", (1, 2), crc="")))).num_samples == 2
    assert_rejected(muse(muse_waveform("Rhythm", muse_lead("I", (1, 2), crc="none"))), "LeadDataCRC32")


@pytest.mark.parametrize(
    ("base", "exponent", "sampling_rate"),
    [("500", "0", 500.0), ("25", "1", 250.0), ("5000", "-1", 500.0), ("240", "", 240.0)],
)
def test_sampling_rate_is_base_times_ten_to_the_exponent(base: str, exponent: str, sampling_rate: float) -> None:
    waveform = muse_waveform("Rhythm", muse_lead("I", (1, 2)), base=base, exponent=exponent)
    assert read_example(muse(waveform)).sampling_rate == pytest.approx(sampling_rate, rel=1e-15)


def test_each_lead_has_its_own_gain() -> None:
    leads = [
        muse_lead("I", (1000,)),
        muse_lead("II", (1000,), step="0.00488", unit="MILLIVOLTS"),
        muse_lead("V1", (1000,), step="1.25"),
    ]
    recording = read_example(muse(muse_waveform("Rhythm", *leads)))
    np.testing.assert_allclose(recording.signal[:, 0], [4.88, 4.88, 1.25], rtol=1e-6)


def test_lowest_value_is_a_valid_sample() -> None:
    recording = read_example(muse(muse_waveform("Rhythm", muse_lead("I", (-32768, 32767)))))
    assert recording.digital.tolist() == [[-32768, 32767]]
    assert not np.isnan(recording.signal).any()


def test_ignored_offsets_are_noted() -> None:
    odd = muse_lead("V6", (1, 2), more="<FirstSampleBaseline>3</FirstSampleBaseline><LeadOff>TRUE</LeadOff>")
    even = muse_lead("I", (1, 2), more="<FirstSampleBaseline>0</FirstSampleBaseline><LeadOff>FALSE</LeadOff>")
    waveform = muse_waveform("Rhythm", odd, even)
    assert read_example(muse(waveform, muse_waveform("Rhythm", even))).provenance.notes == (
        "lead V6: FirstSampleBaseline is not 0 and was not applied",
        "lead V6: its electrode was off",
        "left out 1 more Rhythm waveforms",
    )


@pytest.mark.parametrize(
    ("lead", "message"),
    [
        (muse_lead("I", (1,), unit="MMHG"), "is not a voltage"),
        (muse_lead("I", (1,), step="0"), "is not a voltage"),
        (muse_lead("I", (1,), step="5e-324"), "is not a voltage"),
        (muse_lead("I", (1,), step="1e308"), "is not a voltage"),
        (muse_lead("I", (1,), step="many"), "no number in <LeadData> LeadAmplitudeUnitsPerBit"),
        (muse_lead("I", ()), "holds no sample"),
        (muse_lead("I", (1,)).replace("Size>2<", "Size>4<"), "samples of other than two bytes"),
        (muse_lead("I", (1,)).replace("AQA=", "AQ=="), "samples of other than two bytes"),
        (muse_lead("I", (1,)).replace("AQA=", "AQA"), "broken base64 in <LeadData> WaveFormData"),
        (muse_lead("I", (1, 2)) + muse_lead("II", (1,)), "differ in length, 1 to 2"),
    ],
)
def test_invalid_leads_are_rejected_with_a_reason(lead: str, message: str) -> None:
    assert_rejected(muse(muse_waveform("Rhythm", lead)), message)


@pytest.mark.parametrize(("base", "exponent"), [("0", "0"), ("500", "99"), ("x", "0"), ("1e6", "3"), ("nan", "0")])
def test_invalid_sampling_rates_are_rejected(base: str, exponent: str) -> None:
    assert_rejected(muse(muse_waveform("Rhythm", muse_lead("I", (1,)), base=base, exponent=exponent)), "Sample|rate")


def about(patient: str, test: str = "") -> str:
    return f"<PatientDemographics>{patient}</PatientDemographics><TestDemographics>{test}</TestDemographics>"


ACQUIRED = "<AcquisitionDate>07-15-2009</AcquisitionDate><AcquisitionTime>08:09:10</AcquisitionTime>"


@pytest.mark.parametrize(
    ("patient", "age", "sex"),
    [
        ("<PatientAge>58</PatientAge><AgeUnits>YEARS</AgeUnits><Gender>MALE</Gender>", 58.0, "male"),
        ("<PatientAge>6</PatientAge><AgeUnits>MONTHS</AgeUnits><Gender>FEMALE</Gender>", 0.5, "female"),
        ("<PatientAge>90</PatientAge>", 90.0, None),
        ("<PatientAge>1</PatientAge><DateofBirth>07-16-1949</DateofBirth>", 1.0, None),
        ("<DateofBirth>07-15-1949</DateofBirth><Gender>UNKNOWN</Gender>", 60.0, None),
        ("<DateofBirth>07-16-1949</DateofBirth>", 59.0, None),
        ("<DateofBirth>somewhen</DateofBirth><PatientAge>old</PatientAge>", None, None),
    ],
)
def test_demographics(patient: str, age: float | None, sex: str | None) -> None:
    recording = read_example(muse(about=about(patient, ACQUIRED)))
    assert (recording.age, recording.sex, recording.patient_id, recording.labels) == (age, sex, "", ())


def test_identity() -> None:
    patient = """<PatientID>77</PatientID><PatientLastName>Groß</PatientLastName><DateofBirth>07-15-1949</DateofBirth>
<Race>ASIAN</Race><PatientAge>60</PatientAge><Nickname>Zed</Nickname>"""
    test = f"""{ACQUIRED}<SiteName>North</SiteName><ReferringMDLastName>Lee</ReferringMDLastName>
<Status>CONFIRMED</Status><AcquisitionTechID>5</AcquisitionTechID><EditorLastName>Kay</EditorLastName><CartNumber>3</CartNumber>"""
    order = "<Order><HISOrderNumber>88</HISOrderNumber><AdmitDiagnosis>pain</AdmitDiagnosis></Order>"
    stated = "<Diagnosis><DiagnosisStatement><StmtText>Sinus rhythm</StmtText></DiagnosisStatement></Diagnosis>"
    raw = muse(about=about(patient, test) + order + stated).encode("latin-1")
    assert read_identity_from(MemorySource({"m.xml": raw}), "m.xml") == {
        "patient_id": ("77",),
        "patient_name": ("Groß",),
        "birth_date": ("07-15-1949",),
        "free_text": ("Zed", "pain", "Sinus rhythm"),
        "acquired": ("2009-07-15T08:09:10",),
        "institution": ("North",),
        "physician": ("Lee",),
        "operator": ("5", "Kay"),
        "device_serial": ("3",),
        "order": ("88",),
    }


def test_unknown_date_format_is_returned_unchanged() -> None:
    raw = muse(about=about("", "<AcquisitionDate>Tuesday</AcquisitionDate>")).encode()
    assert read_identity_from(MemorySource({"m.xml": raw}), "m.xml") == {"acquired": ("Tuesday",)}


def test_declared_length_takes_no_memory() -> None:
    text = muse().replace("<LeadSampleCountTotal>4<", f"<LeadSampleCountTotal>{10**12}<")
    recording = read_example(text)
    assert (recording.num_samples, recording.provenance.num_declared_samples) == (4, 10**12)
