"""CODE-15 %: parts of HDF5 rows in another order than the table, with a filler row and zero padding."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.code15 import CODE15
from clocs.datasets.dataset import Entry
from clocs.store.ingest import ingest
from tests.datasets.made_up_ecg import millivolts, padded

h5py = pytest.importorskip("h5py")

HEADER = "exam_id,age,is_male,nn_predicted_age,1dAVb,RBBB,LBBB,SB,ST,AF,patient_id,death,timey,normal_ecg,trace_file\n"
TABLE = (
    HEADER
    + """\
30,71,True,60.1,False,True,False,False,False,True,7,True,2.5,False,exams_part0.hdf5
50,44,False,45.0,False,False,False,False,False,False,8,,,True,exams_part10.hdf5
10,38,False,40.2,False,False,False,False,False,False,7,False,3.25,False,exams_part0.hdf5
40,25,True,31.0,False,False,False,False,False,False,9,,,False,exams_part10.hdf5
60,90,True,80.0,True,False,False,False,False,False,9,,,False,exams_part2.hdf5
"""
)
IDS = {"exams_part0.hdf5": (10, 30, 0), "exams_part10.hdf5": (40, 50, 0)}
EMPTY = 40
"""An exam with only zeros."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two of three parts. The last row of each is the publisher's filler."""
    (tmp_path / "exams.csv").write_text(TABLE)
    for name, ids in IDS.items():
        rows = [_row(exam_id) for exam_id in ids]
        with h5py.File(tmp_path / name, "w") as file:
            file["exam_id"] = np.array(ids)
            file["tracings"] = np.array(rows, np.float32)
    return tmp_path


def _row(exam_id: int) -> np.ndarray:
    if exam_id in (0, EMPTY):
        return np.zeros((4096, 12))
    return padded(millivolts(exam_id, 400.0), before=exam_id)


def entries(path: Path) -> list[Entry]:
    return list(CODE15.entries(open_source(path), CODE15.parse_options({})))


def test_exams_are_found_by_their_ids_in_the_order_of_the_rows(tree: Path) -> None:
    found = entries(tree)
    assert [(entry.file, entry.row, entry.record_id) for entry in found] == [
        ("exams_part0.hdf5", 0, "10"),
        ("exams_part0.hdf5", 1, "30"),
        ("exams_part10.hdf5", 0, "40"),
        ("exams_part10.hdf5", 1, "50"),
    ]
    assert [entry.patient_id for entry in found] == ["7", "7", "9", "8"]
    assert (found[1].age, found[1].sex, found[1].labels) == (71.0, "male", ("RBBB", "AF"))
    assert (found[0].labels, found[3].labels) == ((), ("normal_ecg",))


def test_a_patient_without_follow_up_is_not_a_survivor(tree: Path) -> None:
    extra = {entry.record_id: entry.extra for entry in entries(tree)}
    assert (extra["30"]["death"], extra["30"]["timey"]) == ("true", "2.5")
    assert extra["10"]["death"] == "false"
    assert not {"death", "timey", "chagas"} & set(extra["50"])
    assert {values["amplitude_calibrated"] for values in extra.values()} == {"unknown"}


def test_chagas_labels_are_joined_by_the_exam(tree: Path) -> None:
    (tree / "code15_chagas_labels.csv").write_text("exam_id,chagas\n50,True\n10,False\n999,True\n")
    chagas = {entry.record_id: entry.extra.get("chagas") for entry in entries(tree)}
    assert chagas == {"10": "false", "30": None, "40": None, "50": "true"}


def test_a_part_beside_its_zip_is_read_once_and_a_zip_alone_must_be_unpacked(tree: Path) -> None:
    for name in IDS:
        with zipfile.ZipFile(tree / name.replace("hdf5", "zip"), "w") as archive:
            archive.write(tree / name, name)
    assert len(entries(tree)) == 4
    (tree / "exams_part0.hdf5").unlink()
    with pytest.raises(FormatError, match=r"exams_part0\.zip/exams_part0\.hdf5: .* Unpack the archive"):
        entries(tree)


def test_padding_is_removed_and_leads_keep_their_order(tree: Path) -> None:
    source, found = open_source(tree), entries(tree)
    recording = CODE15.load(source, found[1], CODE15.parse_options({}))
    expected = millivolts(30, 400.0)
    assert (recording.sampling_rate, recording.num_samples, recording.unit) == (400.0, 2800, "mV")
    np.testing.assert_allclose(recording.signal, expected, atol=6e-4)
    np.testing.assert_allclose(recording.select("aVF").signal[0], expected[5], atol=6e-4)


def test_a_store_has_the_exams_and_lists_the_empty_one(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = ingest(CODE15, tree, tmp_path_factory.mktemp("store") / "store")
    assert sorted(recording.record_id for recording in store) == ["10", "30", "50"]
    assert store.manifest.quarantined == {"unreadable": 1}
    assert store.recording(0).provenance.source == "exams_part0.hdf5:0"


@pytest.mark.parametrize(
    ("ids", "message"),
    [((10, 31, 0), r"exams_part0\.hdf5: lacks 1 exams of exams\.csv"), ((10, 10, 30), "an exam_id occurs twice")],
)
def test_a_part_that_does_not_fit_the_table_raises_an_error(tree: Path, ids: tuple[int, ...], message: str) -> None:
    with h5py.File(tree / "exams_part0.hdf5", "w") as file:
        file["exam_id"] = np.array(ids)
    with pytest.raises(FormatError, match=message):
        entries(tree)


def test_every_task_has_its_column() -> None:
    assert {name: task.column for name, task in CODE15.tasks.items()} == {
        "findings": "labels",
        "normal": "labels",
        "death": "death",
        "chagas": "chagas",
        "age": "age",
        "sex": "sex",
    }
