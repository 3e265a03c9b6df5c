"""``clocs similar``: patients like this one."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clocs.cli.arguments import AsJson, Draw
from clocs.cli.printing import print_table
from clocs.core.errors import ConfigError

if TYPE_CHECKING:
    from clocs.similarity.index.neighbours import Neighbour


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
        from clocs.similarity.index.neighbour_figure import draw_similar

        save_figure(draw_similar(opened, found), draw)
    if as_json:
        typer.echo(json.dumps({"index": str(index), "draw": str(draw) if draw else None, **found.as_dict()}))
        return
    print_table(["patient", "distance", "labels", "who", "leads"], [_row(item) for item in found.neighbours])
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


def _row(item: Neighbour) -> tuple[str, ...]:
    who = ("" if item.age is None else f"{item.age:g} y", item.sex or "", item.site)
    leads = ", ".join(f"{lead.lead} {lead.similarity:.2f}" for lead in item.why)
    if item.recordings > 1:
        leads += f" (of {item.record_id}, {'the most alike' if item.why else 'the first'} of {item.recordings})"
    return item.patient_id, f"{item.distance:.4f}", ", ".join(item.labels), " ".join(filter(None, who)), leads
