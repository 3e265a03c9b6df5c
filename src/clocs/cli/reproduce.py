"""``clocs reproduce``: the paper's tables and figures, cell by cell."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clocs.cli.arguments import AsJson, ResultsFolder
from clocs.core.errors import ConfigError

if TYPE_CHECKING:
    from clocs.experiments.cells import Cell
    from clocs.experiments.grid import Done, Summary
    from clocs.experiments.place import Place


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Tables and figures; see --list.")
    ] = None,
    stores: Annotated[Path, typer.Option(help="Folder with a store for each dataset, by its name.")] = Path("stores"),
    runs: Annotated[Path, typer.Option(help="Folder of runs that are going on.")] = Path("runs"),
    results: ResultsFolder = Path("results"),
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0 to one less than this.")] = 1,
    methods: Annotated[str, typer.Option(help="Only these, with commas between them ('random' is one).")] = "",
    datasets: Annotated[str, typer.Option(help="Only evaluations on these, with commas between them.")] = "",
    engine: Annotated[str, typer.Option(help="serial, processes or ray.")] = "serial",
    workers: Annotated[int, typer.Option(min=1, help="Cells at a time.")] = 1,
    shard: Annotated[str, typer.Option(help="i/n: every n-th task from the i-th on, for job arrays.")] = "0/1",
    list_only: Annotated[
        bool, typer.Option("--list", help="Show what is done, what is to do, what it will cost and what it needs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the cells of tables and figures that have no result yet. Killed, the same command continues."""
    from clocs.experiments.paper_tables import all_experiments, find_experiment
    from clocs.experiments.place import Place
    from clocs.experiments.tables import EXPERIMENTS, chosen_cells

    if not list_only and not names:
        raise typer.BadParameter(f"name what to run: {', '.join(EXPERIMENTS)}, ...; see --list")
    place = Place(stores, runs, results)
    chosen = [find_experiment(name) for name in names or all_experiments()]
    only = chosen_cells(methods, datasets)
    cells = {item.name: [cell for cell in item.cells(range(seeds)) if only(cell)] for item in chosen}
    if names and not any(cells.values()) and any(any(item.cells(range(seeds))) for item in chosen):
        raise ConfigError(f"{', '.join(cells)}: no cell is of these methods and datasets; see --list without them")
    failed: list[str] = []
    if not list_only:
        every = [cell for part in cells.values() for cell in part]
        with contextlib.redirect_stdout(sys.stderr):  # Ray tells of lost workers on the way
            failed = _run(every, place, engine, workers, shard).failed
    found = _standing(cells, place, {item.name: item.title for item in chosen})
    if as_json:
        typer.echo(json.dumps(found))
    else:
        _show(found)
    wanted = {dataset for part in cells.values() for cell in part for dataset in cell.datasets}
    if not list_only and found["together"]["to_do"] and not any(map(place.has_store, wanted)):
        raise ConfigError(f"{stores} has no store of {', '.join(sorted(wanted))}: name their folder with --stores")
    if failed:
        raise typer.Exit(1)


def _run(cells: list[Cell], place: Place, engine: Any, workers: int, shard: str) -> Summary:
    from clocs.experiments.costs import Costs
    from clocs.experiments.grid import TimeLeft, parse_shard, run_grid, tasks

    share = parse_shard(shard)
    left = TimeLeft(tasks(cells, place, shard=share), Costs.of_results(place.results), workers)

    def say(done: Done) -> None:
        left.count(done)
        for name in done.names:
            told = f"{left.done} of {left.cells} cells, about {_duration(left.seconds)} left"
            typer.echo(f"done: {name}  ({told})", err=True)
        for name, message in done.failed.items():
            typer.secho(f"failed: {name}: {message}", fg="red", err=True)

    summary = run_grid(cells, place, engine=engine, workers=workers, shard=share, progress=say)
    for need, count in summary.left.items():
        typer.secho(f"left out for want of {need}: {count:,}", fg="yellow", err=True)
    return summary


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _standing(cells: dict[str, list[Cell]], place: Place, titles: dict[str, str]) -> dict[str, Any]:
    """Of every experiment, and of all together: cells that several want count there once."""
    from clocs.experiments.costs import Costs
    from clocs.experiments.place import kept_keys
    from clocs.experiments.status import State, states, totals

    costs, kept = Costs.of_results(place.results), kept_keys(place.results)
    every, found = dict[str, State](), {}
    for name, part in cells.items():
        known = states(part, place, costs, kept)
        every |= known
        found[name] = {"title": titles[name], **totals(known)}
    return {"experiments": found, "together": totals(every)}


def _show(found: dict[str, Any]) -> None:
    """A line for each; "can run": of those to do, the cells that lack nothing here."""
    typer.echo(f"{'cells':<15} {'done':>6} {'to do':>6} {'can run':>8} {'core-hours':>11}")
    for name, now in found["experiments"].items():
        typer.echo(_line(name, now))
    if len(found["experiments"]) > 1:
        typer.echo(_line("together", {"title": "What several want is counted once", **found["together"]}))


def _line(name: str, now: dict[str, Any]) -> str:
    if not now["cells"]:
        return f"{name:<15} {'-':>6} {'-':>6} {'-':>8} {'-':>11}  {now['title']}; needs no runs"
    numbers = f"{now['done']:>6,} {now['to_do']:>6,} {now['runnable']:>8,} {now['core_hours']:>11,.1f}"
    needs = ", ".join(f"{need} for {count:,}" for need, count in now["needs"].items())
    return f"{name:<15} {numbers}  {now['title']}" + (f"; needs {needs}" if needs else "")
