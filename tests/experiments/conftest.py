"""A place with a small synthetic store."""

from __future__ import annotations

from pathlib import Path

import pytest

import clocs
from clocs.experiments.cells import Place


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options={"records": 160, "leads": 1}))
    return folder


@pytest.fixture
def place(stores: Path, tmp_path: Path) -> Place:
    return Place(stores, tmp_path / "runs", tmp_path / "results")
