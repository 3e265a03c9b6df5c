"""Every number in the report, the README and the docs' marked blocks comes from the committed results."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import matplotlib
import pytest

from clocs.core.files import unseal
from clocs.evaluation.compact_scores import load_compact
from clocs.evaluation.results import differences
from clocs.experiments.report.build import make_report
from clocs.experiments.report.estimates import FILE, REPLICATES, mean_interval
from clocs.experiments.report.marked_blocks import OPENING
from clocs.experiments.report.reading import LEVELS, Results
from clocs.training.shipped import shipped_encoders
from tests.conftest import ROOT

RESULTS, REPORT = ROOT / "results", ROOT / "docs" / "results"
PICTURE = re.compile(r"data:image/svg\+xml;base64,[\w+/=]+")


def marked_pages() -> list[Path]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), RESULTS / "README.md"]
    return [path for path in pages if OPENING.search(path.read_text(encoding="utf-8"))]


def drawn_by_this_matplotlib() -> bool:
    """Other releases draw the same picture with other bytes."""
    drawn = [path.read_text(encoding="utf-8") for path in (REPORT / "images").glob("*.svg")]
    return all(f"Matplotlib v{matplotlib.__version__}," in text for text in drawn)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report and all marked pages, made anew from a copy of the results."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(RESULTS, folder / "results", ignore=shutil.ignore_patterns("encoders"))
    pages = []
    for path in marked_pages():
        pages.append(folder / path.relative_to(ROOT))
        pages[-1].parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, pages[-1])
    computed: list[str] = []
    make_report(folder / "results", folder / "docs" / "results", pages, computed.append)
    assert computed == [], "results/intervals.json lacks intervals: run 'make report' and commit what it writes"
    return folder


def test_the_report_is_what_the_results_make(made: Path) -> None:
    new, old = (
        {path.relative_to(folder): path for path in folder.rglob("*.*")} for folder in (made / "docs/results", REPORT)
    )
    assert new.keys() == old.keys(), "run 'make report'"
    for name, path in new.items():
        mine, theirs = (each.read_text(encoding="utf-8") for each in (path, old[name]))
        if not drawn_by_this_matplotlib():
            if name.suffix == ".svg":
                continue
            mine, theirs = (PICTURE.sub("", text) for text in (mine, theirs))
        assert mine == theirs, f"docs/results/{name} is not what results/ make: run 'make report'"


@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in marked_pages()])
def test_a_marked_page_has_the_numbers_of_the_results(made: Path, page: str) -> None:
    assert (made / page).read_bytes() == (ROOT / page).read_bytes(), f"{page} is not what results/ make: 'make report'"


def test_one_command_fills_all_marked_pages() -> None:
    (line,) = re.findall(r"-m clocs report (.*)", (ROOT / "Makefile").read_text())
    assert {ROOT / name for name in line.split()} == set(marked_pages())


def test_shipped_encoders_were_judged_as_they_are_shipped() -> None:
    judged = {
        (found.cell["shipped"], found.body["weights"]) for found in Results(RESULTS).finished if "shipped" in found.cell
    }
    shipped = {
        (name, unseal((folder / "config.json").read_bytes(), name)["weights_sha256"])
        for name, folder in shipped_encoders().items()
    }
    assert judged == shipped, "an encoder was changed: delete its cells in results/ and run 'clocs reproduce in-use'"


def test_intervals_are_kept_as_they_were(made: Path) -> None:
    assert (made / "results" / FILE).read_bytes() == (RESULTS / FILE).read_bytes()


def entries() -> list[dict[str, dict[str, float] | list[str]]]:
    return list(json.loads((RESULTS / FILE).read_bytes()).values())


def check(entry: dict[str, dict[str, float] | list[str]]) -> None:
    sides = [[load_compact(RESULTS / "scores" / f"{name}.npz") for name in entry[side]] for side in ("first", "second")]
    for level in LEVELS:
        if sides[1]:
            found = differences(*sides, among=[level], replicates=REPLICATES)[level].as_dict()
        else:
            found = mean_interval(sides[0], level).as_dict()
        assert {name: found[name] for name in ("value", "low", "high")} == pytest.approx(entry[level], abs=2e-6)


def test_an_interval_comes_out_of_the_scores_again() -> None:
    """One that is quickly drawn; all of them in the slow test below."""

    def size(entry: dict[str, dict[str, float] | list[str]]) -> int:
        names = [*entry["first"], *entry["second"]]
        return sum((RESULTS / "scores" / f"{name}.npz").stat().st_size for name in names)

    check(min(entries(), key=size))


@pytest.mark.slow
def test_all_intervals_come_out_of_the_scores_again() -> None:
    for entry in entries():
        check(entry)


def test_every_evaluation_has_its_scores() -> None:
    lacking = [each.name for each in Results(RESULTS).judged if not each.scores.exists()]
    assert lacking == []
