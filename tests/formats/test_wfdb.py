"""WFDB records, compared value by value with the ``wfdb`` package (an independent reader and writer)."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import wfdb
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import FormatError
from clocs.core.recording import Recording, missing_value
from clocs.core.sources.source import open_source
from clocs.formats import read_from
from tests.formats.wfdb_records import assert_rejected, make

Ints = npt.NDArray[np.int64]

LOWEST = {80: -128, 212: -2048, 16: -(2**15), 24: -(2**23), 32: -(2**31), 508: -128, 516: -(2**15), 524: -(2**23)}
"""Smallest value of each format that the package writes. It marks a missing sample."""
ORIGINALS = {"ptbxl": 66, "ludb": 20, "cpsc2018": 20, "cinc2017": 40}
SAMPLED = {"chapman": 10_646, "cpsc2018": 6_877, "cinc2017": 8_528}


def assert_same_recording(recording: Recording, path: Path) -> None:
    """Assert that digital values, gain, sampling rate and names match the package."""
    raw = wfdb.rdrecord(str(path), physical=False)
    np.testing.assert_array_equal(recording.digital, raw.d_signal.T)
    np.testing.assert_array_equal(recording.gain, raw.adc_gain)
    np.testing.assert_array_equal(recording.baseline, raw.baseline)
    assert set(raw.units) == {"mV"}
    assert (recording.sampling_rate, recording.num_samples) == (raw.fs, raw.sig_len)
    assert [lead.lower() for lead in recording.leads] == [name.lower() for name in raw.sig_name]
    theirs = wfdb.rdrecord(str(path)).p_signal.T.astype(np.float32)
    np.testing.assert_array_equal(recording.signal, theirs)


def headers(archive: zipfile.ZipFile, folder: str = "") -> list[str]:
    return sorted(name for name in archive.namelist() if name.startswith(folder) and name.endswith(".hea"))


def extract(archive: zipfile.ZipFile, header: str, to: Path) -> Path:
    """Unpack a record, because the package needs files. Return its path without extension.

    The date is taken off the header's first line: the package stumbles over the 2014-05-08 of CinC 2017.
    """
    stem = header.removesuffix(".hea")
    for ending in (".hea", ".dat", ".mat"):
        if stem + ending in archive.NameToInfo:
            archive.extract(stem + ending, to)
    first, rest = (to / header).read_text().split("\n", 1)
    (to / header).write_text(" ".join(first.split()[:4]) + "\n" + rest)
    return to / stem


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("folder", ORIGINALS)
def test_original_records_match_the_wfdb_package(originals: Path, folder: str, stride: int, tmp_path: Path) -> None:
    source = open_source(originals)
    with zipfile.ZipFile(originals) as archive:
        names = headers(archive, f"{folder}/")
        assert len(names) == ORIGINALS[folder]
        for name in names[::stride]:
            assert_same_recording(read_from(source, name), extract(archive, name, tmp_path))


@pytest.mark.parametrize("dataset", SAMPLED)
def test_flac_records_match_the_wfdb_package(real_data: Path, dataset: str, tmp_path: Path) -> None:
    path = real_data / f"{dataset}.zip"
    source = open_source(path)
    with zipfile.ZipFile(path) as archive:
        names = headers(archive)
        assert len(names) == SAMPLED[dataset]
        chosen = {*names[:: len(names) // 14], *(name for name in names if "MUSE_20180113_180425_75000" in name)}
        assert len(chosen) >= 14
        for name in sorted(chosen):
            assert_same_recording(read_from(source, name), extract(archive, name, tmp_path))


def test_missing_samples_of_a_real_record(real_data: Path) -> None:
    """README of the data: eight Chapman records have 4,979 missing samples in V2."""
    source = open_source(real_data / "chapman.zip" / "WFDBRecords")
    recording = read_from(source, "MUSE_20180113_180425_75000.hea")
    assert np.isnan(recording.signal).sum(axis=1).tolist() == [0, 0, 0, 4979]


def write(folder: Path, code: int, digital: Ints) -> None:
    count = digital.shape[1]
    wfdb.wrsamp(
        "r",
        fs=360,
        units=["mV"] * count,
        sig_name=[f"s{row}" for row in range(count)],
        d_signal=digital,
        fmt=[str(code)] * count,
        adc_gain=[200.0] * count,
        baseline=[3] * count,
        write_dir=str(folder),
    )


@pytest.mark.parametrize("code", LOWEST)
@settings(max_examples=12)
@given(data=st.data())
def test_records_written_by_the_wfdb_package(
    code: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any number of signals and samples, with missing samples and both limits of the range."""
    low = LOWEST[code]
    shape = data.draw(st.tuples(st.integers(1, 40), st.integers(1, 4)))
    value = st.one_of(st.integers(low, -low - 1), st.sampled_from([low, low + 1, -1, 0, -low - 1]))
    flat = data.draw(st.lists(value, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    digital = np.array(flat, np.int64).reshape(shape)
    folder = tmp_path_factory.mktemp("written")
    write(folder, code, digital)
    recording = read_from(open_source(folder), "r.hea")
    marker = missing_value(recording.digital.dtype)
    assert recording.digital.T.tolist() == np.where(digital == low, marker, digital).tolist()
    assert recording.digital.dtype == (np.int16 if low >= -(2**15) else np.int32)
    with np.errstate(invalid="ignore"):
        expected = np.where(digital == low, np.nan, (digital - 3) / 200.0).T.astype(np.float32)
    np.testing.assert_array_equal(recording.signal, expected)


@pytest.mark.parametrize("code", LOWEST)
def test_long_record_matches_the_wfdb_package(code: int, tmp_path: Path) -> None:
    """An odd number of samples, many more than are decoded at once."""
    low = LOWEST[code]
    digital = np.random.default_rng(code).integers(low + 1, -low, (40_001, 3))
    write(tmp_path, code, digital)
    recording = read_from(open_source(tmp_path), "r.hea")
    np.testing.assert_array_equal(recording.digital, digital.T)
    assert_same_recording(recording, tmp_path / "r")


def test_big_endian_samples_match_the_wfdb_package(tmp_path: Path) -> None:
    digital = np.array([[1, 256, -32768, 32767], [-1, -256, 5, 6]])
    header = "r 2 360 4\nr.dat 61 200(0)/mV 16 0 1 0 0 I\nr.dat 61 200(0)/mV 16 0 -1 0 0 II\n"
    recording = make(tmp_path, header, digital, ">i2")
    assert recording.digital.tolist() == digital.tolist()
    assert_same_recording(recording, tmp_path / "r")


def test_signals_of_several_files_and_types(tmp_path: Path) -> None:
    header = "r 3 360 3\nr.dat 16 200/mV 16 0 0 0 0 I\nr.dat 16 200/mV 16 0 0 0 0 II\nw.dat 32 1e5/mV 32 0 0 0 0 V1\n"
    np.array([-(2**31), 70_000, -70_000], "<i4").tofile(tmp_path / "w.dat")
    recording = make(tmp_path, header, [[1, -32768, 3], [4, 5, 6]])
    low = -(2**31)
    assert recording.digital.tolist() == [[1, low, 3], [4, 5, 6], [low, 70_000, -70_000]]
    assert recording.gain.tolist() == [200.0, 200.0, 1e5]


def test_offset_of_the_samples(tmp_path: Path) -> None:
    recording = make(tmp_path, "r 1 360 2\nr.dat 16+4 200/mV 16 0 0 0 0 I\n", [[9, 9, 1, 2]])
    assert recording.digital.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    ("scale", "millivolt"),
    [
        ("200(0)/mV", [0.0, 1.0, -0.5]),
        ("200/mV", [0.0, 1.0, -0.5]),
        ("200", [0.0, 1.0, -0.5]),
        ("200(100)/mV", [-0.5, 0.5, -1.0]),
        ("2e2(-100)/mv", [0.5, 1.5, 0.0]),
        ("0.2/uV", [0.0, 1.0, -0.5]),
        ("0.2(100)/\u00b5V", [-0.5, 0.5, -1.0]),
        ("200000/V", [0.0, 1.0, -0.5]),
        ("0.0002/nV", [0.0, 1.0, -0.5]),
        ("-200/mV", [0.0, -1.0, 0.5]),
    ],
)
def test_gain_baseline_and_unit_give_millivolt(tmp_path: Path, scale: str, millivolt: list[float]) -> None:
    recording = make(tmp_path, f"r 1 360 3\nr.dat 16 {scale} 16 0 0 0 0 I\n", [[0, 200, -100]])
    np.testing.assert_allclose(recording.signal, [millivolt], rtol=1e-6)


def test_adc_zero_is_the_default_baseline(tmp_path: Path) -> None:
    """See header(5) of the WFDB manual; the package agrees."""
    recording = make(tmp_path, "r 1 360 2\nr.dat 16 200/mV 11 1024 0 0 0 MLII\n", [[1024, 1224]])
    assert recording.signal.tolist() == [[0.0, 1.0]]
    assert_same_recording(recording, tmp_path / "r")


@pytest.mark.parametrize("line", ["r.dat 16", "r.dat 16 0", "r.dat 16 0/mV 16 0 0 0 0 II"])
def test_values_without_a_gain_are_in_adu(tmp_path: Path, line: str) -> None:
    recording = make(tmp_path, f"r 1 360 4\n{line}\n")
    assert recording.unit == "adu"
    assert recording.physical().tolist() == [[1.0, 2.0, 3.0, 4.0]]


def test_signals_without_voltage_or_gain_are_left_out_with_a_note(tmp_path: Path) -> None:
    header = """r 4 360 2
r.dat 16 200/mV 16 0 0 0 0 II
r.dat 16 10/mmHg 16 0 0 0 0 ABP
r.dat 16 0 16 0 0 0 0 loose
r.dat 16 100/mV 16 0 0 0 0 V5
"""
    recording = make(tmp_path, header, [[1, 2], [3, 4], [5, 6], [7, 8]])
    assert recording.leads == ("II", "V5")
    assert recording.digital.tolist() == [[1, 2], [7, 8]]
    assert recording.gain.tolist() == [200.0, 100.0]
    assert recording.provenance.notes == ("left out signal ABP", "left out signal loose")


def test_record_without_voltages_is_rejected(tmp_path: Path) -> None:
    assert_rejected(tmp_path, "r 1 360 2\nr.dat 16 10/mmHg 16 0 0 0 0 ABP\n", "no signal is a voltage", r_dat=b"1234")


def test_repeated_lead_names_are_numbered(tmp_path: Path) -> None:
    lines = "r.dat 16 200/mV 16 0 0 0 0 ECG\n" * 3 + "r.dat 16 200/mV 16 0 0 0 0\n"
    assert make(tmp_path, "r 4 360 1\n" + lines, [[1], [2], [3], [4]]).leads == ("ECG", "ECG 2", "ECG 3", "ECG 4")


@pytest.mark.parametrize(("declared", "kept"), [(10, 4), (4, 4), (3, 3), (0, 4), (None, 4), (10**15, 4)])
def test_actual_and_declared_length(tmp_path: Path, declared: int | None, kept: int) -> None:
    length = "" if declared is None else f" {declared}"
    recording = make(tmp_path, f"r 1 360{length}\nr.dat 16 200/mV 16 0 0 0 0 I\n")
    assert recording.num_samples == kept
    assert recording.provenance.num_declared_samples == (declared or None)


def test_incomplete_last_frame_is_dropped(tmp_path: Path) -> None:
    header = "r 2 360 2\nr.dat 16 200/mV 16 0 0 0 0 I\nr.dat 16 200/mV 16 0 0 0 0 II\n"
    (tmp_path / "r.dat").write_bytes(b"\1\0\2\0\3\0\4")
    (tmp_path / "r.hea").write_text(header)
    assert read_from(open_source(tmp_path), "r.hea").digital.tolist() == [[1], [2]]


def flac(folder: Path, frames: int = 1000) -> bytearray:
    write(folder, 516, np.arange(frames, dtype=np.int64)[:, None] % 100)
    return bytearray((folder / "r.dat").read_bytes())


@pytest.mark.parametrize("declared", [0, 10**12])
def test_huge_declared_flac_length_is_rejected_without_using_memory(tmp_path: Path, declared: int) -> None:
    """Bytes 21 to 25 of a FLAC file contain the number of samples in 36 bits (RFC 9639, section 8.2)."""
    raw = flac(tmp_path)
    raw[21] |= 0x0F
    raw[22:26] = b"\xff\xff\xff\xff"
    tracemalloc.start()
    try:
        assert_rejected(tmp_path, f"r 1 360 {declared}\nr.dat 516 200/mV 16 0 0 0 0 I\n", "claims", r_dat=bytes(raw))
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("code", [16, 80, 212, 24, 32])
def test_huge_declared_length_takes_no_memory(tmp_path: Path, code: int) -> None:
    tracemalloc.start()
    try:
        recording = make(tmp_path, f"r 1 360 {10**15}\nr.dat {code} 200/mV 16 0 0 0 0 I\n", [list(range(48))])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert recording.num_samples <= 96
    assert recording.provenance.num_declared_samples == 10**15


def test_flac_stream_with_another_number_of_channels_is_rejected(tmp_path: Path) -> None:
    raw = bytes(flac(tmp_path))
    two = "r 2 360 1000\n" + "r.dat 516 200/mV 16 0 0 0 0 I\n" * 2
    assert_rejected(tmp_path, two, "1 channels of FLAC, header says 2", r_dat=raw)


def test_truncated_flac_stream(tmp_path: Path) -> None:
    write(tmp_path, 516, np.random.default_rng(0).integers(-3000, 3000, (20_000, 1)))
    raw = (tmp_path / "r.dat").read_bytes()
    (tmp_path / "r.dat").write_bytes(raw[: len(raw) // 2])
    try:
        recording = read_from(open_source(tmp_path), "r.hea")
    except FormatError:
        return
    assert recording.num_samples < recording.provenance.num_declared_samples == 20_000  # type: ignore[operator]
