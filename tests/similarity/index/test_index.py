"""Building, adding, withdrawing, rebuilding and following an index."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.similarity.archive.archive import Archive
from clocs.similarity.checked_files import FileInfo, check_file
from clocs.similarity.index import snapshot, volume
from clocs.similarity.index.filters import Filter
from clocs.similarity.index.incremental import AdditionResult
from clocs.similarity.index.manifest import MANIFEST_FILE, read_index_manifest
from clocs.similarity.index.patient_index import PatientIndex, open_index
from clocs.similarity.index.snapshot import Snapshot
from clocs.similarity.index.updates import add_archive, build_index, rebuild_index
from clocs.similarity.index.withdraw import IndexWithdrawal, hide_patients, withdraw_from_index
from clocs.similarity.segments import Vectors, unit_length
from clocs.store.named_patients import name_patients
from tests.similarity.archives import Row, clustered, near, people, write_archive

pytest.importorskip("faiss", reason="needs the extra 'search'")
E = 16
KINDS = ("exact", "hnsw")


@pytest.fixture
def scattered(tmp_path: Path) -> Archive:
    """Forty patients with three recordings each, in an order that keeps no patient together."""
    rows = people(40, recordings=3)
    order = np.random.default_rng(5).permutation(len(rows))
    return write_archive(tmp_path / "archive", [rows[place] for place in order], clustered(len(rows), E, seed=2))


def patients_of(index: PatientIndex) -> dict[str, Vectors]:
    """Every living patient's vector, through a search for as many as there are; all of one moment."""
    snapshot = index.snapshot
    found = snapshot.search(np.eye(1, E, dtype=np.float32), int(snapshot.first[-1]), Filter()).rows[0]
    rows = [int(row) for row in found if row >= 0]
    return {snapshot.patient_info(row)["patient_id"]: vector_at(snapshot, row) for row in rows}


def vector_at(snapshot: Snapshot, row: int) -> Vectors:
    number = int(np.searchsorted(snapshot.first, row, "right")) - 1
    vector: Vectors = snapshot.volumes[number].vectors[row - snapshot.first[number]]
    return vector


def literal(rows: list[Row], vectors: Vectors) -> dict[str, Vectors]:
    """Unit length of the mean of each patient's vectors, one patient at a time."""
    found = {}
    for patient in {row["patient_id"] for row in rows}:
        own = [vector for row, vector in zip(rows, vectors, strict=True) if row["patient_id"] == patient]
        found[patient] = unit_length(np.sum(own, axis=0, keepdims=True))[0]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_patient_is_the_mean_of_its_recordings(kind: str, scattered: Archive, tmp_path: Path) -> None:
    build_index(scattered, tmp_path / "index", kind)
    index = open_index(tmp_path / "index")
    rows = scattered.table().to_pylist()
    expected = literal(rows, scattered.vectors())
    found = patients_of(index)
    assert found.keys() == expected.keys()
    for patient, vector in expected.items():
        np.testing.assert_allclose(found[patient], vector, atol=1e-6)
    assert (len(index), index.manifest.recordings) == (40, 120)


def test_metadata_of_a_patient_comes_from_all_recordings(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"record_id": "a", "patient_id": "p", "site": "", "age": 60, "sex": None, "labels": ["SR", "LBBB"]},
        {"record_id": "b", "patient_id": "", "site": "x", "age": None, "sex": "male", "labels": []},
        {"record_id": "c", "patient_id": "p", "site": "north", "age": None, "sex": "female", "labels": ["AFIB", "SR"]},
        {"record_id": "d", "patient_id": "p", "site": "south", "age": 64, "sex": None, "labels": []},
    ]
    build_index(write_archive(tmp_path / "archive", rows, clustered(4, E)), tmp_path / "index")
    first, second = (open_index(tmp_path / "index").snapshot.patient_info(row) for row in (0, 1))
    assert (first["patient_id"], first["site"], first["age"], first["sex"]) == ("p", "north", 64, "female")
    assert first["labels"] == ["AFIB", "LBBB", "SR"]
    assert [(item["record_id"], item["row"]) for item in first["recordings"]] == [("a", 0), ("c", 2), ("d", 3)]
    assert (second["patient_id"], second["age"], second["labels"]) == ("b", None, [])
    mean = np.linalg.norm(clustered(4, E)[[0, 2, 3]].mean(axis=0))
    assert first["coherence"] == pytest.approx(mean, abs=1e-6)


def test_large_archives_become_several_volumes(
    scattered: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Patients whose recordings are far apart have one row all the same; a rebuild leaves no dead rows."""
    monkeypatch.setattr("clocs.similarity.index.incremental.ROWS_PER_VOLUME", 25)
    build_index(scattered, tmp_path / "index", "hnsw")
    index = open_index(tmp_path / "index")
    expected = literal(scattered.table().to_pylist(), scattered.vectors())
    for volumes, dead in ((5, True), (2, False)):
        found = patients_of(index)
        assert found.keys() == expected.keys()
        for patient, vector in expected.items():
            np.testing.assert_allclose(found[patient], vector, atol=1e-6)
        assert (len(index), index.manifest.recordings) == (40, 120)
        assert len(index.manifest.volumes) == volumes
        assert (index.manifest.dead is not None) == dead
        index.rebuild()


@pytest.mark.parametrize("kind", KINDS)
def test_adding_equals_building_at_once(kind: str, tmp_path: Path) -> None:
    """The second archive has known recordings, new recordings of known patients, and new patients."""
    rows, vectors = people(30, recordings=3), clustered(90, E)
    build_index(write_archive(tmp_path / "first", rows[:50], vectors[:50]), tmp_path / "index", kind)
    second = write_archive(tmp_path / "second", rows[40:], vectors[40:])
    assert add_archive(tmp_path / "index", second) == AdditionResult(
        recordings=40, patients=14, already_indexed=10, withdrawn=0
    )
    build_index(write_archive(tmp_path / "all", rows, vectors), tmp_path / "at-once", kind)
    grown, at_once = (open_index(tmp_path / name) for name in ("index", "at-once"))
    assert (len(grown), grown.manifest.recordings) == (len(at_once), at_once.manifest.recordings) == (30, 90)
    one, other = patients_of(grown), patients_of(at_once)
    assert one.keys() == other.keys()
    for patient in one:
        np.testing.assert_allclose(one[patient], other[patient], atol=1e-6)
    assert add_archive(tmp_path / "index", second) == AdditionResult(
        recordings=0, patients=0, already_indexed=50, withdrawn=0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_withdrawn_patient_is_not_returned_nor_added_again(kind: str, scattered: Archive, tmp_path: Path) -> None:
    build_index(scattered, tmp_path / "index", kind)
    index = open_index(tmp_path / "index")
    assert index.withdraw(["p3", "p4", "p3"]) == IndexWithdrawal(2, already_withdrawn=0, unknown=0, recordings=6)
    assert len(index) == 38
    assert {"p3", "p4"}.isdisjoint(patients_of(index))
    assert index.withdraw(["p3"]) == IndexWithdrawal(0, already_withdrawn=1, unknown=0, recordings=0)
    assert index.add(scattered).withdrawn == 6
    assert {"p3", "p4"}.isdisjoint(patients_of(index))
    index.rebuild()
    assert index.add(scattered).withdrawn == 6
    assert len(patients_of(index)) == 38


def test_no_file_holds_a_withdrawn_patient(scattered: Archive, tmp_path: Path) -> None:
    build_index(scattered, tmp_path / "index", "hnsw")
    row = next(
        row for row in range(40) if open_index(tmp_path / "index").snapshot.patient_info(row)["patient_id"] == "p17"
    )
    secret = vector_at(open_index(tmp_path / "index").snapshot, row).tobytes()
    there = [path for path in (tmp_path / "index").rglob("*.*") if secret in path.read_bytes()]
    assert sorted(path.name for path in there) == ["graph.faiss", "vectors.npy"]
    withdraw_from_index(tmp_path / "index", ["p17"])
    files = [path for path in (tmp_path / "index").rglob("*") if path.is_file()]
    assert not [path for path in files if secret in path.read_bytes() or b"p17" in path.read_bytes()]
    assert {path.parent.name for path in files} == {"index", "000003-0"}
    assert len(patients_of(open_index(tmp_path / "index"))) == 39
    assert read_index_manifest(tmp_path / "index").kind == "hnsw"


def test_only_volumes_with_the_patient_are_rewritten(tmp_path: Path) -> None:
    """The patient has a row in the first volume, which the second one replaced, and none in the third."""
    rows, vectors = people(9, recordings=2), clustered(18, E)
    for number, chosen in enumerate(([0, 2, 4], [5, 6, 8], [10, 12, 14])):
        archive = write_archive(tmp_path / str(number), [rows[row] for row in chosen], vectors[chosen])
        if number:
            add_archive(tmp_path / "index", archive)
        else:
            build_index(archive, tmp_path / "index")
    index = open_index(tmp_path / "index")
    before, expected = index.manifest, patients_of(index)
    del expected["p2"]
    assert (len(before.volumes), len(index.snapshot.dead)) == (3, 1)
    assert index.withdraw(["p2"]).recordings == 2
    assert [info in before.volumes for info in index.manifest.volumes] == [False, False, True]
    assert index.manifest.dead is None
    found = patients_of(index)
    assert found.keys() == expected.keys()
    for patient, vector in expected.items():
        np.testing.assert_allclose(found[patient], vector, atol=1e-6)
    assert (len(index), index.manifest.recordings) == (7, 7)


def test_dead_rows_of_other_volumes_keep_their_patients(tmp_path: Path) -> None:
    rows, vectors = people(6, recordings=2), clustered(12, E)
    for number, chosen in enumerate(([0, 2], [4, 6], [5, 8, 10])):
        archive = write_archive(tmp_path / str(number), [rows[row] for row in chosen], vectors[chosen])
        if number:
            add_archive(tmp_path / "index", archive)
        else:
            build_index(archive, tmp_path / "index")
    index = open_index(tmp_path / "index")
    expected = patients_of(index)
    index.withdraw(["p0"])
    assert index.snapshot.dead.tolist() == [1], "the first row of the second volume, p2, was replaced"
    assert patients_of(index).keys() == expected.keys() - {"p0"}
    np.testing.assert_array_equal(patients_of(index)["p2"], expected["p2"])


def test_only_files_that_changes_wrote_are_removed(scattered: Archive, tmp_path: Path) -> None:
    """Other files stay, even within a volume's folder or under a volume's name behind a link."""
    folder = tmp_path / "index"
    others = ["volumes/brain/mri.nii", "volumes/000001-0/notes.txt", "volumes/vectors.npy", "tombstones/stones.csv"]
    left = ["volumes/000007-0/vectors.npy.partial", "volumes/000007-0/patients.arrow", "tombstones/rows-000007.arrow"]
    for path in (*(folder / name for name in others + left), tmp_path / "elsewhere" / "vectors.npy"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    (folder / "volumes" / "000008-0").symlink_to(tmp_path / "elsewhere")
    build_index(scattered, folder)
    withdraw_from_index(folder, ["p3"])
    rebuild_index(folder, "hnsw")
    assert [(folder / name).read_text() for name in others] == ["precious"] * 4
    assert (tmp_path / "elsewhere" / "vectors.npy").read_text() == "precious"
    assert not any((folder / name).exists() for name in left)
    assert not (folder / "volumes" / "000007-0").exists()


@pytest.mark.parametrize("name", ["volumes", "tombstones"])
def test_nothing_is_changed_behind_a_link(name: str, scattered: Archive, tmp_path: Path) -> None:
    """Another index may own what lies there under the same names."""
    build_index(scattered, tmp_path / "other")
    hide_patients(Snapshot(tmp_path / "other"), name_patients(["p3"], None, {None}, "index"))
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / name).symlink_to(tmp_path / "other" / name)
    with pytest.raises(ConfigError, match=f"{name} is a link"):
        build_index(scattered, tmp_path / "index")
    assert len(patients_of(open_index(tmp_path / "other"))) == 39


def test_an_index_behind_a_link_finds_its_archive(scattered: Archive, tmp_path: Path) -> None:
    """Big disks are often reached so; the archive, too."""
    (tmp_path / "big" / "disk" / "index").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "big" / "disk" / "index")
    (tmp_path / "deep" / "down").mkdir(parents=True)
    (tmp_path / "deep" / "down" / "archive").symlink_to(scattered.folder)
    build_index(tmp_path / "deep" / "down" / "archive", tmp_path / "link")
    for folder in ("link", "big/disk/index"):
        assert open_index(tmp_path / folder).similar("r1-0", k=1).neighbors[0].why


def test_an_open_index_follows_changes(scattered: Archive, tmp_path: Path) -> None:
    build_index(scattered, tmp_path / "index")
    index = open_index(tmp_path / "index")
    vector = vector_at(index.snapshot, 0)[None]
    gone = index.snapshot.patient_info(0)["patient_id"]
    before = index.search(vector, 1)
    assert before.rows.tolist() == [[0]]
    withdraw_from_index(tmp_path / "index", [gone])
    assert index.search(vector, 1).rows.tolist() != [[0]]
    assert before.patient_ids.tolist() == [[gone]], "as it was when it was asked"
    rebuild_index(tmp_path / "index", "hnsw")
    assert index.manifest.kind == "hnsw"
    assert gone not in patients_of(index)


def test_searching_while_the_index_is_rebuilt(scattered: Archive, tmp_path: Path) -> None:
    """A rebuild removes the files that another has open or is about to open; searches go on and are right."""
    build_index(scattered, tmp_path / "index")
    withdraw_from_index(tmp_path / "index", ["p3"])
    expected = set(patients_of(open_index(tmp_path / "index")))

    def rebuild() -> None:
        for number in range(12):
            rebuild_index(tmp_path / "index", KINDS[number % 2])

    writer = threading.Thread(target=rebuild)
    writer.start()
    searches = 0
    while writer.is_alive():
        assert set(patients_of(open_index(tmp_path / "index"))) == expected
        searches += 1
    writer.join()
    assert read_index_manifest(tmp_path / "index").change >= 12
    assert searches >= 3


def test_many_queries_are_answered_with_patients_of_all_volumes(tmp_path: Path) -> None:
    """Against the row of each volume's table."""
    first = write_archive(tmp_path / "one", people(30), clustered(30, E, seed=3))
    rows = [{**row, "patient_id": f"q{row['patient_id']}", "record_id": f"q{row['record_id']}"} for row in people(30)]
    second = write_archive(tmp_path / "two", rows, clustered(30, E, seed=4))
    build_index(first, tmp_path / "index")
    add_archive(tmp_path / "index", second)
    index = open_index(tmp_path / "index")
    found = index.search(np.eye(E), 25)
    snapshot = index.snapshot
    assert len(snapshot.volumes) == 2
    expected = [[snapshot.patient_info(int(row))["patient_id"] for row in each] for each in found.rows]
    assert found.patient_ids.tolist() == expected
    assert {name[0] for name in found.patient_ids.ravel()} == {"p", "q"}


def test_everyone_may_be_withdrawn(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "archive", people(3), clustered(3, E))
    build_index(archive, tmp_path / "index")
    withdraw_from_index(tmp_path / "index", ["p0", "p1", "p2"])
    for _ in range(2):
        index = open_index(tmp_path / "index")
        assert len(index) == 0
        nobody = index.search(np.eye(2, E), 3)
        assert nobody.rows.tolist() == [[-1] * 3] * 2
        assert nobody.patient_ids.tolist() == [[""] * 3] * 2
        rebuild_index(tmp_path / "index")
    assert add_archive(tmp_path / "index", archive).withdrawn == 3


@pytest.mark.parametrize("share", [0.5, 0.05, 0.005])
@pytest.mark.parametrize("kind", KINDS)
def test_filters_act_inside_the_search(
    kind: str, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against brute force over the rows that the filter keeps; below 5 % the search is exact, without a graph."""
    monkeypatch.setattr("clocs.similarity.index.volume.EXACT_ROWS", 0)
    count = 4000
    vectors = clustered(count, E, clusters=20)
    random = np.random.default_rng(9)
    kept = np.zeros(count, bool)
    kept[random.permutation(count)[: round(share * count) + 1]] = True
    rows: list[Row] = [
        {"record_id": f"r{row}", "patient_id": f"p{row}", "site": "in" if kept[row] else "out"} for row in range(count)
    ]
    build_index(write_archive(tmp_path / "archive", rows, vectors, per_shard=1000), tmp_path / "index", kind)
    queries = near(vectors, 50)
    found = open_index(tmp_path / "index").search(queries, 10, Filter(site="in"))
    cosines = np.where(kept, queries @ vectors.T, -np.inf)
    truth = np.argsort(-cosines, axis=1, kind="stable")[:, :10]
    assert kept[found.rows].all()
    hit = np.mean([len(set(one) & set(other)) / 10 for one, other in zip(found.rows, truth, strict=True)])
    assert hit == 1 if kind == "exact" or share < 0.05 else hit >= 0.99


def test_building_the_same_index_again_changes_nothing(scattered: Archive, tmp_path: Path) -> None:
    build_index(scattered, tmp_path / "index")
    PatientIndex(tmp_path / "index").withdraw(["p3"])
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*.arrow")}
    build_index(scattered.folder, tmp_path / "index")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "index").rglob("*.arrow")} == files
    assert len(open_index(tmp_path / "index")) == 39, "a withdrawn patient stays out"


def test_incompatible_inputs_are_rejected(scattered: Archive, tmp_path: Path) -> None:
    build_index(scattered, tmp_path / "index")
    with pytest.raises(ConfigError, match="already holds another index"):
        build_index(scattered, tmp_path / "index", "hnsw")
    foreign = write_archive(tmp_path / "foreign", people(2), clustered(2, E), weights="f" * 64)
    with pytest.raises(ConfigError, match="different encoders"):
        add_archive(tmp_path / "index", foreign)
    before = (tmp_path / "index" / MANIFEST_FILE).read_bytes()
    with pytest.raises(ConfigError, match="Nothing was changed"):
        withdraw_from_index(tmp_path / "index", ["p1", "stranger"])
    assert (tmp_path / "index" / MANIFEST_FILE).read_bytes() == before
    with pytest.raises(ConfigError, match="Did you mean 'hnsw'"):
        build_index(scattered, tmp_path / "other", "hsnw")
    with pytest.raises(StoreError, match="is not an index"):
        open_index(tmp_path / "nowhere")
    index = open_index(tmp_path / "index")
    for wrong in (np.ones((2, E - 1)), np.ones(E), np.full((1, E), np.nan)):
        with pytest.raises(ConfigError, match="vectors"):
            index.search(wrong)
    with pytest.raises(ConfigError, match="Expected k"):
        index.search(np.ones((1, E)), 0)
    with pytest.raises(ConfigError, match="Available: '', 'north', 'south'"):
        index.search(np.ones((1, E)), 1, Filter(site="east"))


def test_an_index_with_a_missing_file_is_refused(scattered: Archive, tmp_path: Path) -> None:
    build_index(scattered, tmp_path / "index")
    (tmp_path / "index" / "volumes" / "000001-0" / "vectors.npy").unlink()
    with pytest.raises(IntegrityError, match=r"volumes/000001-0/vectors\.npy"):
        open_index(tmp_path / "index")


def test_a_change_hashes_only_the_files_that_it_wrote(
    scattered: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening hashes every file; an index that is open keeps what it has checked, whatever is committed after it."""
    place = tmp_path / "index"
    build_index(scattered, place)
    read: list[str] = []

    def noted(folder: Path, info: FileInfo) -> None:
        read.append(info.file)
        check_file(folder, info)

    for module in (snapshot, volume):
        monkeypatch.setattr(module, "check_file", noted)
    index = open_index(place)
    assert read == [info.file for info in index.manifest.files]
    gone = index.snapshot.patient_ids(np.array([0]))[0]
    hide_patients(Snapshot(place), name_patients([gone], None, {None}, "index"))
    read.clear()
    assert gone not in index.search(np.ones((1, E)), 100).patient_ids
    assert read == ["tombstones/rows-000002.arrow"]
