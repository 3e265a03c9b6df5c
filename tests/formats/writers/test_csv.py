"""CSV files of clocs, read by pandas, polars and clocs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings

from clocs.core.recording import Recording
from clocs.formats import read
from clocs.formats.writing import WriteOptions
from clocs.signals.leads import add_derived_leads
from tests.conftest import make_recording
from tests.formats.writers.recordings import chapman, millivolts, recordings, write_quickly


def check(recording: Recording, path: Path) -> None:
    """Assert that all fields of a recording are restored, and that pandas reads time and millivolts."""
    assert write_quickly(recording, path) == ()
    expected = millivolts(recording)
    table = pd.read_csv(path, comment="#", dtype=str).astype(np.float64)  # exact in every version of pandas
    assert tuple(table.columns) == ("time", *recording.leads)
    np.testing.assert_array_equal(table.iloc[:, 1:].to_numpy().T, expected)
    np.testing.assert_array_equal(table["time"], np.arange(recording.num_samples) / recording.sampling_rate)
    ours = read(path, derive_leads=False)
    np.testing.assert_array_equal(millivolts(ours), expected)
    np.testing.assert_array_equal(ours.gain, recording.gain)
    np.testing.assert_array_equal(ours.baseline, recording.baseline)
    assert (ours.sampling_rate, ours.leads, ours.unit) == (recording.sampling_rate, recording.leads, recording.unit)
    assert (ours.age, ours.sex, ours.labels) == (recording.age, recording.sex, recording.labels)
    assert ours.episodes == recording.episodes


@settings(max_examples=30)
@given(recording=recordings())
def test_exact_round_trip_of_any_recording(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(recording, tmp_path_factory.mktemp("csv") / "r.csv")


def test_exact_round_trip_of_real_recordings(real_data: Path, tmp_path: Path) -> None:
    for recording in chapman(real_data / "chapman.zip", 5):
        check(recording, tmp_path / "r.csv")


def test_only_written_leads_are_listed_as_derived(tmp_path: Path) -> None:
    some = add_derived_leads(make_recording(("I", "II"))).select(("I", "II", "III", "aVR"))
    write_quickly(some, tmp_path / "r.csv", WriteOptions(derived=False))
    assert "# derived" not in (tmp_path / "r.csv").read_text()
    write_quickly(some.select(("III", "aVR")), tmp_path / "r.csv", WriteOptions(derived=True))
    assert '# derived: ["III", "aVR"]\n' in (tmp_path / "r.csv").read_text()


def test_file_contains_no_spreadsheet_formula(tmp_path: Path) -> None:
    """Names of leads and labels are escaped, and restored on reading."""
    recording = make_recording(("-aVR", "=1+1", "V2"), labels=("=1+1", "AF,=2+2", "AF;@x"))
    write_quickly(recording, tmp_path / "r.csv")
    head = [line for line in (tmp_path / "r.csv").read_text().splitlines() if not line[:1].isdigit()]
    cells = [cell for line in head for cell in re.split("[,;]", line)]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    ours = read(tmp_path / "r.csv", derive_leads=False)
    assert (ours.leads, ours.labels) == (recording.leads, recording.labels)


def test_polars_reads_the_file(real_data: Path, tmp_path: Path) -> None:
    (recording,) = chapman(real_data / "chapman.zip", 1)
    write_quickly(recording, tmp_path / "r.csv")
    table = pl.read_csv(tmp_path / "r.csv", comment_prefix="#")
    assert table.columns == ["time", *recording.leads]
    np.testing.assert_array_equal(table["II"], millivolts(recording)[recording.leads.index("II")])
