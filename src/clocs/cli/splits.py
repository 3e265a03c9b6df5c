"""``clocs data``: splits of a store, and the tasks that are scored on their parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from clocs.cli.arguments import AsJson, StoreFolder
from clocs.cli.terminal import print_table
from clocs.core.errors import ConfigError

PARTS: Final = ("train", "validation", "test")


def split(
    store: StoreFolder,
    name: Annotated[
        str | None, typer.Option("--name", help="Give the split this name. Default: 'default', or that of --published.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draw the split with this seed.")] = 0,
    allow_duplicates: Annotated[
        bool, typer.Option("--allow-duplicates", help="Allow identical signals in different parts, and record it.")
    ] = False,
    like: Annotated[
        str | None,
        typer.Option(help="Keep the parts of this split of an earlier version, and distribute new patients."),
    ] = None,
    published: Annotated[
        str | None, typer.Option(help="Make this published split of the dataset, see 'clocs data info DATASET'.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Take the parts from this CSV with the columns record_id or patient_id, and part."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Split by the values of this column, see 'clocs data columns', not at random.")
    ] = None,
    train: Annotated[
        str, typer.Option(help="With --by: values of the train part, such as 1-8, A,B or @FILE (one a line, or CSV).")
    ] = "",
    validation: Annotated[str, typer.Option(help="With --by: values of the validation part.")] = "",
    test: Annotated[str, typer.Option(help="With --by: values of the test part.")] = "",
    as_json: AsJson = False,
) -> None:
    """Split the patients of a store into train, validation and test: at random, by a column, or from lists."""
    from clocs.store.column_splits import parse_values, split_by, split_from_table, split_published
    from clocs.store.splits import make_split
    from clocs.store.store import open_store

    opened = open_store(store)
    if (by is None) == bool(train):
        raise ConfigError("Pass --by and --train together: clocs data split STORE --by fold --train 1-8 --test 9")
    if sum(way is not None for way in (by, like, published, table)) > 1:
        raise ConfigError("--by, --like, --published and --table exclude each other. Pass one of them.")
    common: dict[str, Any] = {"name": name or "default", "allow_duplicates": allow_duplicates}
    if by is not None:
        kind = opened.table(by).schema.types[0]
        texts = zip(PARTS, (train, validation, test), strict=True)
        values: dict[str, Any] = {part: parse_values(text, by, kind) for part, text in texts}
        made = split_by(opened, by, **values, **common)
    elif table is not None:
        made = split_from_table(opened, table, **common)
    elif published is not None:
        made = split_published(opened, published, name=name, allow_duplicates=allow_duplicates)
    else:
        made = make_split(opened, seed=seed, like=like, **common)
    if as_json:
        typer.echo(json.dumps({"name": made.name, "sha256": made.sha256, **made.metadata}))
        return
    counts = made.metadata
    rows = [(part, counts["patients"].get(part, ""), counts["records"][part]) for part in counts["records"]]
    print_table([f"split '{made.name}'", "patients", "recordings"], rows)
    if made.allows_duplicates:
        typer.echo(f"{counts['shared_signals']} recordings have an identical signal in another part.")


def check_leaks(
    store: StoreFolder,
    name: Annotated[str, typer.Option("--split", "--name", help="Check this split.")] = "default",
    as_json: AsJson = False,
) -> None:
    """Check that no patient and no signal is in two parts of a split.

    Exits with code 1 and names both records if there is a leak. Identical signals that the split allows are counted.
    """
    from clocs.store.splits import load_split
    from clocs.store.store import open_store

    made = load_split(open_store(store), name, thorough=True)
    patients = sum(made.metadata["patients"].values())
    shared = made.metadata.get("shared_signals", 0)
    if as_json:
        counts = {"patients": patients, "shared_signals": shared}
        typer.echo(json.dumps({"store": str(store), "split": name, "sha256": made.sha256, **counts}))
        return
    if made.allows_duplicates:
        typer.echo(
            f"split '{name}': no patient is in two parts ({patients} patients). It was made with --allow-duplicates: "
            f"{shared} recordings have an identical signal in another part"
        )
        return
    typer.echo(f"split '{name}': no patient and no signal is in two parts ({patients} patients)")


def tasks(
    store: StoreFolder,
    split: Annotated[
        str | None, typer.Option("--split", help="Count the recordings of each part of this split.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks of a store, with the recordings that take part and the recordings of each class."""
    from clocs.store.splits import load_split
    from clocs.store.store import open_store
    from clocs.store.task_targets import TaskTargets, store_tasks, task_targets

    opened = open_store(store)
    made = load_split(opened, split) if split else None
    masks = {"all": None} if made is None else {part: made.mask(part) for part in PARTS}
    found: dict[str, TaskTargets] = {}
    for name in store_tasks(opened):
        try:
            found[name] = task_targets(opened, name)
        except ConfigError as error:
            typer.echo(f"task '{name}' cannot be used: {error}", err=True)
    if as_json:
        listed = {
            name: {
                "kind": targets.task.kind,
                "title": targets.task.title,
                "recordings": {part: targets.count(mask) for part, mask in masks.items()},
                "positives": {part: targets.positives(mask) for part, mask in masks.items()},
            }
            for name, targets in found.items()
        }
        typer.echo(json.dumps({"store": str(store), "tasks": listed}))
        return
    rows = [
        (name, targets.task.kind, len(targets.classes) or "", *(targets.count(mask) for mask in masks.values()))
        for name, targets in found.items()
    ]
    print_table(["task", "kind", "classes", *masks], rows)
