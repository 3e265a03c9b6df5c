"""Chapman CSV, compared with pandas and with the WFDB copies of the same records."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clocs.core.errors import FormatError
from clocs.core.recording import Recording
from clocs.core.sources.source import open_source
from clocs.formats import read, read_from
from clocs.signals.leads import STANDARD_LEADS

BROKEN_OFF = "MUSE_20180113_124215_52000"
ROW = ",".join(str(10.5 * column) for column in range(12))
SHARED = ("II", "aVR", "aVL", "V2")
"""Leads of the WFDB copies."""


@pytest.fixture(scope="module")
def recordings(originals: Path) -> dict[str, tuple[Recording, bytes]]:
    source = open_source(originals / "chapman" / "ECGDataDenoised")
    return {name.removesuffix(".csv"): (read_from(source, name), source.read(name)) for name in source.names()}


def make(folder: Path, text: str) -> Path:
    path = folder / "MUSE_1.csv"
    path.write_text(text)
    return path


def test_every_original_matches_pandas(recordings: dict[str, tuple[Recording, bytes]]) -> None:
    assert len(recordings) == 16
    for name, (recording, raw) in recordings.items():
        table = pd.read_csv(io.BytesIO(raw), header=None)
        assert recording.leads == STANDARD_LEADS
        assert recording.sampling_rate == 500
        assert recording.record_id == name
        assert table.shape == (recording.num_samples, 12)
        np.testing.assert_allclose(1000 * recording.signal, table.to_numpy().T, atol=0.5001, rtol=1e-6)


def test_first_row_is_a_sample(recordings: dict[str, tuple[Recording, bytes]]) -> None:
    for recording, raw in recordings.values():
        first = [float(field) for field in raw.split(b"\n", 1)[0].split(b",")]
        np.testing.assert_allclose(1000 * recording.signal[:, 0], first, atol=0.501)


def test_truncated_file_keeps_its_samples(recordings: dict[str, tuple[Recording, bytes]]) -> None:
    recording, _ = recordings[BROKEN_OFF]
    assert recording.num_samples == 1926
    absent = np.isnan(recording.signal)
    assert absent.sum() == 7
    assert absent[STANDARD_LEADS.index("aVF") :, -1].all()
    assert recording.provenance.notes == ("breaks off inside its last row: 7 of 12 fields missing",)


def test_every_record_matches_its_wfdb_copy(recordings: dict[str, tuple[Recording, bytes]], real_data: Path) -> None:
    copies = open_source(real_data / "chapman.zip" / "WFDBRecords")
    for name, (recording, _) in recordings.items():
        copy = read_from(copies, f"{name}.hea")
        common = min(copy.num_samples, recording.num_samples)
        assert common == (1925 if name == BROKEN_OFF else 5000)
        ours, theirs = recording.select(SHARED).signal[:, :common], copy.select(SHARED).signal[:, :common]
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
        assert np.nanmax(np.abs(ours - theirs), initial=0) <= 0.001001, name


def test_one_row_is_one_sample(tmp_path: Path) -> None:
    recording = read(make(tmp_path, ROW), derive_leads=False)
    assert recording.num_samples == 1
    np.testing.assert_allclose(1000 * recording.signal[:, 0], [10.5 * column for column in range(12)], atol=0.501)
    assert recording.provenance.notes == ()


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n"])
def test_any_line_ending_at_the_end_of_the_file(tmp_path: Path, ending: str) -> None:
    assert read(make(tmp_path, ROW + "\n" + ROW + ending)).num_samples == 2


@pytest.mark.parametrize("word", ["NaN", "nan", ""])
def test_empty_and_nan_fields_are_missing(tmp_path: Path, word: str) -> None:
    recording = read(make(tmp_path, ROW + "\n" + ROW.rsplit(",", 1)[0] + f",{word}\n"))
    assert np.isnan(recording.signal).sum() == 1
    assert np.isnan(recording.signal[STANDARD_LEADS.index("V6"), 1])


def test_large_values_use_32_bits(tmp_path: Path) -> None:
    recording = read(make(tmp_path, "40000" + ",0" * 11 + "\n"))
    assert recording.digital.dtype == np.int32
    assert recording.signal[0, 0] == 40


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROW + "\n1,2,3\n" + ROW + "\n", "expected 12 numbers per row"),
        (ROW + "\n" + ROW + ",5\n", "expected 12 numbers per row"),
        (ROW + "\n" + ROW.replace("10.5", "x") + "\n", "expected 12 numbers per row"),
        (ROW + "\n" + ROW.replace("10.5", "1e9") + "\n", "over 1000 mV"),
        (ROW + "\n" + ROW.replace("10.5", "inf") + "\n", "MUSE_1.csv"),
    ],
)
def test_damaged_file_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(make(tmp_path, text))
