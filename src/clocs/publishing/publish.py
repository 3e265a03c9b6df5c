"""Publication of an encoder with calibrated classifiers and a model card."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import ConfigError
from clocs.core.storage.files import write_bytes
from clocs.evaluation.benchmark.embedders import trained_embedder
from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.model_outputs import require_patients
from clocs.evaluation.recording_classifier import allows_missing_leads, features_by_lead_set
from clocs.evaluation.scoring import RECORDING_LEVELS, compute_metrics
from clocs.evaluation.subgroups import compute_subgroup_metrics
from clocs.inference.classifier import FOLDER, Classifier
from clocs.publishing.fitting import fit_classifier
from clocs.publishing.model_card import CardContent, ClassifierReport, format_model_card
from clocs.similarity.scoring.audit import audit
from clocs.store.reader import StoreLike
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.store.task_targets import TaskTargets, classes_task, store_tasks, task_targets
from clocs.training.encoder_folder import embedding_dim
from clocs.training.encoder_module import save_encoder
from clocs.training.onnx_export import finish_encoder
from clocs.training.output_dir import check_output_dir
from clocs.training.seen_recordings import (
    extend_seen_keys,
    has_seen_keys,
    save_seen_keys,
    seen_keys,
    seen_mask,
    training_hashes,
    was_trained_on_split,
)


def publish(
    checkpoint: str | os.PathLike[str],
    store: StoreLike,
    out: str | os.PathLike[str],
    name: str,
    *,
    extra_stores: Sequence[StoreLike] = (),
    split: str | None = None,
    tasks: Sequence[str] = (),
    leads: Sequence[str] = (),
    cache: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Write an encoder with classifiers for the labels of stores, and a model card.

    The folder can be passed to :func:`clocs.load_encoder` and uploaded to a model hub. A classifier has linear weights
    for each set of leads that the recordings have: all twelve, the six limb leads, I and II. They are fitted on all
    training labels, and regularized and calibrated on validation patients. If classes exclude each other, one half
    of the validation patients is used only to calibrate prediction sets. The card reports metrics of each set and a
    privacy audit of the test patients.

    Args:
        checkpoint: Folder of a run or of an encoder, or name of a shipped encoder.
        store: A store with labels, or its folder.
        out: Folder to write. It may have the result of an earlier call, and nothing else.
        name: Name of the encoder in the card.
        extra_stores: Further stores. Pass all stores that the encoder was trained on in their order, or only others.
        split: Name of the split, for stores that the encoder was not trained on. None: ``default``. For stores of
            training it is the split of training.
        tasks: Names of tasks, such as ``chapman-rhythm``. Each store gets a classifier for each of them that it has,
            which has the name of the task. Empty: one for the classes of each store, with the name of its dataset.
        leads: Fit classifiers of these leads only. Empty: all leads that most recordings have.
        cache: Folder of cached features of recordings, with which a killed call continues. None: nothing is saved.

    Returns:
        The folder, and the metrics of the test part by classifier and set of leads.

    Raises:
        ConfigError: A store has no such task or classes, or an empty part; stores do not fit the encoder; or ``out``
            is not empty.
        LeakError: The encoder has seen test patients.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 40, "leads": 1, "seconds": 5})
        >>> split = clocs.split(store)
        >>> published = publish("cmsc-chapman", store, "published", "my-encoder")
        >>> list(clocs.load_encoder("published").classifiers)
        ['synthetic']
    """
    stores = [open_store(each) for each in (store, *extra_stores)]
    targets = [_targets(opened, tasks) for opened in stores]
    names = _classifier_names(stores, targets, tasks)
    encoder = load_encoder_checkpoint(checkpoint, stores[0])
    sources = _stores_with_splits(encoder, stores, split)
    for opened, parts in sources:
        require_patients(opened, parts, "train", "validation", "test")
    folder = Path(out)
    identity = {
        "weights_sha256": encoder.about["weights_sha256"],
        "classifiers": [name for row in names for name in row],
    }
    check_output_dir(folder, lambda config: identity.items() <= config.items())
    fitted = [
        item
        for source, found, row in zip(sources, targets, names, strict=True)
        for item in _fit_store(
            os.fspath(checkpoint), encoder, *source, dict(zip(row, found, strict=True)), leads, cache
        )
    ]
    assert encoder.folder is not None
    reports = tuple(report for report, _ in fitted)
    seen = extend_seen_keys(encoder.folder, encoder.about, starmap(seen_keys, sources))
    about = {**encoder.about, "seen_sha256": save_seen_keys(folder, seen), "classifiers": identity["classifiers"]}
    save_encoder(folder, encoder.module, about)
    finish_encoder(folder, encoder.module)
    for report, classifier in fitted:
        classifier.save(folder / FOLDER / report.name)
    write_bytes(folder / "README.md", format_model_card(CardContent(name, about, reports)).encode())
    return {"folder": str(folder), "test": {report.name: report.test_by_leads() for report in reports}}


def _targets(store: Store, tasks: Sequence[str]) -> list[TaskTargets]:
    """Return the targets of the tasks that a store has; of its classes if no task is given."""
    if not tasks:
        return [task_targets(store, classes_task(store))]
    known = [name for name in tasks if name in store_tasks(store)]
    return [task_targets(store, name) for name in known or tasks[:1]]  # an unknown name raises an error


def _stores_with_splits(
    encoder: EncoderCheckpoint, stores: Sequence[Store], split: str | None
) -> list[tuple[Store, Split]]:
    """Return each store with its split, without leakage. Stores are all those of training, or only others."""
    trained = {sha256 for sha256, _ in training_hashes(encoder.about)}
    if encoder.folder is None or not trained.isdisjoint(store.sha256 for store in stores):
        sources = encoder.training_data(stores)
        used = sources[0][1].name
        if split not in (None, used):
            raise ConfigError(f"split '{split}': the encoder was trained with '{used}'; leave the split out.")
        return sources
    sources = [(store, store.split(split or "default")) for store in stores]
    for store, parts in sources:
        check_leakage(encoder.folder, encoder.about, store, parts)
    return sources


def _classifier_names(
    stores: Sequence[Store], targets: Sequence[Sequence[TaskTargets]], tasks: Sequence[str]
) -> list[list[str]]:
    """Return the names of each store's classifiers: dataset or task names. A repeated name has a number."""
    counts: Counter[str] = Counter()
    names: list[list[str]] = []
    for store, found in zip(stores, targets, strict=True):
        names.append([])
        for item in found:
            name = item.name if tasks else str(store.manifest.dataset["name"])
            counts[name] += 1
            names[-1].append(name if counts[name] == 1 else f"{name}-{counts[name]}")
    return names


def _fit_store(
    label: str,
    encoder: EncoderCheckpoint,
    store: Store,
    split: Split,
    targets: Mapping[str, TaskTargets],
    leads: Sequence[str],
    cache: str | os.PathLike[str] | None,
) -> Iterator[tuple[ClassifierReport, Classifier]]:
    """Iterate over the classifiers of a store's tasks by name, with their reports. The first has the privacy audit."""
    described = encoder.about["input"]
    features = features_by_lead_set(
        trained_embedder(label, encoder.module, described),
        store,
        allow_missing_leads=allows_missing_leads(described),
        leads=leads,
        cache=cache,
    )
    assert encoder.folder is not None
    privacy: dict[str, Any] | None = audit(encoder.folder, store, split=split.name)
    for name, task in targets.items():
        classifier, tested = fit_classifier(
            store, split, task, features, encoder.about["weights_sha256"], embedding_dim(encoder.about)
        )
        report = ClassifierReport(
            name,
            classifier.card,
            test=[compute_metrics(outputs, levels=RECORDING_LEVELS) for outputs in tested],
            subgroups=compute_subgroup_metrics(tested[0], store, _subgroup_columns(store)),
            num_patients=_count_patients(store, split),
            seen_by_encoder=_was_seen(encoder, store, split),
            audit=privacy,
        )
        yield report, classifier
        privacy = None


def _subgroup_columns(store: Store) -> tuple[str, ...]:
    """Return the columns of subgroups. Few datasets name the device."""
    return ("sex", "age", "device") if "device" in store.extra_types else ("sex", "age")


def _was_seen(encoder: EncoderCheckpoint, store: Store, split: Split) -> bool:
    """Return whether the encoder was trained on recordings of the training part."""
    assert encoder.folder is not None
    if not has_seen_keys(encoder.folder, encoder.about):
        return was_trained_on_split(encoder.about, store, split)
    return bool((seen_mask(encoder.folder, encoder.about, store) & split.mask("train")).any())


def _count_patients(store: Store, split: Split) -> dict[str, int]:
    patient = store.patient_codes()[0]
    return {part: len(np.unique(patient[split.mask(part)])) for part in ("train", "validation", "test")}
