"""``clocs report``: what was found, beside what the paper says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import ResultsFolder


def report(
    pages: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PAGE]...", help="Markdown pages whose blocks '<!-- results:NAME -->' are filled."),
    ] = None,
    results: ResultsFolder = Path("results"),
    out: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("docs/results"),
) -> None:
    """Make the report from finished cells alone: Markdown pages, pictures, and one HTML page that holds them all."""
    from clocs.experiments.report.build import make_report

    made = make_report(results, out, pages or [], say=lambda text: typer.echo(text, err=True))
    typer.echo(f"{len(made)} files; the whole report is in {out / 'report.html'}")
