"""``clocs reproduce``: the paper's tables and figures, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Tables and figures; see --list.")
    ] = None,
    stores: Annotated[Path, typer.Option(help="Folder with a store for each dataset, by its name.")] = Path("stores"),
    runs: Annotated[Path, typer.Option(help="Folder of runs that are going on.")] = Path("runs"),
    results: Annotated[Path, typer.Option(help="Folder of finished cells.")] = Path("results"),
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0 to one less than this.")] = 1,
    methods: Annotated[str, typer.Option(help="Only these, with commas between them ('random' is one).")] = "",
    datasets: Annotated[str, typer.Option(help="Only evaluations on these, with commas between them.")] = "",
    engine: Annotated[str, typer.Option(help="serial, processes or ray.")] = "serial",
    workers: Annotated[int, typer.Option(min=1, help="Cells at a time.")] = 1,
    shard: Annotated[str, typer.Option(help="i/n: every n-th task from the i-th on, for job arrays.")] = "0/1",
    list_only: Annotated[bool, typer.Option("--list", help="Show what is done and what is to do.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Run the cells of tables and figures that have no result yet. Killed, the same command continues."""
    from clocs.experiments.cells import Place
    from clocs.experiments.grid import parse_shard, run_grid, status
    from clocs.experiments.tables import EXPERIMENTS, chosen_cells, experiment

    place = Place(stores, runs, results)
    chosen = [experiment(name) for name in names or EXPERIMENTS]
    only = chosen_cells(methods, datasets)
    cells = {item.name: [cell for cell in item.cells(range(seeds)) if only(cell)] for item in chosen}
    if not list_only and not names:
        raise typer.BadParameter(f"name what to run: {', '.join(EXPERIMENTS)}; or use --list")
    if not list_only:
        every = [cell for part in cells.values() for cell in part]
        how: dict[str, Any] = {"engine": engine, "workers": workers, "shard": parse_shard(shard)}
        done = run_grid(every, place, **how, progress=_say)
        for message in done.failed:
            typer.secho(f"failed: {message}", fg="red", err=True)
    found = {name: status(part, place) for name, part in cells.items()}
    if as_json:
        typer.echo(json.dumps(found))
    else:
        for item in chosen:
            now = found[item.name]
            needs = f"; needs stores of {', '.join(now['needs_stores'])}" if now["needs_stores"] else ""
            typer.echo(f"{item.name:<12} {now['done']:>4} of {now['cells']:>4} cells   {item.title}{needs}")
    if not list_only and done.failed:
        raise typer.Exit(1)


def _say(done: Any) -> None:
    for name in done.names:
        typer.echo(f"done: {name}  ({done.seconds / 60:.1f} min for its task)", err=True)
