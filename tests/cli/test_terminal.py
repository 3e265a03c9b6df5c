"""Progress on a terminal and in a log."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import clocs
from clocs.cli.terminal import (
    ProgressLines,
    TrainingBar,
    TrainingLines,
    is_rank_zero,
    print_table,
    progress_bar,
    training_progress,
)
from tests.cli.conftest import Command

STEP = {"step": 8, "epoch": 2, "loss": 1.23456, "frames_per_second": 12345.6, "in_epoch": 2, "per_epoch": 3}
EPOCH = {"step": 9, "epoch": 2, "train_loss": 1.0, "validation_loss": 0.98765, "effective_rank": 7.04}


def test_a_terminal_shows_steps_and_the_last_epochs_validation() -> None:
    with TrainingBar(20) as shown:
        said = io.StringIO()
        shown.update(STEP)
        (task,) = shown._bar.tasks
        assert (task.completed, task.total) == (8, 60)
        assert task.fields["note"].strip() == "loss 1.2346  12,346 frames/s"
        shown.update(EPOCH)
        shown.update({**STEP, "epoch": 3, "in_epoch": 1})
        Console(file=said, width=200).print(shown._bar.get_renderable())
    for words in ("epoch 4 of at most 20", "loss 1.2346", "12,346 frames/s", "validation 0.9877, rank 7.0"):
        assert words in said.getvalue()
    assert task.completed == 10


def test_the_bar_is_on_standard_error_alone() -> None:
    shown = TrainingBar(2)
    assert shown._console.stderr
    assert shown._bar.live.transient, "gone when it ends"


def test_a_log_has_a_line_an_epoch_and_one_every_so_many_steps() -> None:
    lines: list[str] = []
    seconds = iter([90.0, 100.0, 112.5, 113.0])
    shown = TrainingLines(20, log_every=3, write=lines.append, clock=lambda: next(seconds))
    shown.write("run folder: x")
    for step in range(1, 8):
        shown.update({**STEP, "learning_rate": 1e-4, "step": 14 + step, "in_epoch": step, "per_epoch": 6})
        if step == 6:
            shown.update({**EPOCH, "step": 20})
    shown.update({**EPOCH, "step": 21, "epoch": 3, "validation_auc": 0.9, "probe_auc": 0.75})
    assert lines == [
        "run folder: x",
        "epoch 3 of at most 20, step 17 (3 of 6 in the epoch): loss 1.2346, learning rate 0.0001, 12,346 frames/s",
        "epoch 3 of at most 20, step 20: train loss 1.0000, validation loss 0.9877, effective rank 7.0, "
        "learning rate 0.0001, 12,346 frames/s, 12.5 s",
        "epoch 4 of at most 20, step 21: train loss 1.0000, validation loss 0.9877, validation AUC 0.9000, "
        "probe AUC 0.7500, effective rank 7.0, learning rate 0.0001, 12,346 frames/s, 0.5 s",
    ]


def test_a_run_of_no_epochs_has_a_line_without_steps() -> None:
    lines: list[str] = []
    shown = TrainingLines(0, write=lines.append, clock=lambda: 0.0)
    shown.update({**EPOCH, "step": 0, "epoch": 0})
    (line,) = lines
    assert line.endswith("effective rank 7.0, 0.0 s")


def _reported(unit: str, *calls: tuple[int, int | None]) -> list[int]:
    """Return which calls print a line."""
    printed: list[int] = []
    lines = ProgressLines(unit, lambda text: printed.append(number))
    for number, (done, total) in enumerate(calls):  # noqa: B007
        lines(done, total, "")
    return printed


def test_other_work_has_a_line_every_tenth() -> None:
    known = _reported("recordings", *((done, 200) for done in range(1, 201)))
    assert known == [done - 1 for done in range(20, 201, 20)]
    assert _reported("recordings", (1, 2), (2, 2)) == [0, 1]
    assert _reported("recordings", (50, 100), (50, 100), (100, 100)) == [0, 2]


def test_with_an_unknown_total_there_is_a_line_whenever_a_quarter_more_is_done() -> None:
    found = _reported("recordings", *((done, None) for done in range(1, 2001)))
    assert [number + 1 for number in found] == [1000, 1250, 1563, 1954]
    assert _reported("recordings", (10, None), (10, 20), (20, 20)) == [1, 2], "a total that is known later"


def test_small_files_print_no_lines() -> None:
    million = 1_000_000
    small = [(million, million)] * 25
    assert _reported("bytes", *((done, total) for whole in small for done, total in ((0, million), whole))) == [19, 39]
    assert _reported("bytes", *((done * million, 200 * million) for done in range(1, 201)))[:2] == [19, 39]


def test_lines_name_amount_share_and_note(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("recordings") as advance:
        advance(1234, 2000, "3 refused")
        advance(2000, 2000, "")
    assert capsys.readouterr() == ("", "1,234 of 2,000 (62%) recordings, 3 refused\n2,000 of 2,000 (100%) recordings\n")


@pytest.mark.parametrize(
    ("names", "zero"),
    [
        ({}, True),
        ({"RANK": "0", "LOCAL_RANK": "0"}, True),
        ({"RANK": "2", "LOCAL_RANK": "0"}, False),
        ({"LOCAL_RANK": "1"}, False),
        ({"LOCAL_RANK": "0", "NODE_RANK": "1"}, False),
        ({"SLURM_PROCID": "3"}, False),
    ],
)
def test_rank_zero_alone_prints(
    names: dict[str, str], zero: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert is_rank_zero() == zero
    with training_progress(20) as update:
        update(EPOCH)
    assert bool(capsys.readouterr().err) == zero


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("progress") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": 200, "leads": 4}))
    return folder


def _pretrain(store: Path, runs: Path, *more: str) -> list[str]:
    overrides = [f"store={store}", f"runs={runs}", "max_steps=6", "batch_size=32"]
    overrides += ["checkpoint_every=2", "onnx=false"]
    return [sys.executable, "-m", "clocs", "pretrain", "cmsc-synthetic", *overrides, *more]


def test_a_log_names_the_folder_and_the_step_at_which_a_run_resumes(
    store: Path, tmp_path: Path, command: Command
) -> None:
    def interrupt(known: dict[str, Any]) -> None:
        if known["step"] == 3:
            raise KeyboardInterrupt

    arguments = _pretrain(store, tmp_path / "runs", "--log-every", "2", "--json")[3:]
    with pytest.raises(KeyboardInterrupt):
        clocs.pretrain("cmsc-synthetic", arguments[2:8], progress=interrupt)
    out, err = command(*arguments)
    folder = json.loads(out)["run"]
    first, second, *rest = err.splitlines()
    assert first == f"run folder: {folder}"
    assert second == f"run {folder} continues after step 2, the newest checkpoint"
    assert [line.split(":")[0] for line in rest] == [
        "epoch 1 of at most 20, step 4 (4 of 16 in the epoch)",
        "epoch 1 of at most 20, step 6 (6 of 16 in the epoch)",
        "epoch 1 of at most 20, step 6",
    ]


@pytest.mark.slow
def test_two_ranks_print_every_line_once(store: Path, tmp_path: Path) -> None:
    done = subprocess.run(_pretrain(store, tmp_path, "devices=2"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (folder,) = tmp_path.iterdir()
    for start in (f"run folder: {folder}", "epoch 1 of at most 20, step 6: train loss"):
        assert sum(line.startswith(start) for line in done.stderr.splitlines()) == 1, done.stderr
    assert done.stdout.count("best encoder") == 1


def test_a_terminal_gets_the_folder_above_the_bar(store: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    job = subprocess.Popen(
        _pretrain(store, tmp_path), stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    said = b""
    while chunk := _read(ours):
        said += chunk
    os.close(ours)
    job.communicate()
    assert job.returncode == 0
    text = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", said).decode()
    (folder,) = tmp_path.iterdir()
    assert f"run folder: {folder}" in re.split(r"[\r\n]+", text)
    assert "train loss" not in text


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: the last writer has closed it
        return b""


def test_text_is_printed_without_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """In a label, an id or a path, brackets and colons are no markup and no emoji."""
    words = ("AF [old]", "ward[/x]/r4.hea", "[red]", ":heart:")
    print_table(["my[store]", ""], [(word, 12345) for word in words])
    said = capsys.readouterr().out
    assert all(word in said for word in (*words, "my[store]"))
    assert said.count("12,345") == len(words)
