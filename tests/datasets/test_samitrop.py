"""SaMi-Trop: rows of the table and of the tracings are joined by their order."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.dataset import Entry
from clocs.datasets.samitrop import SAMITROP
from clocs.store.ingest import ingest
from tests.datasets.made_up_ecg import millivolts, padded

h5py = pytest.importorskip("h5py")

TABLE = """\
exam_id,age,is_male,normal_ecg,death,timey,nn_predicted_age
294669,49,True,False,False,2.07,52.0
291209,67,False,True,True,0.5,70.0
270909,55,False,False,,,57.0
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "exams.csv").write_text(TABLE)
    with h5py.File(tmp_path / "exams.hdf5", "w") as file:
        file["tracings"] = np.array([padded(millivolts(row, 400.0), before=100) for row in range(3)])
    return tmp_path


def entries(path: Path) -> list[Entry]:
    return list(SAMITROP.entries(open_source(path), SAMITROP.parse_options({})))


def test_row_i_of_the_table_is_row_i_of_the_tracings(tree: Path) -> None:
    source, found = open_source(tree), entries(tree)
    assert [(entry.record_id, entry.row) for entry in found] == [("294669", 0), ("291209", 1), ("270909", 2)]
    for entry in found:
        assert entry.row is not None
        recording = SAMITROP.load(source, entry, SAMITROP.parse_options({}))
        np.testing.assert_allclose(recording.signal, millivolts(entry.row, 400.0), atol=6e-4)
    assert (found[1].age, found[1].sex, found[1].labels) == (67.0, "female", ("normal_ecg",))
    assert [entry.extra.get("death") for entry in found] == ["false", "true", None]
    assert {entry.extra["chagas"] for entry in found} == {"true"}


def test_a_store_has_every_exam(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = ingest(SAMITROP, tree, tmp_path_factory.mktemp("store") / "store")
    assert [recording.record_id for recording in store] == ["294669", "291209", "270909"]


def test_another_number_of_rows_is_not_joined(tree: Path) -> None:
    (tree / "exams.csv").write_text(TABLE + "1,50,True,False,False,1.0,50.0\n")
    with pytest.raises(FormatError, match=r"3 tracings and exams\.csv 4 rows, so they cannot be joined"):
        entries(tree)


def test_the_tracings_must_be_there_and_unpacked(tree: Path) -> None:
    data = (tree / "exams.hdf5").read_bytes()
    (tree / "exams.hdf5").unlink()
    with pytest.raises(FormatError, match=r"exams\.hdf5 is missing. Unpack exams\.zip"):
        entries(tree)
    with zipfile.ZipFile(tree / "exams.zip", "w") as archive:
        archive.writestr("exams.hdf5", data)
    with pytest.raises(FormatError, match=r"Unpack the archive"):
        entries(tree)
