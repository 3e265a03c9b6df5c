"""``clocs index``: patients of an archive of embeddings, to be searched; added to, and deleted from."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import AsJson
from clocs.cli.printing import print_table
from clocs.cli.progress import progress_bar
from clocs.core.errors import ConfigError

index = typer.Typer(help="Make an archive of embeddings searchable; add and delete patients.", no_args_is_help=True)

ArchiveFolder = Annotated[Path, typer.Argument(metavar="ARCHIVE", help="Folder that 'clocs embed STORE' made.")]
IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of an index.")]


class KindName(StrEnum):
    """How an index is searched."""

    EXACT = "exact"
    HNSW = "hnsw"
    IVFPQ = "ivfpq"


Kind = Annotated[KindName, typer.Option(help="hnsw and ivfpq are for millions, and need the extra 'search'.")]


@index.command()
def build(archive: ArchiveFolder, folder: IndexFolder, kind: Kind = KindName.EXACT, as_json: AsJson = False) -> None:
    """Make an index of the patients of an archive, each one vector."""
    from clocs.similarity.index.changes import build_index

    build_index(archive, folder, kind.value)
    _show(folder, as_json)


@index.command()
def add(folder: IndexFolder, archive: ArchiveFolder, as_json: AsJson = False) -> None:
    """Add the recordings of an archive that are not yet there; deleted patients stay out."""
    from dataclasses import asdict

    from clocs.similarity.index.changes import add_archive

    done = add_archive(folder, archive)
    if as_json:
        typer.echo(json.dumps({"index": str(folder), **asdict(done)}))
        return
    rows = [("recordings added", done.recordings), ("patients with a new row", done.patients)]
    rows += [("recordings that were there", done.known), ("recordings of deleted patients", done.of_deleted)]
    print_table([str(folder), ""], rows)


@index.command()
def delete(
    folder: IndexFolder,
    patients: Annotated[list[str] | None, typer.Argument(metavar="PATIENT...", help="Patient ids.")] = None,
    listed: Annotated[Path | None, typer.Option("--from", help="File with one patient id a line.")] = None,
    key: Annotated[
        Path | None, typer.Option(help="Key file of patients' pseudonyms, for ids that are numbers.")
    ] = None,
    allow_unknown: Annotated[bool, typer.Option(help="Keep out ids that are not there yet, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take patients out of an index: no search returns them, no addition brings them back.

    Their vectors leave the disk at the next rebuild; the archive and the store still hold them.
    """
    from clocs.similarity.index.changes import delete_patients

    ids = [*(patients or []), *(_lines(listed) if listed else [])]
    if not ids:
        raise ConfigError("name the patients to delete, or a file of their ids with --from")
    done = delete_patients(folder, ids, key=key, allow_unknown=allow_unknown)
    if as_json:
        told = {"deleted": done.patients, "unknown": done.unknown, "deleted_before": done.before}
        typer.echo(json.dumps({"index": str(folder), **told}))
        return
    rows = [("patients deleted", done.patients), ("ids deleted before", done.before)]
    rows += [("ids that nobody has, kept out from now on", done.unknown)]
    print_table([str(folder), ""], rows)


@index.command()
def rebuild(
    folder: IndexFolder,
    kind: Annotated[KindName | None, typer.Option(help="Default: as it is.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write an index anew, in one piece and without what was deleted."""
    from clocs.similarity.index.changes import rebuild_index

    rebuild_index(folder, kind.value if kind else None)
    _show(folder, as_json)


@index.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="INDEX|ARCHIVE", help="Folder of an index or an archive.")],
    as_json: AsJson = False,
) -> None:
    """Check every byte of an index or an archive; exits 1 and names the file when anything differs."""
    from clocs.similarity.integrity import verify_embeddings

    with progress_bar("bytes") as advance:
        faults = verify_embeddings(folder, progress=lambda done, total: advance(done, total, ""))
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "faults": [vars(fault) for fault in faults]}))
    for fault in [] if as_json else faults:
        typer.secho(f"{fault.file}: {fault.problem}", fg="red")
    if faults:
        raise typer.Exit(1)
    if not as_json:
        typer.echo(f"{folder}: every byte is as its manifest says")


def _show(folder: Path, as_json: bool) -> None:
    from clocs.similarity.index.manifest import read_index_manifest

    about = read_index_manifest(folder)
    counts = {"kind": about.kind, "patients": about.patients, "recordings": about.recordings}
    if as_json:
        typer.echo(json.dumps({"index": str(folder), **counts}))
        return
    print_table([str(folder), ""], list(counts.items()))


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as a list of patient ids: {error}") from error
