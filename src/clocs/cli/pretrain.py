"""``clocs pretrain``: pre-training of an encoder."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from clocs.cli.arguments import AsJson, Overrides
from clocs.cli.terminal import LOG_EVERY, is_rank_zero, training_progress


def pretrain(
    config: Annotated[
        str, typer.Argument(metavar="CONFIG", help="Configuration: METHOD-DATASET, e.g. cmsc-chapman, or a YAML file.")
    ],
    overrides: Overrides = None,
    as_json: AsJson = False,
    show: Annotated[bool, typer.Option("--show", help="Print the resolved configuration and exit.")] = False,
    log_every: Annotated[
        int,
        typer.Option(
            min=1, help="Set the number of steps between log lines within an epoch, if the output is not a terminal."
        ),
    ] = LOG_EVERY,
) -> None:
    """Pre-train an encoder.

    An interrupted command continues where it stopped. After the run is finished, it does nothing.

    Keys include store, runs, seed, max_epochs, batch_size, leads, embedding_dim, num_threads, devices and
    method.temperature. Use --show to see all.
    """
    from clocs.training.config_resolution import resolve_config

    settings = resolve_config(config, overrides or [])
    if show:
        typer.echo(settings.model_dump_json(indent=2))
        return
    from clocs.training.pretrain import pretrain as run

    with training_progress(settings.max_epochs, log_every) as progress:
        result = run(settings, progress=progress)
    if not is_rank_zero():
        return
    if as_json:
        typer.echo(json.dumps(result))
        return
    state = "was already finished" if result["already_finished"] else "is finished"
    typer.echo(
        f"run {result['run']} {state}: {result['epochs']} epochs, validation loss {result['validation_loss']:.4f}"
    )
    if result["resumed_from"] is not None:
        typer.echo(f"continued from the checkpoint after step {result['resumed_from']}")
    epoch = f"epoch {result['best_epoch'] + 1}" if result["epochs"] else "initial weights"
    typer.echo(f"best encoder ({epoch}): {result['best']}")
