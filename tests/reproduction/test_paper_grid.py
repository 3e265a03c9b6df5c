"""The paper's grid: its names are the package's, its size is what its design makes."""

from __future__ import annotations

from clocs.augmentations import AUGMENTATIONS
from clocs.datasets import DATASETS
from clocs.methods import METHODS
from clocs.methods.mtssl import ALL_TASKS
from reproduction.paper_numbers import (
    paper,
    results,
    results_of,
)
from tests.reproduction.paper_grid import GridSize, conditions, grid_size, pretrainings
from tests.reproduction.paper_tables import DATASET_NAMES, METHOD_NAMES


def test_names_exist_in_the_package() -> None:
    assert {result.method for result in results()} == set(METHOD_NAMES) <= {*METHODS.names(), "random"}
    assert {result.evaluation for result in results()} == set(DATASET_NAMES) <= set(DATASETS.names())
    used = {name for pretraining in pretrainings() for name in pretraining.augmentations or ()}
    assert used <= set(AUGMENTATIONS.names())
    tasks = {each.dataset: each.augmentations for each in pretrainings() if each.method == "mtssl"}
    assert tasks["physionet2020"] == ALL_TASKS
    assert tasks["chapman"] == ("scaling", "flip_amplitude", "flip_time")


def test_the_size_of_the_grid_follows_from_its_design() -> None:
    """By multiplication: methods, datasets, E, F, decays; figure 3 adds 2 methods with 9 ways to augment."""
    four, datasets, widths, fractions, decays, transfers = 4, 2, 4, 4, 3, 6
    pretrained = four * datasets * widths
    baselines = datasets * decays + datasets + datasets  # BYOL, MT-SSL, supervised
    linear = pretrained * fractions
    tuned = four * transfers * widths * fractions
    random = 2 * widths * fractions  # on two single-lead, and on two other datasets
    without_figures = GridSize(
        {4: 5 * (pretrained + baselines), 12: 5 * pretrained},
        {4: 5 * (linear + decays * datasets * fractions + datasets), 12: 5 * linear},
        {
            1: 5 * random,
            4: 5 * (tuned + random + (decays + 1) * transfers * fractions + transfers),
            12: 5 * (tuned + random),
        },
    )
    assert grid_size(figures=False) == without_figures
    assert without_figures == GridSize({4: 210, 12: 160}, {4: 770, 12: 640}, {1: 160, 4: 2590, 12: 2080})
    assert grid_size() == GridSize({4: 300, 12: 160}, {4: 860, 12: 640}, without_figures.finetune)
    assert grid_size().total == 5 * grid_size(seeds=1).total == 6790


def test_all_figures_but_the_third_show_table_results() -> None:
    tables = set(conditions(figures=False))
    shown = {f.number: {c for panel in f.panels for c in panel.conditions()} for f in paper().figures}
    assert {number: len(found) for number, found in shown.items() if found} == {3: 18, 5: 35}
    assert shown[5] <= tables
    assert not shown[3] & tables
    assert {condition.augmentations for condition in shown[3]} >= {
        ("flip_time",),
        ("gaussian_noise", "spec_augment_time"),
    }


def test_random_weights_are_one_condition_for_both_pretraining_datasets() -> None:
    (condition,) = {
        result.condition for result in results(method="random", evaluation="cardiology", table=15, part="a")
    }
    assert (condition.pretraining, condition.leads, condition.pretrained) == (None, 1, None)
    assert {result.table for result in results_of(condition)} == {15, 19}
    several = {result.condition.leads for result in results(method="random", evaluation="chapman")}
    assert several == {4, 12}


# --- asking
