"""``clocs data``: pseudonym keys, de-identification, identity scan and archive report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import AsJson, Plot, StoreFolder, Workers
from clocs.cli.terminal import print_table, progress_bar

KeyFile = Annotated[
    Path, typer.Option("--key", help="Read the pseudonym key from this file. Create one with 'clocs data make-key'.")
]
MAX_OTHERS = 20
MAX_GROUPS = 5


def make_key(path: Annotated[Path, typer.Argument(metavar="FILE", help="New key file, outside of any store.")]) -> None:
    """Create a key for patient pseudonyms.

    Keep it safe: without it a store can neither grow nor be traced back to the patients.
    """
    from clocs.core.privacy.pseudonyms import make_key as run
    from clocs.store.manifest import check_not_inside_store

    check_not_inside_store(path, "Recipients of the store must not get the key.")
    typer.echo(f"{path}: key {run(path).fingerprint}, readable only by you")


def deidentify(
    source: Annotated[Path, typer.Argument(metavar="IN", help="A folder or zip of ECG files, or a store.")],
    store: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the new store.")],
    key: KeyFile,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep this information of the files: labels, notes, leads, site or extra (columns). Repeatable."
        ),
    ] = None,
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Create a de-identified store, and report what was removed."""
    from clocs.store.deidentify import deidentify as run
    from clocs.store.deidentify import parse_keep

    with progress_bar("recordings") as advance:
        made = run(
            source,
            store,
            key,
            keep=parse_keep(keep or []),
            workers=workers,
            progress=lambda done, refused: advance(done, None, f"{refused} refused"),
        )
    if as_json:
        counts = {"removed": made.removed, "refused": made.store.manifest.quarantined}
        typer.echo(json.dumps({"store": str(store), "recordings": len(made.store), **counts}))
        return
    print_table(["removed", "recordings"], made.removed.items())
    if made.store.manifest.quarantined:
        refused = sum(made.store.manifest.quarantined.values())
        typer.echo(f"{refused:,} recordings were refused. For the reasons run: clocs data records {store} --refused")
    typer.echo(f"{store}: {len(made.store)} recordings. Check it with: clocs data scan-identities {store}")


def scan_identities(
    store: StoreFolder,
    against: Annotated[
        Path | None, typer.Option(help="Search all bytes for the identities in this source archive.")
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Skip this column, e.g. labels. Repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search a store for names, dates and numbers that identify patients.

    Exits with code 1 if there are any, and lists them masked.
    """
    from clocs.store.identity_scan import scan_identities as run

    scan = run(store, against, ignore or [])
    if as_json:
        hits = [vars(hit) for hit in scan.hits]
        typer.echo(json.dumps({"hits": hits, "values": scan.values, "common": scan.common}))
    elif scan.hits:
        print_table(["file", "field", "looks like", "count", "first"], [tuple(vars(hit).values()) for hit in scan.hits])
    else:
        searched = f", and none of {scan.values} identity values of the archive occurs" if against else ""
        skipped = f" ({scan.common} common words were not searched)" if scan.common else ""
        typer.echo(f"{store}: no text looks like an identity{searched}{skipped}")
    if scan.hits:
        raise typer.Exit(1)


def archive_report(
    store: StoreFolder,
    source: Annotated[Path | None, typer.Option(help="Account for every file of this source archive.")] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Name the files of a de-identified store with this pseudonym key.")
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Report formats, sampling rates, leads, faults and duplicate ECGs of a store.

    With --source, also report which files were refused and why.
    """
    from clocs.drawing.archive import draw_archive
    from clocs.store.store import open_store
    from clocs.store.summary import archive_report as run

    made = run(open_store(store), source, key)
    panels = {"formats": made.formats, "rates": made.rates, "lead sets": made.leads, "faults": made.faults}
    if plot is not None:
        draw_archive(panels | ({"files": made.outcomes} if source else {}), plot)
    if as_json:
        files = [vars(file) for file in made.files]
        same = {"same_ecg": made.near_duplicates, "without_patient": made.without_patient}
        typer.echo(json.dumps(panels | same | {"outcomes": made.outcomes, "files": files}))
        return
    rows = [(name, value, count) for name, counts in panels.items() for value, count in counts.items()]
    rows += [("files", outcome, count) for outcome, count in made.outcomes.items()]
    rows += [("duplicate ECGs", "groups", len(made.near_duplicates))]
    rows += [("patients", "recordings without a patient id", made.without_patient)]
    print_table(["", "", "count"], rows)
    for group in made.near_duplicates[:MAX_GROUPS]:
        typer.echo(f"duplicate ECG: {', '.join(group)}")
    for file in made.files:
        if file.outcome == "refused":
            typer.echo(f"refused {file.file}: {file.reason}: {file.detail}")
    others = [file.file for file in made.files if file.outcome == "not an ECG"]
    for name in others[:MAX_OTHERS]:
        typer.echo(f"not an ECG: {name}")
    if len(others) > MAX_OTHERS:
        typer.echo(f"and {len(others) - MAX_OTHERS} more; --json lists all")
