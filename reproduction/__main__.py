"""Command line of the reproduction: ``python -m reproduction run|status|collect|report|classifiers``."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from clocs.core.errors import ClocsError, ConfigError
from clocs.experiments.grid import Summary, TaskOutcome, TimeLeft, parse_shard, run_grid, tasks
from clocs.experiments.status import Status, statuses, totals
from clocs.experiments.workspace import Workspace
from reproduction.cells import AnyCell
from reproduction.collect import collect as collect_cells
from reproduction.experiments import EXPERIMENTS, Experiment, cell_filter, find_experiment
from reproduction.report.build import make_report
from reproduction.report.results import Results
from reproduction.run_cell import run_cell
from reproduction.shipped_classifiers import SHIPPED_CLASSIFIERS, fit_shipped_classifiers

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Reproduce the CLOCS paper, cell by cell.")

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Tables and figures; see 'status'.")]
Stores = Annotated[Path, typer.Option(help="Folder with a store for each dataset, by its name.")]
Runs = Annotated[Path, typer.Option(help="Folder of runs and trained encoders.")]
ResultsFolder = Annotated[Path, typer.Option(help="Folder of finished cells.")]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds 0 to one less than this.")]
Methods = Annotated[str, typer.Option(help="Only these, with commas between them ('random' is one).")]
Datasets = Annotated[str, typer.Option(help="Only evaluations on these, with commas between them.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def run(
    names: Names = None,
    stores: Stores = Path("stores"),
    runs: Runs = Path("runs"),
    results: ResultsFolder = Path("results"),
    seeds: Seeds = 1,
    methods: Methods = "",
    datasets: Datasets = "",
    engine: Annotated[str, typer.Option(help="serial, processes or ray.")] = "serial",
    workers: Annotated[int, typer.Option(min=1, help="Cells at a time.")] = 1,
    shard: Annotated[str, typer.Option(help="i/n: every n-th task from the i-th on, for job arrays.")] = "0/1",
    as_json: AsJson = False,
) -> None:
    """Run the cells of tables and figures that have no result. After a kill, the same command continues."""
    if not names:
        raise typer.BadParameter(f"name what to run: {', '.join(EXPERIMENTS)}; see 'status'")
    workspace = Workspace(stores, runs, results)
    chosen, cells = _chosen(names, seeds, methods, datasets)
    every = [cell for part in cells.values() for cell in part]
    if not every and any(any(item.cells(range(seeds))) for item in chosen):
        raise ConfigError(f"{', '.join(cells)}: no cell has these methods and datasets; see 'status'")
    with contextlib.redirect_stdout(sys.stderr):  # Ray prints messages about lost workers
        summary = _run(every, workspace, engine, workers, shard)
    found = _status(cells, workspace, chosen)
    _show(found, as_json)
    wanted = {dataset for cell in every for dataset in cell.datasets}
    if found["together"]["to_do"] and not any(map(workspace.has_store, wanted)):
        raise ConfigError(f"{stores} has no store of {', '.join(sorted(wanted))}: pass their folder by --stores")
    if summary.failed:
        raise typer.Exit(1)


@app.command()
def status(
    names: Names = None,
    stores: Stores = Path("stores"),
    runs: Runs = Path("runs"),
    results: ResultsFolder = Path("results"),
    seeds: Seeds = 1,
    methods: Methods = "",
    datasets: Datasets = "",
    as_json: AsJson = False,
) -> None:
    """Show which cells are done, what the others will cost, and which inputs are missing."""
    chosen, cells = _chosen(names or list(EXPERIMENTS), seeds, methods, datasets)
    _show(_status(cells, Workspace(stores, runs, results), chosen), as_json)


@app.command()
def collect(
    folder: Annotated[Path, typer.Argument(help="Results folder that cells were computed into.")],
    results: ResultsFolder = Path("results"),
) -> None:
    """Add the finished cells of another results folder. Cells that are there are skipped."""
    typer.echo(f"cells added to {results}: {collect_cells(folder, results):,}")


@app.command()
def report(
    pages: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PAGE]...", help="Markdown pages whose blocks '<!-- results:NAME -->' are filled."),
    ] = None,
    results: ResultsFolder = Path("results"),
    out: Annotated[Path, typer.Option("--out", help="Folder of the report.")] = Path("docs/results"),
) -> None:
    """Write the report from finished cells: Markdown pages and pictures."""
    made = make_report(results, out, pages or [])
    typer.echo(f"{len(made)} files; the report is in {out}")


@app.command()
def classifiers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[ENCODER]...", help="Default: all that have any.")
    ] = None,
    stores: Stores = Path("stores"),
    cache: Annotated[Path | None, typer.Option(help="Keep features of recordings here.")] = None,
) -> None:
    """Fit the classifiers of the encoders that come with clocs again, on stores of twelve leads."""
    for name in names or list(SHIPPED_CLASSIFIERS):
        typer.echo(f"{name}: {fit_shipped_classifiers(name, stores, cache)}")


def _chosen(
    names: list[str], seeds: int, methods: str, datasets: str
) -> tuple[list[Experiment], dict[str, list[AnyCell]]]:
    chosen, only = [find_experiment(name) for name in names], cell_filter(methods, datasets)
    return chosen, {item.name: [cell for cell in item.cells(range(seeds)) if only(cell)] for item in chosen}


def _run(cells: list[AnyCell], workspace: Workspace, engine: Any, workers: int, shard: str) -> Summary:
    share = parse_shard(shard)
    left = TimeLeft(
        tasks(cells, workspace, run_cell, shard=share), Results(workspace.results, may_be_empty=True).costs, workers
    )

    def say(done: TaskOutcome) -> None:
        left.count(done)
        for name in done.names:
            progress = f"{left.done} of {left.cells} cells, about {_duration(left.seconds)} left"
            typer.echo(f"done: {name}  ({progress})", err=True)
        for name, message in done.failed.items():
            typer.secho(f"failed: {name}: {message}", fg="red", err=True)

    summary = run_grid(cells, workspace, run_cell, engine=engine, workers=workers, shard=share, progress=say)
    for need, count in summary.missing_inputs.items():
        typer.secho(f"left out, without {need}: {count:,}", fg="yellow", err=True)
    return summary


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _status(cells: dict[str, list[AnyCell]], workspace: Workspace, chosen: list[Experiment]) -> dict[str, Any]:
    """Return the status of every experiment and of all together, where shared cells count once."""
    known = Results(workspace.results, may_be_empty=True)
    every, found = dict[str, Status](), {}
    for item in chosen:
        part = statuses(cells[item.name], workspace, known.costs, known.keys)
        every |= part
        found[item.name] = {"title": item.title, **totals(part)}
    return {"experiments": found, "together": totals(every)}


def _show(found: dict[str, Any], as_json: bool) -> None:
    """Print a line for each experiment. "can run" counts cells without missing inputs."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    typer.echo(f"{'cells':<15} {'done':>6} {'to do':>6} {'can run':>8} {'core-hours':>11}")
    for name, now in found["experiments"].items():
        typer.echo(_line(name, now))
    if len(found["experiments"]) > 1:
        typer.echo(
            _line("together", {"title": "Cells that several experiments want, counted once", **found["together"]})
        )


def _line(name: str, now: dict[str, Any]) -> str:
    if not now["cells"]:
        return f"{name:<15} {'-':>6} {'-':>6} {'-':>8} {'-':>11}  {now['title']}; needs no runs"
    numbers = f"{now['done']:>6,} {now['to_do']:>6,} {now['runnable']:>8,} {now['core_hours']:>11,.1f}"
    needs = ", ".join(f"{need} for {count:,}" for need, count in now["missing_inputs"].items())
    return f"{name:<15} {numbers}  {now['title']}" + (f"; needs {needs}" if needs else "")


def main() -> None:
    """Run a command. Errors of the package are printed as one line."""
    try:
        app()
    except ClocsError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
