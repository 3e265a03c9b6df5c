"""``python -m reproduction``: what is done and to do, progress, messages, the report."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

import clocs
from clocs.experiments.workspace import CellTable
from reproduction.__main__ import main
from reproduction.cells import AnyCell, Evaluation, Pretraining
from reproduction.experiments import EXPERIMENTS, Experiment, linear
from reproduction.report.results import Results
from tests.reproduction.results_factory import write_results

Command = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduce") / "stores"
    clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options={"num_records": 60, "leads": 1}))
    return folder


def tiny(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """Two pre-trainings with an evaluation each, and one that lacks its data."""
    for seed in seeds:
        for steps in (1, 2):
            config = {"batch_size": 16, "max_steps": steps}
            start = Pretraining(method="cmsc", dataset="synthetic", seed=seed, max_epochs=1, config=config)
            yield Evaluation(protocol="linear", start=start, dataset="synthetic", preset="recommended", seed=seed)
        yield Evaluation(protocol="linear", start=None, dataset="chapman", leads=12, seed=seed)


def wrong(seeds: Iterable[int]) -> Iterator[AnyCell]:
    """One that fails."""
    yield Pretraining(method="cmsc", dataset="synthetic", max_epochs=1, options={"temperature": -1})


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, stores: Path
) -> Command:
    """Output and errors of a command in a folder of its own, with two experiments of the test's own."""
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment("tiny", "Small cells", tiny))
    monkeypatch.setitem(EXPERIMENTS, "wrong", Experiment("wrong", "A wrong cell", wrong))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: object, code: int = 0) -> tuple[str, str]:
        where = ["--stores", stores] if arguments[0] in ("run", "status") else []
        monkeypatch.setattr(sys, "argv", ["reproduction", *map(str, (*arguments, *where))])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert int(ended.value.code or 0) == code, out + err
        return out, err

    return run


def test_a_run_prints_progress_and_skipped_cells(command: Command) -> None:
    out, err = command("run", "tiny", "--json")
    found = json.loads(out)["experiments"]["tiny"]
    assert (found["title"], found["cells"], found["done"], found["to_do"]) == ("Small cells", 5, 4, 1)
    assert found["missing_inputs"] == {"store of chapman": 1, "publishers' full downloads (12 leads)": 1}
    lines = [line for line in err.splitlines() if line.startswith("done: ")]
    assert [re.search(r"\((\d) of 4 cells, about .* left\)", line)[1] for line in lines] == ["2", "2", "4", "4"]  # type: ignore[index]
    assert lines[-1].endswith("(4 of 4 cells, about 0 s left)")
    assert "left out, without store of chapman: 1" in err

    again, quiet = command("run", "tiny")
    assert "done: " not in quiet
    assert again.splitlines()[-1].split()[:4] == ["tiny", "4", "1", "0"]


def test_the_status_has_every_experiment_and_computes_nothing(command: Command, tmp_path: Path) -> None:
    out, err = command("status", "--json", "--seeds", 2)
    found = json.loads(out)
    assert err == ""
    assert list(found["experiments"]) == list(EXPERIMENTS)
    tiny = found["experiments"]["tiny"]
    assert (tiny["cells"], tiny["to_do"], tiny["runnable"]) == (10, 10, 8)
    assert 0 < tiny["runnable_core_hours"] < tiny["core_hours"]
    parts = [part["cells"] for part in found["experiments"].values()]
    assert max(parts) < found["together"]["cells"] < sum(parts)
    assert list(tmp_path.iterdir()) == []


def test_the_status_as_a_table(command: Command) -> None:
    out, _ = command("status", "figure6", "tiny")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert rows["figure6"].split()[1:4] == ["0", "4", "0"]
    assert "; needs store of physionet2020 for 4" in rows["figure6"]
    assert float(rows["figure6"].split()[4]) > 0.1
    assert rows["tiny"].split()[1:4] == ["0", "5", "4"]
    assert rows["together"].split()[1:4] == ["0", "9", "4"]


def test_methods_and_datasets_filter_cells(command: Command) -> None:
    out, _ = command("status", "--json", "table1", "--methods", "cmsc,random", "--datasets", "chapman")
    assert json.loads(out)["experiments"]["table1"]["cells"] == 4  # with the pre-training and supervised training


def test_a_filter_without_cells_is_rejected(command: Command) -> None:
    _, err = command("run", "figure4", "--datasets", "chapman", code=1)
    assert "figure4: no cell has these methods and datasets" in err


def test_a_folder_without_stores_is_rejected(command: Command, stores: Path) -> None:
    (stores / "synthetic").rename(stores / "elsewhere")
    try:
        assert "has no store of chapman, synthetic: pass their folder by --stores" in command("run", "tiny", code=1)[1]
    finally:
        (stores / "elsewhere").rename(stores / "synthetic")


def test_a_failed_cell_is_printed_and_sets_the_exit_code(command: Command) -> None:
    out, err = command("run", "wrong", "--json", code=1)
    assert json.loads(out)["experiments"]["wrong"]["done"] == 0
    assert re.search(r"failed: cmsc-synthetic-\S+: .*temperature", err)


def test_a_name_is_needed_and_must_be_known(command: Command) -> None:
    assert "name what to run: table1" in " ".join(command("run", code=2)[1].split())
    assert "Did you mean 'table2'" in command("run", "tabel2", code=1)[1]
    assert "i/n" in command("run", "tiny", "--shard", "3/2", code=1)[1]


def test_methods_and_datasets_must_be_known(command: Command) -> None:
    assert "methods: unknown foo. Known: random, byol, " in command("run", "table1", "--methods", "cmsc,foo", code=1)[1]
    assert (
        "datasets: unknown chapmann. Known: chapman, " in command("run", "table1", "--datasets", "chapmann", code=1)[1]
    )


# --- the report

CELL = linear("cmsc", "chapman", 0)
PAGES = {"reproduction", "beyond", "encoders", "search"}


def test_report_and_pages_are_written(command: Command, tmp_path: Path) -> None:
    write_results(tmp_path / "results", [CELL])
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- results:table1-chapman -->\n<!-- /results -->\nafter\n")
    assert command("report", page, "--out", "out")[0] == "6 files; the report is in out\n"
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {*(f"{name}.md" for name in PAGES), "images"}
    text = page.read_text()
    assert text.startswith("before\n<!-- results:table1-chapman -->\n|")
    assert text.endswith("<!-- /results -->\nafter\n")


def test_a_folder_without_results_is_rejected(command: Command, tmp_path: Path) -> None:
    assert "has no cells.jsonl" in command("report", "--results", tmp_path, "--out", "out", code=1)[1]
    assert not (tmp_path / "out").exists()


# --- cells that were computed elsewhere


def test_collect_adds_finished_cells_once(command: Command, tmp_path: Path) -> None:
    write_results(tmp_path / "results", [CELL])
    mine = (tmp_path / "results" / "cells.jsonl").read_text()
    write_results(tmp_path / "elsewhere", [linear("cmsc", "chapman", seed) for seed in (0, 1)])
    assert command("collect", "elsewhere")[0] == "cells added to results: 2\n"
    assert (tmp_path / "results" / "cells.jsonl").read_text().startswith(mine)
    found = Results(tmp_path / "results").seeds(partial(linear, "cmsc", "chapman"))
    assert list(found) == [0, 1]
    assert found[1].replicates.keys() == found[1].kept_replicates.keys() == {"frame", "recording"}
    before = [path.read_bytes() for path in sorted((tmp_path / "results").iterdir())]
    assert command("collect", "elsewhere")[0] == "cells added to results: 0\n"
    assert [path.read_bytes() for path in sorted((tmp_path / "results").iterdir())] == before


def test_collect_leaves_out_replicates_of_unfinished_cells(command: Command, tmp_path: Path) -> None:
    write_results(tmp_path / "elsewhere", [CELL])
    table = CellTable(tmp_path / "elsewhere" / "replicates.jsonl")
    table.append("linear-cmsc-of-another-seed", {"frame": {}})
    command("collect", "elsewhere")
    kept = [name for name, _ in CellTable(tmp_path / "results" / "replicates.jsonl").rows()]
    assert len(kept) == 2
    assert "linear-cmsc-of-another-seed" not in kept


def test_collect_needs_a_results_folder(command: Command) -> None:
    assert "elsewhere has no cells.jsonl" in command("collect", "elsewhere", code=1)[1]
