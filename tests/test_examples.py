"""Tests that every example runs with few recordings and prints its result."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import clocs
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MAX_LINES = 80


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of synthetic recordings with a split, as the examples create it."""
    folder = tmp_path_factory.mktemp("examples") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": 160}))
    return folder


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(
    path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run an example as a script in this process, because importing torch takes longer than the example."""
    epochs = [] if "--epochs" not in path.read_text() else ["--epochs", "1"]
    monkeypatch.setattr(sys, "argv", [str(path), "--store", str(store), *epochs])
    runpy.run_path(str(path), run_name="__main__")
    scores = [float(value) for value in re.findall(r"macro AUC (\d\.\d+)", capsys.readouterr().out)]
    assert scores
    assert all(0 < value <= 1 for value in scores)


def test_an_example_is_short_and_there_is_one_for_every_kind_of_method() -> None:
    names = {path.stem for path in EXAMPLES}
    assert {"byol", "cmsc", "cmsmlc", "cpc", "jepa", "mae", "simclr", "vicreg"} <= names
    assert {"finetune_shipped", "sklearn_pipeline"} <= names
    assert all(len(path.read_text().splitlines()) <= MAX_LINES for path in EXAMPLES)
