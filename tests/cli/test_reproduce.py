"""``clocs reproduce``: what is done and to do, progress, messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import clocs
from clocs.experiments.cells import Cell, Evaluation, Pretraining
from clocs.experiments.paper_tables import all_experiments
from clocs.experiments.tables import EXPERIMENTS, Experiment
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce") / "stores"
    clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options={"records": 60, "leads": 1}))
    return folder


def tiny(seeds: Iterable[int]) -> Iterator[Cell]:
    """Two pre-trainings with an evaluation each, and one that lacks its data."""
    for seed in seeds:
        for steps in (1, 2):
            config = {"batch": 16, "steps": steps}
            start = Pretraining(method="cmsc", dataset="synthetic", seed=seed, epochs=1, config=config)
            yield Evaluation(protocol="linear", start=start, dataset="synthetic", preset="recommended", seed=seed)
        yield Evaluation(protocol="linear", start=None, dataset="chapman", leads=12, seed=seed)


def wrong(seeds: Iterable[int]) -> Iterator[Cell]:
    """One that fails."""
    yield Pretraining(method="cmsc", dataset="synthetic", epochs=1, options={"temperature": -1})


@pytest.fixture
def command(command: Command, monkeypatch: pytest.MonkeyPatch, stores: Path) -> Command:
    """Runs ``clocs reproduce``, with two experiments of the test's own."""
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment("tiny", "Small cells", tiny))
    monkeypatch.setitem(EXPERIMENTS, "wrong", Experiment("wrong", "A wrong cell", wrong))

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        return command("reproduce", *arguments, "--stores", stores, code=code)

    return run


def test_a_run_tells_how_far_it_is_and_what_it_left_out(command: Command) -> None:
    out, err = command("tiny", "--json")
    found = json.loads(out)["experiments"]["tiny"]
    assert (found["title"], found["cells"], found["done"], found["to_do"]) == ("Small cells", 5, 4, 1)
    assert found["needs"] == {"store of chapman": 1, "publishers' full downloads (12 leads)": 1}
    lines = [line for line in err.splitlines() if line.startswith("done: ")]
    assert [re.search(r"\((\d) of 4 cells, about .* left\)", line)[1] for line in lines] == ["2", "2", "4", "4"]  # type: ignore[index]
    assert lines[-1].endswith("(4 of 4 cells, about 0 s left)")
    assert "left out for want of store of chapman: 1" in err

    again, quiet = command("tiny")
    assert "done: " not in quiet
    assert again.splitlines()[-1].split()[:4] == ["tiny", "4", "1", "0"]


def test_the_list_has_every_table_and_figure_and_computes_nothing(command: Command, tmp_path: Path) -> None:
    out, err = command("--list", "--json", "--seeds", 2)
    found = json.loads(out)
    assert err == ""
    assert list(found["experiments"]) == list(all_experiments())
    assert {f"paper-table-{number}" for number in range(1, 25)} < found["experiments"].keys()
    tiny = found["experiments"]["tiny"]
    assert (tiny["cells"], tiny["to_do"], tiny["runnable"]) == (10, 10, 8)
    assert 0 < tiny["runnable_core_hours"] < tiny["core_hours"]
    twelve = found["experiments"]["paper-table-19"]
    assert twelve["needs"]["publishers' full downloads (12 leads)"] == 2 * (104 + 8)
    parts = [part["cells"] for part in found["experiments"].values()]
    assert max(parts) < found["together"]["cells"] < sum(parts)
    assert list(tmp_path.iterdir()) == []


def test_the_list_as_a_table(command: Command) -> None:
    out, _ = command("--list", "paper-table-3", "paper-table-13", "tiny")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert rows["paper-table-3"].split()[1:5] == ["-"] * 4
    assert rows["paper-table-3"].endswith("needs no runs")
    assert rows["paper-table-13"].split()[1:4] == ["0", "40", "0"]
    assert "; needs store of chapman for 20, publishers' full downloads (12 leads) for 40" in rows["paper-table-13"]
    assert float(rows["paper-table-13"].split()[4]) > 1
    assert rows["tiny"].split()[1:4] == ["0", "5", "4"]
    assert rows["together"].split()[1:4] == ["0", "45", "4"]


def test_methods_and_datasets_choose(command: Command) -> None:
    out, _ = command("--list", "--json", "table1", "--methods", "cmsc,random", "--datasets", "chapman")
    assert json.loads(out)["experiments"]["table1"]["cells"] == 3


def test_a_choice_that_leaves_nothing_is_told(command: Command) -> None:
    _, err = command("--list", "figure4", "--datasets", "chapman", code=1)
    assert "figure4: no cell is of these methods and datasets" in err


def test_a_folder_without_stores_is_told(command: Command, stores: Path) -> None:
    (stores / "synthetic").rename(stores / "elsewhere")
    try:
        assert "has no store of chapman, synthetic: name their folder" in command("tiny", code=1)[1]
    finally:
        (stores / "elsewhere").rename(stores / "synthetic")


def test_a_cell_that_fails_is_told_and_so_is_the_exit_code(command: Command) -> None:
    out, err = command("wrong", "--json", code=1)
    assert json.loads(out)["experiments"]["wrong"]["done"] == 0
    assert re.search(r"failed: cmsc-synthetic-\S+: .*temperature", err)


def test_a_name_is_needed_and_must_be_known(command: Command) -> None:
    assert "name what to run: table1" in " ".join(command(code=2)[1].split())
    assert "Did you mean 'table2'" in command("tabel2", code=1)[1]
    assert "i/n" in command("tiny", "--shard", "3/2", code=1)[1]


def test_methods_and_datasets_must_be_known(command: Command) -> None:
    assert "methods: unknown foo. Known: random, cmsc, " in command("table1", "--methods", "cmsc,foo", code=1)[1]
    assert "datasets: unknown chapmann. Known: chapman, " in command("table1", "--datasets", "chapmann", code=1)[1]
