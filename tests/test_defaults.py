"""A changed default is another result: it needs another schema number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clocs.core.run_identity import SCHEMA
from tests import defaults
from tests.defaults import ADVICE, FILE, all_defaults, renamed


def test_no_default_changed_without_a_new_schema_number() -> None:
    known = json.loads(FILE.read_text())
    changed = list(renamed(known["defaults"], all_defaults()))
    assert not changed or known["schema"] != SCHEMA, f"these defaults changed: {changed}; {ADVICE}"


def test_the_table_is_that_of_the_code() -> None:
    known = {"schema": SCHEMA, "defaults": json.loads(json.dumps(all_defaults()))}
    assert json.loads(FILE.read_text()) == known, "run 'python -m tests.defaults' and commit tests/defaults.json"


def test_the_table_has_every_part() -> None:
    known = all_defaults()
    assert known["PretrainConfig"]["batch_size"] == 256
    assert known["method cmsc"]["temperature"] == 0.1
    assert known["encoder resnet"]["width"] == 24
    assert known["augmentation gaussian_noise"]["sigma"] == 0.01
    assert known["config simclr-cardiology"]["batch_size"] == 16
    assert not {"store", "runs", "num_threads"} & known["PretrainConfig"].keys()


def test_changed_and_missing_defaults_are_found_and_new_ones_are_not() -> None:
    old = {"method a": {"x": 1, "y": 2}, "method b": {"x": 1}}
    assert list(renamed(old, {**old, "method c": {"x": 1}})) == []
    assert list(renamed(old, {"method a": {"x": 1, "y": 3, "z": 4}})) == ["method a: y", "method b: x"]
    assert list(renamed({"config a": {}}, {"config a": {"batch_size": 16}})) == ["config a: batch_size"]


def test_a_changed_default_is_not_written_under_the_same_schema_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "defaults.json"
    monkeypatch.setattr(defaults, "FILE", path)
    assert defaults.main() == 0
    table = json.loads(path.read_text())
    table["defaults"]["method cmsc"]["temperature"] = 0.7
    path.write_text(json.dumps(table))
    assert defaults.main() == 1
    assert "method cmsc: temperature; raise SCHEMA" in capsys.readouterr().err
    path.write_text(json.dumps({**table, "schema": SCHEMA - 1}))
    assert defaults.main() == 0
    assert json.loads(path.read_text())["defaults"]["method cmsc"]["temperature"] == 0.1
