"""DICOM waveforms, compared with pydicom and ecgdatakit (independent readers)."""

from __future__ import annotations

import io
import logging
import re
import traceback
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pydicom
import pytest
from pydicom.dataset import Dataset

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.binary_examples import TWO_LEADS, Rows, dicom_channel, dicom_file, dicom_group
from tests.formats.ecgdatakit_reader import read_with_ecgdatakit

TWELVE = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
FILES: dict[str, tuple[float, int, float | None, str]] = {
    "dicom/ecgprocess_example-DICOM1.dcm": (500.0, 5000, None, "female"),
    "dicom/ecgtoolkit_Example.dcm": (500.0, 5000, 49.0, "male"),
    "dicom/gemarquette_hemodynamic_ecg_scrubbed.dcm": (240.0, 2400, 55.0, "male"),
    "dicom/pydicom_waveform_ecg_scrubbed.dcm": (1000.0, 10000, 42.0, "female"),
}
"""Sampling rate, number of samples, age and sex of every file."""
HEMODYNAMIC = "1.2.840.10008.5.1.4.1.1.9.2.1"
IN_MILLIVOLT = {"uV": 1e-3, "mV": 1.0}


def read_example(raw: bytes) -> Recording:
    return read_from(MemorySource({"d.dcm": raw}), "d.dcm")


def scale_with_pydicom(raw: bytes, group: int = 0) -> npt.NDArray[np.float64]:
    """Return the signal in millivolt as pydicom scales it, shape (leads, samples)."""
    dataset = pydicom.dcmread(io.BytesIO(raw))
    channels = dataset.WaveformSequence[group].ChannelDefinitionSequence
    units = [IN_MILLIVOLT[channel.ChannelSensitivityUnitsSequence[0].CodeValue] for channel in channels]
    return np.array(np.asarray(dataset.waveform_array(group)).T * np.array(units)[:, None], np.float64)


def test_every_sample_file_is_listed(hospital_files: Path) -> None:
    with zipfile.ZipFile(hospital_files) as archive:
        assert {name for name in archive.namelist() if re.match("dicom/.", name)} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_every_file_matches_pydicom(name: str, hospital_files: Path) -> None:
    source = open_source(hospital_files)
    recording = read_from(source, name)
    assert recording.leads == TWELVE
    assert (recording.sampling_rate, recording.num_samples, recording.age, recording.sex) == FILES[name]
    assert recording.provenance.num_declared_samples == recording.num_samples
    np.testing.assert_allclose(recording.physical(), scale_with_pydicom(source.read(name)), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", FILES)
def test_values_match_ecgdatakit(name: str, hospital_files: Path, tmp_path: Path) -> None:
    """ecgdatakit treats zeros as padding; they are excluded."""
    source = open_source(hospital_files)
    recording, theirs = read_from(source, name), read_with_ecgdatakit(source.read(name), tmp_path, "theirs.dcm")
    values = np.stack([theirs.leads[lead] for lead in recording.leads])
    absent = np.isnan(values)
    assert absent.sum() == (1269 if "ecgtoolkit" in name else 0)
    assert not recording.signal[absent].any()
    np.testing.assert_allclose(recording.signal[~absent], values[~absent], rtol=0, atol=1e-6)


def test_zeros_are_not_missing_if_the_padding_value_is_0(hospital_files: Path) -> None:
    recording = read_from(open_source(hospital_files), "dicom/ecgtoolkit_Example.dcm")
    assert (recording.digital == 0).sum() == 1269
    assert recording.provenance.notes == (
        "the declared padding value is 0, which is also a valid sample; zeros are kept",
    )


def test_identity_of_the_sample_files(hospital_files: Path) -> None:
    found = read_identity_from(open_source(hospital_files), "dicom/ecgtoolkit_Example.dcm")
    assert (found["patient_name"], found["patient_id"], found["birth_date"]) == (
        ("Clark",),
        ("SBJ-123",),
        ("19530508",),
    )
    assert found["acquired"][0] == "2002-11-22T09:10:00"
    assert found["order"][0] == "1.2.826.0.1.34471.2.44.6.20021122091000..1"
    typed = read_identity_from(open_source(hospital_files), "dicom/pydicom_waveform_ecg_scrubbed.dcm")["free_text"]
    assert {"RITMO SINUSALE", "ECG NORMALE"} <= set(typed)


def test_identity_fields_are_found_in_any_element() -> None:
    block: dict[str, Any] = {
        "PatientAddress": "Main St 1",
        "OperatorsName": "Op",
        "RequestingPhysician": "Dr Who",
        "StationName": "ECG-7",
    }
    dataset = pydicom.dcmread(io.BytesIO(dicom_file(dicom_group(), AdmissionID="V1", VisitComments="typed", **block)))
    private = dataset.private_block(0x1455, "Maker", create=True)
    private.add_new(1, "LO", "own text")
    private.add_new(2, "AE", "AETITLE")
    note = Dataset()
    note.UnformattedTextValue = "sinus rhythm"
    dataset.WaveformAnnotationSequence = [note]
    buffer = io.BytesIO()
    dataset.save_as(buffer)
    assert read_identity_from(MemorySource({"d.dcm": buffer.getvalue()}), "d.dcm") == {
        "contact": ("Main St 1",),
        "operator": ("Op",),
        "physician": ("Dr Who",),
        "device_serial": ("ECG-7", "AETITLE"),
        "order": ("1.2.3.4", "V1"),
        "free_text": ("typed", "sinus rhythm", "own text"),
    }


def test_general_ecg() -> None:
    recording = read_example(dicom_file(dicom_group()))
    assert recording.leads == ("I", "II")
    assert recording.digital.tolist() == [list(digital_values) for digital_values in TWO_LEADS.values()]
    assert (recording.sampling_rate, recording.gain.tolist()) == (500.0, [400.0, 400.0])
    np.testing.assert_allclose(recording.signal, scale_with_pydicom(dicom_file(dicom_group())), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "interpretation", "big"),
    [
        ("i1", "SB", False),
        ("u1", "UB", False),
        ("<i2", "SS", False),
        (">i2", "SS", True),
        ("<u2", "US", False),
        ("<i4", "SL", False),
    ],
)
def test_samples_of_every_type_and_byte_order(kind: str, interpretation: str, big: bool) -> None:
    rows: Rows = {"I": (1, 2, 100, 4), "II": (50, 60, 70, 80)}
    group = dicom_group(rows, kind=kind, WaveformSampleInterpretation=interpretation)
    assert read_example(dicom_file(group, big=big)).digital.tolist() == [
        list(digital_values) for digital_values in rows.values()
    ]


@pytest.mark.parametrize("label", ["MEDIAN BEAT", "AVERAGE BEAT", "REPRESENTATIVE", ""])
def test_rhythm_is_selected_at_any_position(label: str) -> None:
    median = dicom_group({"I": [9] * 600, "II": [9] * 600}, WaveformOriginality="DERIVED", MultiplexGroupLabel=label)
    for groups in ((median, dicom_group()), (dicom_group(), median)):
        assert read_example(dicom_file(*groups)).digital.tolist() == [
            list(digital_values) for digital_values in TWO_LEADS.values()
        ]
    with pytest.raises(FormatError, match="holds no rhythm"):
        read_example(dicom_file(median))


def test_original_group_is_preferred_to_a_longer_derived_group() -> None:
    long: Rows = {"I": [9] * 5000, "II": [9] * 5000}
    filtered = dicom_group(long, WaveformOriginality="DERIVED")
    assert read_example(dicom_file(filtered, dicom_group())).num_samples == 4
    assert read_example(dicom_file(filtered)).num_samples == 5000


def test_larger_of_two_similar_groups_is_read_with_a_note() -> None:
    recording = read_example(dicom_file(dicom_group({"I": (1,), "II": (2,)}), dicom_group()))
    assert recording.num_samples == 4
    assert recording.provenance.notes == ("left out 1 more groups of the same kind",)


def coded(value: str, scheme: str, meaning: str) -> Dataset:
    channel = dicom_channel("I")
    source = channel.ChannelSourceSequence[0]
    source.CodeValue, source.CodingSchemeDesignator, source.CodeMeaning = value, scheme, meaning
    return channel


@pytest.mark.parametrize(
    ("value", "scheme", "meaning", "lead"),
    [
        ("5.6.3-9-61", "SCPECG", "Lead I", "III"),
        ("2:63", "MDC", "augmented voltage, left", "aVL"),
        ("131075", "MDC", "", "V1"),
        ("2:33", "MDC", "Derived Lead V1", "V1"),
        ("MDC_ECG_LEAD_AVF", "MDC", "", "aVF"),
        ("5.6.3-9-11", "SCPECG", "whatever", "V3R"),
        ("X1", "99VENDOR", "Lead V4", "V4"),
        ("X1", "99VENDOR", "Lead I (Einthoven)", "I"),
        ("X1", "99VENDOR", "Anna Example", "ECG"),
    ],
)
def test_lead_from_its_code_or_its_meaning(value: str, scheme: str, meaning: str, lead: str) -> None:
    group = dicom_group({"I": (1, 2)}, [coded(value, scheme, meaning)])
    assert read_example(dicom_file(group)).leads == (lead,)


def test_ecg_channels_of_another_waveform_class() -> None:
    pressure, voltage = coded("109016", "DCM", "Arterial pressure"), coded("X9", "99VENDOR", "Catheter 1")
    pressure.ChannelSensitivityUnitsSequence[0].CodeValue = "mm[Hg]"
    rows: Rows = {"I": (1, 2), "II": (3, 4), "V1": (5, 6)}
    raw = dicom_file(dicom_group(rows, [pressure, dicom_channel("II"), voltage]), sop_class=HEMODYNAMIC)
    recording = read_example(raw)
    assert recording.leads == ("II",)
    assert recording.digital.tolist() == [[3, 4]]
    assert recording.provenance.notes == ("left out 2 channels that are not ECG",)
    alone = dicom_group({"I": (1, 2, 3, 4)}, [pressure])
    with pytest.raises(FormatError, match="no channel is an ECG"):
        read_example(dicom_file(alone))
    assert read_example(dicom_file(alone, dicom_group({"II": (3, 4)}), sop_class=HEMODYNAMIC)).digital.tolist() == [
        [3, 4]
    ]


@pytest.mark.parametrize(
    ("unit", "sensitivity", "correction", "baseline"),
    [("uV", "2.5", "1", "0"), ("mV", "0.00122", "1.5", "0"), ("uV", "2", "1", "-300"), ("uV", "5", "2", "1000")],
)
def test_gain_and_baseline_match_pydicom(unit: str, sensitivity: str, correction: str, baseline: str) -> None:
    """The baseline is in the unit of the channel (PS3.3 C.10.9)."""
    channel = dicom_channel(
        "I", ChannelSensitivity=sensitivity, ChannelSensitivityCorrectionFactor=correction, ChannelBaseline=baseline
    )
    channel.ChannelSensitivityUnitsSequence[0].CodeValue = unit
    raw = dicom_file(dicom_group({"I": (1, -2, 300)}, [channel]))
    recording = read_example(raw)
    assert recording.digital.tolist() == [[1, -2, 300]]
    np.testing.assert_allclose(recording.signal, scale_with_pydicom(raw), rtol=1e-6, atol=1e-6)


def test_rounded_baseline_is_noted() -> None:
    raw = dicom_file(dicom_group({"I": (1, -2, 300)}, [dicom_channel("I", ChannelBaseline="1")]))
    recording = read_example(raw)
    assert recording.provenance.notes == ("the baseline is rounded to the nearest digital value",)
    np.testing.assert_allclose(recording.signal, scale_with_pydicom(raw), atol=0.00125)


@pytest.mark.parametrize(
    ("padding", "missing"), [(b"\x2c\x01", [2]), (None, []), (b"\0\0", []), (b"\0\x80", []), (b"\x01\x00", [0])]
)
def test_padding_values_are_missing_unless_0(padding: bytes | None, missing: list[int]) -> None:
    more: dict[str, Any] = {} if padding is None else {"WaveformPaddingValue": padding}
    recording = read_example(dicom_file(dicom_group({"I": (1, 0, 300, 0)}, **more)))
    assert np.flatnonzero(np.isnan(recording.signal[0])).tolist() == missing


def test_lowest_value_is_always_missing() -> None:
    recording = read_example(dicom_file(dicom_group({"I": (1, -32768, 300, -32768)})))
    assert np.isnan(recording.signal[0]).tolist() == [False, True, False, True]
    assert recording.provenance.notes == ("2 samples are padding and taken as missing",)


@pytest.mark.parametrize("keyword", ["ChannelSampleSkew", "ChannelTimeSkew"])
def test_channel_skew_is_noted(keyword: str) -> None:
    channel = dicom_channel("I", **{keyword: "0.5"})
    assert "channel skew" in read_example(dicom_file(dicom_group({"I": (1, 2)}, [channel]))).provenance.notes[0]


@pytest.mark.parametrize(
    ("age", "birth", "expected"),
    [("042Y", "19530508", 42.0), ("006M", "", 0.5), ("", "19530508", 49.0), ("", "1953", None), ("X", "", None)],
)
def test_age_is_stated_or_computed_from_dates(age: str, birth: str, expected: float | None) -> None:
    raw = dicom_file(
        dicom_group(), PatientAge=age, PatientBirthDate=birth, AcquisitionDateTime="20021122091000.12+0100"
    )
    assert read_example(raw).age == expected


def test_truncated_samples_are_read() -> None:
    recording = read_example(dicom_file(dicom_group(NumberOfWaveformSamples=10**9)))
    assert (recording.num_samples, recording.provenance.num_declared_samples) == (4, 10**9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"NumberOfWaveformChannels": 3}, "2 channels are described, but the header declares another number"),
        (
            {"WaveformSampleInterpretation": "MB"},
            "sample interpretation is not supported; supported: SB, UB, SS, US, SL",
        ),
        ({"WaveformBitsAllocated": 8}, "must have 16 bits"),
        ({"SamplingFrequency": "0"}, "0 Hz is out of range"),
    ],
)
def test_inconsistent_group_is_rejected(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_example(dicom_file(dicom_group(**change)))


def test_images_and_deflated_files_are_rejected() -> None:
    with pytest.raises(FormatError, match="holds no rhythm"):
        read_example(dicom_file())
    deflated = dicom_file(dicom_group()).replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.99")
    with pytest.raises(FormatError, match="deflated DICOM is not supported"):
        read_example(deflated)


def error_text(raw: bytes) -> str:
    """Return the error message with its traceback."""
    try:
        read_example(raw)
    except FormatError as error:
        return "".join(traceback.format_exception(error))
    return ""


def test_messages_and_logs_do_not_quote_the_file(caplog: pytest.LogCaptureFixture) -> None:
    raw = dicom_file(dicom_group(), PatientName="Example^Anna", PatientBirthDate="24.12.1950", PatientAge="Anna")
    with caplog.at_level(logging.DEBUG):
        message = "".join(error_text(raw[:cut]) for cut in range(300, len(raw), 37))
    assert "d.dcm: damaged DICOM" in message
    assert not re.search("Example|Anna|1950", message + caplog.text)
    assert not logging.getLogger("pydicom").disabled
