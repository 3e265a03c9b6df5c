"""``clocs data``: keys, de-identification, the search for identities, the report of an archive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import AsJson, Draw, StoreFolder, Workers
from clocs.cli.terminal import print_table, progress_bar

KeyFile = Annotated[Path, typer.Option("--key", help="File of the key; 'clocs data make-key' makes one.")]
OTHERS_SHOWN = 20
GROUPS_SHOWN = 5


def make_key(path: Annotated[Path, typer.Argument(metavar="FILE", help="New file, outside of any store.")]) -> None:
    """Make a key for patients' pseudonyms. Keep it: without it a store cannot grow, or be traced back."""
    from clocs.core.pseudonyms import make_key as run
    from clocs.store.manifest import check_not_inside_store

    check_not_inside_store(path, "who gets the store must not get the key")
    typer.echo(f"{path}: key {run(path).fingerprint}, readable by you alone")


def deidentify(
    source: Annotated[Path, typer.Argument(metavar="IN", help="An archive (folder or zip), or a store.")],
    store: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the new store.")],
    key: KeyFile,
    keep: Annotated[list[str] | None, typer.Option(help="labels, notes, leads or site: what files say stays.")] = None,
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Make a store in which nobody is named, and say what was taken out."""
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
        told = {"removed": made.removed, "refused": made.store.manifest.quarantined}
        typer.echo(json.dumps({"store": str(store), "recordings": len(made.store), **told}))
        return
    print_table(["taken out", "of"], made.removed.items())
    if made.store.manifest.quarantined:
        refused = sum(made.store.manifest.quarantined.values())
        typer.echo(f"{refused:,} recordings were refused; reasons: clocs data records {store} --refused")
    typer.echo(f"{store}: {len(made.store)} recordings. Now look at it: clocs data scan-identities {store}")


def scan_identities(
    store: StoreFolder,
    against: Annotated[Path | None, typer.Option(help="Archive whose identities are looked for in every byte.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Column of harmless patterns, such as labels.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look for names, dates and numbers that slipped through; exits 1 and lists them, masked."""
    from clocs.store.identity_scan import scan_identities as run

    scan = run(store, against, ignore or [])
    if as_json:
        hits = [vars(hit) for hit in scan.hits]
        typer.echo(json.dumps({"hits": hits, "values": scan.values, "common": scan.common}))
    elif scan.hits:
        print_table(["file", "field", "looks like", "times", "first"], [tuple(vars(hit).values()) for hit in scan.hits])
    else:
        looked = f"; none of {scan.values} identity values in any byte" if against else ""
        skipped = f" ({scan.common} more are words of clocs' own and were not looked for)" if scan.common else ""
        typer.echo(f"{store}: no text looks like an identity{looked}{skipped}")
    if scan.hits:
        raise typer.Exit(1)


def archive_report(
    store: StoreFolder,
    source: Annotated[Path | None, typer.Option(help="The archive: every file is accounted for.")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="Of a de-identified store: to name the files.")] = None,
    draw: Draw = None,
    as_json: AsJson = False,
) -> None:
    """Show formats, rates, leads, faults, and ECGs that several files hold; with --source, what was refused and why."""
    from clocs.drawing.archive import draw_archive
    from clocs.store.store import open_store
    from clocs.store.summary import archive_report as run

    made = run(open_store(store), source, key)
    panels = {"formats": made.formats, "rates": made.rates, "lead sets": made.leads, "faults": made.faults}
    if draw is not None:
        draw_archive(panels | ({"files": made.outcomes} if source else {}), draw)
    if as_json:
        files = [vars(file) for file in made.files]
        same = {"same_ecg": made.same_ecg, "without_patient": made.without_patient}
        typer.echo(json.dumps(panels | same | {"outcomes": made.outcomes, "files": files}))
        return
    rows = [(name, value, count) for name, counts in panels.items() for value, count in counts.items()]
    rows += [("files", outcome, count) for outcome, count in made.outcomes.items()]
    rows += [("one ECG in several files", "groups", len(made.same_ecg))]
    rows += [("patients", "recordings that are a patient of their own", made.without_patient)]
    print_table(["", "", "count"], rows)
    for group in made.same_ecg[:GROUPS_SHOWN]:
        typer.echo(f"one ECG: {', '.join(group)}")
    for file in made.files:
        if file.outcome == "refused":
            typer.echo(f"refused {file.file}: {file.reason}: {file.detail}")
    others = [file.file for file in made.files if file.outcome == "not an ECG"]
    for name in others[:OTHERS_SHOWN]:
        typer.echo(f"no format of an ECG: {name}")
    if len(others) > OTHERS_SHOWN:
        typer.echo(f"and {len(others) - OTHERS_SHOWN} more; --json names all")
