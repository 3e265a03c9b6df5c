"""The report from complete results and from sparse ones: what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reproduction.beyond import COMPARED
from reproduction.cells import EPOCHS, LEVELS, Evaluation, Pretraining
from reproduction.experiments import EXPERIMENTS
from reproduction.report.build import make_report
from reproduction.report.estimates import Estimates
from reproduction.report.page import DASH, DATASET_NAMES, METHOD_NAMES
from reproduction.report.results import Results, condition
from reproduction.report.runs_page import limits
from tests.reproduction import paper_tables
from tests.reproduction.results_factory import FIGURES, LEARNING, usual_strength, write_results


def page(folder: Path, name: str) -> str:
    return (folder / "report" / f"{name}.md").read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Cells of all lines of tables, without titles."""
    found = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row, after in zip(found, [*found[1:], [""]], strict=True) if row[0] != "---" and after[0] != "---"]


# --- what it says


def test_every_number_of_tables_1_and_2_is_there(complete: Path) -> None:
    """Rows by hand: 7 methods on 2 datasets, 8 on 6 transfers; the paper has no random weights in table 1."""
    text = page(complete, "tables").split("## The appendix")[0]
    found = rows(text)
    assert len(found) == 2 * 7 + 6 * 8
    empty = [row for row in found if DASH in row]
    assert [(row[0], row[1], row[3]) for row in empty] == [("random weights", DASH, DASH)] * 2
    estimates = Estimates(Results(complete / "results"))
    for name, paper, ours, difference, recording, seeds in found[:7]:
        method = next(key for key, value in METHOD_NAMES.items() if value == name)
        each = condition(method, "chapman", None if method == "random" else "chapman")  # type: ignore[arg-type]
        frame, pooled = (estimates.auc(each, level) for level in LEVELS)
        assert frame is not None
        assert pooled is not None
        assert (
            ours.replace("*", "") == f"{frame.value:.3f} ± {frame.deviation:.3f} ({frame.low:.3f} to {frame.high:.3f})"
        )
        assert recording.replace("*", "").startswith(f"{pooled.value:.3f} ± ")
        assert seeds == "3"
        if paper != DASH:
            assert float(difference.split(" ")[0].replace("−", "-")) == pytest.approx(
                frame.value - float(paper.replace("*", "").split(" ± ")[0]), abs=6e-4
            )


def test_the_best_results_are_bold(complete: Path, sparse: Path) -> None:
    chapman = rows(page(complete, "tables"))[:7]
    assert [row[0] for row in chapman if row[1].startswith("**")] == ["CMSC"]
    assert [row[0] for row in chapman if row[2].startswith("**")] == ["CMSC"]
    assert not any(row[2].startswith("**") for row in rows(page(sparse, "tables")))  # the others are missing


def test_results_of_the_appendix_are_in_its_table(complete: Path) -> None:
    """By hand: figure 5 has 35 results, 3 of which (E = 128, F = 0.25, but CMSC and random) are in figure 4 too."""
    found = rows(page(complete, "tables").split("## The appendix")[1])
    assert {row[0] for row in found} == {"15a", "16a", "16b", "16c", "16d", "17a", "17d", "18a"}
    assert len(found) == 35 + 8 - 1  # random weights at E = 128 and F = 0.25 are in both figures
    assert not any(DASH in row for row in found)


@pytest.mark.parametrize(("name", "cells"), [("table1", 26), ("table2", 60)])
def test_missing_cells_are_counted(sparse: Path, name: str, cells: int) -> None:
    """By hand: 2 x (1 random + 6 x 2); 4 random + 42 evaluations + 14 pre-trainings. Seconds: the factory's."""
    done = {"table1": 3, "table2": 1}[name]
    (found,) = re.findall(rf"Missing: (\d+) of {cells} cells", page(sparse, "tables"))
    assert int(found) == cells - done
    listed = [row for row in rows(page(sparse, "missing")) if row[0] == f"`{name}`"]
    assert listed[0][2] == ("3" if name == "table1" else "0")  # the shared pre-training is counted with the first
    assert "6,820" in page(sparse, "missing")  # the grid of paper_grid, with 5 random weights and 25 sets of distances
    assert "publishers' full downloads" in page(sparse, "missing")


def test_claims_hold_for_results_that_agree_with_the_paper(complete: Path) -> None:
    found = {row[0].split(" (section")[0]: row for row in rows(page(complete, "claims"))}
    for claim in (
        "CMSC is above SimCLR on Chapman.",
        "CMSC is above BYOL and SimCLR on both datasets.",
        "With few exceptions, self-supervision helps over random weights.",
        "CMSC or CMSMLC is above BYOL and SimCLR, whichever the downstream dataset.",
    ):
        assert found[claim][2].startswith("holds (p"), claim
        assert found[claim][4].startswith("holds (p"), claim
    distances = next(row for claim, row in found.items() if claim.startswith("Distances"))
    assert distances[1].startswith("CMSC 0.900 (0.890 to 0.910), SimCLR 0.600 (0.590 to 0.610)")
    assert distances[2] == "holds (p < 0.001)"
    assert "1 of 24" not in found["CLOCS is above SimCLR in 21 of 24 experiments at E = 128."][1]
    assert found["CLOCS is above SimCLR in 21 of 24 experiments at E = 128."][2].startswith("not enough results yet")


def test_claims_about_table_1_are_tested_by_length_of_pretraining(tmp_path: Path) -> None:
    """CMSC is above SimCLR after 100 epochs and below it after 25."""

    def strength(cell: Evaluation) -> float:
        long = cell.start is not None and cell.start.max_epochs == 100
        return usual_strength(cell) if long else 2.0 - usual_strength(cell)

    cells = [cell for cell in EXPERIMENTS["longer"].cells(range(1)) if isinstance(cell, Evaluation)]
    results = write_results(tmp_path / "results", cells, strength)
    make_report(results, tmp_path / "report")
    parts = page(tmp_path, "claims").split("## After 100 epochs")
    verdicts = [rows(part)[0][2].split(" (")[0] for part in parts]
    assert verdicts == ["does not hold", "holds"]


def test_claims_do_not_hold_for_reversed_results(tmp_path: Path) -> None:
    table1 = [cell for cell in EXPERIMENTS["table1"].cells(range(1)) if cell.dataset == "chapman"]
    results = write_results(tmp_path / "results", table1, lambda cell: 2.0 - usual_strength(cell))
    make_report(results, tmp_path / "report")
    usual, longer = page(tmp_path, "claims").split("## After 100 epochs")
    found = {row[0].split(" (section")[0]: row for row in rows(usual)}
    assert found["CMSC is above SimCLR on Chapman."][2].startswith("does not hold")
    assert [row[2] for row in rows(longer.split("## ")[0])] == ["not enough results yet"] * 4
    assert found["CMSC is above BYOL and SimCLR on both datasets."][2].startswith("does not hold")  # half is enough
    (order,) = (row for row in rows(page(tmp_path, "claims")) if row[0] == "table 1, Chapman")
    assert order[1].startswith("−")


def test_the_released_loss_and_leaks_are_compared_with_their_baselines(complete: Path) -> None:
    text = page(complete, "ours")
    loss, everything, weights = rows(text)[:4], rows(text)[4:8], rows(text)[8:16]
    authors, leaking, longer = rows(text)[16:20], rows(text)[20:22], rows(text)[22:]
    for released in (loss, everything):
        assert [(row[0], row[1], row[6]) for row in released] == [
            *(("CMLC", "frame", "1"), ("CMLC", "recording", "1")),
            *(("CMSMLC", "frame", "1"), ("CMSMLC", "recording", "1")),
        ]
    assert [row[3] for row in loss] != [row[3] for row in everything]
    assert text.count("the means of 1 seed are in ") == 2, "the one that the released loss has, too"
    kinds = [f"{dataset}: {kind}" for dataset in ("Chapman", "PhysioNet 2020") for kind in ("all pairs alike", "none")]
    assert [(row[0], row[6]) for row in weights[::2]] == [(kind, "1") for kind in kinds]
    assert weights[0][2] != weights[2][2]
    methods = ("MT-SSL", "BYOL", "SimCLR", "CMSC", "CMLC", "CMSMLC")
    named = [f"{dataset}: {method}" for dataset in ("Chapman", "PhysioNet 2020") for method in methods]
    assert [row[0] for row in longer[::2]] == named
    assert [row[0] for row in authors[::2]] == ["Chapman", "PhysioNet 2020"]
    for row in (*loss, *everything, *weights, *authors, *leaking, *longer):
        first, second, gain = (float(row[place].split(" ")[0].replace("−", "-")) for place in (2, 3, 4))
        assert gain == pytest.approx(first - second, abs=1.1e-3)
    told = Results(complete / "results").get(
        Evaluation(
            protocol="linear", start=Pretraining(method="cmsc", dataset="chapman", max_epochs=100), dataset="chapman"
        )
    )
    assert told is not None
    assert longer[6][2].split(" ")[0] == f"{told.auc('frame')['value']:.3f}"


def test_the_released_loss_is_evaluated_like_the_papers(complete: Path) -> None:
    """Preset ``released`` also evaluates otherwise: what the loss alone does must not be read from it."""
    changes = {"view_pairs": "last", "off_diagonals": "one_triangle"}
    start = Pretraining(method="cmlc", dataset="chapman", options=changes)
    told = Results(complete / "results").get(Evaluation(protocol="linear", start=start, dataset="chapman"))
    assert told is not None
    assert rows(page(complete, "ours"))[0][3].startswith(f"{told.auc('frame')['value']:.3f} ")


def test_a_run_that_leaks_is_marked_and_not_counted(complete: Path) -> None:
    runs = [row for row in rows(page(complete, "runs").split("## Pre-trainings")[1]) if "leaks on purpose" in row[0]]
    assert [(row[0].split(" ")[0], row[1]) for row in runs] == [("CMSC", "PhysioNet 2020")]


def test_learning_curves_are_reported(complete: Path) -> None:
    """By the factory: losses between 3 and 1.5, ranks from 60 to 12; BYOL's loss rises."""
    text = page(complete, "runs").split("## How the methods learned")[1].split("## Pre-trainings")[0]
    found = {row[0]: row[1:4] for row in rows(text)}
    assert list(found) == ["MT-SSL", "BYOL", "SimCLR", "CMSC", "CMLC", "CMSMLC"]
    assert found["CMSC"] == ["3.00, 1.50", "60, 12", str(EPOCHS)]
    assert found["BYOL"] == ["1.50, 1.50", "60, 12", str(EPOCHS)]
    start = Pretraining(method="cmsc", dataset="chapman")
    judged = Results(complete / "results").get(Evaluation(protocol="linear", start=start, dataset="chapman"))
    assert judged is not None
    cmsc = next(row for row in rows(text) if row[0] == "CMSC")
    assert cmsc[4].startswith(f"{judged.auc('frame')['value']:.3f} (")


def test_limitations_are_stated(complete: Path, sparse: Path) -> None:
    text = page(sparse, "index")
    assert f"at most {EPOCHS} epochs" in text
    assert "Of 1 run, 1 still improved when the cap ended them (CMSC on Chapman)" in text
    assert "2 experiments with 1 seed; the paper has 5 each" in text
    assert "after the first epoch" not in text
    assert "lowest after the first epoch (BYOL on Chapman and BYOL on PhysioNet 2020)" in page(complete, "index")
    cells = [each.cell for each in Results(complete / "results").tested]
    tuned = sum(isinstance(cell, Evaluation) and cell.protocol == "finetune" for cell in cells)
    assert f"Of {tuned} fine-tunings, 0 still improved after 100 epochs" in page(complete, "index")
    pretrainings = [row for row in rows(page(complete, "runs")) if len(row) == 9]
    assert {row[7] for row in pretrainings if row[0] == "BYOL"} == {"no"}
    assert {row[7] for row in pretrainings if row[0] == "CMSC"} == {"yes"}


def test_seeds_of_the_recommended_encoder_may_have_different_precision(tmp_path: Path) -> None:
    kind = COMPARED["recommended encoder, linear"]
    write_results(tmp_path, [kind("chapman", seed) for seed in (0, 1)])
    assert any(
        "Of 1 experiment that are judged, 1 experiment with 2 seeds" in text for text in limits(Results(tmp_path))
    )


def test_trials_of_a_search_are_in_no_table(complete: Path) -> None:
    assert "1 trial by validation patients" in page(complete, "index")
    assert "1 trial of the search" in page(complete, "runs")
    assert not any(row[4] == "trial" for row in rows(page(complete, "runs")) if len(row) == 9)


# --- figures


def test_figures_are_drawn_from_available_results(complete: Path, sparse: Path) -> None:
    made = {path.stem for path in (complete / "report" / "images").iterdir()}
    assert made == FIGURES | {LEARNING}
    text = page(complete, "figures")
    assert {Path(name).stem for name in re.findall(r"\]\(images/(.*?)\)", text)} == FIGURES
    assert "Left out" not in text
    assert page(sparse, "figures").count("Left out.") == 5
    assert [path.stem for path in (sparse / "report" / "images").iterdir()] == [LEARNING]


def test_a_stale_figure_is_deleted(sparse: Path, tmp_path: Path) -> None:
    old, other = tmp_path / "images" / "figure-3-cmsc.svg", tmp_path / "images" / "mine.svg"
    old.parent.mkdir()
    old.write_text("<svg/>")
    other.write_text("<svg/>")
    make_report(sparse / "results", tmp_path)
    assert (old.exists(), other.exists()) == (False, True)


def test_names_are_those_of_the_paper() -> None:
    usual = {**paper_tables.METHOD_NAMES, "random": "random weights", "supervised": "supervised"}
    assert usual == METHOD_NAMES
    assert paper_tables.DATASET_NAMES == DATASET_NAMES
