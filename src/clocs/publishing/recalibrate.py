"""Calibration of a published classifier on a few labels of one hospital."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.storage.files import write_bytes
from clocs.evaluation.benchmark.embedders import trained_embedder
from clocs.evaluation.benchmark.recording_features import RecordingFeatures
from clocs.evaluation.checkpoint import load_encoder_checkpoint
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.evaluation.recording_classifier import allows_missing_leads, features_by_lead_set
from clocs.evaluation.scoring import format_interval, pool_outputs
from clocs.inference.classification import format_set
from clocs.inference.classifier import FOLDER, Classifier, load_classifiers
from clocs.inference.reliability import LocalCalibration, LocalClass, Score, reliability_bins
from clocs.metrics.bootstrap import bootstrap
from clocs.metrics.calibration import reliability
from clocs.metrics.class_metrics import ClassMetrics
from clocs.metrics.local_calibration import (
    NUM_FOLDS,
    choose_methods,
    cross_validate_adjustments,
    fit_class_adjustments,
)
from clocs.metrics.pooling import pool_truth
from clocs.publishing.fitting import passes_gate
from clocs.store.reader import StoreLike
from clocs.store.store import Store, open_store
from clocs.store.task_targets import classes_task, task_targets
from clocs.training.output_dir import check_output_dir
from clocs.training.seen_recordings import has_seen_keys, seen_mask

Bools = npt.NDArray[np.bool_]
SCORES: Final = ("auc", "brier", "calibration_error")
"""Results of each class."""
SECTION: Final = "## Calibration in your hospital"
"""Section of the model card."""


@dataclass(frozen=True)
class _Labels:
    """Labels of the recordings of a store, for the classes of a classifier."""

    truth: Bools
    """Labels, (N, K). Classes that the store does not have are false."""
    records: Bools
    """Recordings that take part, (N,)."""


def recalibrate(
    encoder: str | os.PathLike[str],
    store: StoreLike,
    out: str | os.PathLike[str],
    *,
    classifier: str | None = None,
    task: str | None = None,
) -> dict[str, Any]:
    """Calibrate a classifier of an encoder on labels of one hospital, and write the encoder with it.

    The number of patients with a class, and without it, decides how its probability is adjusted: below 5 it stays as
    published, below 20 only the intercept moves, from 20 on the slope as well (Platt), and from 500 on an isotonic
    curve follows. The weights stay. Recordings that the encoder has seen, or whose classes are withheld, do not take
    part. Results in the hospital come from cross-validation over patients.

    Args:
        encoder: Folder of an encoder, or name of a shipped one.
        store: A store of the hospital with labels, or its folder.
        out: Folder to write: the encoder with all its classifiers.
        classifier: Name of the classifier. None: the first.
        task: Task of the store with the labels. Its classes are matched by name. None: the classes of the store.

    Returns:
        The folder, the number of recordings that take part and that are left out, and the results by leads and class.

    Raises:
        ConfigError: Store and classifier have no class or no leads in common, there are too few patients, or ``out``
            has something else.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 60, "leads": 12})
        >>> found = recalibrate("clocs-small", store, "ours", classifier="chapman")
        >>> list(found["results"]["I"]["classes"])
        ['AFIB', 'GSVT', 'SB', 'SR']
    """
    opened = open_store(store)
    checkpoint = load_encoder_checkpoint(encoder, opened)
    folder, about = checkpoint.folder, checkpoint.about
    if folder is None:
        raise ConfigError("Random weights have no classifier. Pass an encoder that was published.")
    name, chosen = _classifier(folder, about, classifier)
    _check_out(folder, Path(out), about)
    labels = _labels(opened, chosen, task)
    counts = {"labelled": int(labels.records.sum())}
    if has_seen_keys(folder, about):
        labels = replace(labels, records=labels.records & ~seen_mask(folder, about, opened))
    counts["seen"] = counts["labelled"] - int(labels.records.sum())
    labels = replace(labels, records=_passing(opened, labels.records, chosen.card.heart_rates))
    counts["withheld"] = counts["labelled"] - counts["seen"] - int(labels.records.sum())
    features = features_by_lead_set(
        trained_embedder(os.fspath(encoder), checkpoint.module, about["input"]),
        opened,
        allow_missing_leads=allows_missing_leads(about["input"]),
        sets=[item.leads for item in chosen.card.lead_sets],
    )
    made = _calibrated(opened, chosen, labels, features)
    shutil.copytree(folder, out, dirs_exist_ok=True)
    made.save(Path(out) / FOLDER / name)
    card = (folder / "README.md").read_text() if (folder / "README.md").exists() else ""
    write_bytes(
        Path(out) / "README.md", f"{card.split(SECTION)[0].rstrip()}\n\n{format_section(name, made)}\n".encode()
    )
    return {"folder": str(out), "classifier": name, "recordings": counts, "results": results(made)}


def _classifier(folder: Path, about: dict[str, Any], name: str | None) -> tuple[str, Classifier]:
    classifiers = load_classifiers(folder, about.get("classifiers"))
    if not classifiers:
        raise ConfigError(f"{folder} has no classifier. Publish one with clocs evaluate publish.")
    wanted = next(iter(classifiers)) if name is None else name
    if wanted not in classifiers:
        raise ConfigError(f"No classifier '{wanted}'; the encoder has {', '.join(classifiers)}.")
    return wanted, classifiers[wanted]


def _check_out(folder: Path, out: Path, about: dict[str, Any]) -> None:
    if out.resolve() == folder.resolve():
        raise ConfigError(f"{out} is the encoder itself. Name a new folder.")
    check_output_dir(out, lambda config: config.get("weights_sha256") == about["weights_sha256"])


def _labels(store: Store, classifier: Classifier, task: str | None) -> _Labels:
    """Return the labels of the classifier's classes, matched by name."""
    targets = task_targets(store, classes_task(store) if task is None else task)
    names = [item.name for item in classifier.card.classes]
    if not set(names) & set(targets.classes):
        raise ConfigError(
            f"{store.folder} has labels of {', '.join(targets.classes) or 'no class'}, the classifier has "
            f"{', '.join(names)}. Name the classes of the store alike: clocs data ingest folder -o classes=NAME=LABEL."
        )
    columns = {name: targets.truth[:, index] for index, name in enumerate(targets.classes)}
    none = np.zeros(len(store), bool)
    truth = np.stack([columns.get(name, none) for name in names], axis=1)
    records = targets.included if classifier.card.multi_label else targets.included & (truth.sum(axis=1) == 1)
    return _Labels(truth, records)


def _passing(store: Store, records: Bools, heart_rates: tuple[float, float]) -> Bools:
    """Return the recordings that the gate lets pass, a mask (N,)."""
    passed = np.zeros_like(records)
    rows = np.flatnonzero(records)
    passed[[row for row in rows if passes_gate(store.recording(int(row)), heart_rates)]] = True
    return passed


def _calibrated(
    store: Store, classifier: Classifier, labels: _Labels, features: dict[tuple[str, ...], RecordingFeatures]
) -> Classifier:
    """Return the classifier with a calibration of each set of leads that the store has."""
    if not features:
        raise ConfigError(f"Most recordings of {store.folder} have none of the classifier's sets of leads.")
    sets = []
    for index, item in enumerate(classifier.card.lead_sets):
        found = features.get(item.leads)
        sets.append(item if found is None else replace(item, local=_local(store, classifier, index, labels, found)))
    return replace(classifier, card=classifier.card.model_copy(update={"lead_sets": tuple(sets)}))


def _local(
    store: Store, classifier: Classifier, set_index: int, labels: _Labels, features: RecordingFeatures
) -> LocalCalibration:
    """Calibrate one set of leads, and test it by cross-validation over patients.

    Recordings that are longer than those of training take no part: their features would have to be computed in parts.
    """
    known = (
        labels.records & ~np.isnan(features.values).any(axis=1) & (features.num_frames <= classifier.card.max_frames)
    )
    rows = np.flatnonzero(known)
    near = classifier.distances(features.values[rows], set_index) <= classifier.card.lead_sets[set_index].max_distance
    rows = rows[near]
    patients, truth = store.patient_codes()[0][rows], labels.truth[rows]
    if len(np.unique(patients)) < NUM_FOLDS:
        raise ConfigError(
            f"Only {len(np.unique(patients))} patients take part in {format_set(features.leads)}, and at least "
            f"{NUM_FOLDS} are needed. Label more recordings; about 100 patients are a good start."
        )
    multi_label = classifier.card.multi_label
    published = classifier.published_probabilities(features.values[rows], set_index)
    methods = choose_methods(truth, patients)
    adjustments = fit_class_adjustments(truth, published, methods, multi_label)
    validated = cross_validate_adjustments(truth, published, patients, methods, multi_label)
    names = tuple(item.name for item in classifier.card.classes)
    before, after = (
        ModelOutputs(values.astype(np.float32), truth, rows, patients, names) for values in (published, validated)
    )
    by_patient = pool_outputs(after, patients)
    bins = reliability_bins(reliability(by_patient.truth, by_patient.values))
    scores = [old | new for old, new in zip(_scores(before, "published_"), _scores(after, ""), strict=True)]
    with_class = pool_truth(truth, patients)[1].sum(axis=0).tolist()
    classes = tuple(map(LocalClass, with_class, adjustments, bins, scores))
    return LocalCalibration(len(np.unique(patients)), len(rows), store.sha256, classes)


def _scores(outputs: ModelOutputs, prefix: str) -> list[dict[str, Score]]:
    """Return the results of each class, with intervals over patients."""
    names = ("auc", "average_precision", *SCORES[1:])
    drawn = bootstrap(ClassMetrics(outputs.truth, outputs.values, outputs.patient, names=names))
    columns = {f"{prefix}{name}": drawn.classes(name) for name in SCORES}
    return [
        {name: intervals[index].as_dict() for name, intervals in columns.items()}
        for index in range(len(outputs.classes))
    ]


def results(classifier: Classifier) -> dict[str, Any]:
    """Return what a classifier was calibrated on in a hospital, and how well, by leads; for JSON.

    Args:
        classifier: The classifier.
    """
    return {
        ", ".join(item.leads): {
            "patients": item.local.patients,
            "recordings": item.local.recordings,
            "classes": {
                about.name: {"patients": one.patients, "method": one.adjustment.method, **one.scores}
                for about, one in zip(classifier.card.classes, item.local.classes, strict=True)
            },
        }
        for item in classifier.card.lead_sets
        if item.local is not None
    }


def format_section(name: str, classifier: Classifier) -> str:
    """Return the section of a model card on the calibration in a hospital, as Markdown.

    Args:
        name: Name of the classifier.
        classifier: The classifier.
    """
    lines = [
        SECTION,
        "",
        f"Classifier `{name}`. Results come from cross-validation over patients, with 95 % intervals; those of the",
        "published probabilities are in brackets. Below 5 patients with a class the published calibration stays.",
    ]
    for item in classifier.card.lead_sets:
        if item.local is None:
            continue
        lines += ["", f"From {format_set(item.leads)}, {item.local.patients:,} patients:", ""]
        lines += [
            "| class | patients | calibration | AUC | calibration error | Brier score |",
            "|---|---|---|---|---|---|",
        ]
        for about, one in zip(classifier.card.classes, item.local.classes, strict=True):
            pairs = (
                f"{format_interval(one.scores[key])} [{format_interval(one.scores[f'published_{key}'])}]"
                for key in ("calibration_error", "brier")
            )
            area = format_interval(one.scores["published_auc"])
            lines.append(
                f"| {about.name} | {one.patients:,} | {one.adjustment.method} | {area} | {' | '.join(pairs)} |"
            )
    return "\n".join(lines)
