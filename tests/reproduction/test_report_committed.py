"""Every number in the report, the README and the docs' marked blocks comes from the committed results."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import matplotlib
import pytest

from clocs.core.hashes import unseal
from clocs.training.shipped import shipped_encoders
from reproduction.cells import LEVELS, Evaluation
from reproduction.report.build import make_report
from reproduction.report.marked_blocks import OPENING
from reproduction.report.results import Results
from tests.conftest import ROOT

RESULTS, REPORT = ROOT / "results", ROOT / "docs" / "results"


def marked_pages() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*/*.md"), RESULTS / "README.md"]
    return [path for path in pages if OPENING.search(path.read_text(encoding="utf-8"))]


def drawn_by_this_matplotlib() -> bool:
    """Other releases draw the same picture with other bytes."""
    drawn = [path.read_text(encoding="utf-8") for path in (REPORT / "images").glob("*.svg")]
    return all(f"Matplotlib v{matplotlib.__version__}," in text for text in drawn)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report and all marked pages, made anew from a copy of the results."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(RESULTS, folder / "results")
    pages = []
    for path in marked_pages():
        pages.append(folder / path.relative_to(ROOT))
        pages[-1].parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, pages[-1])
    make_report(folder / "results", folder / "docs" / "results", pages)
    return folder


def test_the_committed_report_is_up_to_date(made: Path) -> None:
    new, old = (
        {path.relative_to(folder): path for path in folder.rglob("*.*")} for folder in (made / "docs/results", REPORT)
    )
    assert new.keys() == old.keys(), "run 'make report'"
    for name, path in new.items():
        if name.suffix == ".svg" and not drawn_by_this_matplotlib():
            continue
        assert path.read_bytes() == old[name].read_bytes(), (
            f"docs/results/{name} is not what results/ make: run 'make report'"
        )


@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in marked_pages()])
def test_marked_blocks_are_up_to_date(made: Path, page: str) -> None:
    assert (made / page).read_bytes() == (ROOT / page).read_bytes(), f"{page} is not what results/ make: 'make report'"


def test_one_command_fills_all_marked_pages() -> None:
    (line,) = re.findall(r"-m reproduction report (.*)", (ROOT / "Makefile").read_text())
    assert {ROOT / name for name in line.split()} == set(marked_pages())


def test_shipped_encoders_have_the_weights_that_were_evaluated() -> None:
    judged = {
        (found.cell.shipped, found.row["origin"]["weights"])
        for found in Results(RESULTS).finished
        if isinstance(found.cell, Evaluation) and found.cell.shipped
    }
    benchmarked = {
        (row["cell"]["encoder"], row["origin"]["weights"])
        for row in json.loads((RESULTS / "benchmark.json").read_bytes())["rows"]
        if "weights" in row["origin"]
    }
    shipped = {
        (name, unseal((folder / "config.json").read_bytes(), name)["weights_sha256"])
        for name, folder in shipped_encoders().items()
    }
    assert judged <= shipped, "an encoder was changed: delete its rows and run 'python -m reproduction run in-use'"
    assert benchmarked <= shipped, "an encoder was changed: run 'clocs benchmark' again"
    assert shipped == judged | benchmarked, "an encoder was not evaluated"


def test_results_are_small() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert len(files) < 50
    assert sum(path.stat().st_size for path in files) < 10_000_000
    assert not [path for path in files if path.suffix in (".safetensors", ".npz", ".npy")]


def test_every_evaluation_has_its_replicates() -> None:
    tested = Results(RESULTS).tested
    assert [each.name for each in tested if each.replicates.keys() != set(LEVELS)] == []
    kept = [each for each in tested if each.by_epochs]
    assert [each.name for each in kept if each.kept_replicates.keys() != set(LEVELS)] == []


def test_replicates_spread_around_their_value() -> None:
    tested = Results(RESULTS).tested
    for each in (*tested, *(each.by_validation_auc() for each in tested if each.best_kept_epochs)):
        for level in LEVELS:
            value = each.auc(level)["value"]
            assert each.replicates[level].values.mean() == pytest.approx(value, abs=0.02), each.name
