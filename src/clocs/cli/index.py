"""``clocs index`` and ``clocs similar``: patient indexes and similarity search."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clocs.cli.arguments import (
    AllowUnknown,
    ArchiveFolder,
    AsJson,
    OptionalKey,
    PatientList,
    Plot,
    SplitName,
    read_ids,
)
from clocs.cli.terminal import print_table, progress_bar
from clocs.core.errors import ConfigError

if TYPE_CHECKING:
    from clocs.similarity.index.neighbors import Neighbor

index = typer.Typer(help="Build, change and verify an index of patients.", no_args_is_help=True)

IndexFolder = Annotated[Path, typer.Argument(metavar="INDEX", help="Folder of an index.")]


class KindName(StrEnum):
    """Kinds of index."""

    EXACT = "exact"
    HNSW = "hnsw"
    IVFPQ = "ivfpq"


Kind = Annotated[
    KindName,
    typer.Option(
        help="Search exactly or approximately. hnsw and ivfpq suit millions of patients and need the extra 'search'."
    ),
]


@index.command()
def build(archive: ArchiveFolder, folder: IndexFolder, kind: Kind = KindName.EXACT, as_json: AsJson = False) -> None:
    """Build an index of the patients of an archive, with one vector per patient."""
    from clocs.similarity.index.updates import build_index

    build_index(archive, folder, kind.value)
    _show(folder, as_json)


@index.command()
def add(folder: IndexFolder, archive: ArchiveFolder, as_json: AsJson = False) -> None:
    """Add the recordings of an archive to an index. Withdrawn patients stay excluded."""
    from clocs.similarity.index.updates import add_archive

    done = add_archive(folder, archive)
    if as_json:
        counts = {"recordings": done.recordings, "patients": done.patients}
        skipped = {"known": done.already_indexed, "withdrawn": done.withdrawn}
        typer.echo(json.dumps({"index": str(folder), **counts, **skipped}))
        return
    rows = [("recordings added", done.recordings), ("patients with a new row", done.patients)]
    rows += [
        ("recordings already in the index", done.already_indexed),
        ("recordings of withdrawn patients", done.withdrawn),
    ]
    print_table([str(folder), ""], rows)


@index.command()
def withdraw(
    folder: IndexFolder,
    patient_list: PatientList,
    key: OptionalKey = None,
    allow_unknown: AllowUnknown = False,
    as_json: AsJson = False,
) -> None:
    """Withdraw patients from an index, and keep them out of later additions.

    No search returns them, and no file of the index holds them. The archive and the store have their own commands:
    'clocs archive withdraw' and 'clocs data withdraw'.
    """
    from clocs.similarity.index.withdraw import withdraw_from_index

    done = withdraw_from_index(folder, read_ids(patient_list), key=key, allow_unknown=allow_unknown)
    if as_json:
        typer.echo(json.dumps({"index": str(folder), **vars(done)}))
        return
    rows = [("patients withdrawn", done.patients), ("recordings", done.recordings)]
    rows += [("ids already withdrawn", done.already_withdrawn), ("unknown ids, now left out", done.unknown)]
    print_table([str(folder), ""], rows)


@index.command()
def rebuild(
    folder: IndexFolder,
    kind: Annotated[KindName | None, typer.Option(help="Change the kind of index. Default: unchanged.")] = None,
    as_json: AsJson = False,
) -> None:
    """Rewrite an index in one piece, without rows that additions replaced."""
    from clocs.similarity.index.updates import rebuild_index

    rebuild_index(folder, kind.value if kind else None)
    _show(folder, as_json)


@index.command()
def limit(
    folder: IndexFolder,
    split: SplitName = "default",
    part: Annotated[str, typer.Option(help="Search the recordings of this part of the split.")] = "validation",
    as_json: AsJson = False,
) -> None:
    """Choose the maximum distance of similar patients, so that 1 % of validation recordings have none within it."""
    from clocs.similarity.index.limit import limit_distance

    found = limit_distance(folder, split, part)
    if as_json:
        typer.echo(json.dumps({"index": str(folder), **found.model_dump()}))
        return
    print_table(
        [str(folder), ""], [("maximum distance", f"{found.distance:.4f}"), (f"{part} recordings", found.recordings)]
    )


@index.command()
def verify(
    folder: Annotated[Path, typer.Argument(metavar="INDEX|ARCHIVE", help="Folder of an index or an archive.")],
    as_json: AsJson = False,
) -> None:
    """Verify every byte of an index or an archive.

    Exits with code 1 and lists the files that differ.
    """
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
        typer.echo(f"{folder}: all files match the manifest")


def _show(folder: Path, as_json: bool) -> None:
    from clocs.similarity.index.manifest import read_index_manifest

    about = read_index_manifest(folder)
    counts = {"kind": about.kind, "patients": about.patients, "recordings": about.recordings}
    if as_json:
        typer.echo(json.dumps({"index": str(folder), **counts}))
        return
    print_table([str(folder), ""], list(counts.items()))


class Sex(StrEnum):
    """Values of the sex of a patient."""

    FEMALE = "female"
    MALE = "male"


def similar(
    record: Annotated[str, typer.Argument(metavar="RECORD", help="An ECG file, or the id of a record of the index.")],
    index: Annotated[Path, typer.Option("--index", help="Search this index.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Return this number of patients.")] = 10,
    site: Annotated[str | None, typer.Option(help="Return only patients of this site.")] = None,
    age: Annotated[
        str | None, typer.Option(help="Return only patients in this range of ages in years, e.g. 60-70.")
    ] = None,
    sex: Annotated[Sex | None, typer.Option(help="Return only patients of this sex.")] = None,
    label: Annotated[str | None, typer.Option(help="Return only patients with this label.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Return only patients with this value in an extra column, e.g. device=CS-12. Repeatable; of several "
            "values for one column, one must match.",
        ),
    ] = None,
    include_own_patient: Annotated[
        bool, typer.Option("--include-own-patient", help="Do not exclude the query's own patient.")
    ] = False,
    encoder: Annotated[
        str | None, typer.Option(help="Load the index's encoder from this folder, if it was moved.")
    ] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Find the patients most similar to a recording, and show their labels and the most similar leads."""
    from clocs.similarity.index.filters import parse_columns
    from clocs.similarity.index.patient_index import open_index

    opened = open_index(index, encoder)
    found = opened.similar(
        record,
        k,
        site=site,
        age=_parse_age_range(age),
        sex=sex.value if sex else None,
        label=label,
        columns=parse_columns(where or []),
        include_own_patient=include_own_patient,
    )
    if plot is not None:
        from clocs.drawing.figure import save_figure
        from clocs.similarity.index.neighbor_figure import draw_similar

        save_figure(draw_similar(opened, found), plot)
    if as_json:
        typer.echo(json.dumps({"index": str(index), "draw": str(plot) if plot else None, **found.as_dict()}))
        return
    print_table(
        ["patient", "distance", "labels", "demographics", "lead similarity"], [_row(item) for item in found.neighbors]
    )
    for note in found.notes:
        typer.echo(note)
    typer.echo("Similarity according to this encoder; not a diagnosis.")


def _parse_age_range(age: str | None) -> tuple[float, float] | None:
    if age is None:
        return None
    try:
        low, high = age.split("-")
        return float(low), float(high)
    except ValueError:
        raise ConfigError(f"Expected an age range in years, such as 60-70, got '{age}'.") from None


def _row(item: Neighbor) -> tuple[str, ...]:
    demographics = ("" if item.age is None else f"{item.age:g} y", item.sex or "", item.site)
    leads = ", ".join(f"{lead.lead} {lead.similarity:.2f}" for lead in item.why)
    if item.recordings > 1:
        leads += f" (of {item.record_id}, {'the most similar' if item.why else 'the first'} of {item.recordings})"
    return item.patient_id, f"{item.distance:.4f}", ", ".join(item.labels), " ".join(filter(None, demographics)), leads
