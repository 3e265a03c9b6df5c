"""Every example runs as it is, with few recordings, and says what it found."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import clocs
from tests.conftest import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
MOST_LINES = 80


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Synthetic recordings with a split, as the examples make them."""
    folder = tmp_path_factory.mktemp("examples") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"records": 160}))
    return folder


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, store: Path, tmp_path: Path) -> None:
    epochs = [] if "--epochs" not in path.read_text() else ["--epochs", "1"]
    done = subprocess.run(
        [sys.executable, str(path), "--store", str(store), *epochs],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [float(value) for value in re.findall(r"macro AUC (\d\.\d+)", done.stdout)]
    assert found
    assert all(0 < value <= 1 for value in found)


def test_an_example_is_short_and_there_is_one_for_every_kind_of_method() -> None:
    names = {path.stem for path in EXAMPLES}
    assert {"cmsc", "cmsmlc", "simclr", "vicreg", "cpc", "mae", "jepa", "finetune_shipped", "sklearn_pipeline"} <= names
    assert all(len(path.read_text().splitlines()) <= MOST_LINES for path in EXAMPLES)
