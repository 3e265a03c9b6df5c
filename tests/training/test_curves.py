"""Learning curves: values of metrics.jsonl, also of unfinished runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import clocs.training.curves
from clocs.core.errors import StoreError
from clocs.training.curves import draw_runs, learning_curve

EPOCHS = [
    {"step": 2, "epoch": 0, "train_loss": 3.0, "validation_loss": 2.5, "effective_rank": 9.0, "validation_auc": 0.5},
    {"step": 4, "epoch": 1, "train_loss": 2.0, "validation_loss": 2.0, "effective_rank": 8.0, "validation_auc": 0.6},
]


def make_run(folder: Path, *, tail: str = "") -> Path:
    steps = [{"step": step, "epoch": (step - 1) // 2, "loss": 5.0 - step, "items": 7} for step in (1, 2, 3, 4)]
    lines = [steps[0], steps[1], EPOCHS[0], steps[2], steps[3], EPOCHS[1]]
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)
    return folder


@pytest.mark.parametrize("tail", ["", '{"step": 5, "epo', '{"step": 5, "epoch": 2}'])
def test_epochs_are_read_and_a_line_still_being_written_is_not(tail: str, tmp_path: Path) -> None:
    curve = learning_curve(make_run(tmp_path / "run", tail=tail))
    assert curve.epoch.tolist() == [0, 1]
    assert curve.training_loss.tolist() == [3.0, 2.0]
    assert curve.validation_loss.tolist() == [2.5, 2.0]
    assert curve.effective_rank.tolist() == [9.0, 8.0]


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run"):
        learning_curve(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "epoch": 0, "loss": 1.0}\n')
    with pytest.raises(StoreError, match="no epoch is finished"):
        learning_curve(tmp_path)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("a/cmsc-chapman-0123", "a/simclr-chapman-4567"), ["cmsc-chapman", "simclr-chapman"]),
        (("a/cmsc-chapman-0123", "a/cmsc-chapman-4567"), ["cmsc-chapman-0123", "cmsc-chapman-4567"]),
        (("a/first", "a/second"), ["first", "second"]),
        (("a/cmsc-chapman-0123", "b/cmsc-chapman-0123"), ["a/cmsc-chapman-0123", "b/cmsc-chapman-0123"]),
    ],
)
def test_names_are_as_short_as_possible(
    names: tuple[str, ...], labels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(clocs.training.curves, "draw_learning_curves", lambda runs, out, title: drawn.update(runs))
    draw_runs([make_run(Path(name)) for name in names], tmp_path / "x.png")
    assert list(drawn) == labels
