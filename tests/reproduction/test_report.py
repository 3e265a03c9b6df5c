"""The report from complete results and from sparse ones."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from reproduction.cells import LEVELS, Level
from reproduction.experiments import finetuned, linear, variant
from reproduction.report.build import make_report
from reproduction.report.estimates import CHOICES, Estimates
from reproduction.report.page import DASH, DATASET_NAMES, METHOD_NAMES
from reproduction.report.paper_tables import ALL_METHODS
from reproduction.report.pretrainings import LAST_EPOCHS
from reproduction.report.results import Results
from tests.reproduction import paper_tables
from tests.reproduction.results_factory import FIGURES


def text_of(folder: Path) -> str:
    return (folder / "report" / "reproduction.md").read_text(encoding="utf-8")


def part(folder: Path, start: str, end: str = "\n## ") -> str:
    return text_of(folder).split(f"{start}\n", 1)[1].split(end, 1)[0]


def rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows, without titles."""
    found = [
        line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines() if line.startswith("| ")
    ]
    return [row for row, after in zip(found, [*found[1:], [""]], strict=True) if row[0] != "---" and after[0] != "---"]


@pytest.mark.parametrize("dataset", ["chapman", "physionet2020"])
@pytest.mark.parametrize("level", LEVELS)
def test_table_1_has_both_encoders_beside_the_paper(complete: Path, dataset: str, level: Level) -> None:
    start = LEVELS.index(level) * len(ALL_METHODS)
    found = rows(part(complete, f"### {DATASET_NAMES[dataset]}", "### "))[start : start + len(ALL_METHODS)]
    assert [row[0] for row in found] == [METHOD_NAMES[method] for method in ALL_METHODS]
    estimates = Estimates(Results(complete / "results"))
    for method, row in zip(ALL_METHODS, found, strict=True):
        means = [estimates.auc(partial(linear, method, dataset), level, choice) for choice in CHOICES]
        expected = [f"{mean.value:.3f} ± {mean.deviation:.3f}" for mean in means if mean is not None]
        if method in ("random", "supervised"):
            expected[1] = DASH
        assert [entry.split(" (")[0] for entry in row[-3:-1]] == expected
        assert row[-1] == "3"
    values = {row[0]: row for row in found}
    assert values["CMSC"][-3] == values["CMSC"][-2]  # its lowest loss has the best validation AUC
    assert values["SimCLR"][-3] != values["SimCLR"][-2]


def test_table_1_has_the_values_of_the_paper(complete: Path) -> None:
    found = [rows(part(complete, f"### {name}", "### "))[: len(ALL_METHODS)] for name in ("Chapman", "PhysioNet 2020")]
    chapman, physionet = ({row[0]: row[1] for row in each} for each in found)
    assert (chapman["CMSC"], physionet["CMSC"]) == ("0.896 ± 0.005", "0.715 ± 0.033")
    assert chapman["supervised"] == "0.907 ± 0.006 (table 2)"  # random weights in table 2
    assert physionet["supervised"] == "0.803 ± 0.008 (table 2)"
    assert chapman["random weights"] == DASH


def test_every_pretraining_says_how_it_stopped(complete: Path) -> None:
    """By the factory: CMSC's loss falls by 0.01 an epoch to the last, BYOL's rises, the others lose patience."""
    chapman, physionet = (
        {row[0]: row[1:] for row in rows(part(complete, f"### {name}", "### "))[2 * len(ALL_METHODS) :]}
        for name in ("Chapman", "PhysioNet 2020")
    )
    assert chapman["CMSC, seed 2 (stopped at 400 epochs)"] == ["400", "400", "−0.150", "1.5"]  # 600 s in all
    assert chapman["SimCLR, seed 0 (stopped by patience after 60 epochs)"] == ["45", "25", "+0.150", "10.0"]
    assert physionet["BYOL, seed 1 (stopped at 100 epochs)"] == ["1", "1", "+0.150", "6.0"]
    assert "CMSC, seed 0, a split that leaks (stopped at 400 epochs)" in physionet
    assert physionet.keys() - chapman.keys() == {name for name in physionet if name.count(",") == 2}
    assert LAST_EPOCHS == 15


def test_tables_2_and_4_have_values_seeds_and_the_paper(complete: Path) -> None:
    estimates = Estimates(Results(complete / "results"))
    chapman, physionet = (
        {row[0]: row for row in rows(part(complete, f"### After pre-training on {name}", "##"))[: len(ALL_METHODS)]}
        for name in ("Chapman", "PhysioNet 2020")
    )
    mean = estimates.auc(partial(finetuned, "cmsmlc", "chapman", "cardiology"), "frame")
    assert mean is not None
    assert chapman["CMSMLC"][1] == f"{mean.value:.3f} (1 seed; paper 0.717 ± 0.006)"
    assert physionet["MT-SSL"][3].endswith("(1 seed; paper 0.923 ± 0.007)")
    fractions = rows(part(complete, "### Chapman → PhysioNet 2017", "### "))
    assert [row[0] for row in fractions] == 2 * ["random weights", "CMSC", "SimCLR"]
    assert [re.search(r"paper (\S+)", entry)[1] for entry in fractions[1][1:]] == ["0.768", "0.773", "0.804"]  # type: ignore[index]
    assert all("2 seeds" in row[1] for row in fractions)


def test_variants_are_compared_with_cmsc(complete: Path) -> None:
    text = part(complete, "## What differs from the paper, and why")
    base, *_, leaking = rows(text)[:5]
    assert (base[0], leaking[0]) == ("CMSC by the paper's equations", "a split that leaks")
    assert base[3] == DASH
    estimates = Estimates(Results(complete / "results"))
    cells = (partial(variant, "a split that leaks"), partial(linear, "cmsc", "physionet2020"))
    runs = [estimates.runs(cell) for cell in cells]
    difference = estimates.difference(runs[0], runs[1], "frame")
    assert difference is not None
    assert leaking[3].startswith(f"{difference.value:+.3f}".replace("-", "−"))
    assert f"a split that leaks {difference.value:+.3f}".replace("-", "−") in text


def test_missing_results_have_their_cost(sparse: Path) -> None:
    """Of CMSC on Chapman one seed of three is done, and nothing of the others but random weights."""
    found = {row[0]: row for row in rows(part(sparse, "### Chapman", "### "))[: len(ALL_METHODS)]}
    assert (found["CMSC"][4], found["SimCLR"][4]) == ("1 of 3", "0 of 3")
    assert re.fullmatch(r"not done \(about .* min\)", found["SimCLR"][2])
    transfers = rows(part(sparse, "### After pre-training on Chapman", "### "))
    assert re.fullmatch(r"not done \(about .* min; paper 0\.695 ± 0\.024\)", transfers[5][1])
    assert transfers[-1][1:] == ["not done"] * 3  # per recording
    assert "These variants are not done yet." in text_of(sparse)


def test_planned_cells_are_counted(complete: Path, sparse: Path) -> None:
    """By hand, with pre-trainings: three seeds of two methods and random weights, two of three others and supervised,
    one of MT-SSL; fine-tunings without those of random weights that are table 1's supervised training."""
    planned = {"all": 138, "Linear evaluation (Table 1)": 62, "Fewer labels (Figure 4)": 12}
    for folder, done in ((sparse, 4), (complete, 138 - 14)):  # the second seed of table 2 is not in the fixture
        found = {row[0]: row for row in rows(part(folder, "## Cost"))}
        assert {name: int(found[name][1]) for name in planned} == planned
        assert int(found["all"][2]) == done


def test_claims_have_verdicts_and_differences(complete: Path, sparse: Path) -> None:
    claims = part(complete, "## Claims").split("\n\n**")[1:]
    assert len(claims) == 9
    first, second = claims[:2]
    assert first.startswith("CMSC is above SimCLR on Chapman.** Section 6.2, line 222. The paper's difference: 0.158.")
    assert "Verdict per frame and per recording: **holds**." in first
    ((name, *differences, seeds),) = rows(first)
    assert (name, seeds, len(differences)) == ("CMSC − SimCLR, Chapman", "3", 4)  # two levels, two encoders
    assert all(re.fullmatch(r"\+0\.\d{3} \(.* to .*\)", each) for each in differences)
    assert len(rows(second)) == 4
    assert all("**too few seeds**" in each for each in claims[3:])
    assert re.search(r"Measured per frame.*: in \d+ of 36 experiments, with 1 seed or more", claims[3])
    assert part(sparse, "## Claims").count("**not done**.") == 9


def test_contradictions_of_the_paper_are_listed(sparse: Path) -> None:
    found = rows(part(sparse, "## Appendix: contradictions in the paper's own tables"))
    assert len(found) == 17


def test_figures_are_drawn_from_available_results(complete: Path, sparse: Path) -> None:
    assert {path.stem for path in (complete / "report" / "images").iterdir()} == FIGURES
    assert set(re.findall(r"\]\(images/(.*?)\.svg\)", text_of(complete))) == FIGURES
    assert [path.stem for path in (sparse / "report" / "images").iterdir()] == ["figure-learning-chapman"]
    assert text_of(sparse).count("\nNot done.\n") == 2


def test_a_stale_figure_is_deleted(sparse: Path, tmp_path: Path) -> None:
    old, other = tmp_path / "images" / "figure-3-cmsc.svg", tmp_path / "images" / "mine.svg"
    old.parent.mkdir()
    old.write_text("<svg/>")
    other.write_text("<svg/>")
    make_report(sparse / "results", tmp_path)
    assert (old.exists(), other.exists()) == (False, True)


def test_equal_results_make_equal_bytes(sparse: Path, tmp_path: Path) -> None:
    make_report(sparse / "results", tmp_path)
    for path in tmp_path.rglob("*.*"):
        assert path.read_bytes() == (sparse / "report" / path.relative_to(tmp_path)).read_bytes()


def test_names_are_those_of_the_paper() -> None:
    usual = {**paper_tables.METHOD_NAMES, "random": "random weights", "supervised": "supervised"}
    assert usual == METHOD_NAMES
    assert paper_tables.DATASET_NAMES == DATASET_NAMES
