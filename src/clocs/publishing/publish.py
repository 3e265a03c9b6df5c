"""Publication of an encoder with calibrated classifiers and a model card."""

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
from clocs.publishing.model_card import CardContent, ClassifierReport, format_model_card
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
    """Write an encoder with a classifier for each store, and a model card.

    The folder can be passed to :func:`clocs.load_encoder` and uploaded to a model hub. Each classifier is linear and
    has the name of its dataset. It is fitted on all training labels, and regularised and calibrated on validation
    patients. The card reports metrics and a privacy audit of the test patients.

    Args:
        checkpoint: Folder of a run or of an encoder, or name of a shipped encoder.
        store: A store with labels, or its folder.
        out: Folder to write. It may have the result of an earlier call, and nothing else.
        name: Name of the encoder in the card.
        extra_stores: Further stores. Pass all stores that the encoder was trained on in their order, or only others.
        split: Name of the split, for stores that the encoder was not trained on. None: ``default``. For stores of
            training it is the split of training.

    Returns:
        The folder, and the metrics of the test part by classifier.

    Raises:
        ConfigError: A store has no classes or an empty part, stores do not fit the encoder, or ``out`` is not empty.
        LeakError: The encoder has seen test patients.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 40, "leads": 1, "seconds": 5})
        >>> split = clocs.split(store)
        >>> published = publish("cmsc-chapman", store, "published", "my-encoder")
        >>> list(clocs.load_encoder("published").classifiers)
        ['synthetic']
    """
    stores = [open_store(each) for each in (store, *extra_stores)]
    for opened in stores:
        require_classes(opened)
    encoder = load_encoder_checkpoint(checkpoint, stores[0])
    sources, names = _stores_with_splits(encoder, stores, split), _classifier_names(stores)
    for opened, parts in sources:
        require_patients(opened, parts, "train", "validation", "test")
    folder, identity = Path(out), {"weights_sha256": encoder.about["weights_sha256"], "classifiers": names}
    check_output_dir(folder, lambda config: identity.items() <= config.items())
    fitted = [_fit_and_test(encoder, *source, name) for source, name in zip(sources, names, strict=True)]
    assert encoder.folder is not None
    reports = tuple(report for report, _ in fitted)
    about = {
        **encoder.about,
        "seen_sha256": save_seen_keys(
            folder, extend_seen_keys(encoder.folder, encoder.about, starmap(seen_keys, sources))
        ),
        "classifiers": names,
    }
    save_encoder(folder, encoder.module, about)
    finish_encoder(folder, encoder.module)
    for report, classifier in fitted:
        classifier.save(folder / FOLDER / report.name)
    write_bytes(folder / "README.md", format_model_card(CardContent(name, about, reports)).encode())
    return {"folder": str(folder), "test": {report.name: report.test for report in reports}}


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


def _classifier_names(stores: Sequence[Store]) -> list[str]:
    """Return the dataset names; a repeated name has a number."""
    datasets = [str(store.manifest.dataset["name"]) for store in stores]
    counts = [datasets[: index + 1].count(name) for index, name in enumerate(datasets)]
    return [name if count == 1 else f"{name}-{count}" for name, count in zip(datasets, counts, strict=True)]


def _fit_and_test(
    encoder: EncoderCheckpoint, store: Store, split: Split, name: str
) -> tuple[ClassifierReport, Classifier]:
    """Fit a classifier to the labels of a store, and test it."""
    assert encoder.folder is not None
    policy = frame_policy_for(encoder.about, store, "encoder")
    train, validation, test = (
        compute_outputs(encoder.module, store, policy, split.mask(part), in_channels=encoder.module.in_channels)
        for part in ("train", "validation", "test")
    )
    leads = Frames(store, policy, records=split.mask("train")).leads
    classifier = _calibrated_classifier(fit_linear(train, validation), train, validation, leads, encoder, store, split)
    scores = test.with_values(classifier.probabilities(test.values).astype(np.float32))
    report = ClassifierReport(
        name,
        classifier.card,
        test=compute_metrics(scores, adjust=classifier.adjust_recording),
        subgroups=compute_subgroup_metrics(scores, store, adjust=classifier.adjust_recording),
        num_patients=_count_patients(store, split),
        audit=audit(encoder.folder, store, split=split.name),
    )
    return report, classifier


def _calibrated_classifier(
    linear: LinearClassifier,
    train: ModelOutputs,
    validation: ModelOutputs,
    leads: tuple[str, ...],
    encoder: EncoderCheckpoint,
    store: Store,
    split: Split,
) -> Classifier:
    """Return a classifier that is calibrated on validation patients, with its reliability on them."""
    dataset = DATASETS.get(store.manifest.dataset["name"])
    prevalence = pool_outputs(train, train.patient).truth.mean(0)
    card = ClassifierCard(
        classes=tuple(
            ClassInfo(name, dataset.meanings.get(name, name), float(fraction), ())
            for name, fraction in zip(train.classes, prevalence, strict=True)
        ),
        multi_label=linear.multi_label,
        temperature=fit_temperature(
            linear.logits(validation.values), validation.truth, linear.multi_label, groups=validation.record
        ),
        limitations=(*_class_limitations(linear, train), *dataset.limitations),
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
    uncalibrated = Classifier(card, *(np.asarray(array, np.float32) for array in arrays))
    scores = validation.with_values(uncalibrated.probabilities(validation.values).astype(np.float32))
    means = pool_outputs(scores, scores.record)
    slope_and_offset = np.stack(fit_adjustment(means.values, means.truth, linear.multi_label), axis=1)
    adjusted = replace(
        uncalibrated, card=card.model_copy(update={"adjustment": tuple(map(tuple, slope_and_offset.tolist()))})
    )
    by_patient = pool_outputs(scores, scores.patient, adjusted.adjust_recording)
    bins = reliability_bins(reliability(by_patient.truth, by_patient.values))
    classes = tuple(replace(item, reliability=measured) for item, measured in zip(card.classes, bins, strict=True))
    return replace(adjusted, card=adjusted.card.model_copy(update={"classes": classes}))


def _class_limitations(linear: LinearClassifier, rows: ModelOutputs) -> tuple[str, ...]:
    """Return a sentence on the classes that the classifier has."""
    classes = ", ".join(rows.classes)
    if linear.multi_label:
        return (f"It knows {classes}, each by itself, and nothing else.",)
    return (f"It knows {classes} and nothing else: whatever a recording shows, these probabilities sum to 1.",)


def _count_patients(store: Store, split: Split) -> dict[str, int]:
    patient = store.patient_codes()[0]
    return {part: len(np.unique(patient[split.mask(part)])) for part in ("train", "validation", "test")}
