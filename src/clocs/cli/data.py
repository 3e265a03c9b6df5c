"""``clocs data``: files in, stores, splits and pictures out."""

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

data = typer.Typer(help="ECG files to verified stores, splits and pictures.", no_args_is_help=True)


class Gate(StrEnum):
    """Whether the lead checks run."""

    ON = "on"
    OFF = "off"


@data.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """Show the datasets clocs knows."""
    from clocs.datasets import DATASETS

    rows = [{"name": item.name, "title": item.title, "licence": item.licence} for item in DATASETS]
    _print(rows, as_json) if as_json else print_table(["dataset", "what", "licence"], [tuple(r.values()) for r in rows])


@data.command()
def info(
    what: Annotated[str, typer.Argument(metavar="DATASET|STORE", help="A dataset's name or a store's folder.")],
    as_json: AsJson = False,
) -> None:
    """Show what a dataset is, or what a store holds."""
    from clocs.datasets import DATASETS
    from clocs.store.store import open_store
    from clocs.store.summary import info as store_info

    if what in DATASETS.names():
        dataset = DATASETS.get(what)
        about, options = dataset.metadata() | {"expected": dict(dataset.expected)}, dataset.describe_options()
        _print(about | ({"options": options} if as_json else {}), as_json)
        if options and not as_json:
            print_table(
                ["option (-o name=value)", "default", "what it means"],
                [
                    (name, "none" if told["default"] in (None, [], {}) else str(told["default"]), told["meaning"])
                    for name, told in options.items()
                ],
            )
    elif Path(what).exists():
        _print(store_info(open_store(what)), as_json)
    else:
        raise ConfigError(f"'{what}' is neither a store's folder nor a dataset ({', '.join(DATASETS.names())})")


@data.command()
def ingest(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Name of a dataset; see 'clocs data list'.")],
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="Folder or zip of its files; - where none is needed.")
    ],
    store: StoreFolder,
    gate: Annotated[Gate, typer.Option(help="off: store everything that can be read.")] = Gate.ON,
    workers: Workers = 1,
    engine: Engine = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="key=value; 'clocs data info DATASET' has all.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Folder only: key file for patients' pseudonyms.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read a folder or zip of ECG files into a store. Interrupted, it continues; repeated, it does nothing."""
    from clocs.core.sources import open_source
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
        )
    gone = count_removed_recordings(made, open_store(store, before[-1])) if before else 0
    unused = count_unused_patient_ids(made) if dataset == "folder" else 0
    numbers = store_info(made)
    if as_json:
        _print({**numbers, "left_out": gone, "unused_identities": unused}, True)
        _exit_if_empty(numbers)
        return
    rows = [("in", numbers["in"]), ("stored", numbers["stored"])]
    rows += [(f"quarantined: {reason}", count) for reason, count in numbers["quarantined"].items()]
    twins = numbers["duplicates"]
    rows += [
        ("patients", numbers["patients"]),
        ("duplicate groups", f"{twins['groups']} ({twins['records']} recordings)"),
    ]
    rows += [("frames", numbers["frames"]), ("instances", numbers["instances"])]
    if dataset == "folder":
        rows += [("other files", sum(1 for _ in open_source(source).names()) - numbers["in"])]
    print_table([dataset, f"version {numbers['version']}"], rows)
    if numbers["quarantined"]:
        typer.echo(f"reasons: clocs data records {store} --refused")
    if gone:
        typer.echo(
            f"{gone} recordings of version {before[-1]} are not in this one: a version holds what its source holds. "
            "To have them all in one, ingest a folder that holds them all"
        )
    if unused:
        typer.echo(
            f"{unused} recordings are of formats that name patients: their ids were not used, and each counts as a "
            "patient of its own under its file's name. To have ids and names as keyed hashes: another store, --key FILE"
        )
    _exit_if_empty(numbers)


@data.command()
def records(
    store: StoreFolder,
    refused: Annotated[bool, typer.Option("--refused", help="Those that were left out, and why.")] = False,
    split: Annotated[str | None, typer.Option("--split", help="Name each recording's part of this split, too.")] = None,
    as_json: AsJson = False,
) -> None:
    """List a store's recordings as CSV, one a line: ids, patient, site, age, sex, labels, rate, length, leads, file."""
    from clocs.store.store import open_store
    from clocs.store.summary import list_quarantined, list_recordings

    opened = open_store(store)
    if refused and split:
        raise ConfigError("recordings that were refused are in no part of a split: leave --refused or --split out")
    rows = list_quarantined(opened) if refused else list_recordings(opened, split)
    if as_json:
        typer.echo(json.dumps({"store": str(store), "records": list(rows)}))
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, row in enumerate(rows):
        if not number:
            writer.writerow(row)
        writer.writerow(map(_cell, row.values()))


def _cell(value: object) -> object:
    if isinstance(value, list):
        return ";".join(escape_cell(text) for text in value)
    return escape_cell(value) if isinstance(value, str) else value


@data.command()
def verify(store: StoreFolder, as_json: AsJson = False) -> None:
    """Check every byte of a store; exits 1 and names the file when anything differs."""
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
        typer.echo(f"{store}: every byte is as its manifest says")


@data.command()
def checksums(store: StoreFolder) -> None:
    """Write the checksums that a store lacks, after comparing each shard with its SHA-256."""
    from clocs.store.verify import add_checksums

    with progress_bar("bytes") as advance:
        written = add_checksums(store, progress=lambda done, total: advance(done, total, ""))
    typer.echo(f"{store}: {written} files of checksums written")


@data.command()
def split(
    store: StoreFolder,
    name: Annotated[str, typer.Option("--name", help="Name of the split.")] = "default",
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives another split.")] = 0,
    group_duplicates: Annotated[bool, typer.Option(help="Keep identical signals in one part.")] = True,
    like: Annotated[
        str | None, typer.Option(help="Split of an earlier version: its patients keep their parts, new ones are dealt.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Split a store's patients into train, validation and test, once."""
    from clocs.store.splits import make_split
    from clocs.store.store import open_store

    made = make_split(open_store(store), name, seed=seed, group_duplicates=group_duplicates, like=like)
    if as_json:
        _print({"name": name, "sha256": made.sha256, **made.metadata}, True)
        return
    counts = made.metadata
    rows = [(part, counts["patients"].get(part, ""), counts["records"][part]) for part in counts["records"]]
    print_table([f"split '{name}'", "patients", "recordings"], rows)
    empty = [part for part, count in counts["patients"].items() if not count and counts["policy"][part]]
    if empty:
        why = "there are too few patients, or many share signals and must stay together"
        if not any(counts["patients"].values()):
            why = "no recording is long enough for a frame, or has its leads"
        typer.echo(f"nobody is in the {' and '.join(empty)} part: {why}")


@data.command("check-leaks")
def check_leaks(
    store: StoreFolder,
    name: Annotated[str, typer.Option("--split", "--name", help="Name of the split.")] = "default",
    as_json: AsJson = False,
) -> None:
    """Refuse a split that has one patient or one signal in two parts; exits 1 and names both records."""
    from clocs.store.splits import load_split
    from clocs.store.store import open_store

    made = load_split(open_store(store), name, thorough=True)
    patients = sum(made.metadata["patients"].values())
    if as_json:
        _print({"store": str(store), "split": name, "sha256": made.sha256, "patients": patients}, True)
        return
    typer.echo(f"split '{name}': no patient and no signal is in two parts ({patients} patients)")


@data.command()
def plot(
    what: Annotated[Path, typer.Argument(metavar="FILE|STORE", help="An ECG file, or a store with --record.")],
    out: Picture = Path("ecg.png"),
    record: Annotated[str | None, typer.Option(help="Record id within a store.")] = None,
    seconds: Annotated[float, typer.Option(help="How much to draw.")] = 10.0,
    start: Annotated[float, typer.Option(help="From which second.")] = 0.0,
    leads: Annotated[str | None, typer.Option(help="Comma-separated; default: all.")] = None,
) -> None:
    """Draw a recording on ECG paper, to scale: 25 mm/s, 10 mm/mV."""
    from clocs.drawing.ecg_paper import draw_recording
    from clocs.drawing.figure import save_figure
    from clocs.formats import read
    from clocs.signals.leads import canonical_lead
    from clocs.store.store import open_store

    if record is None and what.is_dir():
        raise ConfigError(f"{what} is a folder: name a recording of the store with --record ID")
    recording = read(what) if record is None else open_store(what).recording(record)
    chosen = tuple(canonical_lead(lead) for lead in leads.split(",")) if leads else None
    figure = draw_recording(recording, leads=chosen, seconds=seconds, start=start)
    save_figure(figure, out)
    typer.echo(str(out))


@data.command()
def download(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="Name of a dataset; see 'clocs data list'.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to put its files.")],
    mirror: Annotated[str | None, typer.Option(help="Address that takes the place of the publishers' hosts.")] = None,
) -> None:
    """Fetch a dataset from its publisher, with checksums. Interrupted, it continues."""
    from clocs.datasets import DATASETS
    from clocs.datasets.download import download as run

    item = DATASETS.get(dataset)
    with progress_bar("bytes") as advance:
        files = run(item, folder, mirror=mirror, progress=lambda done, total, name: advance(done, total, name))
    typer.echo(f"{len(files)} files in {folder}; licence of {item.name}: {item.licence}")


def _pairs(given: list[str]) -> dict[str, str]:
    wrong = [pair for pair in given if "=" not in pair]
    if wrong:
        raise ConfigError(f"options are key=value, not {', '.join(wrong)}")
    return dict(pair.split("=", 1) for pair in given)


def _exit_if_empty(numbers: dict[str, Any]) -> None:
    if not numbers["stored"]:
        typer.secho("error: nothing is stored: every recording was refused", fg="red", err=True)
        raise typer.Exit(1)


def _print(value: Any, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(value))
        return
    rows = [(key, item if isinstance(item, str | int | None) else json.dumps(item)) for key, item in value.items()]
    print_table(["", ""], rows)
