"""Fine-tuning: all weights trained with some of the labels, from an encoder, or from scratch to compare with."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field
from torch import Tensor, nn

from clocs.encoders import Encoder
from clocs.evaluation.evaluation_run import EvaluationRun, finished_result
from clocs.evaluation.model_outputs import compute_outputs
from clocs.evaluation.options import EvaluationOptions
from clocs.metrics.calibration import to_probabilities
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.store import Store
from clocs.training.config import FRAME_OPTIONS, PretrainConfig
from clocs.training.encoder_module import load_encoder_folder, load_head
from clocs.training.loop import Progress
from clocs.training.pretrain import pretrain

SMALL_BATCH = {"cardiology": 16}
"""The paper's batch where it is not 256."""


class FinetuneConfig(EvaluationOptions):
    """One fine-tuning."""

    max_epochs: int = Field(default=400, gt=0)
    patience: int = Field(default=15, gt=0)
    batch_size: int | None = Field(default=None, gt=1)
    """None: 16 for Cardiology, 256 otherwise."""
    optimizer: Literal["adam", "adamw"] = "adam"
    learning_rate: float = Field(default=1e-4, gt=0)
    monitor: Literal["loss", "auc"] = "loss"
    """What stops it: validation loss, or validation AUC, by which a probe chooses its regularisation."""
    passes_per_epoch: int = Field(default=1, gt=0)
    """Passes over the labelled frames in an epoch."""
    num_threads: int = Field(default=1, gt=0)


def finetune(
    checkpoint: str | os.PathLike[str],
    store: str | os.PathLike[str] | Store,
    config: FinetuneConfig | None = None,
    *,
    runs: str | os.PathLike[str] = "runs",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train encoder and classifier on the labelled share, stop by validation loss or AUC, judge on the test part.

    ``checkpoint``: as for ``probe``; ``random`` is training from scratch. The training is a run of its own, which
    continues if it was killed, and whose metrics hold the validation AUC of each epoch.
    """
    config = config or FinetuneConfig()
    evaluation = EvaluationRun.prepare(checkpoint, store, config)
    multi_label = _multi_label(evaluation.store, evaluation.policy)
    trained = pretrain(_training(config, evaluation, multi_label, runs), progress=progress)
    run = evaluation.run(runs, "finetune", {"training": Path(trained["run"]).name})
    known = finished_result(run)
    if known is not None:
        return known
    run.begin()
    best = Path(trained["best"])
    encoder, about = load_encoder_folder(best)
    classifier = _Classifier(encoder, load_head(best, about))
    tested = evaluation.split.mask(config.part)
    logits = compute_outputs(classifier, evaluation.store, evaluation.policy, tested, in_channels=encoder.in_channels)
    scores = logits.with_values(to_probabilities(logits.values, 1.0, multi_label).astype(np.float32))
    training = {key: trained[key] for key in ("run", "epochs", "best_epoch", "validation_loss")}
    return evaluation.finish(run, scores, training=training, rows={config.part: len(scores.values)})


class _Classifier(nn.Module):
    """A fine-tuned encoder with its head."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return logits: (N, C, S) -> (N, K)."""
        logits: Tensor = self.head(self.encoder(signals, lead_mask))
        return logits


def _training(
    config: FinetuneConfig, evaluation: EvaluationRun, multi_label: bool, runs: str | os.PathLike[str]
) -> PretrainConfig:
    """The supervised run that fine-tuning is."""
    encoder, store = evaluation.encoder, evaluation.store
    section = encoder.about["encoder"]
    return PretrainConfig(
        method={"name": "supervised", "multi_label": multi_label},
        encoder={"name": section["name"], **{k: v for k, v in section["options"].items() if k not in FRAME_OPTIONS}},
        store=store.folder,
        split=config.split,
        frames=_frames(evaluation.policy, store, encoder.module.in_channels),
        init_from=None if encoder.folder is None else str(encoder.folder),
        label_fraction=evaluation.label_fraction,
        label_unit=config.label_unit,
        seed=config.seed,
        max_epochs=config.max_epochs,
        patience=config.patience,
        monitor=config.monitor,
        passes_per_epoch=config.passes_per_epoch,
        batch_size=config.batch_size or SMALL_BATCH.get(store.manifest.dataset["name"], 256),
        optimizer=config.optimizer,
        learning_rate=config.learning_rate,
        onnx=False,
        num_threads=config.num_threads,
        runs=Path(runs),
    )


def _frames(policy: FramePolicy, store: Store, in_channels: int) -> dict[str, Any]:
    """What makes the dataset's own policy the one that judges.

    Leads are named only where that makes a difference: all other runs keep the names they had without.
    """
    own = store.frame_policy("evaluation").leads
    alike = policy.leads == own or (in_channels == 1 and set(policy.leads) == store.leads())
    return policy.model_dump(mode="json", exclude={"leads"} if alike else None)


def _multi_label(store: Store, policy: FramePolicy) -> bool:
    """Whether a frame of this store may have several classes, or none."""
    frames = Frames(store, policy)
    return bool((frames.targets(np.arange(len(frames))).sum(1) != 1).any())
