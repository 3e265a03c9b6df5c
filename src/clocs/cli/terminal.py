"""What a command shows: tables on standard output; progress on standard error, as a bar or as lines of a log."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Advance = Callable[[int, int | None, str], None]
"""Called with the amount done, the total (None: unknown) and a note."""
FIRST_LINE = 1000
"""With an unknown total, the amount that the first line reports. Each next line reports a quarter more."""
LEAST_BYTES = 10_000_000
"""Bytes between lines at least."""
LOG_EVERY = 200
"""Steps between the lines of a training within an epoch."""


def is_rank_zero() -> bool:
    """Return whether this process prints for all ranks of a training, by what its launcher has set."""
    names = ("RANK",) if os.environ.get("RANK") else ("LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    return not any(int(os.environ.get(name) or 0) for name in names)


def print_line(text: str) -> None:
    """Print a line on standard error at once."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def progress_bar(unit: str) -> Iterator[Advance]:
    """Show progress: a bar on a terminal, else a line every tenth of the work.

    Args:
        unit: What is counted, e.g. ``"recordings"``.

    Yields:
        The function to call with the amount done, the total (None: unknown) and a note.
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
    """Print a line for every tenth of the work; with an unknown total, whenever a quarter more is done.

    Args:
        unit: What is counted. Of bytes, at least 10 MB lie between two lines, so that small files are passed over.
        write: Prints a line.
    """

    def __init__(self, unit: str, write: Callable[[str], None] = print_line) -> None:
        self._unit, self._write = unit, write
        self._least = LEAST_BYTES if unit == "bytes" else 1
        self._total: int | None = None
        self._done, self._reported, self._since = 0, 0, 0

    def __call__(self, done: int, total: int | None, note: str) -> None:
        """Report progress. A smaller amount than before, or another total, begins a new piece of work."""
        if done < self._done or total != self._total:
            self._done, self._total, self._reported = 0, total, 0
        self._since += done - self._done
        self._done = done
        if total:
            due = done * 10 // total > self._reported * 10 // total
        else:
            due = done >= max(FIRST_LINE, 1.25 * self._reported)
        if due and self._since >= self._least:
            self._reported, self._since = done, 0
            of = f" of {total:,} ({done / total:.0%})" if total else ""
            self._write(f"{done:,}{of} {self._unit}{f', {note}' if note else ''}")


@contextmanager
def training_progress(max_epochs: int, log_every: int = LOG_EVERY) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show a training: a bar on a terminal, else plain lines; on ranks other than zero, nothing.

    Messages of the training itself (its folder, the step at which it resumes) are shown too.

    Args:
        max_epochs: The greatest number of epochs.
        log_every: Steps between lines within an epoch.

    Yields:
        The training's ``progress`` callback.
    """
    if not is_rank_zero():
        yield lambda known: None
    elif sys.stderr.isatty():
        with TrainingBar(max_epochs) as bar, _messages_to(bar.write):
            yield bar.update
    else:
        lines = TrainingLines(max_epochs, log_every)
        with _messages_to(lines.write):
            yield lines.update


@contextmanager
def _messages_to(write: Callable[[str], None]) -> Iterator[None]:
    """Hand on what ``clocs.training`` logs."""

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
    """Print a line for every epoch of a training, and one every ``log_every`` steps within an epoch."""

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
        """Print a message of the training, which begins after it: the seconds of an epoch count from there."""
        self._print(text)
        self._began = self._clock()

    def update(self, known: dict[str, Any]) -> None:
        """Print a step's or an epoch's values."""
        if "validation_loss" in known:
            now = self._clock()
            values = {**self._step, **known, "seconds": now - self._began}
            self._print(f"{self._position(known)}: {_described(values, EPOCH_VALUES)}")
            self._began, self._step = now, {}
            return
        self._step = known
        if known["in_epoch"] % self._log_every == 0 and known["in_epoch"] < known["per_epoch"]:
            within = f"{known['in_epoch']:,} of {known['per_epoch']:,} in the epoch"
            self._print(f"{self._position(known)} ({within}): {_described(known, STEP_VALUES)}")

    def _position(self, known: dict[str, Any]) -> str:
        return f"epoch {min(known['epoch'] + 1, self._epochs)} of at most {self._epochs}, step {known['step']:,}"


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


def _described(values: dict[str, Any], formats: dict[str, str]) -> str:
    """Describe those values that are known."""
    return ", ".join(form.format(values[key]) for key, form in formats.items() if values.get(key) is not None)


class TrainingBar:
    """Show loss, speed and time left of a training on a terminal."""

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


def print_table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under their titles; whole numbers with separators, words as they are: "[old]" is no markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for title in titles:
        table.add_column(Text(title), overflow="fold")
    for row in rows:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int) else str(cell)) for cell in row))
    Console().print(table)
