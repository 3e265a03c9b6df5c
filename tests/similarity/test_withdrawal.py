"""A withdrawn patient is found nowhere: not in the store, its caches, the archive or the index, nor by any search."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.errors import FormatError
from clocs.datasets import DATASETS
from clocs.formats.writing import write
from clocs.similarity.archive.archive import open_archive
from clocs.similarity.archive.embedding import embed_store
from clocs.similarity.archive.prune import prune_embeddings
from clocs.similarity.archive.withdraw import withdraw_embeddings
from clocs.similarity.index.patient_index import PatientIndex, open_index
from clocs.similarity.index.updates import add_archive, build_index
from clocs.similarity.index.withdraw import withdraw_from_index
from clocs.similarity.integrity import verify_embeddings
from clocs.store.byte_search import TextSearch
from clocs.store.ingest import ingest
from clocs.store.prune import prune
from clocs.store.splits import make_split
from clocs.store.store import Store, open_store
from clocs.store.verify import verify
from clocs.store.withdraw import withdraw
from tests.conftest import make_recording
from tests.inference.conftest import make_encoder
from tests.similarity.archive.test_embedding import POLICY

GONE = "Adeltraud-03"
"""Patient with files 3 and 7, and with file 11, which is stored but too short to embed."""
NUM_FILES = 12
NOW = timedelta(0)
FOLDERS = ("store", "archive", "index")


def name_of(number: int) -> str:
    return f"{number:02d}-{'walnut' if number % 4 == 3 else 'cedar'}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A source of twelve files with a table of patients, a store with a frame cache and a split, archive and index."""
    (tmp_path / "source").mkdir()
    with open(tmp_path / "table.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "patient_id", "device"])
        for number in range(NUM_FILES):
            num_samples = 1200 if number == 11 else 2500
            recording = make_recording(("II", "V2"), num_samples, seed=number, record_id=name_of(number))
            write(recording, tmp_path / "source" / f"{name_of(number)}.csv", "csv")
            patient = GONE if number % 4 == 3 else f"Bertram-{number:02d}"
            rows.writerow([f"{name_of(number)}.csv", patient, f"CS-{number % 2}"])
    make_encoder(tmp_path / "encoder", POLICY)
    store = ingest_source(tmp_path)
    make_split(store)
    store.frames("evaluation").cached()
    embed_store(tmp_path / "encoder", store, tmp_path / "archive")
    build_index(tmp_path / "archive", tmp_path / "index")
    return tmp_path


def ingest_source(place: Path) -> Store:
    dataset = replace(DATASETS.get("folder"), records_per_shard=4)
    return ingest(dataset, place / "source", place / "store", options={"table": place / "table.csv"})


def files_with(place: Path, texts: list[str], values: list[npt.NDArray[Any]]) -> set[str]:
    """Return the files of store, archive and index with one of the texts, or with one of the arrays."""
    search = TextSearch(texts)
    paths = [path for name in FOLDERS for path in (place / name).rglob("*") if path.is_file()]
    found = {path for path in paths if any(True for _ in search.search_file(path))}
    found |= {path for path in paths for array in values if array.tobytes() in path.read_bytes()}
    return {path.relative_to(place).as_posix() for path in found}


def bytes_of_patient(place: Path) -> list[npt.NDArray[Any]]:
    """Return samples, a frame, and the vectors of recording, lead and patient."""
    store, archive, index = open_store(place / "store"), open_archive(place / "archive"), open_index(place / "index")
    frames = store.frames("evaluation")
    first = int(frames.frames_per_record()[: store.index_of("03-walnut")].sum())
    row = archive.find("03-walnut")
    assert row is not None
    of_patient = index.snapshot.row_of_patient(GONE)
    assert of_patient is not None
    return [
        store.recording("03-walnut").digital[0, 1000:1032],
        frames.views([first])[0, 0, 0, 1000:1032],
        archive.vectors(np.array([row]))[0],
        archive.lead_vectors(np.array([row]))[0][0, 0],
        index.snapshot.volumes[0].vectors[of_patient],
    ]


def test_a_withdrawn_patient_is_found_nowhere(place: Path) -> None:
    texts, values = [GONE, "walnut"], bytes_of_patient(place)
    before = files_with(place, texts, values)
    assert {name.rpartition("/")[0] for name in before} >= {
        *("store/shards", "store/metadata", "store/splits", "store/frames"),
        *("archive", "archive/shards", "archive/receipts", "index/volumes/000001-0"),
    }
    assert withdraw(place / "store", [GONE]).recordings == 3
    done = withdraw_embeddings(place / "archive", [GONE])
    assert (done.recordings, done.refused) == (2, 1)
    assert withdraw_from_index(place / "index", [GONE]).recordings == 2
    assert {name.partition("/")[0] for name in files_with(place, texts, values)} == {"store", "archive"}
    prune(place / "store", grace=NOW, dry_run=False)
    prune_embeddings(place / "archive", grace=NOW, dry_run=False)
    assert files_with(place, texts, values) == set()
    store = ingest_source(place)
    assert store.manifest.withdrawn == 3
    archive = embed_store(place / "encoder", store, place / "archive")
    added = add_archive(place / "index", archive)
    assert (added.recordings, added.already_indexed) == (0, 9)
    assert files_with(place, texts, values) == set()
    assert verify(place / "store") + verify_embeddings(place / "archive") + verify_embeddings(place / "index") == []
    index = open_index(place / "index")
    assert len(index) == 9
    with pytest.raises(FormatError, match="neither a record id"):
        index.similar("03-walnut")


def check_answers(index: PatientIndex) -> None:
    found = index.similar("04-cedar", k=8)
    assert len(found.neighbors) == 8
    assert all(item.why for item in found.neighbors), "leads are compared with those of the newest archive"
    for item in found.neighbors:
        assert index.recording(item.record_id).record_id == item.record_id


def test_an_index_answers_after_the_versions_that_it_was_built_from_are_pruned(place: Path) -> None:
    """Its archive lost rows and its store lost recordings. An index that is open all the while follows."""
    index = open_index(place / "index")
    before = index.similar("04-cedar", k=8)
    check_answers(index)
    withdraw_from_index(place / "index", [GONE])
    withdraw_embeddings(place / "archive", [GONE])
    withdraw(place / "store", [GONE])
    check_answers(index)
    prune(place / "store", grace=NOW, dry_run=False)
    prune_embeddings(place / "archive", grace=NOW, dry_run=False)
    for each in (index, open_index(place / "index")):
        check_answers(each)
        names = {item.patient_id: item.why for item in before.neighbors if item.patient_id != GONE}
        assert {item.patient_id: item.why for item in each.similar("04-cedar", k=8).neighbors}.items() >= names.items()


def test_a_patient_of_a_store_that_was_not_withdrawn_from_stays_out_of_archive_and_index(place: Path) -> None:
    withdraw_embeddings(place / "archive", [GONE])
    archive = embed_store(place / "encoder", place / "store", place / "archive")
    assert (len(archive), archive.manifest.withdrawn) == (9, 3)
    withdraw_from_index(place / "index", [GONE])
    assert add_archive(place / "index", open_archive(place / "archive", 1)).withdrawn == 2
    assert len(open_index(place / "index")) == 9


def test_neighbours_are_filtered_by_an_extra_column_of_the_store(place: Path) -> None:
    found = open_index(place / "index").similar("04-cedar", k=12, columns={"device": "CS-1"})
    assert {item.patient_id for item in found.neighbors} == {"Bertram-01", "Bertram-05", "Bertram-09", GONE}
