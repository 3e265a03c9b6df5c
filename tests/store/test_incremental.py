"""An incremental ingest reads only new files, and no recording is lost or stored twice."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clocs.core.privacy.pseudonyms import make_key
from clocs.core.recording import Recording
from clocs.core.sources.source import Source
from clocs.datasets import DATASETS, Dataset, Entry
from clocs.datasets.dataset import Options
from clocs.formats.writing import write
from clocs.store.ingest import ingest
from clocs.store.store import Store
from clocs.store.verify import verify
from tests.conftest import make_recording

NAMES = tuple("abcdefghij")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write ten CSV files of one lead each. ``c`` and ``h`` are too short to be stored."""
    folder = tmp_path_factory.mktemp("files")
    for seed, name in enumerate(NAMES):
        num_samples = 300 if name in "ch" else 1000 + seed
        write(
            make_recording(("II",), num_samples=num_samples, seed=seed, record_id=name), folder / f"{name}.csv", "csv"
        )
    return folder


class Counting:
    """The folder dataset in tasks of three recordings. It records the files that were read."""

    def __init__(self) -> None:
        self.read: list[str] = []
        folder = DATASETS.get("folder")

        def load(source: Source, entry: Entry, options: Options) -> Recording:
            self.read.append(entry.file.removesuffix(".csv"))
            return folder.load(source, entry, options)

        self.dataset: Dataset = replace(folder, load=load, records_per_shard=3)


def grow(files: Path, source: Path, names: str, store: Path) -> tuple[Store, str]:
    """Return the store of an archive with these files, and the files that were read."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    for name in names:
        shutil.copy(files / f"{name}.csv", source)
    counting = Counting()
    made = ingest(counting.dataset, source, store)
    return made, "".join(counting.read)


def stored(store: Store) -> list[str]:
    return sorted(store.table(["record_id"]).column(0).to_pylist())


def test_only_new_files_are_read(files: Path, tmp_path: Path) -> None:
    source, store = tmp_path / "source", tmp_path / "store"
    first, read = grow(files, source, "bcdgh", store)
    assert (read, stored(first)) == ("bcdgh", ["b", "d", "g"])
    second, read = grow(files, source, "abcdefgh", store)
    assert (read, stored(second), second.manifest.version) == ("aef", ["a", "b", "d", "e", "f", "g"], 2)
    assert {shard.file for shard in first.shards} <= {shard.file for shard in second.shards}
    assert (second.manifest.records_in, second.manifest.quarantined) == (8, {"short": 2})
    again, read = grow(files, source, "abcdefgh", store)
    assert (read, again.manifest) == ("", second.manifest)
    assert verify(store) == []


@pytest.mark.parametrize(("gone", "neighbours"), [("d", "ab"), ("g", "ef")])
def test_deleted_files_are_removed_and_their_tasks_read_again(
    gone: str, neighbours: str, files: Path, tmp_path: Path
) -> None:
    source, store, left = tmp_path / "source", tmp_path / "store", "abdefg".replace(gone, "")
    grow(files, source, "abdefg", store)
    fewer, read = grow(files, source, left, store)
    assert (read, stored(fewer)) == (neighbours, list(left))
    again, read = grow(files, source, left, store)
    assert (read, again.manifest) == ("", fewer.manifest)


def test_a_changed_file_is_read_again(files: Path, tmp_path: Path) -> None:
    source, store = tmp_path / "source", tmp_path / "store"
    grow(files, source, "abdef", store)
    write(make_recording(("II",), num_samples=2000, seed=99), source / "e.csv", "csv", overwrite=True)
    counting = Counting()
    made = ingest(counting.dataset, source, store)
    assert "e" in counting.read
    assert set(counting.read) <= set("ef")
    assert made.recording("e").num_samples == 2000
    assert stored(made) == ["a", "b", "d", "e", "f"]


def test_finished_tasks_of_a_killed_ingest_are_not_repeated(files: Path, tmp_path: Path) -> None:
    """The manifest is missing, as after a kill, and the archive has new files at the front."""
    source, store = tmp_path / "source", tmp_path / "store"
    grow(files, source, "bdefgi", store)
    (store / "manifest-000001.json").unlink()
    made, read = grow(files, source, "abdefgi", store)
    assert (read, stored(made)) == ("a", list("abdefgi"))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sets(st.sampled_from(NAMES), min_size=1), min_size=2, max_size=4))
def test_the_store_holds_the_current_files_after_any_changes(
    files: Path, tmp_path_factory: pytest.TempPathFactory, stages: list[set[str]]
) -> None:
    place = tmp_path_factory.mktemp("stages")
    for names in stages:
        made, _ = grow(files, place / "source", "".join(sorted(names)), place / "store")
        assert stored(made) == sorted(names - {"c", "h"})
        assert made.manifest.records_in == len(names)
        again, read = grow(files, place / "source", "".join(sorted(names)), place / "store")
        assert (read, again.manifest) == ("", made.manifest)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_changed_row_affects_only_its_own_file(files: Path, tmp_path: Path, keyed: bool) -> None:
    """The manifest names the new table. Only recordings with changed rows are read again."""
    source, store, table = tmp_path / "source", tmp_path / "store", tmp_path / "table.csv"
    grow(files, source, "abdefgij", tmp_path / "other")
    options: dict[str, object] = {"table": table}
    if keyed:
        make_key(tmp_path / "key")
        options["key"] = tmp_path / "key"

    def read(rows: str) -> tuple[str, Store]:
        table.write_text(f"file,patient_id\n{rows}")
        counting = Counting()
        made = ingest(counting.dataset, source, store, options=options)
        return "".join(sorted(counting.read)), made

    first, before = read("a,1\n")
    second, after = read("a,1\nb,1\n")
    assert (first, second) == ("abdefgij", "abd"), "a task of three, of which one has changed"
    assert (before.manifest.options == after.manifest.options) is not keyed
    assert read("b,1\na,1\n")[0] == ""
