"""Fit of calibrated classifiers on recordings, for each set of leads, with their validation and test results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clocs.core.recording import Recording
from clocs.core.seeds import generator
from clocs.datasets import DATASETS
from clocs.evaluation.benchmark.recording_features import RecordingFeatures
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.recording_classifier import fit_recordings, recording_outputs, recordings_of
from clocs.evaluation.scoring import pool_outputs
from clocs.inference.abstention import judge_patient, judge_signal
from clocs.inference.classifier import (
    Classifier,
    ClassifierCard,
    ClassInfo,
    LeadSet,
    LinearWeights,
)
from clocs.inference.feature_space import FeatureSpace
from clocs.inference.frame_pooling import POOLING
from clocs.inference.reliability import reliability_bins
from clocs.measurements.measurements import RATE_LIMITS, measure
from clocs.metrics.calibration import adjust_probabilities, fit_adjustment, reliability
from clocs.metrics.conformal import set_thresholds
from clocs.metrics.pooling import pool_truth
from clocs.metrics.ranking import auc, macro_average
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.store.task_targets import TaskTargets

Bools = npt.NDArray[np.bool_]
MAX_MEASURED: Final = 400
"""Number of training recordings whose heart rate is measured."""
RATE_MARGIN: Final = 0.1
"""Fraction by which the range of heart rates is widened, because a sample misses the extremes."""
LENGTH_QUANTILE: Final = 0.99
"""Fraction of training recordings that are not longer than a part which is classified at once."""
DISTANCE_QUANTILE: Final = 0.999
"""Fraction of validation recordings within the limit of the distance."""


@dataclass(frozen=True)
class _Parts:
    """Recordings by what they are for, masks (N,)."""

    train: Bools
    """Labels of the weights."""
    calibration: Bools
    """Validation recordings that select the regularization and calibrate probabilities and distances."""
    sets: Bools
    """Validation recordings that calibrate prediction sets and nothing else: those that pass the gate, one a
    patient."""
    test: Bools
    """Recordings of the results."""


@dataclass(frozen=True)
class _FittedSet:
    """Weights of one set of leads, with its results."""

    description: LeadSet
    weights: LinearWeights
    space: FeatureSpace
    strength: float
    test: ModelOutputs


def fit_classifier(
    store: Store,
    split: Split,
    targets: TaskTargets,
    features: Mapping[tuple[str, ...], RecordingFeatures],
    encoder_sha256: str,
    embedding_dim: int,
) -> tuple[Classifier, list[ModelOutputs]]:
    """Fit a classifier of a task, and test it.

    Args:
        store: The store.
        split: Its split.
        targets: Targets of the task.
        features: Features of all recordings by leads, the largest set first.
        encoder_sha256: Hash of the encoder's weights.
        embedding_dim: Dimension of an embedding of the encoder.

    Returns:
        The classifier, and its calibrated probabilities of the test recordings for each set of leads.
    """
    dataset = DATASETS.get(store.manifest.dataset["name"])
    trained = split.mask("train") & targets.included
    heart_rates = heart_rate_limits(store, trained)
    parts = _divide(store, split, targets, heart_rates)
    fitted = [_fit_set(store, parts, targets, leads, found, embedding_dim) for leads, found in features.items()]
    prevalence = _prevalence(store, targets, trained)
    card = ClassifierCard(
        classes=tuple(
            ClassInfo(name, dataset.meanings.get(name, name), float(fraction))
            for name, fraction in zip(targets.classes, prevalence, strict=True)
        ),
        multi_label=targets.task.kind != "multi-class",
        lead_sets=tuple(item.description for item in fitted),
        heart_rates=heart_rates,
        max_frames=max(_typical_maximum(found.num_frames[trained]) for found in features.values()),
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
    weights, spaces = tuple(item.weights for item in fitted), tuple(item.space for item in fitted)
    return Classifier(card, weights, spaces), [item.test for item in fitted]


def heart_rate_limits(store: Store, records: Bools) -> tuple[float, float]:
    """Return the lowest and highest heart rate of a sample of recordings, widened by ``RATE_MARGIN``.

    Args:
        store: The store.
        records: The recordings, a mask (N,).

    Returns:
        Heart rates per minute; all that can be measured if no recording has one.
    """
    rows = np.flatnonzero(records)
    sample = rows[:: max(1, len(rows) // MAX_MEASURED)]
    measured = (measure(store.recording(int(row))).heart_rate.value for row in sample)
    rates = [rate for rate in measured if rate is not None] or list(RATE_LIMITS)
    return min(rates) * (1 - RATE_MARGIN), max(rates) * (1 + RATE_MARGIN)


def _typical_maximum(num_frames: npt.NDArray[np.int64]) -> int:
    """Return the number of frames that ``LENGTH_QUANTILE`` of the recordings do not exceed."""
    return int(np.quantile(num_frames, LENGTH_QUANTILE, method="higher"))


def distance_limit(space: FeatureSpace, features: npt.NDArray[np.floating]) -> float:
    """Return the distance that all but ``1 - DISTANCE_QUANTILE`` of validation recordings with features keep to."""
    return float(np.quantile(space.distances(features), DISTANCE_QUANTILE))


def _divide(store: Store, split: Split, targets: TaskTargets, heart_rates: tuple[float, float]) -> _Parts:
    """Divide recordings by what they are for. Prediction sets of exclusive classes get half the validation patients."""
    train, validation, test = (split.mask(part) for part in ("train", "validation", "test"))
    for_sets = np.zeros_like(validation)
    if targets.task.kind == "multi-class":
        patients = store.patient_codes()[0]
        drawn = generator(0, "prediction-sets").permutation(np.unique(patients[validation & targets.included]))
        half = validation & np.isin(patients, drawn[: len(drawn) // 2])
        validation = validation & ~half
        rows = np.flatnonzero(half & targets.included)
        rows = rows[np.unique(patients[rows], return_index=True)[1]]
        for_sets[[row for row in rows if passes_gate(store.recording(int(row)), heart_rates)]] = True
    return _Parts(train, validation, for_sets, test)


def passes_gate(recording: Recording, heart_rates: tuple[float, float]) -> bool:
    """Return whether the gate lets all classes of a recording pass, but for its distance from the training recordings.

    Args:
        recording: The recording.
        heart_rates: Lowest and highest heart rate per minute of the classifier.
    """
    verdict = judge_signal(recording)
    rate = verdict.heart_rate
    unusual = rate is not None and not heart_rates[0] <= rate <= heart_rates[1]
    return not (verdict.reasons or verdict.findings or unusual or judge_patient(recording)[0])


def _fit_set(
    store: Store,
    parts: _Parts,
    targets: TaskTargets,
    leads: tuple[str, ...],
    features: RecordingFeatures,
    embedding_dim: int,
) -> _FittedSet:
    """Fit and calibrate the weights of one set of leads."""
    multi_label = targets.task.kind != "multi-class"
    train, validation, for_sets, test = (
        recordings_of(features, targets, part) for part in (parts.train, parts.calibration, parts.sets, parts.test)
    )
    weights, model = fit_recordings(features, targets, train=train, validation=validation)
    found = weights.probabilities(features.values[validation], multi_label=multi_label)
    slope, offset = fit_adjustment(found, targets.truth[validation], multi_label)

    def calibrated(records: Bools) -> ModelOutputs:
        values = weights.probabilities(features.values[records], multi_label=multi_label)
        return recording_outputs(store, targets, records, adjust_probabilities(values, slope, offset, multi_label))

    selected, tested = calibrated(validation), calibrated(test)
    by_patient = pool_outputs(selected, selected.patient)
    space = FeatureSpace.fit(features.values[train], embedding_dim, len(POOLING))
    max_distance = distance_limit(space, features.values[validation])
    kept = calibrated(for_sets)
    kept = kept.select(np.flatnonzero(space.distances(features.values[for_sets]) <= max_distance))
    description = LeadSet(
        leads,
        adjustment=tuple(zip(slope.tolist(), offset.tolist(), strict=True)),
        reliability=tuple(reliability_bins(reliability(by_patient.truth, by_patient.values))),
        validation_auc=_macro_auc(selected),
        test_auc=_macro_auc(tested),
        max_distance=max_distance,
        set_thresholds=() if multi_label else tuple(set_thresholds(kept.truth, kept.values).tolist()),
    )
    return _FittedSet(description, weights, space, model.strength, tested)


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
