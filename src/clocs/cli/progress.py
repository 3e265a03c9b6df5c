"""What long work shows while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_bar(unit: str) -> Iterator[Any]:
    """A progress bar on standard error: call it with done, total (None: unknown) and a note."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.completed:,.0f} " + unit), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, note: bar.update(task, completed=done, total=total, description=note)


class TrainingProgress:
    """Loss, speed and time left of a training, on standard error."""

    def __init__(self, epochs: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._console = Console(stderr=True)
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._epochs, self._validation = epochs, ""

    def __enter__(self) -> TrainingProgress:
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None, note="")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, known: dict[str, Any]) -> None:
        """Show a step's or an epoch's values."""
        if "validation_loss" in known:
            self._validation = f"validation {known['validation_loss']:.4f}, rank {known['effective_rank']:.1f}"
            return
        note = f"loss {known['loss']:.4f}  {known['frames_per_second']:,.0f} frames/s  {self._validation}"
        done = known["epoch"] * known["per_epoch"] + known["in_epoch"]
        description = f"epoch {known['epoch'] + 1} of at most {self._epochs}"
        self._bar.update(
            self._task, completed=done, total=self._epochs * known["per_epoch"], description=description, note=note
        )
