"""Embedding of a store into an archive, in parallel, with bounded memory, resumable at any time.

A task embeds recordings of one shard of the store, and is named by a hash of its inputs. It writes its shard and then a
task record; a task with a record never runs again. So a change of one shard of the store embeds only its recordings.
The manifest is built from the task records and written last.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from clocs.core import engine as engines
from clocs.core.errors import ConfigError
from clocs.core.hashes import content_hash
from clocs.core.storage.files import lock_folder
from clocs.core.storage.locations import to_location
from clocs.inference.input_checks import GATE
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.similarity.archive.archive import Archive
from clocs.similarity.archive.commit import commit_archive
from clocs.similarity.archive.embedding_task import Task, TaskRecord, run_task
from clocs.similarity.archive.manifest import (
    FORMAT,
    EncoderInfo,
    InputLocations,
    StoreInfo,
    read_archive_manifest,
    relative_path,
)
from clocs.store.manifest import check_not_inside_store, versions
from clocs.store.store import Store
from clocs.store.task_records import Progress, run_tasks
from clocs.store.withdrawn import read_withdrawn
from clocs.training.shipped import shipped_encoders

RECORDS_PER_TASK: Final = 2048
"""Maximum number of recordings of a task, which bounds the memory of a worker."""


def embed_store(
    encoder: PretrainedEncoder | str | os.PathLike[str],
    store: Store | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    any_lead: bool = False,
    device: str | None = None,
    engine: engines.Engine | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Archive:
    """Embed every recording of a store into an archive.

    Every recording is embedded, listed as refused with a reason, or counted as withdrawn. Call it again to continue an
    interrupted call. If the store has not changed, a repeated call does nothing. If it has, the call adds a version of
    the archive and embeds the recordings of new shards.

    Args:
        encoder: An encoder, or the name or folder of one. Worker processes load it again from its folder.
        store: A store, or its folder.
        folder: Folder of the archive.
        any_lead: Also embed leads that the encoder was not trained on.
        device: Torch device, used if the encoder is given by name or folder. Default: ONNX Runtime.
        engine: Engine that runs the tasks. Default: this process, or worker processes if ``workers`` is above 1.
        workers: Number of worker processes, which share the processors.
        progress: Called with the number of recordings done and the number refused.

    Returns:
        The archive.

    Raises:
        ConfigError: The folder holds embeddings of another store or by another encoder.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4})
        >>> archive = clocs.embed_store("cmsc-chapman", store, "archive")
        >>> len(archive), archive.embedding_dim
        (4, 128)
    """
    kind = engine or ("serial" if workers == 1 else "processes")
    threads = max(1, (os.cpu_count() or 1) // (1 if kind == "serial" else workers))
    loaded = (
        encoder if isinstance(encoder, PretrainedEncoder) else load_encoder(encoder, device=device, num_threads=threads)
    )
    opened = store if isinstance(store, Store) else Store(store)
    place = to_location(folder)
    check_not_inside_store(place)
    with lock_folder(place):
        about = _about(loaded, opened, place, any_lead)
        _check_same_source(place, about, opened)
        tasks = _tasks(place, loaded, opened, about)
        return _commit(place, about, run_tasks(run_task, tasks, kind, workers, progress))


def _about(encoder: PretrainedEncoder, store: Store, folder: Path, any_lead: bool) -> dict[str, Any]:
    """Return the fields of the manifest that are known before embedding."""
    leads = encoder.input.leads if encoder.input.embeds_leads else ()
    if any_lead and not encoder.input.all_leads:
        leads += tuple(sorted(_stored_leads(store) - set(leads)))
    return {
        "encoder": EncoderInfo(
            weights_sha256=encoder.about["weights_sha256"],
            encoder=encoder.about["encoder"],
            input=encoder.input.model_dump(mode="json"),
        ),
        "leads": leads,
        "any_lead": any_lead,
        "store": StoreInfo(
            dataset=store.manifest.dataset["name"],
            version=store.manifest.version,
            sha256=store.sha256,
            first_sha256=store.manifest.first_sha256,
            key=store.manifest.options.get("key") or None,
        ),
        "gate": GATE.model_dump(mode="json"),
        "software": {name: version(name) for name in ("clocs", "numpy", "pyarrow", encoder.runtime)},
        "places": InputLocations(
            store=relative_path(folder, store.folder), encoder=_encoder_location(encoder.name, folder)
        ),
    }


def _encoder_location(encoder: str, folder: Path) -> str:
    return encoder if encoder in shipped_encoders() else relative_path(folder, encoder)


def _stored_leads(store: Store) -> set[str]:
    numbers = range(len(store.shards))
    return {lead for number in numbers for layout in store.rows_by_leads(number) for lead in layout}


def _check_same_source(folder: Path, about: dict[str, Any], store: Store) -> None:
    """Raise an error if the folder holds embeddings by another encoder, with other options or of another store."""
    if not versions(folder):
        return
    existing = read_archive_manifest(folder)
    holds = f"{folder} holds embeddings of {existing.store.dataset} by {existing.places.encoder}"
    if existing.encoder != about["encoder"] or existing.store.dataset != about["store"].dataset:
        raise ConfigError(f"{holds}, another encoder or another dataset. Choose another folder.")
    if existing.any_lead != about["any_lead"]:
        option = "with --any-lead" if existing.any_lead else "without --any-lead"
        raise ConfigError(f"{holds}, made {option}. Use the same option, or choose another folder.")
    if existing.store.first_sha256 == about["store"].first_sha256:
        return
    known = {str(name) for name in Archive(folder).table(["record_id"]).column(0)}
    kept = sum(str(name) in known for name in store.table(["record_id"]).column(0))
    if 2 * kept < len(known):
        raise ConfigError(
            f"{holds}: {len(known):,} recordings, of which {store.folder} has only {kept:,}. It is another store. "
            "Choose another folder."
        )


def _tasks(folder: Path, encoder: PretrainedEncoder, store: Store, about: dict[str, Any]) -> Iterator[Task]:
    shared = [FORMAT, about["encoder"].model_dump(mode="json"), about["leads"], about["any_lead"], about["gate"]]
    withdrawn = read_withdrawn(folder)
    for number, shard in enumerate(store.shards):
        start = int(store.shard_starts[number])
        for first in range(0, shard.records, RECORDS_PER_TASK):
            last = min(first + RECORDS_PER_TASK, shard.records)
            yield Task(
                folder=folder.absolute(),
                store=store.folder.absolute(),
                version=store.manifest.version,
                first=start + first,
                last=start + last,
                encoder=encoder,
                leads=about["leads"],
                any_lead=about["any_lead"],
                name=content_hash([*shared, shard.sha256, first, last]),
                withdrawn=withdrawn,
            )


def _commit(folder: Path, about: dict[str, Any], records: list[TaskRecord]) -> Archive:
    """Write a new version from the task records, unless the newest version has the same content."""
    refused = [row for record in records for row in record.refused]
    shards = tuple(record.shard for record in records if record.shard is not None)
    counts = {name: sum(getattr(record, name) for record in records) for name in ("records_in", "withdrawn")}
    commit_archive(folder, {**about, **counts}, shards, refused)
    return Archive(folder)
