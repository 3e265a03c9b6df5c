"""The ``clocs`` command. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys

import typer

from clocs import __version__
from clocs.cli.data import data
from clocs.cli.embed import classify, embed, export_onnx
from clocs.cli.evaluate import evaluate
from clocs.cli.pretrain import pretrain
from clocs.cli.reproduce import reproduce
from clocs.cli.show import show
from clocs.core.errors import ClocsError

app = typer.Typer(
    name="clocs",
    help="Self-supervised learning on ECGs: stores, encoders, evaluation, patient search.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(data, name="data")
app.add_typer(evaluate, name="evaluate")
app.add_typer(show, name="show")
app.command()(pretrain)
app.command()(reproduce)
app.command()(embed)
app.command()(classify)
app.command()(export_onnx)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Show the version and exit.")) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command; an error of clocs' own is a message and exit code 1, never a traceback."""
    try:
        app()
    except ClocsError as error:
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.secho("interrupted; the same command continues where it was", err=True)
        sys.exit(130)
