"""Linear evaluation of a frozen encoder with a part of the labels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from clocs.core.files import content_hash
from clocs.core.run_identity import non_default_values
from clocs.core.seeds import derived_seed
from clocs.evaluation.evaluation_run import EvaluationRun, finished_result
from clocs.evaluation.linear import Solver, fit_linear
from clocs.evaluation.model_outputs import ModelOutputs, compute_outputs
from clocs.evaluation.options import EvaluationOptions
from clocs.metrics.ranking import auc, macro_average
from clocs.store.store import Store
from clocs.training.labels import sample_items


class ProbeConfig(EvaluationOptions):
    """Options of a linear evaluation.

    Example:
        >>> ProbeConfig(label_fraction=0.1).solver
        'lbfgs'
    """

    solver: Solver = "lbfgs"
    """``lbfgs``: logistic regression, regularised by validation AUC. ``adam``: a linear layer, as in the paper."""
    train_mode: bool = False
    """Embed with BatchNorm and dropout in train mode, as the paper's released code does."""


def probe(
    checkpoint: str | os.PathLike[str],
    store: str | os.PathLike[str] | Store,
    config: ProbeConfig | None = None,
    *,
    runs: str | os.PathLike[str] = "runs",
) -> dict[str, Any]:
    """Fit a linear classifier on an encoder's embeddings, and score it on the test part.

    The encoder is frozen (table 1 and section 6.2 of the paper). A saved result is not computed again.

    Args:
        checkpoint: Folder of a run or of an encoder, name of a shipped encoder, or ``random`` for random weights.
        store: Store with labels, or its folder.
        config: Options. None: the defaults.
        runs: Folder of runs, where result and scores are saved.

    Returns:
        The result as JSON: metrics of the test part per frame, recording and patient, with intervals;
        ``validation_auc``, the macro AUC of the validation frames; notes; and the folder of the run.

    Raises:
        LeakError: The encoder has seen test patients.
        ConfigError: The store has no classes, a part of the split is empty, or the encoder does not fit its frames.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 40, "leads": 1, "seconds": 5})
        >>> split = clocs.split(store)
        >>> result = probe("random", store, ProbeConfig(label_fraction=1.0))
        >>> sorted(result["test"])
        ['frame', 'patient', 'recording']
    """
    config = config or ProbeConfig()
    evaluation = EvaluationRun.prepare(checkpoint, store, config)
    run = evaluation.run(
        runs,
        "probe",
        {"encoder": evaluation.encoder.identity, "policy_sha256": content_hash(non_default_values(evaluation.policy))},
    )
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
