"""The page of a benchmark, made of scores of a made-up task."""

from __future__ import annotations

from typing import Any

import numpy as np

from clocs.evaluation.benchmark.page import as_html, make_page
from clocs.evaluation.benchmark.published_values import published_values
from clocs.evaluation.benchmark.summary import summarize
from clocs.metrics.task_scores import score_task


def row(name: str, control: str, strength: float, seen: Any = None) -> dict[str, Any]:
    """Return the row of a cell: two classes, 60 patients, scores with some signal."""
    random = np.random.default_rng(1)
    truth = random.random((60, 2)) < 0.4
    noise = random.normal(size=(60, 2))
    scores = {
        fraction: score_task("multi-label", truth, strength * fraction * truth + noise, np.arange(60), replicates=100)
        for fraction in (0.1, 1.0)
    }
    return {
        "cell": {"dataset": "made-up", "task": "pair"},
        "seconds": 150.0,
        "seconds_of_features": 90.0,
        "encoder": {"name": name, "control": control, "seen": seen},
        "task": {
            "dataset": "made-up",
            "published_split": None,
            "kind": "multi-label",
            "title": "A pair of findings",
            "records": {"train": 1200, "validation": 60, "test": 60},
            "positives": {"test": {"A": int(truth[:, 0].sum()), "B": int(truth[:, 1].sum())}},
        },
        "rows": [
            {
                "features": "embedding",
                "dimension": 4608,
                "label_fraction": fraction,
                "selection": "validation",
                "scores": scored,
            }
            for fraction, scored in scores.items()
        ],
    }


def table_rows(page: str) -> list[list[str]]:
    lines = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_encoders_are_sorted_and_compared_with_the_better_control() -> None:
    rows = [
        row("weak", "", 0.5, {"train": 3, "validation": 0, "test": 0, "unused": 0}),
        row("random kernels", "random kernels", 1.0),
        row("strong, untrained", "untrained", 0.7),
        row("strong", "", 3.0, {"train": 0, "validation": 0, "test": 0, "unused": 0}),
    ]
    page = make_page(summarize(rows))
    head, *lines = table_rows(page)[:5]
    assert head == ["encoder", "way", "features", "10% of labels", "100% of labels", "minus control"]
    assert [line[0] for line in lines] == ["strong", "random kernels", "strong, untrained", "weak *"]
    assert [line[1] for line in lines] == ["linear"] * 4
    assert [line[2] for line in lines] == ["embedding (4,608)"] * 4
    values = {line[0]: float(line[4].split()[0]) for line in lines}
    assert float(lines[0][5].split()[0]) == round(values["strong"] - values["random kernels"], 3)
    assert float(lines[3][5].split()[0]) < 0
    assert lines[1][5] == lines[2][5] == ""
    assert "1,200 / 60 / 60" in page
    positives = rows[0]["task"]["positives"]["test"]
    assert f"Test positives: A {positives['A']}, B {positives['B']}." in page


def test_a_row_without_enough_labels_says_so() -> None:
    made = row("strong", "", 3.0)
    made["rows"][0] = {key: value for key, value in made["rows"][0].items() if key != "scores"} | {
        "not_possible": "few"
    }
    assert table_rows(make_page(summarize([made])))[1][3] == "too few labels"


def test_trained_networks_stand_in_the_table_of_linear_models() -> None:
    trained = row("network", "", 2.0)
    trained["cell"] = {**trained["cell"], "way": "from scratch"}
    _, *lines = table_rows(make_page(summarize([row("strong", "", 3.0), trained])))[:3]
    assert [line[:2] for line in lines] == [["strong", "linear"], ["network", "from scratch"]]


def test_the_page_becomes_html_with_tables() -> None:
    text = as_html(make_page(summarize([row("strong", "", 3.0)])))
    assert text.startswith("<!doctype html>")
    assert text.count("<table>") == 3
    assert "<td>strong</td>" in text


def test_published_values_are_compared_on_the_same_folds_only() -> None:
    made = row("strong", "", 3.0)
    made["cell"]["task"] = "super"
    made["task"]["dataset"] = "ptbxl"
    assert "is above" not in make_page(summarize([made]))
    made["task"]["published_split"] = "folds"
    page = make_page(summarize([made]))
    ours = made["rows"][1]["scores"]["recording"]["macro"]["auc"]["value"]
    below = [
        value.model
        for value in published_values("ptbxl", "super")
        if value.is_comparable and value.way == "linear" and value.auc[1.0] < ours
    ]
    assert f"strong, {ours:.3f}, is above {len(below)} of 8 linear probes" in page
    made["cell"]["task"] = "chapman-rhythm"
    made["task"]["dataset"] = "chapman"
    elsewhere = make_page(summarize([made]))
    assert "another split, raw signals" in elsewhere
    assert "is above" not in elsewhere


def test_published_models_are_described_once_with_their_numbered_source() -> None:
    tasks = [row("strong", "", 3.0), row("strong", "", 3.0)]
    for made, task in zip(tasks, ("super", "all"), strict=True):
        made["cell"]["task"] = task
        made["task"]["dataset"] = "ptbxl"
    page = make_page(summarize(tasks))
    _, _, models = page.partition("## Published models\n")
    described = [line for line in table_rows(models) if line[0] == "ECGFounder"]
    assert described == [["ECGFounder", "labels of 10.8 M ECGs of one hospital system", "2.5 s, 500 Hz", "1"]]
    (value, *_) = published_values("ptbxl", "super")
    assert f"\n1. {value.source}\n" in models
    assert page.count("published folds (1) |") == sum(
        len({found.model for found in published_values("ptbxl", task) if found.source == value.source})
        for task in ("super", "all")
    )
    assert max(len(line) for line in table_rows(page)) == 7


def test_costs_are_summed_over_the_tasks_of_an_encoder() -> None:
    first, second = row("ours", "", 3.0), row("ours", "", 2.0)
    second["cell"] = {"dataset": "made-up", "task": "other"}
    page = make_page(summarize([first, second, row("kernels", "random kernels", 1.0)]))
    costs = table_rows(page.split("## Cost")[1])
    assert costs[1:] == [
        ["made-up: pair", "ours", "linear", "1.5", "1.0"],
        ["made-up: other", "ours", "linear", "1.5", "1.0"],
        ["made-up: pair", "kernels", "linear", "1.5", "1.0"],
        ["2 tasks together", "ours", "linear", "3.0", "2.0"],
    ]
