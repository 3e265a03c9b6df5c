"""What an ingest looks at before it writes, and after."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.core.files import is_inside
from clocs.core.pseudonyms import PSEUDONYM
from clocs.datasets.dataset import Dataset, Options
from clocs.store.manifest import SHARDS, Manifest, check_not_inside_store, read_manifest, versions
from clocs.store.reader import StoreReader
from clocs.store.shard import Shard
from clocs.store.task_records import read_task_records

MOST_NAMED: Final = 20


def check_place(place: Path, source: str | None, dataset: Dataset, options: Options) -> None:
    """Before anything is written there: it is no other dataset's, and apart from what is read."""
    inside = [value for _, value in options if isinstance(value, Path) and is_inside(value, place)]
    if inside:
        raise ConfigError(f"{inside[0]} lies in the store's own folder; a key or table must lie elsewhere")
    if source is not None and Path(source).is_dir() and is_inside(place, Path(source)):
        raise ConfigError(f"{place} lies in {source}, and would be read with it; choose a place elsewhere")
    check_not_inside_store(place)
    if not versions(place):
        return
    before, now = read_manifest(place), options.model_dump(mode="json")
    held = before.dataset["name"]
    if held != dataset.name:
        raise ConfigError(f"{place} is a store of the dataset '{held}'; choose another folder for '{dataset.name}'")
    if before.options.get("key") and now.get("key") != before.options["key"]:
        raise ConfigError(
            f"{place} was made with a key, and this ingest has {'another' if now.get('key') else 'none'}: its patients "
            "would be there twice. Give the same key (--key FILE), or choose another folder"
        )
    _warn_of_what_is_left_out(place, before, now, dataset.metadata(options))


def _warn_of_what_is_left_out(place: Path, before: Manifest, now: dict[str, Any], about: dict[str, Any]) -> None:
    """Of a version with a table or classes, the next without is hardly meant so: patients fall apart."""
    lost = [name for name in ("table", "patients") if before.options.get(name) and not now.get(name)]
    lost += ["classes"] if before.dataset["classes"] and not about["classes"] else []
    if lost:
        warnings.warn(
            f"version {before.version} of {place} was made with -o {' -o '.join(f'{name}=...' for name in lost)}, this "
            "one without: what that said of patients and labels is not in it. If it should be, give it and ingest anew",
            stacklevel=4,
        )


def check_nobody_is_named(folder: Path) -> None:
    """Before recordings go under pseudonyms where others may lie under their names, of a version or a killed run."""
    for receipt in read_task_records(folder):
        shards = [Shard(folder / SHARDS / info.file, info) for info in receipt.shards]
        ids = [row.record_id for row in receipt.refused] + [str(shard.column("record_id")[0]) for shard in shards]
        if not all(map(PSEUDONYM.fullmatch, ids)):
            raise ConfigError(
                f"{folder} holds recordings under their names, read without a key; they would stay "
                "beside the pseudonyms. Choose another folder, and delete this one if names must not be kept"
            )


def warn_of_unused(store: StoreReader, options: Options) -> None:
    """Of what the user gave, a table say, and nobody has."""
    said = options.unused(set(pc.unique(store.table(["patient_id"]).column(0)).to_pylist()))
    if said:
        warnings.warn(said, stacklevel=4)
    _warn_of_absent_labels(store, options)


def _warn_of_absent_labels(store: StoreReader, options: Options) -> None:
    """A class that the user made of a label nobody has is misspelled, or of another archive."""
    wanted = {label for labels in options.own_classes.values() for label in labels}
    if wanted:
        held = set(pc.unique(pc.list_flatten(store.table(["labels"]).column(0))).to_pylist())
        absent = sorted(wanted - held)
        if absent:
            known = ", ".join(sorted(held)[:MOST_NAMED]) or "none"
            warnings.warn(
                f"no recording has the label {', '.join(absent)}, which a class is made of; labels here: {known}",
                stacklevel=5,
            )
