"""``clocs data``: withdrawal of patients, compaction, and deletion of old versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from clocs.cli.arguments import AsJson, StoreFolder, read_ids
from clocs.cli.terminal import print_table

SEEN: Final = {
    True: "has seen recordings of the patients",
    False: "has not seen recordings of the patients",
    None: "does not list the recordings it has seen",
}
"""Text for what an encoder has seen."""


def withdraw(
    store: StoreFolder,
    patient_list: Annotated[
        Path, typer.Option("--from", metavar="FILE", help="Read patient ids from this file, one per line.")
    ],
    key: Annotated[
        Path | None, typer.Option(help="Convert original patient ids to pseudonyms with this key file.")
    ] = None,
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Keep ids that are not in the store out of later ingests.")
    ] = False,
    encoders: Annotated[
        list[Path] | None,
        typer.Option("--encoder", help="Report whether this encoder has seen the patients. Repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a version of a store without some patients, and keep them out of later ingests.

    Lists what still holds the patients. 'clocs data prune' deletes older versions, their splits and frame caches.
    """
    from clocs.store.withdraw import withdraw as run
    from clocs.training.encoder_folder import read_config
    from clocs.training.seen_recordings import has_seen

    for folder in encoders or []:
        read_config(folder)  # raises an error before anything is changed
    done = run(store, read_ids(patient_list), key=key, allow_unknown=allow_unknown)
    seen = {str(folder): has_seen(folder, done.keys) for folder in encoders or []}
    counts = {
        "patients": done.patients,
        "recordings": done.recordings,
        "quarantined": done.quarantined,
        "already_withdrawn": done.already_withdrawn,
        "unknown": done.unknown,
    }
    holders = {"versions": done.older_versions, "splits": done.splits, "frame_caches": done.frame_caches}
    if as_json:
        typer.echo(json.dumps({"store": str(store), "version": done.version, **counts, **holders, "encoders": seen}))
        return
    rows = [("patients withdrawn", done.patients), ("recordings", done.recordings)]
    rows += [("quarantined recordings", done.quarantined), ("ids already withdrawn", done.already_withdrawn)]
    rows += [("unknown ids, now left out of ingests", done.unknown)]
    print_table([str(store), f"version {done.version}"], rows)
    for name, values in holders.items():
        if values:
            typer.echo(f"{name.replace('_', ' ')} that still hold the patients: {', '.join(map(str, values))}")
    for name, has in seen.items():
        typer.echo(f"encoder {name} {SEEN[has]}")
    typer.echo(f"To delete older versions, their splits and frame caches: clocs data prune {store}")


def prune(
    store: StoreFolder,
    keep: Annotated[int, typer.Option(min=1, help="Keep this number of newest versions.")] = 1,
    grace_hours: Annotated[
        float,
        typer.Option(
            "--grace-hours", min=0, help="Keep versions and files that running programs may have used for this time."
        ),
    ] = 24.0,
    yes: Annotated[bool, typer.Option("--yes", help="Delete the files. Without it they are only listed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete older versions of a store, and files that no remaining version names."""
    from datetime import timedelta

    from clocs.store.prune import prune as run

    done = run(store, keep, timedelta(hours=grace_hours), dry_run=not yes)
    if as_json:
        about = {"versions": done.versions, "files": done.files, "bytes": done.num_bytes, "deleted": yes}
        typer.echo(json.dumps({"store": str(store), **about}))
        return
    for name in done.files:
        typer.echo(name)
    listed = ", ".join(map(str, done.versions)) or "none"
    typer.echo(f"versions: {listed}; files: {len(done.files)}; bytes: {done.num_bytes:,}")
    if not yes:
        typer.echo("Nothing was deleted. To delete these files, repeat the command with --yes.")


def compact(store: StoreFolder, as_json: AsJson = False) -> None:
    """Merge many small shards of a store in a new version, with the same recordings in the same order."""
    from clocs.store.compact import compact as run

    done = run(store)
    if as_json:
        typer.echo(json.dumps({"store": str(store), **vars(done)}))
        return
    print_table(
        [str(store), f"version {done.version}"], [("shards before", done.shards_before), ("shards", done.shards)]
    )
