"""``clocs data split``, ``check-leaks`` and ``tasks``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def store(command: Command) -> str:
    command("data", "ingest", "synthetic", "-", "store", "-o", "num_records=12", "-o", "seconds=5")
    return "store"


def test_a_split_from_lists_of_patients(command: Command, store: str, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("P0000000\nP0000001\nP0000002\n")
    (tmp_path / "test.csv").write_text("patient_id,age\nP0000003,50\n")
    words = ("data", "split", store, "--by", "patient_id", "--train", "@train.txt", "--test", "@test.csv")
    assert json.loads(command(*words, "--json")[0])["records"] == {"train": 6, "validation": 0, "test": 2, "unused": 4}


def test_a_split_from_a_table_with_duplicates(command: Command, store: str, tmp_path: Path) -> None:
    (tmp_path / "parts.csv").write_text("record_id,part\n0000000,train\n0000001,train\n0000002,test\n")
    words = ("data", "split", store, "--table", "parts.csv", "--name", "list", "--allow-duplicates")
    out = command(*words)[0]
    assert "split 'list'" in out
    assert "0 recordings have an identical signal in another part" in out
    assert "made with --allow-duplicates" in command("data", "check-leaks", store, "--split", "list")[0]
    assert json.loads(command("data", "check-leaks", store, "--split", "list", "--json")[0])["shared_signals"] == 0


def test_ways_of_splitting_exclude_each_other(command: Command, store: str) -> None:
    assert "no published split 'folds'" in command("data", "split", store, "--published", "folds", code=1)[1]
    both = ("--published", "folds", "--table", "parts.csv")
    assert "exclude each other" in command("data", "split", store, *both, code=1)[1]


def test_tasks_are_listed_with_the_recordings_of_each_part(command: Command, store: str) -> None:
    command("data", "split", store)
    listed = json.loads(command("data", "tasks", store, "--split", "default", "--json")[0])["tasks"]
    assert list(listed) == ["age", "findings", "rhythm", "sex"]
    assert sum(listed["rhythm"]["recordings"].values()) == 12
    assert sum(sum(part.values()) for part in listed["rhythm"]["positives"].values()) == 12
    out = command("data", "tasks", store)[0]
    assert "multi-class" in out
    assert "regression" in out


def test_a_dataset_lists_its_tasks_and_published_splits(command: Command) -> None:
    about = json.loads(command("data", "info", "ptbxl", "--json")[0])
    assert list(about["splits"]) == ["folds"]
    assert len(about["tasks"]["super"]["classes"]) == 5
    assert "Diagnostic superclasses" in " ".join(command("data", "info", "ptbxl")[0].split())
