"""``clocs convert``: conversion of ECG files and stores to other file formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import AsJson, Workers
from clocs.cli.terminal import print_table, progress_bar

MAX_IGNORED = 5


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="An ECG file, a folder or zip of them, or a store.")],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="A file if IN is a file; otherwise a folder, or one .parquet file.")
    ],
    to: Annotated[
        str | None,
        typer.Option(help="Write this format: wfdb, dicom, edf, bdf, csv or parquet. Default: from the suffix of OUT."),
    ] = None,
    derived: Annotated[
        bool, typer.Option("--derived-leads", help="Also write the leads derived from I and II.")
    ] = False,
    patient_ids: Annotated[
        bool, typer.Option("--patient-ids", help="Write patient ids, which are omitted by default.")
    ] = False,
    fill_missing: Annotated[
        bool, typer.Option("--fill-missing", help="Write missing samples as 0 if the format cannot mark them.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Convert ECG files or a store to another format.

    Lists refused files with reasons. Exits with code 1 if no file was written.
    """
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
        rows = [("written", done.written), ("already present", done.kept), ("bytes", done.size)]
        rows += [("refused", len(done.refused)), ("not an ECG", len(done.ignored))]
        rows += [(f"note: {note}", count) for note, count in done.notes.items()]
        print_table([f"converted to {done.format}", ""], [row for row in rows if row[1] or row[0] == "written"])
        for name in done.ignored[:MAX_IGNORED]:
            typer.echo(f"not an ECG: {name}")
        if len(done.ignored) > MAX_IGNORED:
            typer.echo(f"and {len(done.ignored) - MAX_IGNORED} more (--json lists all)")
        for name, reason in done.refused.items():
            typer.secho(f"refused {name}: {reason}", fg="red", err=True)
    if not done.written and not done.kept:
        raise typer.Exit(1)
