"""``clocs convert``: ECG files and stores into files of other formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import AsJson, Workers
from clocs.cli.terminal import print_table, progress_bar

IGNORED_SHOWN = 5


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="An ECG file, a folder or zip of them, or a store.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="A file for a file, else a folder, or one .parquet file of all.")
    ],
    to: Annotated[
        str | None, typer.Option(help="wfdb, dicom, edf, bdf, csv or parquet. Default: by the ending of OUT.")
    ] = None,
    derived: Annotated[bool, typer.Option("--derived", help="Write the leads that follow from I and II, too.")] = False,
    patient_ids: Annotated[bool, typer.Option("--patient-ids", help="Write patient ids; by default no one's.")] = False,
    fill_missing: Annotated[
        bool, typer.Option("--fill-missing", help="Write missing samples as 0 where a format cannot mark them.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")] = False,
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Convert ECG files. Names what was refused and why; exits 1 if nothing was written."""
    from clocs.store.convert import convert as run

    with progress_bar("recordings") as advance:
        done = run(
            source,
            target,
            to,
            derived=derived,
            patient_ids=patient_ids,
            fill_missing=fill_missing,
            overwrite=overwrite,
            workers=workers,
            progress=lambda finished, total, refused: advance(finished, total, f"{refused} refused"),
        )
    if as_json:
        typer.echo(json.dumps({"in": str(source), "out": str(target), **vars(done)}))
    else:
        rows = [("written", done.written), ("there already", done.kept), ("bytes", done.size)]
        rows += [("refused", len(done.refused)), ("no ECG format", len(done.ignored))]
        rows += [(f"note: {note}", count) for note, count in done.notes.items()]
        print_table([f"converted to {done.format}", ""], [row for row in rows if row[1] or row[0] == "written"])
        for name in done.ignored[:IGNORED_SHOWN]:
            typer.echo(f"no ECG format: {name}")
        if len(done.ignored) > IGNORED_SHOWN:
            typer.echo(f"and {len(done.ignored) - IGNORED_SHOWN} more (--json names all)")
        for name, reason in done.refused.items():
            typer.secho(f"refused {name}: {reason}", fg="red", err=True)
    if not done.written and not done.kept:
        raise typer.Exit(1)
