"""What a training shows while it runs."""

from __future__ import annotations

import io

from rich.console import Console

from clocs.cli.progress import TrainingProgress


def test_steps_and_the_last_epochs_validation_are_shown() -> None:
    with TrainingProgress(20) as shown:
        said = io.StringIO()
        step = {"step": 8, "epoch": 2, "loss": 1.23456, "frames_per_second": 12345.6, "in_epoch": 2, "per_epoch": 3}
        shown.update(step)
        (task,) = shown._bar.tasks
        assert (task.completed, task.total) == (8, 60)
        assert task.fields["note"].strip() == "loss 1.2346  12,346 frames/s"
        shown.update({"step": 9, "epoch": 2, "train_loss": 1.0, "validation_loss": 0.98765, "effective_rank": 7.04})
        shown.update({**step, "epoch": 3, "in_epoch": 1})
        Console(file=said, width=200).print(shown._bar.get_renderable())
    for words in ("epoch 4 of at most 20", "loss 1.2346", "12,346 frames/s", "validation 0.9877, rank 7.0"):
        assert words in said.getvalue()
    assert task.completed == 10


def test_it_writes_to_standard_error_alone() -> None:
    shown = TrainingProgress(2)
    assert shown._console.stderr
    assert shown._bar.live.transient, "gone when it ends"
