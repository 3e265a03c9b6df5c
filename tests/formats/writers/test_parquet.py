"""Parquet files of clocs, read by pandas and polars."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings

from clocs.core.recording import Recording, missing_value
from clocs.formats.writers.parquet import ROUNDED
from clocs.formats.writing import WriteOptions
from tests.conftest import make_recording
from tests.formats.writers.recordings import chapman, millivolts, recordings, write_quickly


def check(recording: Recording, path: Path) -> None:
    """Assert that integers can be restored from millivolts, gains and baselines, except as noted."""
    notes = write_quickly(recording, path)
    table = pd.read_parquet(path)
    assert len(table) == 1
    row = table.iloc[0]
    assert row["leads"].tolist() == list(recording.leads)
    assert (row["sampling_rate"], row["num_samples"], row["unit"]) == (
        recording.sampling_rate,
        recording.num_samples,
        recording.unit,
    )
    assert row["labels"].tolist() == list(recording.labels)
    signal = np.stack(row["signal"])
    assert signal.dtype == np.float32
    np.testing.assert_array_equal(signal, millivolts(recording).astype(np.float32))
    if ROUNDED not in notes:
        digital_values = np.rint(signal.astype(np.float64) * row["gain"][:, None] + row["baseline"][:, None])
        marked = np.where(np.isnan(digital_values), missing_value(recording.digital.dtype), digital_values)
        np.testing.assert_array_equal(marked, recording.digital)


@settings(max_examples=40)
@given(recording=recordings())
def test_round_trip_of_any_recording(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> None:
    check(recording, tmp_path_factory.mktemp("parquet") / "r.parquet")
    if recording.digital.dtype == np.int16:
        assert ROUNDED not in write_quickly(recording, tmp_path_factory.mktemp("parquet") / "r.parquet")


def test_round_trip_of_real_recordings(real_data: Path, tmp_path: Path) -> None:
    for recording in chapman(real_data / "chapman.zip", 10):
        check(recording, tmp_path / "r.parquet")


def test_polars_explodes_leads_to_rows(tmp_path: Path) -> None:
    recording = make_recording()
    write_quickly(recording, tmp_path / "r.parquet")
    table = pl.read_parquet(tmp_path / "r.parquet").explode("leads", "signal")
    assert table["leads"].to_list() == ["I", "II", "V2"]
    np.testing.assert_array_equal(table["signal"][1].to_numpy(), recording.signal[1])


def test_patient_id_is_written_only_on_request(tmp_path: Path) -> None:
    recording = dataclasses.replace(make_recording(patient_id="Smith-42"), site="St Elsewhere")
    write_quickly(recording, tmp_path / "r.parquet")
    assert pl.read_parquet(tmp_path / "r.parquet")["patient_id"].to_list() == [None]
    write_quickly(recording, tmp_path / "r.parquet", WriteOptions(patient_ids=True))
    table = pl.read_parquet(tmp_path / "r.parquet")
    assert table["patient_id"].to_list() == ["Smith-42"]
    assert "St Elsewhere" not in str(table.to_dicts())
