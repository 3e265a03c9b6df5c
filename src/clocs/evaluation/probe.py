"""Linear evaluation: what a frozen encoder is worth to a linear classifier with some of the labels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch

from clocs.core.files import content_hash
from clocs.core.run_identity import changed_values
from clocs.core.seeds import derived_seed
from clocs.evaluation.evaluation_run import EvaluationRun, finished_result
from clocs.evaluation.linear import Solver, fit_linear
from clocs.evaluation.model_outputs import ModelOutputs, compute_outputs
from clocs.evaluation.options import EvaluationOptions
from clocs.store.store import Store
from clocs.training.labels import sample_items


class ProbeConfig(EvaluationOptions):
    """One linear evaluation."""

    solver: Solver = "lbfgs"
    train_mode: bool = False
    """As the released code had it: BatchNorm and dropout active."""


def probe(
    checkpoint: str | os.PathLike[str],
    store: str | os.PathLike[str] | Store,
    config: ProbeConfig | None = None,
    *,
    runs: str | os.PathLike[str] = "runs",
) -> dict[str, Any]:
    """Fit a linear classifier on an encoder's embeddings and judge it on the test part, or on ``config.part``.

    ``checkpoint``: a run's folder, its ``best``, a shipped encoder's name, or ``random``. ``runs``: where the result
    and the test scores are kept, under a name made of what goes into them; a kept result is looked up.
    """
    config = config or ProbeConfig()
    evaluation = EvaluationRun.prepare(checkpoint, store, config)
    run = evaluation.run(
        runs,
        "probe",
        {"encoder": evaluation.encoder.identity, "policy_sha256": content_hash(changed_values(evaluation.policy))},
    )
    known = finished_result(run)
    if known is not None:
        return known
    run.begin()
    parts = {part: _rows(evaluation, config, part) for part in dict.fromkeys(("train", "validation", config.part))}
    linear = fit_linear(parts["train"], parts["validation"], solver=config.solver, seed=config.seed)
    judges = parts[config.part]
    scores = judges.with_values(linear.probabilities(judges.values).astype(np.float32))
    return evaluation.finish(
        run,
        scores,
        strength=linear.strength,
        rows={part: len(rows.values) for part, rows in parts.items()},
        patients={part: len(np.unique(rows.patient)) for part, rows in parts.items()},
    )


def _rows(evaluation: EvaluationRun, config: ProbeConfig, part: str) -> ModelOutputs:
    """A part's embeddings; of the training part, those with a label."""
    records = evaluation.labelled() if part == "train" else evaluation.split.mask(part)
    torch.manual_seed(derived_seed(config.seed, "rows", part))  # dropout, in train mode
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
        rows = rows.pick(sample_items(len(rows.values), config.label_fraction, config.seed))
    return rows
