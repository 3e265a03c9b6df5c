"""Stores from arrays, with tables that have empty fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.store.store import Store
from tests.conftest import make_recording


def stored(folder: Path, table: Any, count: int) -> list[Recording]:
    """Return the recordings of a store of arrays with a table."""
    signals = [make_recording(("I", "II"), num_samples=2500, seed=seed).signal for seed in range(count)]
    return list(Store.from_arrays(folder / "arrays", signals, sampling_rate=500, leads=("I", "II"), table=table))


@pytest.mark.parametrize("frame", [False, True])
def test_recordings_without_a_patient_are_their_own_patients(frame: bool, tmp_path: Path) -> None:
    """As one patient they would be positives of one another, and in one part of a split."""
    table: Any = {"patient_id": ["a", None, float("nan"), None, "a", pd.NA, pd.NaT, ""]}
    found = stored(tmp_path, pd.DataFrame(table, dtype=object) if frame else table, 8)
    names = [recording.record_id for recording in found]
    assert [recording.patient_id for recording in found] == ["a", *names[1:4], "a", *names[5:]]


def test_empty_fields_are_unknown(tmp_path: Path) -> None:
    nothing = [None, float("nan"), pd.NA]
    table = dict.fromkeys(("record_id", "site", "labels", "age", "sex"), nothing)
    found = stored(tmp_path, table, 3)
    assert [recording.record_id for recording in found] == ["0000000", "0000001", "0000002"]
    assert {(recording.site, recording.labels, recording.age, recording.sex) for recording in found} == {
        ("", (), None, None)
    }


def test_integer_patient_ids_stay_integers_if_one_is_missing(tmp_path: Path) -> None:
    """Pandas converts integers with a missing value to floats."""
    found = stored(tmp_path, pd.DataFrame({"patient_id": [1, 1, None, 20]}), 4)
    assert [recording.patient_id for recording in found] == ["1", "1", found[2].record_id, "20"]


def test_labels_may_be_text_or_lists(tmp_path: Path) -> None:
    """Text is separated by ``;``, as in tables of files."""
    table = {"patient_id": [7, 7, 7, 7], "labels": ["AF", np.array(["AF", None, "SR"]), 3, "AF; SR"]}
    found = stored(tmp_path, table, 4)
    assert {recording.patient_id for recording in found} == {"7"}
    assert [recording.labels for recording in found] == [("AF",), ("AF", "SR"), ("3",), ("AF", "SR")]


def test_patient_ids_are_normalized_and_placeholders_ignored(tmp_path: Path) -> None:
    names = ["P1", "P1 ", "\uff301", "P1\u200b", "unknown", "nan", "unknown"]
    with pytest.warns(UserWarning, match="3 rows have a placeholder.* is row 4"):
        found = stored(tmp_path, {"patient_id": names}, 7)
    assert [recording.patient_id for recording in found] == ["P1"] * 4 + [item.record_id for item in found[4:]]


@pytest.mark.parametrize("frame", [False, True])
def test_other_columns_are_kept(frame: bool, tmp_path: Path) -> None:
    table: Any = {"fold": [1, None, 3], "device": ["A", "", None], "paced": [True, False, True]}
    found = stored(tmp_path, pd.DataFrame(table) if frame else table, 3)
    assert [recording.extra for recording in found] == [
        {"fold": "1", "device": "A", "paced": "True"},
        {"paced": "False"},
        {"fold": "3", "paced": "True"},
    ]
    with pytest.raises(ConfigError, match="Column 'Leads' cannot be kept"):
        stored(tmp_path, {"Leads": [1, 2, 3]}, 3)


def test_sex_is_not_guessed_from_a_letter(tmp_path: Path) -> None:
    found = stored(tmp_path, {"sex": ["Male", "mujer", "missing", "f"]}, 4)
    assert [recording.sex for recording in found] == ["male", None, None, "female"]


def test_the_same_samples_in_other_shapes_are_another_version(tmp_path: Path) -> None:
    whole = make_recording(("I", "II"), num_samples=10_000).signal
    for version, cut in enumerate((4000, 7000), 1):
        parts = [whole[:, :cut], whole[:, cut:]]
        made = Store.from_arrays(tmp_path / "arrays", parts, sampling_rate=500, leads=("I", "II"))
        assert made.manifest.version == version
        assert [recording.num_samples for recording in made] == [cut, 10_000 - cut]
