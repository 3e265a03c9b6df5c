"""A withdrawn patient leaves the newest version, stays out of later ingests and, after a prune, leaves every byte."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.privacy.pseudonyms import make_key, read_key
from clocs.core.recording import Recording
from clocs.datasets import DATASETS
from clocs.formats.writing import write
from clocs.store.byte_search import TextSearch
from clocs.store.ingest import ingest
from clocs.store.prune import prune
from clocs.store.splits import make_split
from clocs.store.store import Store, open_store
from clocs.store.summary import quarantined_rows
from clocs.store.task_records import read_task_records
from clocs.store.verify import verify
from clocs.store.withdraw import withdraw
from clocs.store.withdrawn import WITHDRAWN
from tests.conftest import make_recording

NUM_FILES = 12
GONE = "Adeltraud-03"
"""Patient with files 3, 7 and 11. The last one is too short to be stored."""


def patient_of(number: int) -> str:
    return GONE if number % 4 == 3 else f"Bertram-{number:02d}"


def file_of(number: int) -> str:
    return f"{number:02d}-{'walnut' if patient_of(number) == GONE else 'cedar'}"


def recording_of(number: int) -> Recording:
    num_samples = 300 if number in (5, 11) else 5000
    return make_recording(("II",), num_samples=num_samples, seed=number, record_id=file_of(number))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write twelve CSV files and the table of their patients. Another file of the patient cannot be read."""
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(NUM_FILES):
        write(recording_of(number), folder / f"{file_of(number)}.csv", "csv")
    (folder / "99-walnut.dcm").write_bytes(bytes(128) + b"DICM")
    with open(tmp_path / "table.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "patient_id"])
        rows.writerows((f"{file_of(number)}.csv", patient_of(number)) for number in range(NUM_FILES))
        rows.writerow(("99-walnut.dcm", GONE))
    return folder


def ingest_table(source: Path, store: Path, **options: object) -> Store:
    dataset = replace(DATASETS.get("folder"), records_per_shard=4)
    return ingest(dataset, source, store, options={"table": source.parent / "table.csv", **options})


@pytest.fixture
def store(source: Path, tmp_path: Path) -> Store:
    """Return a store of three shards, two with recordings of the patient."""
    return ingest_table(source, tmp_path / "store")


def ids(store: Store) -> list[str]:
    return list(store.table("record_id").column(0).to_pylist())


def files_with(folder: Path, texts: Iterable[str], *values: npt.NDArray[Any]) -> set[str]:
    """Return the files of a folder with one of the texts, or with one of the arrays."""
    search = TextSearch(texts)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    found = {path for path in paths if any(True for _ in search.search_file(path))}
    found |= {path for path in paths for array in values if array.tobytes() in path.read_bytes()}
    return {path.relative_to(folder).as_posix() for path in found}


def test_a_new_version_lacks_the_patient_and_keeps_the_order(store: Store) -> None:
    before = ids(store)
    signals = {name: store.recording(name).digital for name in before}
    done = withdraw(store, [GONE])
    assert (done.version, done.patients, done.recordings, done.quarantined) == (2, 1, 2, 2)
    assert (done.older_versions, done.already_withdrawn, done.unknown) == ((1,), 0, 0)
    after = open_store(store.folder)
    assert ids(after) == [name for name in before if "cedar" in name]
    assert all(np.array_equal(after.recording(name).digital, signals[name]) for name in ids(after))
    assert [row["record_id"] for row in quarantined_rows(after)] == ["05-cedar"]
    about = after.manifest
    assert (about.records_in, about.stored, about.quarantined, about.withdrawn) == (13, 8, {"short": 1}, 4)
    assert len(ids(open_store(store.folder, 1))) == 10
    assert verify(store.folder) == []


def test_only_affected_shards_are_written(store: Store) -> None:
    untouched = [shard for number, shard in enumerate(store.shards) if GONE not in patients(store, number)]
    affected = len(store.shards) - len(untouched)
    withdraw(store, [GONE])
    after = open_store(store.folder)
    assert affected == 2
    assert set(untouched) < set(after.shards)
    assert len(set(after.shards) - set(store.shards)) == affected


def patients(store: Store, shard: int) -> list[str]:
    return list(store.shard(shard).column("patient_id").to_pylist())


def test_the_next_ingest_leaves_the_patient_out_and_reads_nothing_again(store: Store, source: Path) -> None:
    withdraw(store, [GONE])
    after = open_store(store.folder)
    again = ingest_table(source, store.folder)
    assert again.manifest == after.manifest
    write(make_recording(("II",), seed=50, record_id="late"), source / "late.csv", "csv")
    write(make_recording(("II",), seed=51, record_id="50-walnut"), source / "50-walnut.csv", "csv")
    (source / "03-walnut.csv").unlink()  # the other files of its task are read again
    with open(source.parent / "table.csv", "a") as file:
        file.write(f"50-walnut.csv,{GONE}\n")
    with pytest.warns(UserWarning, match="match no recording"):
        grown = ingest_table(source, store.folder)
    assert sorted(ids(grown)) == sorted([*ids(after), "late"])
    assert (grown.manifest.records_in, grown.manifest.withdrawn) == (14, 4)
    assert verify(store.folder) == []


def test_no_byte_of_the_patient_is_left_after_a_prune(store: Store, source: Path) -> None:
    make_split(store)
    frames = store.frames("evaluation")
    frames.cached()
    first = int(frames.frames_per_record()[: store.index_of("03-walnut")].sum())
    hashes = [store.recording(name).provenance.sha256 for name in ids(store) if "walnut" in name]
    texts = [GONE, "walnut", *hashes]
    samples = [store.recording("03-walnut").digital[0, 1000:1032], frames.views([first])[0, 0, 0, 1000:1032]]
    before = files_with(store.folder, texts, *samples)
    assert {Path(name).parent.name for name in before} >= {"shards", "metadata", "receipts", "splits", "frames"}
    done = withdraw(store, [GONE])
    assert done.splits == ("default",)
    assert len(done.frame_caches) == 1
    assert done.frame_caches[0] in before
    make_split(open_store(store.folder), "later", like="default")
    prune(store.folder, grace=timedelta(0), dry_run=False)
    assert files_with(store.folder, texts, *samples) == set()
    assert verify(store.folder) == []
    ingest_table(source, store.folder)
    assert files_with(store.folder, texts, *samples) == set()
    assert open_store(store.folder).split("later").metadata["store"] == open_store(store.folder).sha256


def test_a_withdrawn_patient_can_be_withdrawn_again(store: Store) -> None:
    withdraw(store, [GONE])
    again = withdraw(store, [GONE])
    assert (again.version, again.patients, again.recordings, again.already_withdrawn) == (2, 0, 0, 1)
    assert again.older_versions == (1,)
    prune(store.folder, grace=timedelta(0), dry_run=False)
    last = withdraw(store, [GONE])
    assert (last.version, last.already_withdrawn, last.older_versions) == (2, 1, ())


def test_an_unknown_id_changes_nothing_unless_it_is_allowed(store: Store, source: Path) -> None:
    before = sorted(path.name for path in store.folder.rglob("*"))
    with pytest.raises(ConfigError, match=r"No patient Bertram-50 in .* Nothing was changed"):
        withdraw(store, [GONE, "Bertram-50"])
    assert sorted(path.name for path in store.folder.rglob("*")) == before
    done = withdraw(store, ["Bertram-50"], allow_unknown=True)
    assert (done.version, done.unknown, done.patients) == (1, 1, 0)
    write(make_recording(("II",), seed=50, record_id="50-cedar"), source / "50-cedar.csv", "csv")
    with open(source.parent / "table.csv", "a") as file:
        file.write("50-cedar.csv,Bertram-50\n")
    grown = ingest_table(source, store.folder)
    assert "50-cedar" not in ids(grown)
    assert grown.manifest.withdrawn == 1


def test_original_ids_need_the_key_of_the_store(source: Path, tmp_path: Path) -> None:
    key, other = tmp_path / "a.key", tmp_path / "b.key"
    make_key(key)
    make_key(other)
    store = ingest_table(source, tmp_path / "keyed", key=key)
    with pytest.raises(ConfigError, match=r"has pseudonyms, but 1 of 1 ids are not.*--key"):
        withdraw(store, [GONE])
    with pytest.raises(ConfigError, match="another key"):
        withdraw(store, [GONE], key=other)
    done = withdraw(store, [f" {GONE.lower()} "], key=key)
    assert (done.recordings, done.quarantined) == (2, 1)
    assert read_key(key).patient(GONE) not in open_store(store.folder).table("patient_id").column(0).to_pylist()
    again = ingest_table(source, store.folder, key=key)
    assert again.manifest.version == 2
    assert withdraw(store, [read_key(key).patient(GONE)]).already_withdrawn == 1


def test_a_key_for_a_store_without_pseudonyms_is_refused(store: Store, tmp_path: Path) -> None:
    make_key(tmp_path / "a.key")
    with pytest.raises(ConfigError, match="has no pseudonyms"):
        withdraw(store, [GONE], key=tmp_path / "a.key")


def test_all_patients_can_be_withdrawn(store: Store, source: Path) -> None:
    withdraw(store, {patient_of(number) for number in range(NUM_FILES)})
    empty = open_store(store.folder)
    assert (len(empty), empty.manifest.withdrawn, empty.manifest.quarantined) == (0, 13, {})
    assert ingest_table(source, store.folder).manifest == empty.manifest
    assert verify(store.folder) == []


def test_a_patient_of_an_older_version_is_found_in_it_and_in_task_records(source: Path, tmp_path: Path) -> None:
    store = ingest_table(source, tmp_path / "store")
    for path in source.glob("*walnut*"):
        path.unlink()
    with pytest.warns(UserWarning, match="match no recording"):
        assert ingest_table(source, store.folder).manifest.version == 2
    assert any(row.patient_id == GONE for record in read_task_records(store.folder) for row in record.refused)
    done = withdraw(store, [GONE])
    assert (done.version, done.patients, done.recordings, done.older_versions) == (2, 1, 0, (1,))
    texts = [GONE, "walnut"]
    assert not any(name.startswith("receipts") for name in files_with(store.folder, texts))
    prune(store.folder, grace=timedelta(0), dry_run=False)
    assert files_with(store.folder, texts, recording_of(3).digital[0, 1000:1032]) == set()
    assert verify(store.folder) == []


def test_a_damaged_list_of_withdrawn_patients_stops_an_ingest(store: Store, source: Path) -> None:
    withdraw(store, [GONE])
    path = store.folder / WITHDRAWN
    path.write_bytes(path.read_bytes().replace(b"a", b"b", 1))
    assert [fault.file for fault in verify(store.folder)] == [WITHDRAWN]
    with pytest.raises(IntegrityError, match=WITHDRAWN):
        ingest_table(source, store.folder)


def test_a_folder_without_a_store_is_refused_and_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a finished store"):
        withdraw(tmp_path / "none", [GONE])
    with pytest.raises(StoreError, match="not a finished store"):
        prune(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_hashes_of_two_stores_differ(source: Path, tmp_path: Path) -> None:
    one = ingest_table(source, tmp_path / "one")
    shutil.rmtree(source)
    source.mkdir()
    write(recording_of(3), source / f"{file_of(3)}.csv", "csv")
    with pytest.warns(UserWarning, match="match no recording"):
        other = ingest_table(source, tmp_path / "other")
    for store in (one, other):
        withdraw(store, [GONE])
    lists = [(store.folder / WITHDRAWN).read_text().splitlines() for store in (one, other)]
    assert not {line for line in lists[0] if len(line) > 30} & {line for line in lists[1] if len(line) > 30}
