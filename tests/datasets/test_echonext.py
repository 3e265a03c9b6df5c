"""EchoNext: rows are joined by their order within a part, and a missing measurement is not a negative."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError, UnitError
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Entry
from clocs.datasets.echonext import COMPOSITE, ECHONEXT, FINDINGS, MEASURED
from clocs.store.ingest import ingest
from clocs.store.task_targets import task_targets

SPLITS = ("train", "test", "no_split", "train", "val", "test", "train")
"""Part of each row of the table. Parts are mixed."""
MEASUREMENTS = tuple(column for _, columns in MEASURED.values() for column in columns)


def signal(key: int) -> np.ndarray:
    """Return standardised values (1, 2500, 12) that differ between leads and recordings."""
    random = np.random.default_rng(key)
    return np.cumsum(random.normal(size=(1, 2500, 12)), axis=1).clip(-9, 9).astype(np.float32)


def write(folder: Path, name: str = "echonext_metadata_100k.csv", **changes: dict[int, str]) -> Path:
    """Write the tree. ``changes`` gives the values of columns by row."""
    columns = ["ecg_key", "patient_key", "age_at_ecg", "sex", "acquisition_year", "location_setting", "split"]
    columns += [*(f"{finding}_flag" for finding in FINDINGS), *MEASUREMENTS]
    with (folder / name).open("w", newline="") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        for number, split in enumerate(SPLITS):
            row = {"ecg_key": 100 + number, "patient_key": number // 2, "age_at_ecg": 60, "sex": "Female"}
            row |= {"acquisition_year": 2015, "location_setting": "ED", "split": split}
            row |= {f"{finding}_flag": 0 for finding in FINDINGS} | dict.fromkeys(MEASUREMENTS, "none")
            table.writerow(row | {column: values[number] for column, values in changes.items() if number in values})
    for split in set(SPLITS):
        rows = [signal(100 + number) for number, part in enumerate(SPLITS) if part == split]
        np.save(folder / f"EchoNext_{split}_waveforms.npy", np.array(rows))
    return folder


def entries(path: Path) -> list[Entry]:
    return list(ECHONEXT.entries(open_source(path), ECHONEXT.parse_options({})))


@pytest.mark.parametrize("name", ["echonext_metadata_100k.csv", "EchoNext_metadata_100k.csv"])
def test_row_i_of_a_part_is_the_ith_row_of_that_part_in_the_table(tmp_path: Path, name: str) -> None:
    source, found = open_source(write(tmp_path, name)), entries(tmp_path)
    assert [(entry.record_id, entry.extra["split"], entry.row) for entry in found] == [
        ("100", "train", 0),
        ("103", "train", 1),
        ("106", "train", 2),
        ("104", "val", 0),
        ("101", "test", 0),
        ("105", "test", 1),
    ]
    for entry in found:
        recording = ECHONEXT.load(source, entry, ECHONEXT.parse_options({}))
        np.testing.assert_allclose(recording.physical(), signal(int(entry.record_id))[0].T, atol=6e-4)


def test_amplitudes_have_no_unit(tmp_path: Path) -> None:
    source, found = open_source(write(tmp_path)), entries(tmp_path)
    recording = ECHONEXT.load(source, found[0], ECHONEXT.parse_options({}))
    assert (recording.unit, recording.extra["amplitude_calibrated"]) == ("adu", "false")
    with pytest.raises(UnitError):
        _ = recording.signal


def test_a_finding_that_was_not_measured_is_absent_instead_of_negative(tmp_path: Path) -> None:
    write(
        tmp_path,
        lvef_lte_45_flag={0: "1"},
        shd_moderate_or_greater_flag={0: "1"},
        tr_max_velocity_value={0: "", 3: "nan"},
        ivs_measurement={3: ""},
    )
    positive, unmeasured, complete = entries(tmp_path)[:3]
    assert positive.labels == ("lvef_lte_45", COMPOSITE)
    assert (positive.extra["lvef_lte_45"], positive.extra[COMPOSITE]) == ("true", "true")
    assert "tr_max_gte_32" not in positive.extra
    assert {name for name in FINDINGS if name not in unmeasured.extra} == {"tr_max_gte_32", "lvwt_gte_13"}
    assert all(complete.extra[name] == "false" for name in FINDINGS)  # "none" is a measured grade


def test_each_finding_has_a_task_over_its_column() -> None:
    for name in FINDINGS:
        task = ECHONEXT.tasks[name]
        assert (task.kind, task.column, dict(task.classes)) == ("binary", name, {name: ("true",)})


def test_another_number_of_rows_is_not_joined(tmp_path: Path) -> None:
    write(tmp_path)
    np.save(tmp_path / "EchoNext_val_waveforms.npy", np.zeros((2, 1, 2500, 12)))
    with pytest.raises(FormatError, match=r"EchoNext_val_waveforms\.npy has 2 rows and .* 1 of val"):
        entries(tmp_path)


def test_a_missing_part_is_skipped_and_the_year_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "EchoNext_train_waveforms.npy").unlink()
    found = entries(tmp_path)
    assert [entry.record_id for entry in found] == ["104", "101", "105"]
    assert all("2015" not in entry.extra.values() for entry in found)
    assert found[0].extra["location_setting"] == "ED"


def test_a_store_keeps_the_published_parts(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = ingest(ECHONEXT, write(tmp_path), tmp_path_factory.mktemp("store") / "store")
    assert store.manifest.quarantined == {}
    table = store.table(["record_id", "split", "lvef_lte_45"]).to_pydict()
    assert table["split"] == ["train"] * 3 + ["val"] + ["test"] * 2
    assert table["lvef_lte_45"] == [False] * 6


def test_a_task_counts_only_measured_recordings(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    write(tmp_path, lvef_lte_45_flag={0: "1"}, lvef_value={3: "", 4: ""})
    store = ingest(ECHONEXT, tmp_path, tmp_path_factory.mktemp("store") / "store")
    targets = task_targets(store, "lvef_lte_45")
    assert targets.included.tolist() == [True, False, True, False, True, True]
    assert targets.positives() == {"lvef_lte_45": 1}
    assert task_targets(store, "findings").count() == 6
