"""Fit of calibrated classifiers on recordings, for each set of leads, with their validation and test results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clocs.datasets import DATASETS
from clocs.evaluation.benchmark.recording_features import RecordingFeatures
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.recording_classifier import fit_recordings, recording_outputs, recordings_of
from clocs.evaluation.scoring import pool_outputs
from clocs.inference.classifier import (
    Classifier,
    ClassifierCard,
    ClassInfo,
    LeadSet,
    LinearWeights,
    reliability_bins,
)
from clocs.metrics.calibration import adjust_probabilities, fit_adjustment, reliability
from clocs.metrics.pooling import pool_truth
from clocs.metrics.ranking import auc, macro_average
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.store.task_targets import TaskTargets

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _FittedSet:
    """Weights of one set of leads, with its results."""

    description: LeadSet
    weights: LinearWeights
    strength: float
    test: ModelOutputs


def fit_classifier(
    store: Store,
    split: Split,
    targets: TaskTargets,
    features: Mapping[tuple[str, ...], RecordingFeatures],
    encoder_sha256: str,
) -> tuple[Classifier, list[ModelOutputs]]:
    """Fit a classifier of a task, and test it.

    Args:
        store: The store.
        split: Its split.
        targets: Targets of the task.
        features: Features of all recordings by leads, the largest set first.
        encoder_sha256: Hash of the encoder's weights.

    Returns:
        The classifier, and its calibrated probabilities of the test recordings for each set of leads.
    """
    dataset = DATASETS.get(store.manifest.dataset["name"])
    fitted = [_fit_set(store, split, targets, leads, found) for leads, found in features.items()]
    prevalence = _prevalence(store, targets, split.mask("train") & targets.included)
    card = ClassifierCard(
        classes=tuple(
            ClassInfo(name, dataset.meanings.get(name, name), float(fraction))
            for name, fraction in zip(targets.classes, prevalence, strict=True)
        ),
        multi_label=targets.task.kind != "multi-class",
        lead_sets=tuple(item.description for item in fitted),
        limitations=(_class_limitation(targets), *dataset.limitations),
        trained_on={
            "dataset": dataset.name,
            "task": targets.name,
            "title": dataset.title,
            "licence": dataset.licence,
            "citation": dataset.citation,
            "store_sha256": store.sha256,
            "split_sha256": split.sha256,
            "regularisation": [item.strength for item in fitted],
        },
        encoder_sha256=encoder_sha256,
    )
    return Classifier(card, tuple(item.weights for item in fitted)), [item.test for item in fitted]


def _fit_set(
    store: Store, split: Split, targets: TaskTargets, leads: tuple[str, ...], features: RecordingFeatures
) -> _FittedSet:
    """Fit and calibrate the weights of one set of leads."""
    multi_label = targets.task.kind != "multi-class"
    train, validation, test = (
        recordings_of(features, targets, split.mask(part)) for part in ("train", "validation", "test")
    )
    weights, model = fit_recordings(features, targets, train=train, validation=validation)
    found = weights.probabilities(features.values[validation], multi_label=multi_label)
    slope, offset = fit_adjustment(found, targets.truth[validation], multi_label)

    def calibrated(records: Bools) -> ModelOutputs:
        values = weights.probabilities(features.values[records], multi_label=multi_label)
        return recording_outputs(store, targets, records, adjust_probabilities(values, slope, offset, multi_label))

    selected, tested = calibrated(validation), calibrated(test)
    by_patient = pool_outputs(selected, selected.patient)
    description = LeadSet(
        leads,
        adjustment=tuple(zip(slope.tolist(), offset.tolist(), strict=True)),
        reliability=tuple(reliability_bins(reliability(by_patient.truth, by_patient.values))),
        validation_auc=_macro_auc(selected),
        test_auc=_macro_auc(tested),
    )
    return _FittedSet(description, weights, model.strength, tested)


def _prevalence(store: Store, targets: TaskTargets, records: Bools) -> npt.NDArray[np.float64]:
    """Return the fraction of patients that have each class, (K,)."""
    patients = store.patient_codes()[0][records]
    return np.asarray(pool_truth(targets.truth[records], patients)[1].mean(axis=0))


def _macro_auc(outputs: ModelOutputs) -> float | None:
    found = macro_average(auc(outputs.truth, outputs.values))
    return None if np.isnan(found) else float(found)


def _class_limitation(targets: TaskTargets) -> str:
    """Return a sentence on the classes that the classifier has."""
    classes = ", ".join(targets.classes)
    if targets.task.kind == "multi-class":
        return f"It knows {classes} and nothing else: whatever a recording shows, these probabilities sum to 1."
    return f"It knows {classes}, each by itself, and nothing else."
