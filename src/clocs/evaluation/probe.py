"""Linear evaluation: what a frozen encoder is worth to a linear classifier with some of the labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from clocs.core.seeds import derived_seed
from clocs.evaluation.contract import check_contract
from clocs.evaluation.frame_choice import FrameChoice, frames_for, rate_mismatch
from clocs.evaluation.judgement import judge
from clocs.evaluation.linear import Solver, fit_linear
from clocs.evaluation.results import CODE, save_scores
from clocs.evaluation.rows import Rows, rows_of
from clocs.evaluation.subject import Subject, load_subject
from clocs.signals.framing import FramePolicy
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.labels import LabelDraw, labelled_items, labelled_records
from clocs.training.runs import Run


class ProbeConfig(BaseModel):
    """One linear evaluation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: str = "default"
    fraction: float = Field(default=0.5, gt=0, le=1)
    """Of the training labels."""
    label_draw: LabelDraw = "patients"
    seed: int = 0
    """Of the label draw, and of random weights."""
    frames: FrameChoice = "encoder"
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
    """Fit a linear classifier on an encoder's embeddings and judge it on the test part.

    ``checkpoint``: a run's folder, its ``best``, a shipped encoder's name, or ``random``. ``runs``: where the result
    and the test scores are kept, under a name made of what goes into them; a kept result is looked up.
    """
    config = config or ProbeConfig()
    place = store if isinstance(store, Store) else open_store(store)
    split = place.split(config.split)
    subject = load_subject(checkpoint, place, config.seed)
    policy = frames_for(subject.about["input"], place, config.frames)
    run = Run(
        Path(runs),
        f"probe-{subject.label}-{place.manifest.dataset['name']}",
        {
            "kind": "probe",
            **config.model_dump(mode="json"),
            "encoder": subject.identity,
            "store_sha256": place.sha256,
            "split_sha256": split.sha256,
            "policy": policy.model_dump(mode="json"),
            "evaluation_code": CODE,
        },
    )
    known = run.result()
    if known is not None:
        return {**known, "run": str(run.folder), "already_finished": True}
    contract = check_contract(subject.folder, subject.about, place, split)
    run.begin()
    parts = {part: _rows(subject, place, split, policy, config, part) for part in ("train", "validation", "test")}
    linear = fit_linear(parts["train"], parts["validation"], solver=config.solver, seed=config.seed)
    found = linear.probabilities(parts["test"].values).astype(np.float32)
    scores = parts["test"].with_values(found)
    result = {
        "encoder": subject.told(),
        "strength": linear.strength,
        "rows": {part: len(rows.values) for part, rows in parts.items()},
        "patients": {part: len(np.unique(rows.patient)) for part, rows in parts.items()},
        "contract": contract,
        "notes": [note for note in [rate_mismatch(subject.about["input"], policy)] if note],
        "test": judge(scores),
    }
    save_scores(run.folder, scores)
    run.finish(result)
    return {**result, "run": str(run.folder), "already_finished": False}


def _rows(subject: Subject, store: Store, split: Split, policy: FramePolicy, config: ProbeConfig, part: str) -> Rows:
    """A part's embeddings; of the training part, those with a label."""
    records = split.mask(part)
    if part == "train" and config.label_draw == "patients":
        records = labelled_records(store, records, config.fraction, config.seed)
    torch.manual_seed(derived_seed(config.seed, "rows", part))  # dropout, in train mode
    rows = rows_of(subject.module, store, policy, records, train_mode=config.train_mode)
    if part == "train" and config.label_draw == "frames":
        rows = rows.pick(labelled_items(len(rows.values), config.fraction, config.seed))
    return rows
