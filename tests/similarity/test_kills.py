"""``kill -9`` during changes of an archive or an index loses, duplicates and restores nothing."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import StoreError
from clocs.similarity.archive import embedding
from clocs.similarity.archive.archive import open_archive
from clocs.similarity.index.patient_index import open_index
from clocs.similarity.index.updates import add_archive, build_index
from clocs.similarity.index.withdraw import withdraw_from_index
from clocs.similarity.integrity import verify_embeddings
from clocs.store.ingest import ingest
from clocs.store.store import Store
from tests import forked
from tests.faults.stores import fingerprint
from tests.faults.test_kills import Ingest, killed_run, random_moment, wait_for_orphans
from tests.inference.conftest import make_encoder
from tests.similarity.archives import clustered, people, write_archive
from tests.similarity.changing import GONE, OPERATIONS

faiss = pytest.importorskip("faiss", reason="needs the extra 'search'")
SCRIPT = Path(__file__).with_name("changing.py")
ROWS, E = people(20, recordings=2), 16
VECTORS = clustered(len(ROWS), E)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With one thread a graph has the same bytes each time; tasks as small as in the script."""
    monkeypatch.setattr(embedding, "RECORDS_PER_TASK", 4)
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(threads)


ARCHIVE_CHANGES = ("embed", "withdraw embeddings", "prune embeddings")


def prepared(operation: str, folder: Path) -> Path:
    """Prepare the initial state of an operation in ``start``."""
    start = folder / "start"
    start.mkdir(parents=True)
    if operation in ARCHIVE_CHANGES:
        ingest("synthetic", None, folder / "store", options={"num_records": 14, "leads": 4, "seconds": 5})
        make_encoder(folder / "encoder")
        if operation != "embed":
            OPERATIONS["embed"](start)
        if operation == "prune embeddings":
            OPERATIONS["withdraw embeddings"](start)
        return folder
    write_archive(start / "first", ROWS[:25], VECTORS[:25])
    write_archive(start / "second", ROWS[20:], VECTORS[20:])
    if operation != "build":
        build_index(start / "first", start / "index", "hnsw")
    if operation == "rebuild":
        add_archive(start / "index", start / "second")
        withdraw_from_index(start / "index", ["p1", "p5"])
    return folder


def kill(operation: str, folder: Path, *how: object) -> int:
    """Run the script; how many children died."""
    done = forked.run(SCRIPT, operation, folder, *how)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def content(folder: Path) -> dict[str, str]:
    return fingerprint(folder)


def finished(operation: str, place: Path) -> None:
    """The same change once more, in this process, as far as it is not done."""
    if operation == "build" and (place / "index" / "index.json").exists():
        return
    OPERATIONS[operation](place)


def check_as_killed(operation: str, place: Path) -> None:
    """Before anything is mended: no index or archive yet, or a whole one, of before or of after the change."""
    if operation == "embed":
        with pytest.raises(StoreError, match="no manifest"):
            open_archive(place / "archive")
        return
    if operation in ARCHIVE_CHANGES:
        archive = open_archive(place / "archive")
        patients = archive.table(["patient_id"]).column(0).to_pylist()
        assert len(patients) == len(archive.vectors()) == (14 if GONE in patients else 12)
        assert operation != "prune embeddings" or GONE not in patients
        assert verify_embeddings(place / "archive") == []
        return
    if operation == "build" and not (place / "index" / "index.json").exists():
        with pytest.raises(StoreError, match="is not an index"):
            open_index(place / "index")
        return
    index = open_index(place / "index")
    assert verify_embeddings(place / "index") == []
    counts = {"build": {13}, "add": {13, 20}, "withdraw": {13, 11}, "rebuild": {18}}[operation]
    assert len(index) in counts
    found = [int(row) for row in index.search(VECTORS[:1], 60).rows[0] if row >= 0]
    names = [index.snapshot.patient_info(row)["patient_id"] for row in found]
    assert len(names) == len(set(names)) == len(index)
    if operation == "rebuild" or len(index) == 11:
        assert {"p1", "p5"}.isdisjoint(names)


def check_whole(operation: str, place: Path) -> None:
    """Every patient or recording once, none zeroed, and no withdrawn one."""
    if operation in ARCHIVE_CHANGES:
        archive = open_archive(place / "archive")
        np.testing.assert_allclose(np.linalg.norm(archive.vectors(), axis=1), 1, atol=1e-5)
        expected = 14 if operation == "embed" else 12
        assert len(set(archive.table(["record_id"]).column(0).to_pylist())) == len(archive) == expected
        assert verify_embeddings(place / "archive") == []
        if operation != "embed":
            OPERATIONS["embed"](place)
            assert open_archive(place / "archive").manifest == archive.manifest
        return
    check_as_killed(operation, place)
    for volume in open_index(place / "index").snapshot.volumes:
        np.testing.assert_allclose(np.linalg.norm(volume.vectors, axis=1), 1, atol=1e-5)


def campaign(operation: str, folder: Path, *how: object) -> int:
    """Kill, look at what is left, finish, and compare with what was never killed; how many children died."""
    prepared(operation, folder)
    killed = kill(operation, folder, *how)
    undisturbed = folder / "undisturbed"
    shutil.copytree(folder / "start", undisturbed)
    finished(operation, undisturbed)
    expected = content(undisturbed)
    for place in sorted(path for path in folder.iterdir() if path.name.isdigit()):
        done = operation == "embed" and (place / "archive" / "manifest-000001.json").exists()
        if not done:
            check_as_killed(operation, place)
        finished(operation, place)
        assert not list(place.rglob("*.partial"))
        assert content(place) == expected, f"round {place.name}"
        check_whole(operation, place)
    return killed


STEPS = {
    "embed": 3 * (4 * 2 + 2),
    "build": 3 * 4,
    "add": 3 * 5,
    "withdraw": 3 * 3 + 3 * 4 + 4,
    "rebuild": 3 * 4 + 3 * 2,
    "withdraw embeddings": 3 * 5,
    "prune embeddings": 3,
}
"""A durable write has three steps, a removal has one. Embedding: four shards with receipts, the list of the refused,
the manifest. Changes of an index: vectors, table and graph, dead rows, and the manifest. A withdrawal begins with the
hashes. An index first hides the patients, and then replaces a volume and removes its three files and the dead rows. An
archive writes a shard, its receipt, the list of the refused and the manifest. Pruning removes the last two and a
shard."""
LONG = ("embed", "build", "add", "withdraw", "rebuild", "withdraw embeddings")


@pytest.mark.parametrize("operation", LONG)
def test_kill_at_some_steps(operation: str, tmp_path: Path) -> None:
    """A stride is no multiple of three, so that all steps of a durable write occur."""
    stride = {"embed": 10, "build": 4}.get(operation, 7)
    assert campaign(operation, tmp_path, "every", stride) == -(-STEPS[operation] // stride)


@pytest.mark.slow
@pytest.mark.parametrize("operation", STEPS)
def test_kill_at_every_step(operation: str, tmp_path: Path) -> None:
    assert campaign(operation, tmp_path, "every", 1) == STEPS[operation]


@pytest.mark.slow
@pytest.mark.parametrize("operation", LONG)
def test_kill_at_thirty_random_moments(operation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed = campaign(operation, tmp_path, "random", 30, 1)
    with capsys.disabled():
        print(f"\nkills of {operation}: 30 of 30 whole, {killed} hit before the end")
    assert killed >= 10


WORKERS = """
import sys
from clocs.similarity.archive import embedding
embedding.RECORDS_PER_TASK = 8
embedding.embed_store("cmsc-chapman", sys.argv[1], sys.argv[2], workers=2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["all", "main"])
def test_kill_of_an_embedding_by_two_workers(
    kind: str, chapman_part: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole session, or only the main process: its workers end by themselves. Real recordings."""

    def command(folder: Path, workers: int) -> list[str]:
        return [sys.executable, "-c", WORKERS, str(chapman_part.folder), str(folder)]

    embedding_run, hits = Ingest(command, {}), 0
    moment = random_moment(random.Random(4), embedding_run.finish(tmp_path / "undisturbed", 2))
    expected = content(tmp_path / "undisturbed")
    for number in range(8):
        folder = tmp_path / str(number)
        hits += killed_run(embedding_run, folder, 2, kind, moment)
        process = embedding_run.start(folder, 2)  # at once: whatever was left behind may still be there
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
        wait_for_orphans(process)
        assert content(folder) == expected
        assert not list(folder.rglob("*.partial"))
    with capsys.disabled():
        print(f"\nkills of two workers ({kind}): 8 of 8 archives byte-identical, {hits} hit before the end")
