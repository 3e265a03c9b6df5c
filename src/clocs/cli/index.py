"""``clocs index`` and ``clocs similar``: an index of patients, and the patients most like a recording."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clocs.cli.arguments import AsJson, Draw
from clocs.cli.terminal import print_table, progress_bar
from clocs.core.errors import ConfigError

if TYPE_CHECKING:
    from clocs.similarity.index.neighbors import Neighbor

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
    from clocs.similarity.index.changes import add_archive

    done = add_archive(folder, archive)
    if as_json:
        counts = {"recordings": done.recordings, "patients": done.patients}
        skipped = {"known": done.already_indexed, "of_deleted": done.from_deleted_patients}
        typer.echo(json.dumps({"index": str(folder), **counts, **skipped}))
        return
    rows = [("recordings added", done.recordings), ("patients with a new row", done.patients)]
    rows += [
        ("recordings that were there", done.already_indexed),
        ("recordings of deleted patients", done.from_deleted_patients),
    ]
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
        told = {"deleted": done.patients, "unknown": done.unknown, "deleted_before": done.already_deleted}
        typer.echo(json.dumps({"index": str(folder), **told}))
        return
    rows = [("patients deleted", done.patients), ("ids deleted before", done.already_deleted)]
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


class Sex(StrEnum):
    """As recordings have it."""

    FEMALE = "female"
    MALE = "male"


def similar(
    record: Annotated[str, typer.Argument(metavar="RECORD", help="An ECG file, or the id of a record of the index.")],
    index: Annotated[Path, typer.Option("--index", help="Folder of an index.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many patients.")] = 10,
    site: Annotated[str | None, typer.Option(help="Only patients of this site.")] = None,
    age: Annotated[str | None, typer.Option(help="Only patients of this age in years, such as 60-70.")] = None,
    sex: Annotated[Sex | None, typer.Option(help="Only patients of this sex.")] = None,
    label: Annotated[str | None, typer.Option(help="Only patients with this label.")] = None,
    own_patient: Annotated[bool, typer.Option("--own-patient", help="Let the query's own patient be found.")] = False,
    encoder: Annotated[str | None, typer.Option(help="Where the index's encoder is now, if it was moved.")] = None,
    draw: Draw = None,
    as_json: AsJson = False,
) -> None:
    """Show the patients most like a recording, with their labels, and which leads are most alike."""
    from clocs.similarity.index.search import open_index

    opened = open_index(index, encoder)
    found = opened.similar(
        record,
        k,
        site=site,
        age=_band(age),
        sex=sex.value if sex else None,
        label=label,
        own_patient=own_patient,
    )
    if draw is not None:
        from clocs.drawing.figure import save_figure
        from clocs.similarity.index.neighbors import draw_similar

        save_figure(draw_similar(opened, found), draw)
    if as_json:
        typer.echo(json.dumps({"index": str(index), "draw": str(draw) if draw else None, **found.as_dict()}))
        return
    print_table(["patient", "distance", "labels", "who", "leads"], [_row(item) for item in found.neighbors])
    for note in found.notes:
        typer.echo(note)
    typer.echo("Alike for this encoder; not a diagnosis.")


def _band(age: str | None) -> tuple[float, float] | None:
    if age is None:
        return None
    try:
        low, high = age.split("-")
        return float(low), float(high)
    except ValueError:
        raise ConfigError(f"an age band is two numbers of years, such as 60-70, not '{age}'") from None


def _row(item: Neighbor) -> tuple[str, ...]:
    who = ("" if item.age is None else f"{item.age:g} y", item.sex or "", item.site)
    leads = ", ".join(f"{lead.lead} {lead.similarity:.2f}" for lead in item.why)
    if item.recordings > 1:
        leads += f" (of {item.record_id}, {'the most alike' if item.why else 'the first'} of {item.recordings})"
    return item.patient_id, f"{item.distance:.4f}", ", ".join(item.labels), " ".join(filter(None, who)), leads
