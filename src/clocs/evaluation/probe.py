"""Linear evaluation of a frozen encoder with a part of the labels."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import model_validator

from clocs.core.errors import ConfigError
from clocs.core.hashes import content_hash
from clocs.core.run_identity import non_default_values
from clocs.core.seeds import derived_seed
from clocs.evaluation.benchmark.embedders import Embedder, trained_embedder
from clocs.evaluation.benchmark.recording_features import recording_features, recording_policy
from clocs.evaluation.evaluation_run import EvaluationRun, finished_result
from clocs.evaluation.linear import Solver, fit_linear
from clocs.evaluation.model_outputs import ModelOutputs, compute_outputs
from clocs.evaluation.options import EvaluationOptions
from clocs.evaluation.recording_classifier import (
    allows_missing_leads,
    fit_recordings,
    mask_leads,
    recording_outputs,
    recordings_of,
)
from clocs.evaluation.scoring import RECORDING_LEVELS
from clocs.metrics.ranking import auc, macro_average
from clocs.store.store import Store
from clocs.store.task_targets import classes_task, task_targets
from clocs.training.labels import sample_items
from clocs.training.runs import Run

Representation = Literal["concatenated_leads", "frames"]
"""Unit of classification. ``concatenated_leads``: recordings, by mean, maximum and minimum over overlapping frames with
their leads concatenated, as published classifiers do. ``frames``: each lead of each frame, as in the paper."""
FRAME_OPTIONS = ("label_unit", "frames", "solver", "train_mode")
"""Options of the paper's protocol, which classifies frames."""
RECORDING_OPTIONS = ("task", "leads")
"""Options of a classification of recordings."""


class ProbeConfig(EvaluationOptions):
    """Options of a linear evaluation.

    Example:
        >>> ProbeConfig(label_fraction=0.1).representation
        'concatenated_leads'
    """

    representation: Representation = "concatenated_leads"
    """Unit of classification: recordings with all their leads (``concatenated_leads``), or single ``frames`` as in the
    paper."""
    task: str | None = None
    """Task of the store, such as ``chapman-rhythm``. None: the classes of the store."""
    leads: tuple[str, ...] = ()
    """Leads of a recording that are used; empty for those that most recordings have."""
    solver: Solver = "lbfgs"
    """Solver for frames. ``lbfgs``: logistic regression, regularized by validation AUC. ``adam``: a linear layer, as in
    the paper."""
    train_mode: bool = False
    """Embed frames with BatchNorm and dropout in train mode, as the paper's released code does."""

    @model_validator(mode="after")
    def _fits_representation(self) -> Self:
        is_frames = self.representation == "frames"
        for name in RECORDING_OPTIONS if is_frames else FRAME_OPTIONS:
            if getattr(self, name) != type(self).model_fields[name].default:
                other = "concatenated_leads" if is_frames else "frames"
                raise ValueError(f"{name} is an option of representation={other}")
        return self


def probe(
    checkpoint: str | os.PathLike[str],
    store: str | os.PathLike[str] | Store,
    config: ProbeConfig | None = None,
    *,
    runs: str | os.PathLike[str] = "runs",
) -> dict[str, Any]:
    """Fit a linear classifier on an encoder's embeddings, and score it on the test part.

    The encoder is frozen. By default whole recordings are classified; ``representation="frames"`` is the protocol of
    the paper (table 1 and section 6.2). A saved result is returned without computing it again.

    Args:
        checkpoint: Folder of a run or of an encoder, name of a shipped encoder, or ``random`` for random weights.
        store: Store with labels, or its folder.
        config: Options. None: the defaults.
        runs: Folder of runs, where result and scores are saved.

    Returns:
        The result as JSON, with metrics of the test part per recording and patient, and per frame if frames are
        classified, and their intervals; ``validation_auc``, the macro AUC of the validation part; notes; and the folder
        of the run.

    Raises:
        LeakError: The encoder has seen test patients.
        ConfigError: The store has no classes, a part of the split is empty, or the encoder does not fit its frames.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 40, "leads": 1, "seconds": 5})
        >>> split = clocs.split(store)
        >>> result = probe("random", store, ProbeConfig(label_fraction=1.0))
        >>> sorted(result["test"])
        ['patient', 'recording']
    """
    config = config or ProbeConfig()
    evaluation = EvaluationRun.prepare(checkpoint, store, config, recordings=config.representation != "frames")
    if config.representation == "frames":
        return _probe_frames(evaluation, config, runs)
    return _probe_recordings(evaluation, config, runs)


def _begin(evaluation: EvaluationRun, runs: str | os.PathLike[str]) -> Run:
    policy_sha256 = content_hash(non_default_values(evaluation.policy))
    return evaluation.run(runs, "probe", {"encoder": evaluation.encoder.identity, "policy_sha256": policy_sha256})


def _probe_recordings(evaluation: EvaluationRun, config: ProbeConfig, runs: str | os.PathLike[str]) -> dict[str, Any]:
    """Classify recordings with all their leads."""
    encoder, store = evaluation.encoder, evaluation.store
    targets, described = task_targets(store, config.task or classes_task(store)), encoder.about["input"]
    if described["sampling_rate"] is None:
        raise ConfigError(
            "This encoder was trained on frames of any sampling rate, so recordings cannot be resampled for it. Probe "
            "its frames, as the paper does: representation=frames, or --representation frames."
        )
    embedder: Embedder = trained_embedder(encoder.label, encoder.module, described)
    leads = config.leads
    if embedder.all_leads and leads:
        embedder, leads = mask_leads(embedder, leads, allows_missing_leads(described)), ()
    evaluation = replace(evaluation, policy=recording_policy(embedder, store, leads=leads))
    run = _begin(evaluation, runs)
    finished = finished_result(run)
    if finished is not None:
        return finished
    run.begin()
    features = recording_features(embedder, store, leads=leads)["embedding"]
    masks: dict[str, npt.NDArray[np.bool_]] = {"train": evaluation.labelled()}
    masks |= {part: evaluation.split.mask(part) for part in ("validation", config.part)}
    parts = {part: recordings_of(features, targets, mask) for part, mask in masks.items()}
    weights, fitted = fit_recordings(features, targets, train=parts["train"], validation=parts["validation"])

    def scores(part: str) -> ModelOutputs:
        found = weights.probabilities(features.values[parts[part]], multi_label=targets.task.kind != "multi-class")
        return recording_outputs(store, targets, parts[part], found)

    validation, patients = scores("validation"), store.patient_codes()[0]
    return evaluation.finish(
        run,
        scores(config.part),
        levels=RECORDING_LEVELS,
        absent_classes=[name for name, absent in zip(targets.classes, fitted.absent, strict=True) if absent],
        leads=list(features.leads),
        dimension=features.dimension,
        strength=fitted.strength,
        validation_auc=macro_average(auc(validation.truth, validation.values)),
        rows={part: int(records.sum()) for part, records in parts.items()},
        patients={part: len(np.unique(patients[records])) for part, records in parts.items()},
    )


def _probe_frames(evaluation: EvaluationRun, config: ProbeConfig, runs: str | os.PathLike[str]) -> dict[str, Any]:
    """Classify each lead of each frame by itself, as the paper does."""
    run = _begin(evaluation, runs)
    finished = finished_result(run)
    if finished is not None:
        return finished
    run.begin()
    parts = {
        part: _embeddings(evaluation, config, part) for part in dict.fromkeys(("train", "validation", config.part))
    }
    linear = fit_linear(parts["train"], parts["validation"], solver=config.solver, seed=config.seed)
    scored, validation = parts[config.part], parts["validation"]
    scores = scored.with_values(linear.probabilities(scored.values).astype(np.float32))
    return evaluation.finish(
        run,
        scores,
        strength=linear.strength,
        validation_auc=macro_average(auc(validation.truth, linear.probabilities(validation.values))),
        rows={part: len(rows.values) for part, rows in parts.items()},
        patients={part: len(np.unique(rows.patient)) for part, rows in parts.items()},
    )


def _embeddings(evaluation: EvaluationRun, config: ProbeConfig, part: str) -> ModelOutputs:
    """Return the embeddings of a part; of the training part, only those with a label."""
    records = evaluation.labelled() if part == "train" else evaluation.split.mask(part)
    torch.manual_seed(derived_seed(config.seed, "rows", part))  # for dropout in train mode
    module = evaluation.encoder.module
    rows = compute_outputs(
        module,
        evaluation.store,
        evaluation.policy,
        records,
        in_channels=module.in_channels,
        train_mode=config.train_mode,
    )
    if part == "train" and config.label_unit == "frames":
        rows = rows.select(sample_items(len(rows.values), config.label_fraction, config.seed))
    return rows
