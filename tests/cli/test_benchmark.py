"""``clocs benchmark``: its options, page and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import clocs
from tests.cli.conftest import Command


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one store of sixty recordings."""
    folder = tmp_path_factory.mktemp("stores")
    options = {"num_records": 60, "leads": 1, "seconds": 5}
    clocs.split(clocs.ingest("synthetic", None, folder / "synthetic", options=options))
    return folder


def test_a_control_alone_makes_a_page(command: Command, stores: Path, tmp_path: Path) -> None:
    options = ("--label-fraction", 1, "--selection", "validation", "--out", "out")
    out, err = command(
        "benchmark", "--stores", stores, "--task", "synthetic:sex", "--control", "random-kernels", *options
    )
    assert out == "1 cells in out/benchmark.md\n"
    assert err.startswith("random kernels-synthetic-sex-")
    (row,) = json.loads((tmp_path / "out" / "benchmark.json").read_text())["rows"]
    assert {(line["label_fraction"], line["selection"]) for line in row["rows"]} == {(1.0, "validation")}
    assert "| random kernels | linear |" in (tmp_path / "out" / "benchmark.md").read_text()


def test_without_encoders_and_controls_there_is_nothing_to_compute(command: Command, stores: Path) -> None:
    out, err = command("benchmark", "--stores", stores, "--control", "none")
    assert (out, err) == ("0 cells in benchmark/benchmark.md\n", "")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--control", "kernels", "Unknown control 'kernels'. Controls: untrained, random kernels."),
        ("--way", "linaer", "Unknown way 'linaer'. Choose from linear, attentive and fine-tuned."),
        ("--label-fraction", "2", "label_fractions.0: Input should be less than or equal to 1"),
        ("--selection", "test", "selections.0: Input should be 'validation' or 'cross-validation'"),
        ("--task", "other", "has no store 'other'. Its stores: synthetic."),
        ("--leads", "X", "Most recordings lack X; they have II. Choose of these."),
    ],
)
def test_invalid_options_are_refused_before_any_work(
    command: Command, stores: Path, tmp_path: Path, option: str, value: str, message: str
) -> None:
    _, err = command("benchmark", "clocs-small", "--stores", stores, option, value, code=1)
    assert message in err
    assert not (tmp_path / "benchmark").exists()
