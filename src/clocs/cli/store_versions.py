"""``clocs data`` and ``clocs archive``: withdrawal of patients, compaction, and deletion of old versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from clocs.cli.arguments import AllowUnknown, ArchiveFolder, AsJson, OptionalKey, PatientList, StoreFolder, read_ids
from clocs.cli.terminal import print_table

if TYPE_CHECKING:
    from clocs.store.old_versions import PruneResult

archive = typer.Typer(
    help="Withdraw patients from an archive of embeddings, and delete old versions.", no_args_is_help=True
)

SEEN: Final = {
    True: "has seen recordings of the patients",
    False: "has not seen recordings of the patients",
    None: "does not list the recordings it has seen",
}
"""Text for what an encoder has seen."""


Keep = Annotated[int, typer.Option(min=1, help="Keep this number of newest versions.")]
GraceHours = Annotated[
    float,
    typer.Option(
        "--grace-hours", min=0, help="Keep versions and files that running programs may have used for this time."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Delete the files. Without it they are only listed.")]


def withdraw(
    store: StoreFolder,
    patient_list: PatientList,
    key: OptionalKey = None,
    allow_unknown: AllowUnknown = False,
    archives: Annotated[
        list[Path] | None,
        typer.Option("--archive", help="Report whether this archive of embeddings holds the patients. Repeatable."),
    ] = None,
    indexes: Annotated[
        list[Path] | None, typer.Option("--index", help="Report whether this index holds the patients. Repeatable.")
    ] = None,
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
    ids = read_ids(patient_list)
    held = _count_holders(archives or [], indexes or [], ids, key)
    done = run(store, ids, key=key, allow_unknown=allow_unknown)
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
        about = {"store": str(store), "version": done.version, **counts, **holders, **held, "encoders": seen}
        typer.echo(json.dumps(about))
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
    options = f"--from {patient_list}" + (f" --key {key}" if key else "")
    _print_commands("archive", held["archives"], options)
    _print_commands("index", held["indexes"], options)


def _count_holders(
    archives: list[Path], indexes: list[Path], ids: list[str], key: Path | None
) -> dict[str, dict[str, int]]:
    """Return the number of patients that each archive and each index holds."""
    held: dict[str, dict[str, int]] = {"archives": {}, "indexes": {}}
    if archives or indexes:
        from clocs.similarity.archive.withdraw import count_patients as count_in_archive
        from clocs.similarity.index.withdraw import count_patients as count_in_index

        held["archives"] = {str(folder): count_in_archive(folder, ids, key) for folder in archives}
        held["indexes"] = {str(folder): count_in_index(folder, ids, key) for folder in indexes}
    return held


def _print_commands(kind: str, held: dict[str, int], options: str) -> None:
    """Print which archives or indexes hold the patients, and the command that withdraws them."""
    if not held:
        typer.echo(f"If an {kind} was made from this store: clocs {kind} withdraw {kind.upper()} {options}")
    for folder, count in held.items():
        if count:
            typer.echo(f"{kind} {folder} holds {count:,} of the patients: clocs {kind} withdraw {folder} {options}")
        else:
            typer.echo(f"{kind} {folder} does not hold the patients")


def prune(
    store: StoreFolder, keep: Keep = 1, grace_hours: GraceHours = 24.0, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete older versions of a store, and files that no remaining version names."""
    from datetime import timedelta

    from clocs.store.prune import prune as run

    _print_pruned("store", store, run(store, keep, timedelta(hours=grace_hours), dry_run=not yes), as_json)


def _print_pruned(kind: str, folder: Path, done: PruneResult, as_json: bool) -> None:
    if as_json:
        about = {"versions": done.versions, "files": done.files, "bytes": done.num_bytes, "deleted": not done.dry_run}
        typer.echo(json.dumps({kind: str(folder), **about}))
        return
    for name in done.files:
        typer.echo(name)
    listed = ", ".join(map(str, done.versions)) or "none"
    typer.echo(f"versions: {listed}; files: {len(done.files)}; bytes: {done.num_bytes:,}")
    if done.dry_run:
        typer.echo("Nothing was deleted. To delete these files, repeat the command with --yes.")


@archive.command("withdraw")
def withdraw_from_archive(
    folder: ArchiveFolder,
    patient_list: PatientList,
    key: OptionalKey = None,
    allow_unknown: AllowUnknown = False,
    as_json: AsJson = False,
) -> None:
    """Write a version of an archive without some patients, and keep them out of later versions.

    'clocs archive prune' deletes older versions.
    """
    from clocs.similarity.archive.withdraw import withdraw_embeddings

    done = withdraw_embeddings(folder, read_ids(patient_list), key=key, allow_unknown=allow_unknown)
    if as_json:
        typer.echo(json.dumps({"archive": str(folder), **vars(done)}))
        return
    rows = [("patients withdrawn", done.patients), ("recordings", done.recordings)]
    rows += [("refused recordings", done.refused), ("ids already withdrawn", done.already_withdrawn)]
    rows += [("unknown ids, now left out", done.unknown)]
    print_table([str(folder), f"version {done.version}"], rows)
    if done.older_versions:
        listed = ", ".join(map(str, done.older_versions))
        typer.echo(f"versions that still hold the patients: {listed}. To delete them: clocs archive prune {folder}")


@archive.command("prune")
def prune_archive(
    folder: ArchiveFolder, keep: Keep = 1, grace_hours: GraceHours = 24.0, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete older versions of an archive, and files that no remaining version names."""
    from datetime import timedelta

    from clocs.similarity.archive.prune import prune_embeddings

    done = prune_embeddings(folder, keep, timedelta(hours=grace_hours), dry_run=not yes)
    _print_pruned("archive", folder, done, as_json)


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
