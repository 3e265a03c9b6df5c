"""Patient search by record id, file and recording on a real archive."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import clocs
from clocs.core.errors import ConfigError, FormatError, StoreError
from clocs.formats import read
from clocs.inference.pretrained import load_encoder
from clocs.similarity.index.patient_index import PatientIndex, open_index
from clocs.similarity.index.withdraw import IndexWithdrawal
from clocs.store.store import Store
from tests.inference.conftest import make_encoder
from tests.similarity.archives import Row, clustered, people, write_archive

CHAPMAN_FILE = "chapman/ECGDataDenoised/MUSE_20180111_155115_19000.csv"


@pytest.fixture(scope="module")
def index_folder(chapman_part: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real recordings through the shipped encoder."""
    place = tmp_path_factory.mktemp("similar")
    archive = clocs.embed_store("cmsc-chapman", chapman_part, place / "archive")
    assert archive.manifest.records_in == archive.manifest.embedded == len(chapman_part)
    clocs.build_index(archive, place / "index")
    return place / "index"


@pytest.fixture
def index(index_folder: Path) -> PatientIndex:
    return open_index(index_folder)


def ids_of(store: Store) -> list[str]:
    return [str(record) for record in store.table(["record_id"]).column(0).to_pylist()]


def pooled(store: Store, record_id: str) -> np.ndarray:
    """A recording's vector by the encoder itself and a plain mean of unit vectors."""
    values = load_encoder("cmsc-chapman").embed(store.recording(record_id)).values
    mean = (values / np.linalg.norm(values, axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def test_neighbours_of_a_record(index: PatientIndex, chapman_part: Store) -> None:
    """Against cosines with every other recording's vector, made one by one."""
    ids = ids_of(chapman_part)[:60]
    found = index.similar(ids[3], k=len(index) - 1)
    by_record = {item.record_id: item for item in found.neighbors}
    query = pooled(chapman_part, ids[3])
    assert ids[3] not in by_record
    assert len(by_record) == len(chapman_part) - 1
    for other in ids[:3] + ids[4:12]:
        item, cosine = by_record[other], float(pooled(chapman_part, other) @ query)
        assert item.similarity == pytest.approx(cosine, abs=1e-5)
        assert item.distance == pytest.approx(1 - cosine, abs=1e-5)
        recording = chapman_part.recording(other)
        assert (item.labels, item.age, item.sex) == (tuple(sorted(recording.labels)), recording.age, recording.sex)
        assert item.patient_id == recording.patient_id
    distances = [item.distance for item in found.neighbors]
    assert distances == sorted(distances)


def test_lead_similarities_explain_the_result(index: PatientIndex, chapman_part: Store) -> None:
    """Each lead's cosine, from the encoder's own embeddings of that lead."""
    record = ids_of(chapman_part)[8]
    item = index.similar(record, k=1).neighbors[0]
    encoder = load_encoder("cmsc-chapman")
    one, other = (encoder.embed(chapman_part.recording(name)) for name in (record, item.record_id))
    expected = {}
    for lead in encoder.input.leads:
        means = []
        for made in (one, other):
            rows = made.values[[name == lead for name in made.lead]]
            means.append((rows / np.linalg.norm(rows, axis=1, keepdims=True)).mean(axis=0))
        expected[lead] = float(means[0] @ means[1] / np.linalg.norm(means[0]) / np.linalg.norm(means[1]))
    assert [lead.lead for lead in item.why] == sorted(expected, key=lambda lead: -expected[lead])
    for likeness in item.why:
        assert likeness.similarity == pytest.approx(expected[likeness.lead], abs=1e-5)


def test_the_shipped_encoder_finds_the_same_rhythm(index: PatientIndex, chapman_part: Store) -> None:
    """The ten nearest patients share the first label more often than random patients."""
    labels = [row[0] for row in chapman_part.table(["labels"]).column(0).to_pylist()]
    by_record = dict(zip(ids_of(chapman_part), labels, strict=True))
    agree = []
    for record, label in list(by_record.items())[:80]:
        agree += [by_record[item.record_id] == label for item in index.similar(record, k=10).neighbors]
    chance = sum((labels.count(label) / len(labels)) ** 2 for label in set(labels))
    assert np.mean(agree) > chance + 0.15


def test_a_file_is_its_own_patient_by_its_signal(
    index: PatientIndex, index_folder: Path, originals: Path, chapman_part: Store
) -> None:
    file = originals / CHAPMAN_FILE
    stem = file.stem
    found = index.similar(file, k=3)
    assert found.query.record_id == stem
    assert stem in ids_of(chapman_part)
    assert stem not in [item.record_id for item in found.neighbors]
    assert any(stem in note for note in found.notes)
    nearest = index.similar(str(file), k=1, include_own_patient=True).neighbors[0]
    assert nearest.record_id == stem
    assert nearest.distance == pytest.approx(0, abs=1e-4)
    assert any("not used" in note for note in found.notes)


def test_a_file_name_does_not_identify_the_own_patient(index: PatientIndex, chapman_part: Store) -> None:
    """Exports are full of files called alike: here one recording goes under the name of another."""
    one, other = ids_of(chapman_part)[20:22]
    asked = replace(chapman_part.recording(one), record_id=other, patient_id="")
    found = index.similar(asked, k=len(index) - 1)
    named = {item.record_id for item in found.neighbors}
    assert other in named
    assert one not in named
    said = f"Patient {one} is excluded as the query's own patient, who has the same recording."
    assert said in found.notes


@pytest.mark.parametrize("patient_id", ["", "known elsewhere"])
def test_one_identical_recording_identifies_the_own_patient(patient_id: str, tmp_path: Path) -> None:
    """A patient's vector is another than the recording's, and a file's name is not the store's id of it."""
    store = clocs.ingest("synthetic", None, tmp_path / "store", options={"num_records": 24, "leads": 4})
    clocs.embed_store(make_encoder(tmp_path / "encoder"), store, tmp_path / "archive")
    clocs.build_index(tmp_path / "archive", tmp_path / "index")
    index = open_index(tmp_path / "index")
    held = store.recording(5)
    found = index.similar(replace(held, record_id="5", patient_id=patient_id), k=len(index))
    assert len(found.neighbors) == len(index) - 1
    assert held.patient_id not in [item.patient_id for item in found.neighbors]
    said = f"Patient {held.patient_id} is excluded as the query's own patient, who has the same recording."
    assert said in found.notes
    new = replace(held, digital=held.digital[:, : held.num_samples // 2], patient_id="")
    assert len(index.similar(new, k=len(index)).neighbors) == len(index)


def test_a_recording_and_its_id_give_the_same(index: PatientIndex, chapman_part: Store) -> None:
    record = ids_of(chapman_part)[20]
    by_id, by_signal = index.similar(record, k=5), index.similar(chapman_part.recording(record), k=5)
    assert [item.record_id for item in by_id.neighbors] == [item.record_id for item in by_signal.neighbors]
    np.testing.assert_allclose(by_id.query.vector, by_signal.query.vector, atol=1e-5)
    np.testing.assert_allclose(by_id.query.leads, by_signal.query.leads, atol=1e-5)
    own = index.similar(chapman_part.recording(record), k=5, include_own_patient=True).neighbors[0]
    assert own.record_id == record
    assert index.recording(record).record_id == record


def test_filters(index: PatientIndex, chapman_part: Store) -> None:
    found = index.similar(ids_of(chapman_part)[0], k=6, sex="female", age=(50, 80), label="SB")
    assert found.neighbors
    assert all(item.sex == "female" and 50 <= (item.age or 0) <= 80 for item in found.neighbors)
    assert all("SB" in item.labels for item in found.neighbors)
    rare = index.similar(ids_of(chapman_part)[0], k=300, label="SB")
    assert "Only" in rare.notes[-1]


def test_as_a_dictionary_it_is_json(index: PatientIndex, chapman_part: Store) -> None:
    found = index.similar(ids_of(chapman_part)[0], k=2)
    again = json.loads(json.dumps(found.as_dict()))
    assert again["query"]["record_id"] == ids_of(chapman_part)[0]
    assert again["neighbours"][0]["why"][0].keys() == {"lead", "similarity"}
    assert again["neighbours"][0]["distance"] == pytest.approx(found.neighbors[0].distance)


def test_mistakes(index: PatientIndex, index_folder: Path, tmp_path: Path, chapman_part: Store) -> None:
    with pytest.raises(FormatError, match="neither a record id"):
        index.similar("nobody")
    with pytest.raises(ConfigError, match="Expected k"):
        index.similar(ids_of(chapman_part)[0], k=0)
    with pytest.raises(ConfigError, match="No record"):
        index.recording("nobody")
    other = make_encoder(tmp_path / "other")
    with pytest.raises(ConfigError, match="not made by the encoder"):
        open_index(index_folder, other).similar(chapman_part.recording(0))


def test_a_moved_archive_gives_a_note(index_folder: Path, tmp_path: Path, chapman_part: Store) -> None:
    shutil.copytree(index_folder, tmp_path / "alone" / "index")
    index = open_index(tmp_path / "alone" / "index")
    found = index.similar(chapman_part.recording(5), k=3)
    assert [item.why for item in found.neighbors] == [()] * 3
    assert any("archive" in note for note in found.notes)
    with pytest.raises(StoreError, match=r"moved or replaced.*Restore"):
        index.similar(ids_of(chapman_part)[5])
    with pytest.raises(StoreError, match="moved or replaced"):
        index.recording(ids_of(chapman_part)[5])


def test_a_folder_tree_can_be_moved_together(index_folder: Path, tmp_path: Path, chapman_part: Store) -> None:
    for name in ("archive", "index"):
        shutil.copytree(index_folder.parent / name, tmp_path / "moved" / name)
    assert open_index(tmp_path / "moved" / "index").similar(ids_of(chapman_part)[5], k=2).neighbors[0].why


def of_two(tmp_path: Path, rows: Sequence[Row]) -> PatientIndex:
    write_archive(tmp_path / "archive", rows, clustered(len(rows), 16, clusters=len(rows)))
    clocs.build_index(tmp_path / "archive", tmp_path / "index")
    return open_index(tmp_path / "index")


def test_the_most_similar_of_several_recordings_is_shown(tmp_path: Path) -> None:
    index = of_two(tmp_path, people(6, recordings=4))
    archive = clocs.open_archive(tmp_path / "archive")
    ids, vectors = archive.table(["record_id"]).column(0).to_pylist(), archive.vectors()
    query = ids.index("r2-1")
    for item in index.similar("r2-1", k=5).neighbors:
        own = [place for place, name in enumerate(ids) if name.startswith(f"r{item.patient_id[1:]}-")]
        assert item.recordings == 4
        assert item.record_id == ids[max(own, key=lambda place: float(vectors[place] @ vectors[query]))]


def test_patients_blocked_before_they_were_added_stay_out(tmp_path: Path) -> None:
    index = of_two(tmp_path, people(6, recordings=2))
    with pytest.raises(ConfigError, match=r"No patient later in .*--allow-unknown"):
        index.withdraw(["p2", "later"])
    assert index.withdraw(["p2", "later"], allow_unknown=True) == IndexWithdrawal(
        1, unknown=1, already_withdrawn=0, recordings=2
    )
    index.rebuild()
    assert index.withdraw([f"p{number}" for number in range(6)]) == IndexWithdrawal(
        5, unknown=0, already_withdrawn=1, recordings=10
    )
    with pytest.raises(ConfigError, match="No patient p9"):
        index.withdraw(["p9"])
    later = [{**row, "patient_id": "later"} for row in people(1)]
    write_archive(tmp_path / "more", later, clustered(len(later), 16, clusters=1))
    assert index.add(tmp_path / "more").withdrawn == 1


def test_labels_of_withdrawn_patients_are_not_offered(tmp_path: Path) -> None:
    rows = [{**row, "labels": ("AF",) if row["patient_id"] == "p2" else ("SR",)} for row in people(6)]
    index = of_two(tmp_path, rows)
    assert index.similar("r0-0", k=3, label="AF").neighbors[0].patient_id == "p2"
    index.withdraw(["p2"])
    with pytest.raises(ConfigError, match=r"No patient of the index has the label 'AF'\. Available: 'SR'\.$"):
        index.similar("r0-0", label="AF")


def test_a_withdrawn_patients_record_is_unknown(tmp_path: Path) -> None:
    index = of_two(tmp_path, people(6, recordings=2))
    assert index.similar("r2-1", k=1).neighbors
    index.withdraw(["p2"])
    with pytest.raises(FormatError, match="neither a record id"):
        index.similar("r2-1")
    assert all(item.patient_id != "p2" for item in index.similar("r3-0", k=6).neighbors)


def test_a_lead_that_is_absent_is_not_compared(index: PatientIndex, chapman_part: Store) -> None:
    query = replace(chapman_part.recording(7).select(("V2",)), record_id="", patient_id="")
    item = index.similar(query, k=1).neighbors[0]
    assert [lead.lead for lead in item.why] == ["V2"]


def test_reading_a_file_needs_no_store(index: PatientIndex, originals: Path) -> None:
    twelve = read(originals / "ptbxl" / "records500" / "00000" / "00001_hr.hea")
    found = index.similar(twelve, k=2)
    assert len(found.neighbors) == 2
    assert found.query.recording is twelve
