"""Checks before and after an ingest."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow.compute as pc

from clocs.core.errors import ConfigError
from clocs.core.privacy.pseudonyms import PSEUDONYM
from clocs.core.storage.files import is_inside
from clocs.core.storage.locations import to_location
from clocs.datasets.dataset import Dataset, Options
from clocs.datasets.task import Task
from clocs.signals.quality import GatePolicy
from clocs.signals.source_check import SignalSummary
from clocs.store.manifest import Manifest, check_not_inside_store, read_manifest, versions
from clocs.store.reader import StoreReader
from clocs.store.shard import SHARDS, Shard
from clocs.store.task_records import read_task_records
from clocs.store.task_targets import task_targets

MAX_LISTED_LABELS: Final = 20
"""Maximum number of labels in a message."""


def check_destination(folder: Path, source: str | None, dataset: Dataset, options: Options) -> None:
    """Raise an error if the folder holds another dataset, or overlaps with the source, key or tables."""
    inside = [value for _, value in options if isinstance(value, Path) and is_inside(value, folder)]
    if inside:
        raise ConfigError(f"{inside[0]} is inside the folder of the store. Move the key or table elsewhere.")
    if source is not None and is_inside(folder, tree := to_location(source)) and tree.is_dir():
        raise ConfigError(f"{folder} is inside {source}. Choose a folder outside of it.")
    check_not_inside_store(folder)
    if not versions(folder):
        return
    before, now = read_manifest(folder), options.model_dump(mode="json")
    existing = before.dataset["name"]
    if existing != dataset.name:
        raise ConfigError(f"{folder} is a store of dataset '{existing}'. Choose another folder for '{dataset.name}'.")
    if before.options.get("key") and now.get("key") != before.options["key"]:
        raise ConfigError(
            f"{folder} was made with a key, but this ingest has {'another key' if now.get('key') else 'no key'}, so "
            "patients would be stored twice. Pass the same key (--key FILE), or choose another folder."
        )
    _warn_of_dropped_options(folder, before, now, dataset.metadata(options))


def _warn_of_dropped_options(folder: Path, before: Manifest, now: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Warn if the previous version had a table, classes or tasks and this one has not."""
    dropped = [name for name in ("table", "patients") if before.options.get(name) and not now.get(name)]
    dropped += ["classes"] if before.dataset["classes"] and not metadata["classes"] else []
    had_tasks, has_tasks = (
        bool({*tasks} - {"classes"}) for tasks in (before.dataset.get("tasks", ()), metadata["tasks"])
    )
    dropped += ["tasks"] if had_tasks and not has_tasks else []
    if dropped:
        warnings.warn(
            f"version {before.version} of {folder} was made with -o {' -o '.join(f'{name}=...' for name in dropped)}, "
            "this version without. To keep that metadata of patients and labels, ingest again with the option.",
            stacklevel=4,
        )


def check_no_original_ids(folder: Path) -> None:
    """Raise an error if a version or a killed ingest stored recordings under original ids in this folder.

    A folder whose newest version has a key was checked before its first version. Its shards are not read again.
    """
    if versions(folder) and read_manifest(folder).options.get("key"):
        return
    for record in read_task_records(folder):
        shards = [Shard(folder / SHARDS / info.file, info) for info in record.shards]
        ids = [row.record_id for row in record.refused] + [str(shard.column("record_id")[0]) for shard in shards]
        if not all(map(PSEUDONYM.fullmatch, ids)):
            raise ConfigError(
                f"{folder} contains recordings under original ids, ingested without a key. Choose another folder. "
                "Delete this one if original ids must not be kept."
            )


def check_signals(signals: SignalSummary, source: str | os.PathLike[str] | None, gate: GatePolicy) -> None:
    """Raise an error for a wrong order of leads, and warn of an implausible amplitude.

    Without the gate's check of lead equations, a wrong order is a warning, too.
    """
    name = "The source" if source is None else os.fspath(source)
    if signals.wrong_order and gate.max_lead_equation_error is not None:
        raise ConfigError(
            f"{name}: {signals.wrong_order}. No version was committed. Correct the names of the leads, or store them "
            "as they are with --gate off."
        ).with_code_hint("gate=GATE_OFF")
    for problem in filter(None, (signals.wrong_order, signals.wrong_amplitude)):
        warnings.warn(f"{name}: {problem}. Compare leads and gains with the publisher's.", stacklevel=4)


def warn_of_unused_input(store: StoreReader, options: Options) -> None:
    """Warn of tables, classes and tasks that match no recording."""
    message = options.unused_input_warning(lambda: set(pc.unique(store.table(["patient_id"]).column(0)).to_pylist()))
    if message:
        warnings.warn(message, stacklevel=4)
    _warn_of_unknown_labels(store, options)
    warn_of_unused_tasks(store, {name: task for name, task in options.custom_tasks.items() if name != "classes"})


def warn_of_unused_tasks(store: StoreReader, tasks: Mapping[str, Task]) -> None:
    """Warn of tasks without their column, and of classes without a recording."""
    for name, task in tasks.items():
        try:
            targets = task_targets(store, task)
        except ConfigError as error:
            warnings.warn(f"task '{name}' cannot be used: {error}", stacklevel=4)
            continue
        empty = [each for each, count in targets.positives().items() if not count]
        if empty or not targets.count():
            missing = f"is of the class {', '.join(empty[:MAX_LISTED_LABELS])}" if empty else "takes part"
            warnings.warn(f"task '{name}': no recording {missing}.", stacklevel=4)


def _warn_of_unknown_labels(store: StoreReader, options: Options) -> None:
    """Warn of classes with labels that no recording has."""
    requested = {label for labels in options.custom_classes.values() for label in labels}
    if requested:
        stored = set(pc.unique(pc.list_flatten(store.table(["labels"]).column(0))).to_pylist())
        absent = sorted(requested - stored)
        if absent:
            known = ", ".join(sorted(stored)[:MAX_LISTED_LABELS]) or "none"
            warnings.warn(
                f"No recording has the label {', '.join(absent)} of the classes. Labels of the store: {known}.",
                stacklevel=5,
            )
