"""``clocs data withdraw``, ``prune`` and ``compact``, and ``clocs archive``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clocs.datasets import DATASETS
from clocs.formats.writing import write
from clocs.similarity.index.updates import build_index
from clocs.store.ingest import ingest
from clocs.store.splits import make_split
from clocs.store.store import Store, open_store
from clocs.training.encoder_folder import write_config
from clocs.training.seen_recordings import save_seen_keys, seen_keys
from tests.cli.conftest import Clocs, Command
from tests.conftest import make_recording
from tests.similarity.archives import clustered, write_archive


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store of four patients in four shards."""
    (tmp_path / "source").mkdir()
    for seed, name in enumerate("abcd"):
        write(make_recording(("II",), seed=seed, record_id=name), tmp_path / "source" / f"{name}.csv", "csv")
    dataset = replace(DATASETS.get("folder"), records_per_shard=1)
    made = ingest(dataset, tmp_path / "source", tmp_path / "store")
    (tmp_path / "ids.txt").write_text("a\n\n", encoding="utf-8")
    return made


def test_a_patient_is_withdrawn_and_pruned(store: Store, command: Command, clocs: Clocs) -> None:
    make_split(store)
    said, _ = command("data", "withdraw", "store", "--from", "ids.txt")
    assert "versions that still hold the patients: 1" in said
    assert "splits that still hold the patients: default" in said
    assert "clocs data prune store" in said
    again = json.loads(clocs("data", "withdraw", "store", "--from", "ids.txt", "--json"))
    assert (again["version"], again["patients"], again["already_withdrawn"], again["splits"]) == (2, 0, 1, ["default"])
    assert "of withdrawn patients, left out" in clocs("data", "ingest", "folder", "source", "store")
    assert json.loads(clocs("data", "info", "store", "--json"))["withdrawn"] == 1
    listed = clocs("data", "prune", "store", "--grace-hours", 0)
    assert "manifest-000001.json" in listed
    assert "Nothing was deleted" in listed
    assert (store.folder / "manifest-000001.json").exists()
    assert json.loads(clocs("data", "prune", "store", "--json"))["files"] == []
    done = json.loads(clocs("data", "prune", "store", "--keep", 1, "--grace-hours", 0, "--yes", "--json"))
    assert (done["versions"], done["deleted"]) == ([1], True)
    assert not (store.folder / "manifest-000001.json").exists()
    assert "all files match" in clocs("data", "verify", "store")


def test_an_unknown_id_is_named_with_the_option_to_allow_it(store: Store, command: Command, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("a\nzz\n", encoding="utf-8")
    _, errors = command("data", "withdraw", "store", "--from", "ids.txt", code=1)
    assert "No patient zz in store" in errors
    assert "--allow-unknown" in errors
    said, _ = command("data", "withdraw", "store", "--from", "ids.txt", "--allow-unknown", "--json")
    assert json.loads(said)["unknown"] == 1


def test_encoders_that_have_seen_the_patient_are_named(store: Store, clocs: Clocs, tmp_path: Path) -> None:
    split = make_split(store)
    split.parts[:] = [0, 1, 2, 2]
    keys = {"seen": seen_keys(store, split), "other": np.array([1, 2], np.uint64)}
    for name, values in keys.items():
        (tmp_path / name).mkdir()
        about = {"weights_sha256": "", "seen_sha256": save_seen_keys(tmp_path / name, values)}
        write_config(tmp_path / name, about)
    (tmp_path / "silent").mkdir()
    write_config(tmp_path / "silent", {"weights_sha256": ""})
    encoders = [part for name in ("seen", "other", "silent") for part in ("--encoder", name)]
    done = json.loads(clocs("data", "withdraw", "store", "--from", "ids.txt", *encoders, "--json"))
    assert done["encoders"] == {"seen": True, "other": False, "silent": None}
    again = clocs("data", "withdraw", "store", "--from", "ids.txt", *encoders)
    assert "encoder seen has seen recordings of the patients" in again


def test_shards_are_merged(store: Store, clocs: Clocs) -> None:
    assert json.loads(clocs("data", "compact", "store", "--json")) == {
        "store": "store",
        "version": 2,
        "shards_before": 4,
        "shards": 1,
    }
    assert "shards before" in clocs("data", "compact", "store")
    assert [item.record_id for item in open_store(store.folder)] == [*"abcd"]


def test_archives_and_indexes_that_hold_the_patient_are_named_with_the_command(
    store: Store, clocs: Clocs, tmp_path: Path
) -> None:
    rows = [{"record_id": name, "patient_id": name, "extra": {"device": f"CS-{name}"}} for name in "abcd"]
    build_index(write_archive(tmp_path / "archive", rows, clustered(4, 8)), tmp_path / "index")
    assert "clocs archive withdraw ARCHIVE --from ids.txt" in clocs("data", "withdraw", "store", "--from", "ids.txt")
    named = ("data", "withdraw", "store", "--from", "ids.txt", "--archive", "archive", "--index", "index")
    for kind in ("archive", "index"):
        assert f"{kind} {kind} holds 1 of the patients: clocs {kind} withdraw {kind} --from ids.txt" in clocs(*named)
    said = clocs("archive", "withdraw", "archive", "--from", "ids.txt")
    assert "versions that still hold the patients: 1. To delete them: clocs archive prune archive" in said
    assert json.loads(clocs("index", "withdraw", "index", "--from", "ids.txt", "--json"))["patients"] == 1
    assert json.loads(clocs(*named, "--json"))["archives"] == {"archive": 1}
    assert "Nothing was deleted" in clocs("archive", "prune", "archive", "--grace-hours", 0)
    done = json.loads(clocs("archive", "prune", "archive", "--grace-hours", 0, "--yes", "--json"))
    assert (done["archive"], done["versions"], done["deleted"]) == ("archive", [1], True)
    assert json.loads(clocs(*named, "--json"))["archives"] == {"archive": 0}
    assert "archive archive does not hold the patients" in clocs(*named)
    again = json.loads(clocs("archive", "withdraw", "archive", "--from", "ids.txt", "--json"))
    assert (again["version"], again["patients"], again["already_withdrawn"]) == (2, 0, 1)
    found = json.loads(clocs("similar", "b", "--index", "index", "--where", "device=CS-d", "--json"))
    assert [item["patient_id"] for item in found["neighbours"]] == ["d"]
