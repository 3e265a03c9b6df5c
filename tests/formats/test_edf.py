"""EDF, EDF+ and BDF, compared with pyedflib, edfio and ecgdatakit (independent readers and writers)."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path

import edfio
import numpy as np
import pyedflib
import pytest

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read, read_from
from clocs.formats.reading import read_identity_from
from clocs.service.parsing.reading import MemorySource
from tests.formats.binary_examples import TWO_LEADS, Rows, edf_file
from tests.formats.ecgdatakit_reader import read_with_ecgdatakit

CONTEC = "edf/contec_0000050.edf"
PERSON = "MCH-77 F 24-DEC-1950 Anna_Example"


def read_example(raw: bytes) -> Recording:
    return read_from(MemorySource({"e.edf": raw}), "e.edf")


def written(
    path: Path, rates: dict[str, int], kind: int, *, units: str = "uV", bits: int = 16, seconds: int = 10
) -> dict[str, np.ndarray]:
    """Write smooth signals with pyedflib. Return the file, and the values that pyedflib reads from it."""
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    signals = {
        label: 900 * np.sin(np.arange(sampling_rate * seconds) / (7 + row))
        for row, (label, sampling_rate) in enumerate(rates.items())
    }
    with pyedflib.EdfWriter(str(path), len(rates), kind) as writer:
        writer.setPatientCode("MCH-77")
        writer.setPatientName("Anna_Example")
        writer.setSex(0)
        writer.setBirthdate(datetime(1950, 12, 24))
        writer.setTechnician("T._Echnician")
        writer.setAdmincode("ORD-5")
        writer.setStartdatetime(datetime(2000, 12, 25, 7, 30, 5))
        for row, (label, sampling_rate) in enumerate(rates.items()):
            header: dict[str, str | int | float | None]
            header = {
                "label": label,
                "dimension": units,
                "sample_frequency": sampling_rate,
                "prefilter": "",
                "transducer": "",
            }
            header |= {"physical_min": -1000, "physical_max": 1000, "digital_min": lowest, "digital_max": highest}
            writer.setSignalHeader(row, header)
        if kind in (pyedflib.FILETYPE_EDFPLUS, pyedflib.FILETYPE_BDFPLUS):
            writer.writeAnnotation(1.0, -1, "patient coughs")
        writer.writeSamples(list(signals.values()))
    with pyedflib.EdfReader(str(path)) as reader:
        return {label: reader.readSignal(row) for row, label in enumerate(rates)}


def test_real_file_matches_three_libraries(hospital_files: Path, tmp_path: Path) -> None:
    """Its data records last 1.25 ms. The rounded baseline shifts all values by half a digital unit."""
    source = open_source(hospital_files)
    raw = source.read(CONTEC)
    recording = read_from(source, CONTEC)
    assert (recording.sampling_rate, recording.num_samples, recording.provenance.num_declared_samples) == (
        800.0,
        37855,
        37855,
    )
    assert recording.provenance.notes == ("the baseline is rounded to the nearest digital value",)
    (tmp_path / "c.edf").write_bytes(raw)
    theirs = edfio.read_edf(io.BytesIO(raw))
    assert [signal.label for signal in theirs.signals] == list(recording.leads)
    with pyedflib.EdfReader(str(tmp_path / "c.edf")) as reader:
        for row, signal in enumerate(theirs.signals):
            np.testing.assert_array_equal(recording.digital[row], signal.digital)
            np.testing.assert_array_equal(recording.digital[row], reader.readSignal(row, digital=True))
            half_a_step = 0.5000001 / recording.gain[row]
            np.testing.assert_allclose(recording.signal[row], reader.readSignal(row), rtol=1e-6, atol=half_a_step)
    other = read_with_ecgdatakit(raw, tmp_path, "theirs.edf")
    assert other.sampling_rate == recording.sampling_rate
    np.testing.assert_allclose(recording.signal[0], other.leads["I"], rtol=1e-6, atol=half_a_step)


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        (pyedflib.FILETYPE_EDF, 16),
        (pyedflib.FILETYPE_EDFPLUS, 16),
        (pyedflib.FILETYPE_BDF, 24),
        (pyedflib.FILETYPE_BDFPLUS, 24),
    ],
)
def test_files_written_by_pyedflib(kind: int, bits: int, tmp_path: Path) -> None:
    expected = written(tmp_path / "w.edf", {"ECG I": 500, "ECG II": 500}, kind, bits=bits)
    recording = read(tmp_path / "w.edf", derive_leads=False)
    assert (recording.leads, recording.sampling_rate, recording.num_samples) == (("I", "II"), 500.0, 5000)
    assert recording.digital.dtype == (np.int16 if bits == 16 else np.int32)
    step = 2000 / (2**bits - 1)
    for row, label in enumerate(expected):
        np.testing.assert_allclose(1000 * recording.signal[row], expected[label], rtol=1e-6, atol=0.51 * step)
    if kind in (pyedflib.FILETYPE_EDFPLUS, pyedflib.FILETYPE_BDFPLUS):
        assert (recording.age, recording.sex) == (50.0, "female")


def test_identity_of_edf_plus(tmp_path: Path) -> None:
    written(tmp_path / "w.edf", {"ECG": 500}, pyedflib.FILETYPE_EDFPLUS)
    assert read_identity_from(open_source(tmp_path), "w.edf") == {
        "patient_id": ("MCH-77",),
        "patient_name": ("Anna_Example",),
        "birth_date": ("24-DEC-1950",),
        "acquired": ("2000-12-25T07:30:05",),
        "order": ("ORD-5",),
        "operator": ("T._Echnician",),
        "free_text": ("patient coughs",),
    }


def test_identity_of_plain_edf() -> None:
    raw = edf_file(patient="Example, Anna 24.12.50", recording="ward 7, Dr Who", start="25.12.9907.30.05")
    found = read_identity_from(MemorySource({"e.edf": raw}), "e.edf")
    assert found["patient_id"] == ("Example, Anna 24.12.50",)
    assert found["free_text"] == ("ward 7, Dr Who",)
    assert found["acquired"] == ("1999-12-25T07:30:05",)
    assert read_example(raw).age is None


def test_only_ecg_signals_of_one_sampling_rate_are_read(tmp_path: Path) -> None:
    """The most common sampling rate is read."""
    rates = {"EEG Fp1": 200, "ECG I": 500, "EKG2": 250, "Resp": 50, "V5": 500, "SaO2": 10}
    expected = written(tmp_path / "w.edf", rates, pyedflib.FILETYPE_EDFPLUS)
    recording = read(tmp_path / "w.edf")
    assert (recording.leads, recording.sampling_rate) == (("I", "V5"), 500.0)
    np.testing.assert_allclose(1000 * recording.signal[1], expected["V5"], rtol=1e-6, atol=0.02)
    assert recording.provenance.notes[:2] == (
        "left out 3 signals that are not ECG",
        "left out 1 ECG signals of other rates",
    )


@pytest.mark.parametrize(
    ("label", "lead"),
    [
        ("ECG I", "I"),
        ("EKG", "ECG"),
        ("ECG1", "ECG"),
        ("ecg-V2", "V2"),
        ("ECG Lead II", "II"),
        ("Lead aVF", "aVF"),
        ("MLII", "MLII"),
        ("AVR", "aVR"),
        ("V3R", "V3R"),
    ],
)
def test_labels_of_ecg_signals(label: str, lead: str) -> None:
    assert read_example(edf_file({label: (1, 2, 3)})).leads == (lead,)


@pytest.mark.parametrize("label", ["EEG C3", "Anna", "ECGraph", "X", "", "EMG II"])
def test_labels_of_other_signals(label: str) -> None:
    with pytest.raises(FormatError, match="none of its 1 signals has the label of an ECG"):
        read_example(edf_file({label: (1, 2, 3)}))


def test_signal_without_a_voltage_is_not_an_ecg() -> None:
    with pytest.raises(FormatError, match="none of its 1 signals has the label of an ECG"):
        read_example(edf_file({"ECG": (1, 2, 3)}, units=["bpm"]))


@pytest.mark.parametrize(
    ("num_samples", "seconds", "sampling_rate"),
    [
        ((4, 4), "0.008", 500.0),
        ((1, 1), "0.00125", 800.0),
        ((2, 2), "0,007812", 256.0),
        ((2, 2), "0.015625", 128.0),
        ((4, 4), "0.03", 4 / 0.03),
    ],
)
def test_sampling_rate_from_data_records(num_samples: tuple[int, int], seconds: str, sampling_rate: float) -> None:
    recording = read_example(edf_file(num_samples=num_samples, seconds=seconds))
    assert recording.sampling_rate == sampling_rate
    assert recording.digital.tolist() == [list(digital_values) for digital_values in TWO_LEADS.values()]


@pytest.mark.parametrize(
    ("limits", "gain", "baseline"),
    [
        (("-5", "5", "-1000", "1000"), 200.0, 0),
        (("0", "10", "0", "1000"), 100.0, 0),
        (("-2", "8", "0", "1000"), 100.0, 200),
        (("5", "-5", "-1000", "1000"), -200.0, 0),
    ],
)
def test_gain_and_baseline_from_limits(limits: tuple[str, str, str, str], gain: float, baseline: int) -> None:
    recording = read_example(edf_file(units=["mV", "mV"], limits=limits))
    assert recording.gain.tolist() == [pytest.approx(gain)] * 2
    assert recording.baseline.tolist() == [baseline] * 2


@pytest.mark.parametrize("records", [-1, 0, 4, 10**6])
def test_missing_data_records(records: int) -> None:
    recording = read_example(edf_file(records=records) + b"\1")
    assert recording.num_samples == 4
    assert recording.provenance.num_declared_samples == (records if records > 0 else None)


def interrupted(onsets: list[str]) -> bytes:
    """Return an EDF+D file. The first annotation of each data record is its onset."""
    texts = [f"{onset}\x14\x14".encode().ljust(20, b"\0") for onset in onsets]
    words = [int(word) for text in texts for word in np.frombuffer(text, "<i2")]
    rows: Rows = {"ECG": list(range(2 * len(onsets))), "EDF Annotations": words}
    return edf_file(rows, num_samples=(2, 10), units=["uV", ""], seconds="0.5", reserved="EDF+D")


def test_only_recordings_without_gaps_are_read() -> None:
    assert read_example(interrupted(["+0", "+0.5", "+1"])).digital.tolist() == [[0, 1, 2, 3, 4, 5]]
    for onsets in (["+0", "+0.5", "+7"], ["+0", "what", "+1"]):
        with pytest.raises(FormatError, match="an interrupted recording"):
            read_example(interrupted(onsets))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (edf_file(seconds="0"), "hold no signal"),
        (edf_file(seconds="-1"), "hold no signal"),
        (edf_file(seconds="nan"), "out of range"),
        (edf_file(seconds="fast"), "its duration of a data record is not a number"),
        (edf_file(limits=("5", "5", "0", "10")), "limits of a signal are invalid"),
        (edf_file(limits=("0", "5", "10", "10")), "limits of a signal are invalid"),
        (edf_file(limits=("999999.9", "1000000", "0", "32767")), "baseline of a signal is out of range"),
        (edf_file()[:300], "does not fit its 300 bytes"),
        (edf_file()[:768], "holds no sample"),
        (edf_file().replace(b"4       0.002   2   ", b"4       0.002   999 "), "the header of 999 signals"),
    ],
)
def test_damaged_header_is_rejected(raw: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_example(raw)
