"""The paper's tables as experiments: its own conditions, shared with ours, runnable where the leads are."""

from __future__ import annotations

import pytest
import torch

from clocs.core.errors import ConfigError
from clocs.evaluation.checkpoint import load_encoder_checkpoint
from clocs.experiments.workspace import Workspace
from clocs.signals.leads import STANDARD_LEADS
from clocs.store.store import open_store
from clocs.training.encoder_module import load_encoder_folder
from reproduction.cells import AnyCell, Evaluation, Pretraining
from reproduction.experiments import EXPERIMENTS, cell_filter
from reproduction.paper_numbers import results
from reproduction.paper_tables import all_experiments, cell_of, find_experiment, paper_experiments
from reproduction.run_cell import compute, pretrain_config
from tests.reproduction.paper_grid import grid_size


def cells(name: str, seeds: int = 1) -> dict[str, AnyCell]:
    return {cell.model_dump_json(): cell for cell in find_experiment(name).cells(range(seeds))}


def starts(name: str) -> list[Pretraining]:
    found = [cell.start for cell in cells(name).values() if isinstance(cell, Evaluation)]
    return [start for start in found if start is not None]


def test_every_table_and_figure_is_there() -> None:
    assert list(paper_experiments()) == [
        *(f"paper-table-{number}" for number in range(1, 25)),
        *(f"paper-figure-{number}" for number in range(1, 10)),
    ]
    assert list(all_experiments())[: len(EXPERIMENTS)] == list(EXPERIMENTS)
    without = {name for name, item in paper_experiments().items() if not list(item.cells(range(1)))}
    tables, figures = (3, 4, 5, 6), (1, 2, 7, 8)
    assert without == {f"paper-table-{n}" for n in tables} | {f"paper-figure-{n}" for n in figures}


def test_a_table_has_the_cells_it_prints() -> None:
    """By hand: table 9 prints 5 methods, 2 datasets, 4 fractions; 17 has 7 rows but for those printed twice."""
    assert len(cells("paper-table-9")) == 5 * 2 * 4
    assert len(cells("paper-table-17")) == 6 * 6 * 4 + 4 * 4
    assert len(cells("paper-table-9", seeds=5)) == 5 * len(cells("paper-table-9"))


def test_all_together_are_the_papers_grid() -> None:
    """Counted from the conditions. Two of them are one cell: SimCLR with noise, which we take to be what the paper
    means where it does not name an augmentation."""
    every = {key: cell for name in paper_experiments() for key, cell in cells(name).items()}
    size = grid_size(seeds=1)
    evaluations = [cell for cell in every.values() if isinstance(cell, Evaluation) and cell.protocol != "distances"]
    assert len(evaluations) == sum(size.linear.values()) + sum(size.finetune.values()) - 1
    first = [(*cell.requires, cell)[0] for cell in every.values()]
    roots = {cell.key: cell for cell in first}.values()
    trained = [cell for cell in roots if isinstance(cell, Pretraining) and cell.max_epochs]
    by_leads = {leads: sum(cell.leads == leads for cell in trained) for leads in (4, 12)}
    assert by_leads == {4: size.pretrainings[4] - 1, 12: size.pretrainings[12]}
    fresh = [cell for cell in roots if isinstance(cell, Pretraining) and not cell.max_epochs]
    assert sorted(cell.embedding_dim for cell in fresh) == [32, 64, 256]


def test_cells_are_shared_with_our_tables() -> None:
    assert cells("paper-table-1").keys() < cells("table1").keys()
    assert cells("paper-table-2").keys() == cells("table2").keys()
    assert cells("paper-figure-4").keys() < cells("figure4").keys()
    assert cells("paper-figure-6").keys() == cells("figure6").keys()
    assert len(cells("paper-figure-9").keys() & cells("figure6").keys()) == 1
    assert cells("paper-table-9").keys() & cells("table1").keys() == {
        key
        for key, cell in cells("paper-table-1").items()
        if isinstance(cell, Evaluation) and "mtssl" not in cell.label
    }


def test_conditions_change_only_what_differs_from_the_ready_config() -> None:
    assert {start.options.get("decay") for start in starts("paper-table-23")} == {0.5, None, 0.99}
    augmented = starts("paper-figure-3")
    assert [start.method for start in augmented if not start.options] == ["simclr"]
    assert {"augmentations": ["gaussian_noise", "flip_time"]} in [start.options for start in augmented]
    assert [start.options for start in starts("paper-table-1")] == [{}] * 12


def test_12_leads_are_named_where_a_dataset_has_them(workspace: Workspace) -> None:
    found = cells("paper-table-21").values()
    tuned = [cell for cell in found if isinstance(cell, Evaluation) and cell.leads == 12]
    assert len(tuned) == 104
    for cell in tuned:
        assert cell.config == ({} if cell.dataset in ("cardiology", "physionet2017") else {"leads": STANDARD_LEADS})
    start = next(cell.start for cell in tuned if cell.start is not None)
    config = pretrain_config(start.model_copy(update={"dataset": "synthetic"}), workspace)
    assert config.leads == STANDARD_LEADS
    assert {cell.leads for cell in cells("paper-table-9").values()} == {4}


def test_random_weights_of_any_size_are_those_of_the_seed(workspace: Workspace) -> None:
    """An encoder that was not trained is the one that ``random`` names, where that exists."""
    fresh = Pretraining(method="cmsc", dataset="synthetic", seed=3, max_epochs=0)
    compute(fresh, workspace)
    kept, _ = load_encoder_folder(fresh.folder(workspace))
    named = load_encoder_checkpoint("random", open_store(workspace.store("synthetic")), seed=3).module
    assert all(torch.equal(a, b) for a, b in zip(kept.state_dict().values(), named.state_dict().values(), strict=True))
    (result, *_) = results(table=15, method="random", evaluation="cardiology", label_fraction=0.25)
    start = cell_of(result.condition, 3).start
    assert start is not None
    assert (start.max_epochs, start.embedding_dim, start.seed) == (0, 32, 3)


def test_an_unknown_name_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"paper-table-1 to -24 .* Did you mean 'paper-table-2"):
        find_experiment("paper-tabel-2")


@pytest.mark.parametrize(("name", "many"), [("figure5", 7), ("recommended", 6)])
def test_random_weights_are_filtered_by_name(name: str, many: int) -> None:
    """Seven settings of figure 5; on two datasets a linear one, of its own network with two embeddings, and ours."""
    every = list(EXPERIMENTS[name].cells(range(1)))
    random = [
        cell for cell in every if isinstance(cell, Evaluation) and (cell.start is None or not cell.start.max_epochs)
    ]
    kept = [cell for cell in every if cell_filter("random", "")(cell)]
    assert kept == random
    assert len([cell for cell in kept if isinstance(cell, Evaluation) and cell.protocol != "finetune"]) in (0, many)
    assert not any(cell in random for cell in every if cell_filter("cmsc,cmsmlc", "")(cell))


def test_an_unknown_filter_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^methods: unknown bar, foo\. Known: random, .*cmsmlc"):
        cell_filter("foo, cmsc, bar", "chapman")
    with pytest.raises(ConfigError, match=r"^datasets: unknown chapmann\. Known: chapman, "):
        cell_filter("random", "chapmann")
    names = {cell.label.split("-")[1] for cell in cells("table2").values() if cell_filter("supervised", "")(cell)}
    assert names == {"supervised"}
