"""A benchmark from stores to its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import clocs
from clocs.core.errors import ConfigError
from clocs.evaluation.benchmark import benchmark as module
from clocs.evaluation.benchmark.cells import BenchmarkCell, Control, Way
from clocs.evaluation.benchmark.embedders import load_embedder
from clocs.evaluation.benchmark.task_evaluation import BenchmarkOptions
from clocs.inference.classification import format_set
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from tests.evaluation.benchmark.conftest import Moments

QUICK = BenchmarkOptions(label_fractions=(1.0,), selections=("validation",), replicates=100)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one store of sixty recordings."""
    folder = tmp_path_factory.mktemp("stores")
    options = {"num_records": 60, "leads": 1, "seconds": 5}
    clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options=options))
    return folder


@pytest.mark.parametrize(
    ("task", "message"),
    [("ptbxl", "has no store 'ptbxl'. Its stores: synthetic"), ("synthetic:form", "no task 'form'. Its tasks: age")],
)
def test_an_unknown_store_or_task_is_refused(stores: Path, tmp_path: Path, task: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        clocs.benchmark([], stores, tmp_path, tasks=[task])


def test_an_unknown_encoder_is_refused_before_any_work(stores: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-encoder"):
        clocs.benchmark(["no-such-encoder"], stores, tmp_path / "out", tasks=["synthetic:rhythm"])
    assert not (tmp_path / "out").exists()


def test_embedders_of_other_models_take_part(stores: Path, tmp_path: Path) -> None:
    result = clocs.benchmark([Moments()], stores, tmp_path, tasks=["synthetic:sex"], controls=(), options=QUICK)
    assert result.failed == []
    (row,) = result.rows
    assert row["encoder"] == {"name": "moments", "control": "", "seen": None}
    assert row["rows"][0]["dimension"] == 2 * 3, "mean and standard deviation; mean, maximum and minimum over frames"


def test_a_module_has_an_untrained_control_and_its_weights_are_part_of_the_name() -> None:
    def cells(network: nn.Module) -> list[BenchmarkCell]:
        embedders = {"mine": load_embedder(network, policy=FramePolicy(num_samples=500, sampling_rate=100))}
        every = module._cells(["mine"], [("made-up", "pair")], ["linear"], QUICK)
        return list(module._identified(every, embedders))

    network = nn.Sequential(nn.Conv1d(1, 4, 15, 5), nn.AdaptiveMaxPool1d(1), nn.Flatten())
    before = cells(network)
    assert [cell.control for cell in before] == ["", "untrained", "random kernels"]
    assert [cell.initial_weights_sha256 for cell in before] == [None] * 3
    nn.init.zeros_(network.get_parameter("0.weight"))
    changed = [old.key != new.key for old, new in zip(before, cells(network), strict=True)]
    assert changed == [True, True, False]


def test_modules_without_frames_and_equal_names_are_refused(stores: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Flatten: its frames and leads are unknown"):
        clocs.benchmark([nn.Flatten()], stores, tmp_path)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="Several encoders are named 'moments'"):
        clocs.benchmark([Moments(), Moments()], stores, tmp_path)


def test_cells_of_every_way() -> None:
    options = BenchmarkOptions(replicates=200)
    encoders = ["clocs-small", "scratch:s4d"]
    ways: tuple[Way, ...] = ("linear", "attentive", "fine-tuned")
    cells = list(module._cells(encoders, [("made-up", "pair")], ways, options, 7))
    assert [(cell.encoder, cell.control, cell.way) for cell in cells] == [
        ("clocs-small", "", "linear"),
        ("clocs-small", "untrained", "linear"),
        ("clocs-small", "", "attentive"),
        ("clocs-small", "untrained", "attentive"),
        ("clocs-small", "", "fine-tuned"),
        ("scratch:s4d", "", "from scratch"),
        ("", "random kernels", "linear"),
    ]
    assert [cell.options.label_fractions for cell in cells[4:6]] == [(0.01, 0.1, 1.0), (1.0,)], "S4D is slow"
    assert {cell.options.selections for cell in cells if cell.way != "linear"} == {("validation",)}
    assert [cell.training.max_epochs for cell in cells if cell.training] == [7] * 4
    assert cells[0].describe().keys() == {"kind", "encoder", "dataset", "task", "options"}, "linear cells keep names"


def test_chosen_selections_apply_to_trained_networks() -> None:
    options = BenchmarkOptions(selections=("cross-validation",))
    cell, _ = module._cells(["scratch:resnet"], [("made-up", "pair")], (), options)
    assert cell.options.selections == ("cross-validation",)


def test_networks_are_trained_on_some_tasks_only() -> None:
    tasks = [("made-up", "pair"), ("made-up", "many")]
    cells = module._cells(["scratch:resnet"], tasks, (), BenchmarkOptions(), trained_tasks={tasks[0]})
    assert [(cell.encoder, cell.task) for cell in cells] == [("scratch:resnet", "pair"), ("", "pair"), ("", "many")]


def test_controls_are_chosen_and_finished_ones_are_compared_with(stores: Path, tmp_path: Path) -> None:
    def controls(*chosen: Control) -> list[str | None]:
        result = clocs.benchmark([Moments()], stores, tmp_path, tasks=["synthetic:sex"], controls=chosen, options=QUICK)
        assert result.failed == []
        compared = [line["minus_control"] for line in result.rows[0]["rows"]]
        return [line and line["control"] for line in compared]

    assert set(controls()) == {None}
    assert set(controls("random kernels")) == {"random kernels"}
    assert set(controls()) == {"random kernels"}


def test_an_unknown_control_is_refused_before_any_work(stores: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Unknown control 'kernels'\. Controls: untrained, random kernels"):
        clocs.benchmark([], stores, tmp_path / "out", controls=["kernels"])  # type: ignore[list-item]
    assert not (tmp_path / "out").exists()


def test_an_unknown_network_is_refused_before_any_work(stores: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no-such-network"):
        clocs.benchmark(["scratch:no-such-network"], stores, tmp_path / "out", tasks=["synthetic:rhythm"])
    assert not (tmp_path / "out").exists()


def test_cells_of_earlier_calls_are_kept_on_the_same_store_and_split(tmp_path: Path) -> None:
    def row(encoder: str, task: str, store: str, *fractions: float) -> dict[str, Any]:
        cell = {"encoder": encoder, "dataset": "made-up", "task": task}
        lines = [{"features": "frames", "label_fraction": share, "selection": "validation"} for share in fractions]
        options = {"options": {"label_fractions": list(fractions)}}
        return {"cell": cell | options, "origin": {"data": {"made-up": [store, "split"]}}, "rows": lines}

    def kept(*earlier: dict[str, Any]) -> list[dict[str, Any]]:
        (tmp_path / "benchmark.json").write_text(json.dumps({"rows": earlier}))
        return module._earlier_rows(tmp_path / "benchmark.json", [row("a", "pair", "now", 0.1, 1.0)])

    other_encoder, other_task = row("b", "pair", "now", 1.0), row("a", "many", "before", 1.0)
    assert kept(row("a", "pair", "now", 0.1, 1.0), other_encoder, other_task) == [other_encoder, other_task]
    assert kept(row("c", "pair", "before", 1.0)) == []
    assert kept(row("a", "pair", "now", 1.0)) == [], "the new row has these labels, too"
    assert len(kept(row("a", "pair", "now", 0.01, 1.0))) == 1
    assert module._earlier_rows(tmp_path / "none.json", []) == []


@pytest.mark.slow
def test_encoders_stand_beside_their_controls(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def call() -> module.BenchmarkResult:
        return clocs.benchmark(["clocs-small"], stores, tmp_path, tasks=["synthetic:rhythm"], options=QUICK)

    result = call()
    assert result.failed == []
    assert [(row["encoder"]["name"], row["encoder"]["control"]) for row in result.rows] == [
        ("clocs-small", ""),
        ("clocs-small, untrained", "untrained"),
        ("random kernels", "random kernels"),
    ]
    assert json.loads((tmp_path / "benchmark.json").read_text())["rows"] == result.rows
    assert (tmp_path / "benchmark.md").read_text() == result.page
    monkeypatch.setattr(module, "run_cell", None)
    assert call().rows == result.rows, "finished cells are not computed again"

    other = json.loads((tmp_path / "benchmark.json").read_text())
    for row in other["rows"]:
        row["cell"]["task"] = "of an earlier call"
    (tmp_path / "benchmark.json").write_text(json.dumps(other))
    assert call().rows == other["rows"] + result.rows, "tasks that are not evaluated are kept"


def test_a_benchmark_of_some_leads_has_a_section_of_its_own(tmp_path: Path) -> None:
    options = {"num_records": 60, "leads": 2, "seconds": 5}
    store = clocs.ingest("synthetic", None, tmp_path / "stores" / "synthetic", options=options)
    clocs.split(store)

    def call(leads: tuple[str, ...]) -> module.BenchmarkResult:
        stores, out = tmp_path / "stores", tmp_path / "out"
        return clocs.benchmark(["clocs-small"], stores, out, tasks=["synthetic:rhythm"], options=QUICK, leads=leads)

    with pytest.raises(ConfigError, match="linear models alone"):
        clocs.benchmark(["scratch:resnet"], tmp_path / "stores", tmp_path / "out", leads=("I",))
    first, second = Frames(store, FramePolicy(num_samples=500, sampling_rate=100), all_leads=True).leads
    result = call((first,))
    assert result.failed == []
    assert [row["encoder"]["name"] for row in result.rows] == [
        f"{name}, {format_set((first,))}" for name in ("clocs-small", "clocs-small, untrained", "random kernels")
    ]
    assert result.rows[0]["rows"][0]["dimension"] == 128 * 3
    assert f"## synthetic: rhythm, {format_set((first,))}\n" in result.page
    with pytest.raises(ConfigError, match=f"Most recordings lack V9; they have {first}, {second}"):
        call(("V9",))
