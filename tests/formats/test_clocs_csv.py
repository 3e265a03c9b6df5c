"""The CSV of clocs, as users may write it by hand."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import ClocsError, FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats.clocs_csv import CLOCS_CSV
from clocs.formats.reading import read_from, read_identity_from

START = "# clocs ECG 2\n# sampling_rate: 500\n"


def read_text(folder: Path, text: str | bytes) -> Recording:
    (folder / "r.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return read_from(open_source(folder), "r.csv")


def test_minimal_file(tmp_path: Path) -> None:
    recording = read_text(tmp_path, START + "Time ,I,avf\n0,0.001,-1.5\n0.002,,2\n0.004,NaN,0.0004\n")
    assert (recording.leads, recording.sampling_rate, recording.unit) == (("I", "aVF"), 500.0, "mV")
    np.testing.assert_array_equal(recording.signal, np.array([[0.001, np.nan, np.nan], [-1.5, 2, 0]], np.float32))


def test_time_column_is_optional_and_windows_line_endings(tmp_path: Path) -> None:
    recording = read_text(tmp_path, (START + "I,II\n1,2\n3,4\n").replace("\n", "\r\n"))
    assert recording.leads == ("I", "II")
    assert recording.signal.tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(("unit", "written"), [("mV", 1.5), ("uV", 1500), ("µV", 1500), ("V", 0.0015), ("nv", 1.5e6)])
@pytest.mark.parametrize("gain", ["", "# gain: [0.5]\n"])
def test_units_are_converted_to_millivolt(unit: str, written: float, gain: str, tmp_path: Path) -> None:
    """The gain refers to the unit of the file."""
    recording = read_text(tmp_path, f'{START}# unit: "{unit}"\n{gain}I\n{4 * written}\n0\n')
    assert recording.unit == "mV"
    size = {"m": 1, "u": 1e-3, "µ": 1e-3, "V": 1e3, "n": 1e-6}[unit[0]]
    assert recording.gain == pytest.approx([0.5 / size] if gain else [1000])
    digital_values = np.round(6 * recording.gain)
    assert recording.signal[0].tolist() == pytest.approx([(digital_values / recording.gain).item(), 0])


def test_large_values_use_32_bits(tmp_path: Path) -> None:
    rows = "\n".join(["0.1,0.2"] * 200_000 + ["40,-40", ",1"])
    recording = read_text(tmp_path, START + "I,II\n" + rows + "\n")
    assert recording.digital.dtype == np.int32
    assert recording.num_samples == 200_002
    assert recording.signal[:, -2].tolist() == [40, -40]
    assert np.isnan(recording.signal[0, -1])


def test_metadata_is_read_without_the_patient(tmp_path: Path) -> None:
    known = '# patient: "Smith-42"\n# age: 74\n# sex: "male"\n# labels: ["a", "b"]\n# episodes: [[0, 1, "AF"]]\n'
    recording = read_text(tmp_path, START + known + "# a line without meaning\nI\n1\n")
    assert (recording.age, recording.sex, recording.labels, recording.patient_id) == (74.0, "male", ("a", "b"), "")
    assert recording.episodes[0].label == "AF"
    found = read_identity_from(open_source(tmp_path), "r.csv")
    assert found == {"patient_id": ("Smith-42",), "free_text": ("a line without meaning",)}


@pytest.mark.parametrize(
    ("names", "derived"),
    [
        ("I,II,III,aVR", ("III", "aVR")),
        ("I,II,V1", ()),
        ("III,V1", ()),
    ],
)
def test_derived_leads_are_listed_if_they_can_be_derived_again(
    names: str, derived: tuple[str, ...], tmp_path: Path
) -> None:
    """Without I and II they cannot be derived again, so they count as recorded leads."""
    row = ",".join("1" * len(names.split(",")))
    recording = read_text(tmp_path, START + f'# derived: ["avr", "III"]\n{names}\n{row}\n')
    assert recording.provenance.derived_leads == derived


def test_characters_outside_the_basic_plane(tmp_path: Path) -> None:
    """JSON writes them as surrogate pairs."""
    assert read_text(tmp_path, START + '# labels: ["\\ud83d\\ude00"]\nI\n1\n').labels == ("\N{GRINNING FACE}",)


def test_invalid_patient_value_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(START + '# patient: "Smith\\ud800"\nI\n1\n')
    with pytest.raises(FormatError, match="the value of 'patient' is not valid JSON") as refusal:
        read_identity_from(open_source(tmp_path), "r.csv")
    assert "Smith" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# clocs ECG 2\nI\n1\n", "its sampling rate or a gain is out of range"),
        ("# clocs ECG 2\n# sampling_rate: x\nI\n1\n", "the value of 'sampling_rate' is not valid JSON"),
        ("# clocs ECG 2\n# sampling_rate: [1]\nI\n1\n", "cannot be read"),
        (START + "# gain: [0]\nI\n1\n", "out of range"),
        (START + '# unit: "parsec"\nI\n1\n', "not V, mV, uV, nV or adu"),
        (START + '# unit: "ADU"\nI\n1\n', "not V, mV, uV, nV or adu"),
        (START + "# unit: [1]\nI\n1\n", "not V, mV, uV, nV or adu"),
        (START + "# gain: [1, 2]\nI\n1\n", "1 leads with 2 gains"),
        (START + '# gain: {"a": 1}\nI\n1\n', "cannot be read"),
        (START + "# baseline: [1e30]\nI\n1\n", "cannot be read"),
        (START + "# labels: [1]\nI\n1\n", "labels: expected a list of texts"),
        (START + '# labels: ["\\ud800"]\nI\n1\n', "the value of 'labels' is not valid JSON"),
        (START + '# episodes: [[0, 1, "a\\ud800"]]\nI\n1\n', "the value of 'episodes' is not valid JSON"),
        (START + "# derived: 5\nI,II,III\n1,2,1\n", "derived: expected a list of texts"),
        (START + '# derived: ["V2"]\nI,II,V2\n1,2,1\n', "that follow from I and II: III, aVR, aVL, aVF"),
        (START + "# episodes: [[2, 1, 3]]\nI\n1\n", "expected an episode as"),
        (START + "# episodes: 5\nI\n1\n", "expected episodes as a list"),
        (START, "0 leads"),
        (START + "time\n1\n", "0 leads"),
        (START + "I,i\n1,2\n", "named twice"),
        (START + "I,II\n", "expected rows of 2 numbers"),
        (START + "# num_samples: 2\nI\n1\n2", "breaks off inside its last row"),
        (START + "time,I\n0,1\n0.004,1\n0.008,1\n0.012,1\n", "do not agree with 4 samples at 500 Hz"),
        (START + "I,II\n1,2\n3\n", "expected rows of 2 numbers"),
        (START + "I,II\n1,hello\n", "expected rows of 2 numbers"),
        (START + "I\n1e30\n", "do not fit 32 bits"),
        (START + "I\ninf\n", "do not fit 32 bits"),
        (START + "#" + "x" * (2 << 20), "do not end"),
        (START + "# labels: " + "[" * 100_000 + "\nI\n1\n", "is not valid JSON"),
    ],
)
def test_invalid_files_are_rejected_with_a_reason(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=message):
        read_text(tmp_path, text)


@settings(max_examples=200)
@given(data=st.data())
def test_damaged_file_is_read_or_rejected(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = bytearray((START + "# gain: [1000.0, 5]\n# baseline: [0, 1]\ntime,I,II\n0,1,2\n0.002,3,4\n").encode())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(14, len(whole) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "r.csv").write_bytes(whole[: data.draw(st.integers(14, len(whole)))])
    source = open_source(folder)
    assert CLOCS_CSV.matches(source.head("r.csv", 100), source, "r.csv")
    with contextlib.suppress(ClocsError):
        assert CLOCS_CSV.read(source, "r.csv").digital.size
