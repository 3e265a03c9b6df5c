"""``clocs audit``: what the embeddings of an encoder give away."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from clocs.cli.arguments import AsJson, Checkpoint, SplitName, SplitStoreFolder, Threads
from clocs.cli.printing import print_table


def audit(
    checkpoint: Checkpoint,
    store: SplitStoreFolder,
    split: SplitName = "default",
    frames: Annotated[str, typer.Option(help="encoder, paper or segments: how recordings are cut.")] = "encoder",
    seed: Annotated[int, typer.Option(min=0, help="Of random weights.")] = 0,
    threads: Threads = 1,
    as_json: AsJson = False,
) -> None:
    """Try to tell patients again by their embeddings, and to tell who trained the encoder. Simple attacks only."""
    import torch

    from clocs.similarity.judgement.audit import audit as run
    from clocs.similarity.judgement.audit import in_rows

    torch.set_num_threads(threads)
    found = run(checkpoint, store, split=split, frames=frames, seed=seed)
    if as_json:
        typer.echo(json.dumps(found))
        return
    print_table(["test", "found", "guessing"], in_rows(found))
    for note in found["notes"]:
        typer.echo(f"note: {note}")
    typer.echo("Embeddings are personal data, whatever these figures are.")
