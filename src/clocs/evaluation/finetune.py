"""Fine-tuning: all weights trained with some of the labels, from an encoder, or from scratch to compare with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from clocs.evaluation.contract import check_contract
from clocs.evaluation.frame_choice import FrameChoice, frames_for, rate_mismatch
from clocs.evaluation.judgement import judge
from clocs.evaluation.results import CODE, save_scores
from clocs.evaluation.rows import rows_of
from clocs.evaluation.subject import Subject, load_subject
from clocs.metrics.calibration import probabilities
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.store import Store, open_store
from clocs.training.checkpoint import load_encoder_folder, load_head
from clocs.training.config import PretrainConfig
from clocs.training.labels import LabelDraw
from clocs.training.loop import Progress
from clocs.training.pretrain import pretrain
from clocs.training.runs import Run

SMALL_BATCH = {"cardiology": 16}
"""The paper's batch where it is not 256."""


class FinetuneConfig(BaseModel):
    """One fine-tuning."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: str = "default"
    fraction: float = Field(default=0.5, gt=0, le=1)
    """Of the training labels."""
    label_draw: LabelDraw = "patients"
    seed: int = 0
    frames: FrameChoice = "encoder"
    epochs: int = Field(default=400, gt=0)
    patience: int = Field(default=15, gt=0)
    batch: int | None = Field(default=None, gt=1)
    """None: 16 for Cardiology, 256 otherwise."""
    learning_rate: float = Field(default=1e-4, gt=0)
    threads: int = Field(default=1, gt=0)


def finetune(
    checkpoint: str | os.PathLike[str],
    store: str | os.PathLike[str] | Store,
    config: FinetuneConfig | None = None,
    *,
    runs: str | os.PathLike[str] = "runs",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train encoder and classifier on the labelled share, stop by validation loss, judge on the test part.

    ``checkpoint``: as for ``probe``; ``random`` is training from scratch. The training is a run of its own, which
    continues if it was killed, and whose metrics hold the validation AUC of each epoch.
    """
    config = config or FinetuneConfig()
    place = store if isinstance(store, Store) else open_store(store)
    split = place.split(config.split)
    subject = load_subject(checkpoint, place, config.seed)
    policy = frames_for(subject.about["input"], place, config.frames)
    contract = check_contract(subject.folder, subject.about, place, split)
    trained = pretrain(_training(config, subject, place, policy, runs), progress=progress)
    identity = {
        "kind": "finetune",
        "training": Path(trained["run"]).name,
        "store_sha256": place.sha256,
        "split_sha256": split.sha256,
        "evaluation_code": CODE,
    }
    run = Run(Path(runs), f"finetune-{subject.label}-{place.manifest.dataset['name']}", identity)
    known = run.result()
    if known is not None:
        return {**known, "run": str(run.folder), "already_finished": True}
    run.begin()
    best = Path(trained["best"])
    encoder, about = load_encoder_folder(best)
    logits = rows_of(nn.Sequential(encoder, load_head(best, about)), place, policy, split.mask("test"))
    found = probabilities(logits.values, 1.0, _multi_label(place, policy)).astype(np.float32)
    scores = logits.with_values(found)
    result = {
        "encoder": subject.told(),
        "training": {key: trained[key] for key in ("run", "epochs", "best_epoch", "validation_loss")},
        "rows": {"test": len(scores.values)},
        "contract": contract,
        "notes": [note for note in [rate_mismatch(subject.about["input"], policy)] if note],
        "test": judge(scores),
    }
    save_scores(run.folder, scores)
    run.finish(result)
    return {**result, "run": str(run.folder), "already_finished": False}


def _training(
    config: FinetuneConfig, subject: Subject, store: Store, policy: FramePolicy, runs: str | os.PathLike[str]
) -> PretrainConfig:
    """The supervised run that fine-tuning is."""
    options = subject.about["encoder"]["options"]
    fixed = {"embedding", "channels", "samples"}
    changed = {key: value for key, value in policy.model_dump(mode="json").items() if key != "leads"}
    return PretrainConfig(
        method={"name": "supervised", "multi_label": _multi_label(store, policy)},
        encoder={
            "name": subject.about["encoder"]["name"],
            **{key: value for key, value in options.items() if key not in fixed},
        },
        embedding=options["embedding"],
        store=store.folder,
        split=config.split,
        frames=changed,
        initial=None if subject.folder is None else str(subject.folder),
        fraction=config.fraction,
        label_draw=config.label_draw,
        seed=config.seed,
        epochs=config.epochs,
        patience=config.patience,
        batch=config.batch or SMALL_BATCH.get(store.manifest.dataset["name"], 256),
        learning_rate=config.learning_rate,
        threads=config.threads,
        runs=Path(runs),
    )


def _multi_label(store: Store, policy: FramePolicy) -> bool:
    """Whether a frame of this store may have several classes, or none."""
    frames = Frames(store, policy, together=True)
    return bool((frames.targets(np.arange(len(frames))).sum(1) != 1).any())
