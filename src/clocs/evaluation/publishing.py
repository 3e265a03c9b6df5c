"""An encoder made ready for others: with a calibrated classifier, a model card, and nothing left to guess."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.errors import ConfigError
from clocs.core.files import write_bytes
from clocs.datasets import DATASETS
from clocs.evaluation.classifier import Classifier, ClassifierCard, ClassInfo, reliability_bins
from clocs.evaluation.frame_choice import frames_for
from clocs.evaluation.judgement import judge, pooled
from clocs.evaluation.linear import Linear, fit_linear
from clocs.evaluation.model_card import Findings, write_card
from clocs.evaluation.rows import Rows, rows_of
from clocs.evaluation.subgroups import judge_subgroups
from clocs.evaluation.subject import Subject, load_subject
from clocs.metrics.calibration import fit_temperature, reliability
from clocs.similarity.judgement.audit import audit
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.checkpoint import save_encoder
from clocs.training.seen import save_seen, seen_keys


def publish(
    checkpoint: str | os.PathLike[str], store: str | os.PathLike[str] | Store, out: str | os.PathLike[str], name: str
) -> dict[str, Any]:
    """Write a folder that ``clocs.load_encoder`` takes and model hubs accept as it is.

    The classifier is linear, fitted on all training labels of the store the encoder was trained on, regularised and
    calibrated on its validation patients; the card's results, and what its embeddings give away, are those of its test
    patients.
    """
    place = store if isinstance(store, Store) else open_store(store)
    subject = load_subject(checkpoint, place)
    if subject.folder is None:
        raise ConfigError("random weights are nothing to publish; name a run")
    told = subject.about["training"]
    split = place.split(told["split"])
    if (told["store_sha256"], told["split_sha256"]) != (place.sha256, split.sha256):
        raise ConfigError("an encoder is published with the store and split it was trained with; these are others")
    policy = frames_for(subject.about["input"], place, "encoder")
    train, validation, test = (
        rows_of(subject.module, place, policy, split.mask(part)) for part in ("train", "validation", "test")
    )
    linear = fit_linear(train, validation)
    classifier = _classifier(linear, train, validation, subject, place, split)
    scores = test.with_values(classifier.probabilities(test.values).astype(np.float32))
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    about = {**subject.about, "seen_sha256": save_seen(folder, seen_keys(place, split))}
    save_encoder(folder, subject.module, about)
    classifier.save(folder)
    results = judge(scores)
    audited = audit(checkpoint, place, split=split.name)
    groups, counts = judge_subgroups(scores, place), _patients(place, split)
    found = Findings(name, about, classifier.card, results, groups, counts, audited)
    write_bytes(folder / "README.md", write_card(found).encode())
    return {"folder": str(folder), "test": results}


def _classifier(
    linear: Linear, train: Rows, validation: Rows, subject: Subject, store: Store, split: Split
) -> Classifier:
    """The linear classifier with a temperature, and what its probabilities were worth on validation patients."""
    dataset = DATASETS.get(store.manifest.dataset["name"])
    shares = _by_patient(train).truth.mean(0)
    card = ClassifierCard(
        classes=tuple(
            ClassInfo(name, dataset.meanings.get(name, name), float(share), ())
            for name, share in zip(train.classes, shares, strict=True)
        ),
        multi_label=linear.multi_label,
        temperature=fit_temperature(
            linear.logits(validation.values), validation.truth, linear.multi_label, groups=validation.record
        ),
        cannot_recognise=(*_always(linear, train), *dataset.blind_to),
        trained_on={
            "dataset": dataset.name,
            "title": dataset.title,
            "licence": dataset.licence,
            "citation": dataset.citation,
            "store_sha256": store.sha256,
            "split_sha256": split.sha256,
            "regularisation": linear.strength,
        },
        encoder_sha256=subject.about["weights_sha256"],
    )
    arrays = (linear.mean, linear.scale, linear.weight, linear.bias)
    bare = Classifier(card, *(np.asarray(array, np.float32) for array in arrays))
    found = validation.with_values(bare.probabilities(validation.values).astype(np.float32))
    by_patient = _by_patient(found)
    bins = reliability_bins(reliability(by_patient.truth, by_patient.values))
    classes = tuple(replace(item, reliability=own) for item, own in zip(card.classes, bins, strict=True))
    return replace(bare, card=card.model_copy(update={"classes": classes}))


def _by_patient(rows: Rows) -> Rows:
    return pooled(rows, rows.patient)


def _always(linear: Linear, rows: Rows) -> tuple[str, ...]:
    """What follows from the form of the classifier."""
    known = ", ".join(rows.classes)
    if linear.multi_label:
        return (f"It knows {known}, each by itself, and nothing else.",)
    return (f"It knows {known} and nothing else: whatever a recording shows, these probabilities sum to 1.",)


def _patients(store: Store, split: Split) -> dict[str, int]:
    patient = store.patients()[0]
    return {part: len(np.unique(patient[split.mask(part)])) for part in ("train", "validation", "test")}
