"""Experiments beyond the paper, and their page made of invented results."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from clocs.datasets import DATASETS
from clocs.experiments.workspace import Workspace
from clocs.methods import METHODS
from clocs.training.config_resolution import resolve_config
from clocs.training.ready_configs import ready_config
from clocs.training.schedule import planned_steps
from reproduction.beyond import (
    ABLATIONS,
    GROWTH,
    LABELLED_PATIENTS,
    UNCHANGED,
    ablated,
    ablation,
    encoder,
    few_labels,
    grown,
    growth,
    recommended,
    recommended_encoder,
    transfer,
    untrained,
)
from reproduction.cells import Evaluation
from reproduction.report.build import make_report
from reproduction.report.estimates import Mean
from reproduction.report.few_labels import labels_needed
from reproduction.report.results import Results
from reproduction.run_cell import compute, pretrain_config
from reproduction.search import trial
from tests.reproduction.results_factory import write_results

CHANGED = {
    UNCHANGED: set(),
    "all positive pairs weigh alike (recommended)": {"off_diagonals"},
    "the paper's network": {"encoder", "pca"},
    "no other lead (CMSC)": {"name", "view_choice"},
    "no other segment (CMLC)": {"name", "view_choice", "frames"},
    "all pairs of views": {"view_choice"},
    "no augmentations": {"augmentations"},
    "projection head": {"projection_hidden_dim"},
    "no positives across a patient's instances": {"off_diagonals"},
    "frames scaled to 0..1": {"frames"},
    "250 Hz": {"frames"},
    "last layer without PCA": {"pca"},
    "temperature 0.2": {"temperature"},
    "float32": {"precision"},
}
"""By ablation: which keys differ. CMSC and CMLC have no choice of views; frames of one
segment are to be told the rate of two; only the residual network has blocks."""


def strength(cell: Evaluation) -> float:
    """More of everything is better: labels, patients."""
    known = cell.config.get("num_labelled_patients", 2000)
    base = 0.4 if cell.start is None or cell.start.max_epochs == 0 else 1.4
    patients = 1 if cell.start is None else cell.start.config.get("patient_fraction", 1)
    return float(base + 0.3 * np.log10(known) + {0.1: -0.5, 0.3: -0.2}.get(patients, 0))


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("beyond")
    cells = [cell for made in (recommended, few_labels, transfer, ablation, growth) for cell in made(range(1))]
    write_results(folder / "results", cells, strength)
    make_report(folder / "results", folder / "report")
    return folder


def sections(folder: Path) -> dict[str, str]:
    text = (folder / "report" / "beyond.md").read_text()
    return {part.split("\n", 1)[0]: part for part in text.split("\n## ")[1:]}


def test_a_trial_of_the_search_is_the_recommended_encoder(tmp_path: Path) -> None:
    """So its run is not repeated."""
    workspace = Workspace(tmp_path, tmp_path, tmp_path)
    start = trial("three datasets in turns, all positive pairs weigh alike, principal components").start
    assert start is not None
    assert start.pca
    assert recommended_encoder(0).pca
    assert pretrain_config(recommended_encoder(0), workspace) == pretrain_config(start, workspace)


def test_a_user_trains_with_the_same_recipe(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path, tmp_path)
    cell = pretrain_config(encoder(0, ("physionet2020",)), workspace).identity()
    assert resolve_config("recommended-physionet2020").identity() == cell
    assert ready_config("recommended-folder")["store"] == "stores/folder"


def test_seeds_of_few_labels_share_the_encoder_and_draw_different_labels() -> None:
    """So that they cost no other pre-training."""
    again = [cell for cell in few_labels([1]) if isinstance(cell, Evaluation)]
    pretrained = [cell.start for cell in again if cell.start is not None and cell.start.max_epochs]
    assert len(pretrained) == 2 * len(again) / 3
    assert all(start == recommended_encoder(0) for start in pretrained)
    assert {cell.seed for cell in again} == {1}


def test_each_ablation_changes_one_thing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path, tmp_path)

    def told(cell: Evaluation) -> dict[str, object]:
        assert cell.start is not None
        values = pretrain_config(cell.start, workspace).identity()
        others = {key: value for key, value in values.items() if key != "method"}
        return {**others, **values["method"], "pca": cell.start.pca}

    base = told(ablated(UNCHANGED, 0))
    for name in ABLATIONS:
        changed = told(ablated(name, 0))
        keys = {key for key in base.keys() | changed.keys() if base.get(key) != changed.get(key)}
        assert keys == CHANGED[name], name
    assert len({str(told(grown(name, 0))) for name in GROWTH}) == len(GROWTH)


@pytest.mark.parametrize("cell", [*ablation(range(1)), *growth(range(1))], ids=lambda cell: str(cell.start.config))
def test_changed_recipes_can_be_evaluated_and_have_their_steps(cell: Evaluation, tmp_path: Path) -> None:
    """Frames without a stated rate could not be cut alike for the evaluation; few patients make short epochs."""
    assert cell.start is not None
    config = pretrain_config(cell.start, Workspace(tmp_path, tmp_path, tmp_path))
    policy = DATASETS.get(cell.start.dataset).frame_policies[METHODS.get(cell.start.method).frame_policy]
    assert policy.model_copy(update=config.frames).sampling_rate is not None
    assert config.max_steps is not None
    fewest = (
        int(4_402 * config.patient_fraction) // config.batch_size
    )  # recordings, of one patient each; the paper's table 4
    assert planned_steps(config, max(fewest, 1)) == config.max_steps
    assert config.patience >= config.max_epochs, "nothing but the steps ends it"


def test_initial_networks_are_trained_for_zero_epochs(workspace: Workspace) -> None:
    found = compute(untrained("synthetic", 3), workspace)
    assert found["result"]["steps"] == 0
    assert untrained("chapman", 3).config["encoder"] == {"name": "resnet"}


def test_every_table_is_complete(reported: Path) -> None:
    found = sections(reported)
    assert list(found) == ["Linear evaluation", "Few labels", "Transfer", "Ablation", "Width and number of patients"]
    for title, text in found.items():
        lines = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| ---")][1:]
        ours = [line for line in lines if "the paper's best" not in line]
        assert ours, title
        assert not any("–" in line for line in ours), title
        assert "All " in text, "nothing is missing for one seed"


def test_tables_have_parameters_and_time(reported: Path) -> None:
    """By hand: of the residual network's 209,720, 192 x 128 are in its last layer, which takes 480 of all blocks.

    Random weights take no time.
    """
    rows = [line.split(" | ") for line in sections(reported)["Linear evaluation"].splitlines()]
    told = {row[0].removeprefix("| Chapman: "): row[4:] for row in rows if row[0].startswith("| Chapman: ")}
    assert told["recommended encoder, linear"][0] == f"{209_720 + (480 - 192) * 128:,}"
    assert told["its network with random weights, linear"] == ["209,720", "none |"]
    assert told["its network, trained with the labels"] == ["209,720", "4 min |"]


def test_tables_have_the_best_result_of_the_paper(reported: Path) -> None:
    """Tables 1 and 2 of the paper by hand: CMSC .896 and .715; the best of the six transfers to each dataset."""
    best = re.findall(
        r"\| (\w[\w ]+): the paper's best[^|]*\| ([\d.]+)", (reported / "report" / "beyond.md").read_text()
    )
    assert best == [
        ("Chapman", "0.896"),
        ("PhysioNet 2020", "0.715"),
        ("PhysioNet 2017", "0.774"),
        ("Cardiology", "0.717"),
    ]


def test_few_labels_have_figures_and_ordered_rows(reported: Path) -> None:
    names = {path.name for path in (reported / "report" / "images").iterdir()}
    assert {f"figure-few-labels-{dataset}.svg" for dataset in ("chapman", "physionet2020")} <= names
    row = next(line for line in sections(reported)["Few labels"].splitlines() if line.startswith("| Chapman: rec"))
    values = [float(cell.split(" ")[0]) for cell in row.strip("| ").split(" | ")[1:]]
    assert len(values) == len(LABELLED_PATIENTS) + 1
    assert values[0] < values[-1]


def test_scaling_has_figures(reported: Path) -> None:
    """Patients as the paper's table 4 counts them: a tenth, three tenths and all of 4,402."""
    pictures = {name: reported / "report" / "images" / f"figure-growth-{name}.svg" for name in ("width", "patients")}
    texts = {name: path.read_text() for name, path in pictures.items()}
    assert all(f"<!-- {tick} -->" in texts["patients"] for tick in ("440", "1,321", "4,402"))
    assert all(f"<!-- {tick} -->" in texts["width"] for tick in ("12", "24", "48"))
    assert all("<!-- validation AUC -->" in text for text in texts.values())


def test_scaling_is_fitted_over_the_logarithm_of_patients(reported: Path) -> None:
    """numpy's least squares on the values of the cells themselves."""
    results = Results(reported / "results")
    places = {"10 % of the patients": 0.1, "30 % of the patients": 0.3, "as recommended": 1.0}
    values = []
    for name in places:
        found = results.get(grown(name, 0))
        assert found is not None
        values.append(found.result["validation"]["recording"]["auc"]["value"])
    matrix = np.stack([np.log10(list(places.values())), np.ones(3)], axis=1)
    slope, at_all = np.linalg.lstsq(matrix, np.array(values), rcond=None)[0]
    stated = re.search(
        r"patients gains ([+-][\d.]+) for ten .* recordings are (\d+) times .* would reach ([\d.]+) there, "
        r"and a line through the last two points \(([+-][\d.]+) for ten times as many\) ([\d.]+)\.",
        sections(reported)["Width and number of patients"],
    )
    assert stated is not None
    assert float(stated[1]) == pytest.approx(slope, abs=6e-4)
    assert stated[2] == "227", "1,000,000 / 4,402, the paper's training patients"
    assert float(stated[3]) == pytest.approx(at_all + slope * np.log10(1e6 / 4402), abs=6e-4)
    last_slope = (values[2] - values[1]) * np.log(10) / np.log(1 / 0.3)
    assert float(stated[4]) == pytest.approx(last_slope, abs=6e-4)
    assert float(stated[5]) == pytest.approx(values[2] + last_slope * np.log10(1e6 / 4402), abs=6e-4)


def test_the_gain_of_a_doubling_is_half_of_that_of_two(reported: Path) -> None:
    """In closed form: the middle of three evenly spaced points does not turn a straight line."""
    results = Results(reported / "results")
    narrow, wide = (results.get(grown(name, 0)) for name in ("width 12", "width 48"))
    times = [results.get(cell) for name in ("width 12", "width 48") if (cell := grown(name, 0).start) is not None]
    assert narrow is not None
    assert wide is not None
    stated = re.search(
        r"width gains ([+-][\d.]+) per frame and ([+-][\d.]+) per recording .* takes ([\d.]+) times as long",
        sections(reported)["Width and number of patients"],
    )
    assert stated is not None
    for told, level in zip(stated.groups(), ("frame", "recording"), strict=False):
        first, last = (each.result["validation"][level]["auc"]["value"] for each in (narrow, wide))
        assert float(told) == pytest.approx((last - first) / 2, abs=6e-4)
    first, last = (found.seconds for found in times if found is not None and found.seconds is not None)
    assert float(stated[3]) == pytest.approx((last / first) ** 0.5, abs=0.06)


@pytest.mark.parametrize(
    ("aim", "scratch", "needed"),
    [
        (0.7, (0.6, 0.8, None, None, None, None), "17"),  # half the way on a log scale: the square root of 10 x 30
        (0.8, (0.6, 0.8, 0.7, 0.9, 0.9, 0.9), "30"),
        (0.5, (0.6, 0.8, None, None, None, None), "10 or fewer"),
        (0.9, (0.6, 0.8, None, None, None, None), "over 30"),
        (0.9, (0.6, 0.8, 0.8, 0.8, 0.8, 0.95), "1,000 to all"),
        (0.99, (0.6, 0.8, 0.8, 0.8, 0.8, 0.95), "more than exist"),
        (0.9, (None,) * 6, "–"),
        (None, (0.6, 0.8, 0.8, 0.8, 0.8, 0.95), "–"),
    ],
)
def test_labels_needed_by_training_from_scratch(
    aim: float | None, scratch: tuple[float | None, ...], needed: str
) -> None:
    def mean(value: float | None) -> Mean | None:
        return None if value is None else Mean(value, value, value, by_seed=(value,))

    assert labels_needed(mean(aim), [mean(value) for value in scratch]) == needed
