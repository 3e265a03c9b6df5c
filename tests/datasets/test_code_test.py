"""CODE-test: another order of leads than CODE-15 %, and three files that are joined by their order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import FormatError
from clocs.core.sources.source import open_source
from clocs.datasets.code_test import CODE_TEST, LEADS
from clocs.datasets.dataset import Entry
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.ingest import ingest
from tests.datasets.made_up_ecg import millivolts, padded

h5py = pytest.importorskip("h5py")

FLAGS = "1dAVb,RBBB,LBBB,SB,AF,ST\n0,0,0,0,0,0\n1,0,0,0,0,1\n0,0,0,0,1,0\n"
ORDER = [STANDARD_LEADS.index(lead) for lead in ("I", "II", "III", "aVL", "aVF", "aVR")] + [6, 7, 8, 9, 10, 11]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "annotations").mkdir(parents=True)
    (folder / "annotations" / "gold_standard.csv").write_text(FLAGS)
    (folder / "annotations" / "dnn.csv").write_text(FLAGS.replace("1", "0", 1))
    (folder / "attributes.csv").write_text("age,sex\n74,M\n18,F\n,F\n")
    rows = [padded(millivolts(row, 400.0)[ORDER], before=648) for row in range(3)]
    with h5py.File(folder / "ecg_tracings.hdf5", "w") as file:
        file["tracings"] = np.array(rows)
    return tmp_path


def entries(path: Path) -> list[Entry]:
    return list(CODE_TEST.entries(open_source(path), CODE_TEST.parse_options({})))


def test_leads_are_named_in_the_order_of_this_file(tree: Path) -> None:
    assert LEADS[3:6] == ("aVL", "aVF", "aVR")
    source, found = open_source(tree), entries(tree)
    for row, entry in enumerate(found):
        recording = CODE_TEST.load(source, entry, CODE_TEST.parse_options({})).select(STANDARD_LEADS)
        np.testing.assert_allclose(recording.signal, millivolts(row, 400.0), atol=6e-4)


def test_labels_and_people_are_joined_by_the_row(tree: Path) -> None:
    found = entries(tree)
    assert [entry.labels for entry in found] == [(), ("1dAVb", "ST"), ("AF",)]
    assert [(entry.age, entry.sex) for entry in found] == [(74.0, "male"), (18.0, "female"), (None, "female")]
    assert [entry.record_id for entry in found] == ["0000", "0001", "0002"]


def test_the_leads_of_a_store_obey_the_lead_equations(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = ingest(CODE_TEST, tree, tmp_path_factory.mktemp("store") / "store")
    assert len(store) == 3
    assert store.manifest.quarantined == {}


@pytest.mark.parametrize("name", ["attributes.csv", "annotations/gold_standard.csv"])
def test_another_number_of_rows_is_not_joined(tree: Path, name: str) -> None:
    lines = (tree / "data" / name).read_text().splitlines(keepends=True)
    (tree / "data" / name).write_text("".join(lines[:-1]))
    with pytest.raises(FormatError, match=r"Different numbers of rows.*ecg_tracings\.hdf5 3"):
        entries(tree)


def test_a_missing_file_is_named(tree: Path) -> None:
    (tree / "data" / "attributes.csv").unlink()
    with pytest.raises(FormatError, match=r"attributes\.csv is missing"):
        entries(tree)


def test_all_of_it_is_a_test_part() -> None:
    assert (CODE_TEST.split.train, CODE_TEST.split.validation, CODE_TEST.split.test) == (0, 0, 1)
