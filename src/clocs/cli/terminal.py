"""Terminal output: tables on standard output, progress bars or log lines on standard error."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Advance = Callable[[int, int | None, str], None]
"""Callback with the amount done, the total (None if unknown) and a note."""
FIRST_REPORT = 1000
"""Amount at the first line if the total is unknown. Each next line comes after another quarter."""
MIN_BYTES = 10_000_000
"""Minimum number of bytes between two lines."""
LOG_EVERY = 200
"""Training steps between two lines within an epoch."""


def is_rank_zero() -> bool:
    """Return True if this process has rank zero, according to the environment variables of its launcher."""
    names = ("RANK",) if os.environ.get("RANK") else ("LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return not any(int(os.environ.get(name) or 0) for name in names)


def print_line(text: str) -> None:
    """Print a line to standard error without buffering."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def progress_bar(unit: str) -> Iterator[Advance]:
    """Show progress as a bar on a terminal, otherwise as a line for every tenth of the work.

    Args:
        unit: What is counted, e.g. ``"recordings"``.

    Yields:
        The function to call with the amount done, the total (None if unknown) and a note.
    """
    if not sys.stderr.isatty():
        yield ProgressLines(unit)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.completed:,.0f} " + unit), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, note: bar.update(task, completed=done, total=total, description=note)


class ProgressLines:
    """Lines for every tenth of the work, or for every further quarter if the total is unknown.

    Args:
        unit: What is counted. For ``bytes``, lines are at least 10 MB apart, so small files print none.
        write: Function that prints a line.
    """

    def __init__(self, unit: str, write: Callable[[str], None] = print_line) -> None:
        self._unit, self._write = unit, write
        self._min_step = MIN_BYTES if unit == "bytes" else 1
        self._total: int | None = None
        self._done, self._reported, self._since = 0, 0, 0

    def __call__(self, done: int, total: int | None, note: str) -> None:
        """Report progress. A smaller amount than before, or another total, starts a new progress."""
        if done < self._done or total != self._total:
            self._done, self._total, self._reported = 0, total, 0
        self._since += done - self._done
        self._done = done
        if total:
            due = done * 10 // total > self._reported * 10 // total
        else:
            due = done >= max(FIRST_REPORT, 1.25 * self._reported)
        if due and self._since >= self._min_step:
            self._reported, self._since = done, 0
            of = f" of {total:,} ({done / total:.0%})" if total else ""
            self._write(f"{done:,}{of} {self._unit}{f', {note}' if note else ''}")


@contextmanager
def training_progress(max_epochs: int, log_every: int = LOG_EVERY) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show training progress: a bar on a terminal, otherwise lines; nothing on ranks other than zero.

    Log messages of the training, such as its folder and the resumed step, are shown too.

    Args:
        max_epochs: Maximum number of epochs.
        log_every: Steps between lines within an epoch.

    Yields:
        The ``progress`` callback of the training.
    """
    if not is_rank_zero():
        yield lambda values: None
    elif sys.stderr.isatty():
        with TrainingBar(max_epochs) as bar, _messages_to(bar.write):
            yield bar.update
    else:
        lines = TrainingLines(max_epochs, log_every)
        with _messages_to(lines.write):
            yield lines.update


@contextmanager
def _messages_to(write: Callable[[str], None]) -> Iterator[None]:
    """Pass log messages of ``clocs.training`` to a function."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            write(record.getMessage())

    logger, handler = logging.getLogger("clocs.training"), Handler(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class TrainingLines:
    """Lines for every epoch of a training, and for every ``log_every`` steps within an epoch."""

    def __init__(
        self,
        max_epochs: int,
        log_every: int = LOG_EVERY,
        *,
        write: Callable[[str], None] = print_line,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._epochs, self._log_every, self._print, self._clock = max_epochs, log_every, write, clock
        self._began = clock()
        self._step: dict[str, Any] = {}

    def write(self, text: str) -> None:
        """Print a log message of the training, and start the timer of the epoch."""
        self._print(text)
        self._began = self._clock()

    def update(self, status: dict[str, Any]) -> None:
        """Print the values of a step or an epoch."""
        if "validation_loss" in status:
            now = self._clock()
            values = {**self._step, **status, "seconds": now - self._began}
            self._print(f"{self._position(status)}: {_format_values(values, EPOCH_VALUES)}")
            self._began, self._step = now, {}
            return
        self._step = status
        if status["in_epoch"] % self._log_every == 0 and status["in_epoch"] < status["per_epoch"]:
            within = f"{status['in_epoch']:,} of {status['per_epoch']:,} in the epoch"
            self._print(f"{self._position(status)} ({within}): {_format_values(status, STEP_VALUES)}")

    def _position(self, status: dict[str, Any]) -> str:
        return f"epoch {min(status['epoch'] + 1, self._epochs)} of at most {self._epochs}, step {status['step']:,}"


LOSS, SPEED, RATE = "loss {:.4f}", "{:,.0f} frames/s", "learning rate {:.3g}"
STEP_VALUES = {"loss": LOSS, "learning_rate": RATE, "frames_per_second": SPEED}
EPOCH_VALUES = {
    "train_loss": f"train {LOSS}",
    "validation_loss": f"validation {LOSS}",
    "validation_auc": "validation AUC {:.4f}",
    "probe_auc": "probe AUC {:.4f}",
    "effective_rank": "effective rank {:.1f}",
    "learning_rate": RATE,
    "frames_per_second": SPEED,
    "seconds": "{:.1f} s",
}


def _format_values(values: dict[str, Any], formats: dict[str, str]) -> str:
    """Format the available values."""
    return ", ".join(form.format(values[key]) for key, form in formats.items() if values.get(key) is not None)


class TrainingBar:
    """Progress bar of a training with loss, speed and remaining time."""

    def __init__(self, max_epochs: int) -> None:
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
        self._epochs, self._validation = max_epochs, ""

    def __enter__(self) -> TrainingBar:
        self._bar.start()
        self._task = self._bar.add_task("starting", total=None, note="")
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def write(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def update(self, status: dict[str, Any]) -> None:
        """Show the values of a step or an epoch."""
        if "validation_loss" in status:
            self._validation = f"validation {status['validation_loss']:.4f}, rank {status['effective_rank']:.1f}"
            return
        note = f"loss {status['loss']:.4f}  {status['frames_per_second']:,.0f} frames/s  {self._validation}"
        done = status["epoch"] * status["per_epoch"] + status["in_epoch"]
        description = f"epoch {status['epoch'] + 1} of at most {self._epochs}"
        self._bar.update(
            self._task, completed=done, total=self._epochs * status["per_epoch"], description=description, note=note
        )


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table, integers with thousands separators and text without markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for title in titles:
        table.add_column(Text(title), overflow="fold")
    for row in rows:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
    Console().print(table)
