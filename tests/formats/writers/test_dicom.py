"""DICOM files of clocs, read by ``pydicom``."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pydicom
import pytest
from hypothesis import given, settings
from pydicom.dataset import Dataset

from clocs.core.errors import SignalError
from clocs.core.recording import Recording
from clocs.formats import read
from clocs.formats.writers.dicom import AGE_CHANGED
from clocs.formats.writers.digital_values import ROUNDED
from clocs.formats.writing import write
from clocs.signals.leads import STANDARD_LEADS
from tests.conftest import make_recording
from tests.formats.writers.recordings import ORIGINALS, chapman, millivolts, originals, recordings, write_quickly

TWELVE_LEADS = "1.2.840.10008.5.1.4.1.1.9.1.1"
GENERAL = "1.2.840.10008.5.1.4.1.1.9.1.2"
AMBULATORY = "1.2.840.10008.5.1.4.1.1.9.1.3"
"""PS3.6, table A-1."""
SCP_ECG = {"I": 1, "II": 2, "V1": 3, "V2": 4, "V6": 8, "III": 61, "aVR": 62, "aVL": 63, "aVF": 64, "V7": 9, "X": 16}
"""Lead numbers of SCP-ECG, as PS3.16 CID 3001 of 2001 lists them."""


def load_dataset(path: Path) -> tuple[Dataset, npt.NDArray[np.float64]]:
    """Return the dataset, and its samples in microvolt, shape (leads, samples). NaN is padding."""
    dataset = pydicom.dcmread(path)
    group = dataset.WaveformSequence[0]
    values = np.array(dataset.waveform_array(0), np.float64)
    if "WaveformPaddingValue" in group:
        padding = np.frombuffer(group.WaveformPaddingValue, "<i2")[0]
        raw = np.frombuffer(group.WaveformData, "<i2").reshape(values.shape)
        values[raw == padding] = np.nan
    return dataset, values.T


def check(recording: Recording, folder: Path) -> tuple[str, ...]:
    """Assert that samples, leads, sampling rate and labels are restored, up to the precision of DICOM."""
    notes = write_quickly(recording, folder / "r.dcm")
    dataset, microvolts = load_dataset(folder / "r.dcm")
    group = dataset.WaveformSequence[0]
    digital_values = np.array([abs(float(channel.ChannelSensitivity)) for channel in group.ChannelDefinitionSequence])[
        :, None
    ]
    expected = 1000 * millivolts(recording)
    assert np.isnan(microvolts).tolist() == np.isnan(expected).tolist()
    reach = np.nanmax(np.abs(expected), initial=0) + 1
    tolerance = (0.5 if ROUNDED in notes else 1e-9) * digital_values + 1e-11 * reach
    assert (np.nan_to_num(np.abs(microvolts - expected)) <= tolerance).all()
    assert float(group.SamplingFrequency) == pytest.approx(recording.sampling_rate, rel=1e-14)
    assert (group.NumberOfWaveformSamples, group.NumberOfWaveformChannels) == expected.shape[::-1]
    labels = [channel.ChannelLabel for channel in group.ChannelDefinitionSequence]
    assert labels == list(recording.leads)
    assert [item.UnformattedTextValue for item in dataset.get("WaveformAnnotationSequence", [])] == list(
        recording.labels
    )
    ours = read(folder / "r.dcm", derive_leads=False)
    assert (ours.sampling_rate, ours.sex) == (float(group.SamplingFrequency), recording.sex)
    assert (np.nan_to_num(np.abs(1000 * millivolts(ours) - expected)) <= tolerance + 1e-6).all()
    assert np.isnan(millivolts(ours)).tolist() == np.isnan(expected).tolist()
    return notes


@settings(max_examples=25)
@given(recording=recordings(fastest=1001.0))
def test_round_trip_of_any_recording(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("dicom")
    low = 50.0 if len(recording.leads) <= 12 else 200.0
    if not low <= recording.sampling_rate <= 1000:
        with pytest.raises(SignalError, match="the ECG classes of DICOM allow"):
            write(recording, folder / "r.dcm")
        return
    notes = check(recording, folder)
    if recording.digital.dtype == np.int16:
        assert ROUNDED not in notes


def check_exact(recording: Recording, folder: Path) -> None:
    """Assert that a real recording is restored exactly, and that its leads have codes."""
    assert check(recording, folder) == ()
    ours = read(folder / "r.dcm", derive_leads=False)
    assert (ours.leads, ours.sampling_rate, ours.age) == (recording.leads, recording.sampling_rate, recording.age)
    np.testing.assert_allclose(ours.signal, recording.signal, rtol=1e-6, atol=1e-9)


def test_round_trip_of_real_recordings(real_data: Path, tmp_path: Path) -> None:
    for recording in (
        *chapman(real_data / "chapman.zip", 5),
        *list(originals(real_data / "originals.zip", "ludb"))[:5],
    ):
        check_exact(recording, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("publisher", ORIGINALS)
def test_round_trip_of_all_originals(real_data: Path, publisher: str, tmp_path: Path) -> None:
    found = list(originals(real_data / "originals.zip", publisher))
    assert len(found) == ORIGINALS[publisher]
    for recording in found:
        check_exact(recording, tmp_path)


@pytest.mark.slow
def test_round_trip_of_a_hundred_chapman_recordings(real_data: Path, tmp_path: Path) -> None:
    found = list(chapman(real_data / "chapman.zip", 100))
    assert len(found) == 100
    for recording in found:
        check_exact(recording, tmp_path)


@pytest.mark.parametrize(
    ("leads", "sampling_rate", "num_samples", "expected"),
    [
        (STANDARD_LEADS, 500.0, 5000, TWELVE_LEADS),
        (("I", "II", "V1", "V2", "V3", "V4", "V5", "V6"), 500.0, 5000, TWELVE_LEADS),
        (STANDARD_LEADS, 500.0, 16_385, GENERAL),
        ((*STANDARD_LEADS, "V7"), 500.0, 5000, GENERAL),
        (("I", "II"), 1000.0, 10, GENERAL),
        (STANDARD_LEADS, 100.0, 1000, AMBULATORY),
    ],
)
def test_storage_class_accepts_the_recording(
    leads: tuple[str, ...], sampling_rate: float, num_samples: int, expected: str, tmp_path: Path
) -> None:
    """PS3.3 A.34.3 to A.34.5: leads, samples and sampling frequency of each class."""
    write(make_recording(leads, num_samples, sampling_rate), tmp_path / "r.dcm")
    assert pydicom.dcmread(tmp_path / "r.dcm").SOPClassUID == expected


def test_leads_have_scp_and_mdc_codes(tmp_path: Path) -> None:
    write(make_recording((*SCP_ECG, "chest strap"), 100), tmp_path / "r.dcm")
    channels = pydicom.dcmread(tmp_path / "r.dcm").WaveformSequence[0].ChannelDefinitionSequence
    for channel, (lead, number) in zip(channels, SCP_ECG.items(), strict=False):
        (code,) = channel.ChannelSourceSequence
        assert (code.CodeValue, code.CodingSchemeDesignator) == (f"5.6.3-9-{number}", "SCPECG")
        (other,) = code.EquivalentCodeSequence
        assert (other.CodeValue, other.CodingSchemeDesignator, other.CodeMeaning) == (
            f"2:{number}",
            "MDC",
            f"Lead {lead}",
        )
    assert channels[-1].ChannelSourceSequence[0].CodingSchemeDesignator == "99CLOCS"
    assert channels[-1].ChannelLabel == "chest strap"


def test_patient_id_is_written_only_on_request(tmp_path: Path) -> None:
    recording = dataclasses.replace(make_recording(patient_id="Smith-42"), site="St Elsewhere")
    write(recording, tmp_path / "r.dcm")
    raw = (tmp_path / "r.dcm").read_bytes()
    assert b"Smith" not in raw
    assert b"Elsewhere" not in raw
    dataset = pydicom.dcmread(tmp_path / "r.dcm")
    assert (dataset.PatientName, dataset.PatientID, dataset.PatientBirthDate) == ("", "", "")
    assert dataset.PatientIdentityRemoved == "YES"
    write(recording, tmp_path / "r.dcm", patient_ids=True, overwrite=True)
    dataset = pydicom.dcmread(tmp_path / "r.dcm")
    assert (dataset.PatientID, dataset.PatientIdentityRemoved) == ("Smith-42", "NO")


def test_bytes_and_uids_depend_on_the_content(tmp_path: Path) -> None:
    one, other = make_recording(seed=1), make_recording(seed=2)
    for name, recording in (("a", one), ("b", one), ("c", other)):
        write(recording, tmp_path / f"{name}.dcm")
    assert (tmp_path / "a.dcm").read_bytes() == (tmp_path / "b.dcm").read_bytes()
    first, second = (pydicom.dcmread(tmp_path / f"{name}.dcm") for name in "ac")
    for keyword in ("SOPInstanceUID", "SeriesInstanceUID", "StudyInstanceUID"):
        assert first[keyword].value != second[keyword].value
        assert first[keyword].value.is_valid
    assert len({first.SOPInstanceUID, first.SeriesInstanceUID, first.StudyInstanceUID}) == 3


@pytest.mark.parametrize(
    ("age", "written", "exact"),
    [(74.0, "074Y", True), (74.5, "074Y", False), (0.5, "006M", True), (1.9, "022M", False), (0.0, "000D", True)],
)
def test_age_in_years_months_or_days(age: float, written: str, exact: bool, tmp_path: Path) -> None:
    done = write(dataclasses.replace(make_recording(), age=age), tmp_path / "r.dcm")
    assert pydicom.dcmread(tmp_path / "r.dcm").PatientAge == written
    assert (AGE_CHANGED in done.notes) is not exact


def test_derived_lead_is_marked(tmp_path: Path) -> None:
    write(make_recording(), tmp_path / "r.dcm", derived=True)
    channels = pydicom.dcmread(tmp_path / "r.dcm").WaveformSequence[0].ChannelDefinitionSequence
    message = {channel.ChannelLabel: channel.get("ChannelDerivationDescription") for channel in channels}
    assert message["II"] is None
    assert message["aVF"] == "computed from leads I and II"


def test_raw_digital_values_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(SignalError, match="raw digital values"):
        write(dataclasses.replace(make_recording(), unit="adu"), tmp_path / "r.dcm")
    assert not list(tmp_path.iterdir())


def test_long_texts_are_truncated(tmp_path: Path) -> None:
    recording = make_recording(("I", "a\\b\nc" * 20), labels=("x\\y" * 400,))
    write(recording, tmp_path / "r.dcm")
    dataset = pydicom.dcmread(tmp_path / "r.dcm")
    assert dataset.WaveformSequence[0].ChannelDefinitionSequence[1].ChannelLabel == "a b ca b ca b ca"
    assert len(dataset.WaveformAnnotationSequence[0].UnformattedTextValue) == 1024
