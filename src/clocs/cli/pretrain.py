"""``clocs pretrain``: from a store to an encoder."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer


def pretrain(
    config: Annotated[str, typer.Argument(metavar="CONFIG", help="METHOD-DATASET (cmsc-chapman), or a YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Laid over the config.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the resolved config and exit.")] = False,
) -> None:
    """Pre-train an encoder. Killed, the same command continues; finished, it does nothing.

    Keys: store, runs, seed, epochs, batch, leads, embedding, threads, devices, method.temperature, ...
    """
    from clocs.training.config import resolve

    settings = resolve(config, overrides or [])
    if show:
        typer.echo(settings.model_dump_json(indent=2))
        return
    from clocs.training.pretrain import pretrain as run

    with _Display(settings.epochs) as display:
        result = run(settings, progress=display.update)
    if int(os.environ.get("RANK") or os.environ.get("LOCAL_RANK") or 0):
        return  # one rank speaks for all
    if as_json:
        typer.echo(json.dumps(result))
        return
    state = "was finished already" if result["already_finished"] else "is finished"
    typer.echo(
        f"run {result['run']} {state}: {result['epochs']} epochs, validation loss {result['validation_loss']:.4f}"
    )
    typer.echo(f"best encoder (epoch {result['best_epoch']}): {result['best']}")


class _Display:
    """Loss, speed and time left on standard error."""

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

    def __enter__(self) -> _Display:
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
