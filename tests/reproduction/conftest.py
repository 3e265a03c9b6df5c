"""A workspace with a small synthetic store; reports of made-up results."""

from __future__ import annotations

from pathlib import Path

import pytest

import clocs
from clocs.experiments.workspace import Workspace
from reproduction.cells import Evaluation
from reproduction.experiments import EXPERIMENTS
from reproduction.report.build import make_report
from reproduction.search import trial
from tests.reproduction.results_factory import method_of, write_results

SEEDS = {"table1": 3, "variants": 1, "table2": 1, "figure4": 2, "figure6": 1}
"""Number of seeds of complete results."""


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options={"num_records": 160, "leads": 1}))
    return folder


@pytest.fixture
def workspace(stores: Path, tmp_path: Path) -> Workspace:
    return Workspace(stores, tmp_path / "runs", tmp_path / "results")


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``results`` of everything there is, and the report made of it in ``report``."""
    folder = tmp_path_factory.mktemp("complete")
    cells = [cell for name, seeds in SEEDS.items() for cell in EXPERIMENTS[name].cells(range(seeds))]
    write_results(folder / "results", [*cells, trial("base")])
    make_report(folder / "results", folder / "report")
    return folder


@pytest.fixture(scope="session")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with CMSC, random weights and supervised training on Chapman."""
    folder = tmp_path_factory.mktemp("sparse")
    table1 = [cell for cell in EXPERIMENTS["table1"].cells(range(1)) if isinstance(cell, Evaluation)]
    chosen = [cell for cell in table1 if cell.dataset == "chapman" and method_of(cell) in ("random", "cmsc")]
    write_results(folder / "results", chosen)
    make_report(folder / "results", folder / "report")
    return folder
