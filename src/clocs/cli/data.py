"""``clocs data``: datasets, stores and plots."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from clocs.cli.arguments import AsJson, Engine, Picture, StoreFolder, Workers
from clocs.cli.terminal import print_table, progress_bar
from clocs.core.csv_cells import escape_cell
from clocs.core.errors import ConfigError
from clocs.core.storage.locations import to_location

data = typer.Typer(help="Download, ingest, verify, split and plot ECG data.", no_args_is_help=True)


MAX_LISTED_ORDERS = 3
"""Maximum number of lead orders in a table."""


class Gate(StrEnum):
    """Switch of the quality gate."""

    ON = "on"
    OFF = "off"


@data.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """List the available datasets."""
    from clocs.datasets import DATASETS

    rows = [{"name": item.name, "title": item.title, "licence": item.licence} for item in DATASETS]
    _print(rows, as_json) if as_json else print_table(
        ["dataset", "title", "licence"], [tuple(r.values()) for r in rows]
    )


@data.command()
def info(
    what: Annotated[str, typer.Argument(metavar="DATASET|STORE", help="Name of a dataset, or folder of a store.")],
    as_json: AsJson = False,
) -> None:
    """Describe a dataset or a store."""
    from clocs.datasets import DATASETS
    from clocs.store.manifest import versions
    from clocs.store.store import open_store
    from clocs.store.summary import info as store_info

    if what in DATASETS.names():
        dataset = DATASETS.get(what)
        splits = {name: split.title for name, split in dataset.splits.items()}
        about = dataset.metadata() | {"splits": splits, "expected": dict(dataset.expected)}
        options = dataset.describe_options()
        about |= {} if as_json else {"tasks": {name: task.title for name, task in dataset.tasks.items()}}
        _print(about | ({"options": options} if as_json else {}), as_json)
        if options and not as_json:
            print_table(
                ["option (-o name=value)", "default", "meaning"],
                [
                    (name, "none" if item["default"] in (None, [], {}) else str(item["default"]), item["meaning"])
                    for name, item in options.items()
                ],
            )
    elif versions(to_location(what)) or Path(what).exists():
        numbers = store_info(open_store(what))
        if as_json:
            return _print(numbers, True)
        rows = _count_rows(numbers)
        rows += [("shards", numbers["shards"]), ("bytes", numbers["bytes"]), ("hash", numbers["sha256"])]
        print_table([numbers["dataset"], f"version {numbers['version']}"], rows)
    else:
        raise ConfigError(
            f"'{what}' is neither the folder of a store nor a dataset. Datasets: {', '.join(DATASETS.names())}."
        )


@data.command()
def ingest(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Name of a dataset; see 'clocs data list'.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="Folder or zip of the dataset's files, s3://bucket/folder, or - if it needs none."
        ),
    ],
    store: StoreFolder,
    gate: Annotated[
        Gate, typer.Option(help="Apply the quality gate; off stores every recording that is not constant.")
    ] = Gate.ON,
    workers: Workers = 1,
    engine: Engine = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="Set an option of the dataset, see 'clocs data info DATASET'. Repeatable."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Replace patient ids by pseudonyms with this key file (dataset 'folder' only).")
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Keep the recordings of the newest version, and add those of the source.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Keep heart rate, intervals and axes as columns measured_heart_rate, ...")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read ECG files into a store.

    An interrupted command continues where it stopped. A repeated command does nothing.
    """
    from clocs.core.sources.source import open_source
    from clocs.signals.quality import GATE_OFF
    from clocs.store.ingest import count_removed_recordings
    from clocs.store.ingest import ingest as run
    from clocs.store.manifest import versions
    from clocs.store.store import open_store
    from clocs.store.summary import count_unused_patient_ids
    from clocs.store.summary import info as store_info

    before = versions(store)
    with progress_bar("recordings") as advance:
        made = run(
            dataset,
            None if source == "-" else source,
            store,
            gate=GATE_OFF if gate is Gate.OFF else None,
            options=_pairs(option or []) | ({"key": key} if key else {}),
            engine=engine.value if engine else None,
            workers=workers,
            progress=lambda done, refused: advance(done, None, f"{refused} refused"),
            append=append,
            measure=measure,
        )
    gone = count_removed_recordings(made, open_store(store, before[-1])) if before else 0
    unused = count_unused_patient_ids(made) if dataset == "folder" else 0
    numbers = store_info(made)
    if as_json:
        _print({**numbers, "left_out": gone, "unused_identities": unused}, True)
        _exit_if_empty(numbers)
        return
    rows = _count_rows(numbers)
    if dataset == "folder" and not append:
        rows += [("other files", sum(1 for _ in open_source(source).names()) - numbers["in"])]
    print_table([dataset, f"version {numbers['version']}"], rows)
    if numbers["quarantined"]:
        typer.echo(f"For the reasons run: clocs data records {store} --refused")
    if gone:
        typer.echo(
            f"{gone} recordings of version {before[-1]} are not in this one: a version holds what its source holds. "
            "To add recordings to a version, use --append"
        )
    if unused:
        typer.echo(
            f"{unused} recordings have patient ids that were not used, so each counts as its own patient. To use the "
            "ids as pseudonyms, ingest into another store with --key FILE."
        )
    _exit_if_empty(numbers)


@data.command()
def records(
    store: StoreFolder,
    refused: Annotated[bool, typer.Option("--refused", help="List the refused recordings with reasons.")] = False,
    split: Annotated[str | None, typer.Option("--split", help="Add each recording's part in this split.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the recordings of a store as CSV.

    Columns: ids, patient, site, age, sex, labels, sampling rate, length, leads, file and extra columns.
    """
    from clocs.store.store import open_store
    from clocs.store.summary import list_quarantined, list_recordings

    opened = open_store(store)
    if refused and split:
        raise ConfigError("Refused recordings have no part in a split. Omit --refused or --split.")
    rows = list_quarantined(opened) if refused else list_recordings(opened, split)
    if as_json:
        typer.echo(json.dumps({"store": str(store), "records": list(rows)}))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, row in enumerate(rows):
        if not number:
            writer.writerow(map(_cell, row))
        writer.writerow(map(_cell, row.values()))


def _cell(value: object) -> object:
    if isinstance(value, list):
        return ";".join(escape_cell(text) for text in value)
    return escape_cell(value) if isinstance(value, str) else value


@data.command()
def columns(store: StoreFolder, as_json: AsJson = False) -> None:
    """List the columns of a store, by which recordings can be selected, split and scored.

    Examples are masked where they could identify a person.
    """
    from clocs.store.column_summary import summarize_columns

    rows = summarize_columns(store)
    if as_json:
        typer.echo(json.dumps({"store": str(store), "columns": [vars(row) for row in rows]}))
        return
    print_table(
        ["column", "type", "recordings", "values", "examples"],
        [(row.name, row.type, row.num_values, row.num_distinct, ", ".join(row.examples)) for row in rows],
    )


@data.command()
def verify(store: StoreFolder, as_json: AsJson = False) -> None:
    """Verify every byte of a store.

    Exits with code 1 and lists the files that differ.
    """
    from clocs.store.verify import verify as run

    with progress_bar("bytes") as advance:
        faults = run(store, progress=lambda done, total: advance(done, total, ""))
    if as_json:
        _print({"store": str(store), "faults": [vars(fault) for fault in faults]}, True)
    for fault in [] if as_json else faults:
        typer.secho(f"{fault.file}: {fault.problem}", fg="red")
    if faults:
        raise typer.Exit(1)
    if not as_json:
        typer.echo(f"{store}: all files match the manifest")


@data.command()
def checksums(store: StoreFolder) -> None:
    """Add missing checksums to a store, after comparing each shard with its SHA-256."""
    from clocs.store.verify import add_checksums

    with progress_bar("bytes") as advance:
        written = add_checksums(store, progress=lambda done, total: advance(done, total, ""))
    typer.echo(f"{store}: {written} checksum files written")


@data.command()
def plot(
    what: Annotated[
        Path, typer.Argument(metavar="FILE|STORE", help="An ECG file, or the folder of a store (with --record).")
    ],
    out: Picture = Path("ecg.png"),
    record: Annotated[str | None, typer.Option(help="Plot the recording with this id.")] = None,
    seconds: Annotated[float, typer.Option(help="Plot this duration in seconds.")] = 10.0,
    start: Annotated[float, typer.Option(help="Start at this second.")] = 0.0,
    leads: Annotated[str | None, typer.Option(help="Plot only these leads, separated by commas. Default: all.")] = None,
) -> None:
    """Plot a recording on ECG paper at 25 mm/s and 10 mm/mV."""
    from clocs.drawing.ecg_paper import draw_recording
    from clocs.drawing.figure import save_figure
    from clocs.formats import read
    from clocs.signals.leads import canonical_lead
    from clocs.store.store import open_store

    if record is None and what.is_dir():
        raise ConfigError(f"{what} is a folder. Select a recording of the store with --record ID.")
    recording = read(what) if record is None else open_store(what).recording(record)
    chosen = tuple(canonical_lead(lead) for lead in leads.split(",")) if leads else None
    figure = draw_recording(recording, leads=chosen, seconds=seconds, start=start)
    save_figure(figure, out)
    typer.echo(str(out))


@data.command()
def download(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Name of a dataset; see 'clocs data list'.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder for the files.")],
    mirror: Annotated[str | None, typer.Option(help="Download from this address instead of the publisher's.")] = None,
) -> None:
    """Download a dataset from its publisher and compare checksums.

    An interrupted command continues where it stopped.
    """
    from clocs.datasets import DATASETS
    from clocs.datasets.download import download as run

    item = DATASETS.get(dataset)
    with progress_bar("bytes") as advance:
        files = run(item, folder, mirror=mirror, progress=lambda done, total, name: advance(done, total, name))
    typer.echo(f"{len(files)} files in {folder}; licence of {item.name}: {item.licence}")


def _pairs(given: list[str]) -> dict[str, str]:
    wrong = [pair for pair in given if "=" not in pair]
    if wrong:
        raise ConfigError(f"Expected options as key=value, got {', '.join(wrong)}.")
    return dict(pair.split("=", 1) for pair in given)


def _count_rows(numbers: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return rows of a table about the counts of a store."""
    rows = [("recordings read", numbers["in"]), ("stored", numbers["stored"])]
    rows += [(f"quarantined: {reason}", count) for reason, count in numbers["quarantined"].items()]
    rows += [("of withdrawn patients, left out", numbers["withdrawn"])] if numbers["withdrawn"] else []
    twins = numbers["duplicates"]
    rows += [
        ("patients", numbers["patients"]),
        ("duplicate groups", f"{twins['groups']} ({twins['records']} recordings)"),
    ]
    if numbers["frames"] is not None:
        rows += [("frames", numbers["frames"]), ("instances (a lead of a frame)", numbers["instances"])]
    return rows + _signal_rows(numbers["signals"])


def _signal_rows(signals: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return rows of a table about lead order and amplitude, where they were measured."""
    if signals is None:
        return []
    total = sum(signals["orders"].values())
    orders = list(signals["orders"].items())[:MAX_LISTED_ORDERS]
    rows = [(f"lead order: {order}", f"{count} of {total} measured") for order, count in orders]
    medians = {"R wave of lead II": signals["r_amplitude"], "largest lead": signals["peak"]}
    return rows + [(f"amplitude, {name}", f"{value:g} mV (median)") for name, value in medians.items() if value]


def _exit_if_empty(numbers: dict[str, Any]) -> None:
    if not numbers["stored"]:
        typer.secho("error: no recording was stored: all were refused", fg="red", err=True)
        raise typer.Exit(1)


def _print(value: Any, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(value))
        return
    rows = [(key, item if isinstance(item, str | int | None) else json.dumps(item)) for key, item in value.items()]
    print_table(["", ""], rows)
