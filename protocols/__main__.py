"""Command line: ``python -m protocols COMMAND``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from clocs.core.errors import ClocsError, ConfigError
from protocols.copied import measure_copied
from protocols.encoders import PRETRAINED, RANDOM, SCRATCH
from protocols.faults import measure_controls, measure_crossed, measure_duplicates, measure_epochs, measure_inputs
from protocols.fractions import measure_fractions
from protocols.page import fill_page
from protocols.pretraining import PRETRAININGS, find_progress, run_pretraining
from protocols.results import RESULTS, Rows
from protocols.setting import Setting

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Measure faults in common protocols.")

Stores = Annotated[Path, typer.Option(help="Folder with the twelve-lead stores 'physionet2020' and 'ptbxl'.")]
Runs = Annotated[Path, typer.Option(help="Folder of pre-training runs.")]
Results = Annotated[Path, typer.Option(help="Folder of the results.")]
MEASUREMENTS: Final[dict[str, Callable[[Setting], None]]] = {
    "crossed": measure_crossed,
    "duplicates": measure_duplicates,
    "epochs": measure_epochs,
    "inputs": measure_inputs,
    "controls": measure_controls,
    "fractions": measure_fractions,
    "copied": measure_copied,
}
"""Measurements by name."""


@app.command()
def pretrain(
    name: Annotated[str, typer.Argument(help="Name of a pre-training, see 'status'.")],
    stores: Stores = Path("stores"),
    runs: Runs = Path("runs"),
) -> None:
    """Pre-train an encoder on the training part of a split. After a kill, the same command continues."""
    found = run_pretraining(name, stores, runs)
    typer.echo(f"{name} is finished: {found['steps']:,} steps, best encoder in {found['best']}")


@app.command()
def status(
    runs: Runs = Path("runs"),
    results: Annotated[Path | None, typer.Option(help="Folder of results to save the status in.")] = None,
) -> None:
    """Show how far each pre-training has come."""
    for name, run in PRETRAININGS.items():
        found = find_progress(name, runs)
        if found is None:
            typer.echo(f"{name:<14} not started ({run.title})")
            continue
        state = "finished" if found.is_finished else "not finished"
        typer.echo(f"{name:<14} step {found.steps:,}, {found.core_hours:.2f} core-hours, {state} ({run.title})")
        if results is not None:
            Rows(results / "trainings.json").compute({"run": name}, found.about, dict)


@app.command()
def measure(
    names: Annotated[list[str], typer.Argument(help=f"Measurements: {', '.join(MEASUREMENTS)}.")],
    stores: Stores = Path("stores"),
    runs: Runs = Path("runs"),
    results: Results = RESULTS,
    cache: Annotated[Path | None, typer.Option(help="Folder of cached features.")] = None,
    common_split: Annotated[Path | None, typer.Option(help="Table of the common CPSC 2018 split.")] = None,
    encoder: Annotated[
        list[str] | None, typer.Option(help=f"Only these: {RANDOM}, {SCRATCH}, {PRETRAINED}. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each training from scratch.")] = 3,
) -> None:
    """Measure faults. Rows that are known are skipped, unless their encoder was trained further."""
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        raise ConfigError(f"No measurement '{unknown[0]}'. Choose from {', '.join(MEASUREMENTS)}.")
    chosen = tuple(encoder or (RANDOM, SCRATCH, PRETRAINED))
    for name in names:
        MEASUREMENTS[name](Setting(stores, runs, results, cache, common_split, chosen, seeds))
        typer.echo(f"{name}: {results / name}.json")


@app.command()
def page(
    path: Annotated[Path, typer.Argument(help="Page whose blocks '<!-- protocols:NAME -->' are filled.")] = Path(
        "docs/background/protocol-faults.md"
    ),
    results: Results = RESULTS,
) -> None:
    """Fill the tables of the page from the results."""
    fill_page(path, results)


def main() -> None:
    """Run a command. Errors of the package are printed as one line."""
    try:
        app()
    except ClocsError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
