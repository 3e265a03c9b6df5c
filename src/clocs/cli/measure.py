"""``clocs measure``: heart rate, intervals and axes of ECG files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clocs.cli.arguments import AsJson
from clocs.cli.terminal import print_table


def measure(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An ECG file of any format.")],
    as_json: AsJson = False,
) -> None:
    """Measure heart rate, intervals and axes of an ECG file, from all leads together.

    Shows the spread over beats and leads (±), why a value is missing, and the values that the file itself states.
    """
    from clocs.formats import read
    from clocs.measurements.measurements import measure as run
    from clocs.measurements.results import STATED_TITLES, with_stated

    recording = read(file)
    measured, stated = run(recording), recording.stated_measurements
    if as_json:
        typer.echo(json.dumps({"file": str(file), **measured.as_dict(), "stated": stated.values()}))
        return
    rows = [
        ("{} [{}]".format(*STATED_TITLES[name]), *map(_cell, (m.value, m.beat_spread, m.lead_spread, given)), m.reason)
        for name, (m, given) in with_stated(measured, stated).items()
    ]
    print_table(("measurement", "value", "± beats", "± leads", "in the file", "note"), rows)
    rhythm = {True: "regular", False: "irregular", None: "unknown"}[measured.regular]
    paced = ", pacing spikes" if measured.paced else ""
    typer.echo(f"{measured.num_beats} beats, rhythm {rhythm}{paced}; leads {', '.join(measured.leads) or 'none'}")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"
