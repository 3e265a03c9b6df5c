"""An encoder made ready for others: with calibrated classifiers, a model card, and nothing left to guess."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import ConfigError
from clocs.core.files import write_bytes
from clocs.datasets import DATASETS
from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.evaluation_frames import frame_policy_for
from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.linear import LinearClassifier, fit_linear
from clocs.evaluation.model_outputs import ModelOutputs, compute_outputs, require_classes, require_patients
from clocs.evaluation.scoring import compute_metrics, pool_outputs
from clocs.evaluation.subgroups import compute_subgroup_metrics
from clocs.inference.classifier import FOLDER, Classifier, ClassifierCard, ClassInfo, reliability_bins
from clocs.metrics.calibration import fit_adjustment, fit_temperature, reliability
from clocs.publishing.model_card import CardContent, ClassifierReport, write_card
from clocs.similarity.scoring.audit import audit
from clocs.store.frames import Frames
from clocs.store.reader import StoreLike
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.encoder_module import save_encoder
from clocs.training.onnx_export import finish_encoder
from clocs.training.output_dir import check_output_dir
from clocs.training.seen_recordings import extend_seen_keys, save_seen_keys, seen_keys, training_hashes


def publish(
    checkpoint: str | os.PathLike[str],
    store: StoreLike,
    out: str | os.PathLike[str],
    name: str,
    *,
    extra_stores: Sequence[StoreLike] = (),
    split: str | None = None,
) -> dict[str, Any]:
    """Write a folder that ``clocs.load_encoder`` takes and model hubs accept as it is.

    For each store there is a classifier, under the dataset's name: linear, fitted on all its training labels,
    regularised and calibrated on its validation patients. The card's results, and what the embeddings give away, are
    those of its test patients. The stores are all that the encoder was trained on, with the split of training; or
    others, with the split of that name (``default``), of whose test patients it has seen nobody. A folder that holds
    anything but the same encoder with classifiers of the same names is refused.
    """
    places = [open_store(place) for place in (store, *extra_stores)]
    for place in places:
        require_classes(place)
    encoder = load_encoder_checkpoint(checkpoint, places[0])
    sources, names = _sources(encoder, places, split), _names(places)
    for place, parts in sources:
        require_patients(place, parts, "train", "validation", "test")
    folder, known = Path(out), {"weights_sha256": encoder.about["weights_sha256"], "classifiers": names}
    check_output_dir(folder, lambda held: known.items() <= held.items())
    made = [_task(encoder, place, parts, name) for (place, parts), name in zip(sources, names, strict=True)]
    assert encoder.folder is not None
    tasks = tuple(task for task, _ in made)
    about = {
        **encoder.about,
        "seen_sha256": save_seen_keys(
            folder, extend_seen_keys(encoder.folder, encoder.about, starmap(seen_keys, sources))
        ),
        "classifiers": names,
    }
    save_encoder(folder, encoder.module, about)
    finish_encoder(folder, encoder.module)
    for task, classifier in made:
        classifier.save(folder / FOLDER / task.name)
    write_bytes(folder / "README.md", write_card(CardContent(name, about, tasks)).encode())
    return {"folder": str(folder), "test": {task.name: task.test for task in tasks}}


def _sources(encoder: EncoderCheckpoint, places: Sequence[Store], split: str | None) -> list[tuple[Store, Split]]:
    """Those of training, all of them, or others alone: the split contract holds for either."""
    trained = {store for store, _ in training_hashes(encoder.about)}
    if encoder.folder is None or not trained.isdisjoint(place.sha256 for place in places):
        own = encoder.sources(places)
        if split not in (None, own[0][1].name):
            raise ConfigError(f"split '{split}': the encoder was trained with '{own[0][1].name}'; leave the split out")
        return own
    found = [(place, place.split(split or "default")) for place in places]
    for place, parts in found:
        check_leakage(encoder.folder, encoder.about, place, parts)
    return found


def _names(places: Sequence[Store]) -> list[str]:
    """What classifiers are called: by dataset, with a number from the second of the same on."""
    datasets = [str(place.manifest.dataset["name"]) for place in places]
    counts = [datasets[: place + 1].count(name) for place, name in enumerate(datasets)]
    return [name if count == 1 else f"{name}-{count}" for name, count in zip(datasets, counts, strict=True)]


def _task(encoder: EncoderCheckpoint, store: Store, split: Split, name: str) -> tuple[ClassifierReport, Classifier]:
    """A classifier for the store's labels, and what it is worth to its test patients."""
    assert encoder.folder is not None
    policy = frame_policy_for(encoder.about, store, "encoder")
    train, validation, test = (
        compute_outputs(encoder.module, store, policy, split.mask(part), in_channels=encoder.module.in_channels)
        for part in ("train", "validation", "test")
    )
    leads = Frames(store, policy, records=split.mask("train")).leads
    classifier = _classifier(fit_linear(train, validation), train, validation, leads, encoder, store, split)
    scores = test.with_values(classifier.probabilities(test.values).astype(np.float32))
    audited = audit(encoder.folder, store, split=split.name)
    groups = compute_subgroup_metrics(scores, store, adjust=classifier.adjust_recording)
    judged = compute_metrics(scores, adjust=classifier.adjust_recording)
    return ClassifierReport(name, classifier.card, judged, groups, _patients(store, split), audited), classifier


def _classifier(
    linear: LinearClassifier,
    train: ModelOutputs,
    validation: ModelOutputs,
    leads: tuple[str, ...],
    encoder: EncoderCheckpoint,
    store: Store,
    split: Split,
) -> Classifier:
    """The linear classifier, calibrated, and what its probabilities were worth on validation patients."""
    dataset = DATASETS.get(store.manifest.dataset["name"])
    shares = pool_outputs(train, train.patient).truth.mean(0)
    card = ClassifierCard(
        classes=tuple(
            ClassInfo(name, dataset.meanings.get(name, name), float(share), ())
            for name, share in zip(train.classes, shares, strict=True)
        ),
        multi_label=linear.multi_label,
        temperature=fit_temperature(
            linear.logits(validation.values), validation.truth, linear.multi_label, groups=validation.record
        ),
        limitations=(*_always(linear, train), *dataset.limitations),
        leads=leads,
        trained_on={
            "dataset": dataset.name,
            "title": dataset.title,
            "licence": dataset.licence,
            "citation": dataset.citation,
            "store_sha256": store.sha256,
            "split_sha256": split.sha256,
            "regularisation": linear.strength,
        },
        encoder_sha256=encoder.about["weights_sha256"],
    )
    arrays = (linear.mean, linear.scale, linear.weight, linear.bias)
    bare = Classifier(card, *(np.asarray(array, np.float32) for array in arrays))
    scores = validation.with_values(bare.probabilities(validation.values).astype(np.float32))
    means = pool_outputs(scores, scores.record)
    fitted = np.stack(fit_adjustment(means.values, means.truth, linear.multi_label), axis=1)
    adjusted = replace(bare, card=card.model_copy(update={"adjustment": tuple(map(tuple, fitted.tolist()))}))
    by_patient = pool_outputs(scores, scores.patient, adjusted.adjust_recording)
    bins = reliability_bins(reliability(by_patient.truth, by_patient.values))
    classes = tuple(replace(item, reliability=own) for item, own in zip(card.classes, bins, strict=True))
    return replace(adjusted, card=adjusted.card.model_copy(update={"classes": classes}))


def _always(linear: LinearClassifier, rows: ModelOutputs) -> tuple[str, ...]:
    """What follows from the form of the classifier."""
    known = ", ".join(rows.classes)
    if linear.multi_label:
        return (f"It knows {known}, each by itself, and nothing else.",)
    return (f"It knows {known} and nothing else: whatever a recording shows, these probabilities sum to 1.",)


def _patients(store: Store, split: Split) -> dict[str, int]:
    patient = store.patient_codes()[0]
    return {part: len(np.unique(patient[split.mask(part)])) for part in ("train", "validation", "test")}
