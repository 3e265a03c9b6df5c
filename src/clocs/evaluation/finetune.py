"""Fine-tuning of an encoder with a part of the labels, or training from scratch for comparison."""

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
from clocs.training.devices import place_module
from clocs.training.encoder_module import load_encoder_folder, load_head
from clocs.training.loop import Progress
from clocs.training.pretrain import pretrain

SMALL_BATCH = {"cardiology": 16}
"""The paper's batch size by dataset, where it is not 256."""


class FinetuneConfig(EvaluationOptions):
    """Options of fine-tuning; the defaults are the paper's.

    Example:
        >>> FinetuneConfig(label_fraction=0.25, monitor="auc").max_epochs
        400
    """

    max_epochs: int = Field(default=400, gt=0)
    """Maximum number of epochs."""
    patience: int = Field(default=15, gt=0)
    """Epochs without improvement after which training stops."""
    batch_size: int | None = Field(default=None, gt=1)
    """Batch size. None: 16 for Cardiology, 256 otherwise."""
    optimizer: Literal["adam", "adamw"] = "adam"
    """Name of the optimizer."""
    learning_rate: float = Field(default=1e-4, gt=0)
    """Learning rate of encoder and classifier."""
    monitor: Literal["loss", "auc"] = "loss"
    """Validation metric that selects the best epoch and stops training: loss or macro AUC."""
    passes_per_epoch: int = Field(default=1, gt=0)
    """Passes over the labelled frames in an epoch."""
    num_threads: int = Field(default=1, gt=0)
    """Threads of torch."""


def finetune(
    checkpoint: str | os.PathLike[str],
    store: str | os.PathLike[str] | Store,
    config: FinetuneConfig | None = None,
    *,
    runs: str | os.PathLike[str] = "runs",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train an encoder and a linear classifier on a fraction of the labels, and score the test part.

    All weights are trained (table 2 and section 6.3 of the paper). The training is saved as a run. The same call
    continues it after an interruption, and its metrics include the validation AUC of each epoch. A saved result is
    returned without computing it again.

    Args:
        checkpoint: Folder of a run or of an encoder, name of a shipped encoder, or ``random`` to train from scratch.
        store: Store with labels, or its folder.
        config: Options. None: the defaults.
        runs: Folder of runs, where training, result and scores are saved.
        progress: Called during training with the progress.

    Returns:
        The result as JSON: metrics of the test part per frame, recording and patient, with intervals; notes; and the
        folder of the run.

    Raises:
        LeakError: The encoder has seen test patients.
        ConfigError: The store has no classes, a part of the split is empty, or the encoder does not fit its frames.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 40, "leads": 1, "seconds": 5})
        >>> split = clocs.split(store)
        >>> config = FinetuneConfig(max_epochs=1, batch_size=8)
        >>> result = finetune("random", store, config)
        >>> 0 <= result["test"]["recording"]["auc"]["value"] <= 1
        True
    """
    config = config or FinetuneConfig()
    evaluation = EvaluationRun.prepare(checkpoint, store, config)
    multi_label = _is_multi_label(evaluation.store, evaluation.policy)
    trained = pretrain(_training_config(config, evaluation, multi_label, runs), progress=progress)
    run = evaluation.run(runs, "finetune", {"training": Path(trained["run"]).name})
    finished = finished_result(run)
    if finished is not None:
        return finished
    run.begin()
    best = Path(trained["best"])
    encoder, about = load_encoder_folder(best)
    classifier = place_module(_Classifier(encoder, load_head(best, about)), config.device)
    tested = evaluation.split.mask(config.part)
    logits = compute_outputs(classifier, evaluation.store, evaluation.policy, tested, in_channels=encoder.in_channels)
    scores = logits.with_values(to_probabilities(logits.values, multi_label).astype(np.float32))
    training = {key: trained[key] for key in ("run", "epochs", "best_epoch", "validation_loss")}
    return evaluation.finish(run, scores, training=training, rows={config.part: len(scores.values)})


class _Classifier(nn.Module):
    """A fine-tuned encoder with its linear head."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return logits: (N, C, S) -> (N, K)."""
        logits: Tensor = self.head(self.encoder(signals, lead_mask))
        return logits


def _training_config(
    config: FinetuneConfig, evaluation: EvaluationRun, multi_label: bool, runs: str | os.PathLike[str]
) -> PretrainConfig:
    """Return the config of supervised training that fine-tunes the encoder."""
    encoder, store = evaluation.encoder, evaluation.store
    section = encoder.about["encoder"]
    return PretrainConfig(
        method={"name": "supervised", "multi_label": multi_label},
        encoder={"name": section["name"], **{k: v for k, v in section["options"].items() if k not in FRAME_OPTIONS}},
        store=store.folder,
        split=config.split,
        frames=_frame_options(evaluation.policy, store, encoder.module.in_channels),
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


def _frame_options(policy: FramePolicy, store: Store, in_channels: int) -> dict[str, Any]:
    """Return the changes from the dataset's own frame policy to that of the evaluation.

    Leads are included only if they make a difference, so that equal runs have equal names.
    """
    own = store.frame_policy("evaluation").leads
    same_leads = policy.leads == own or (in_channels == 1 and set(policy.leads) == store.leads())
    return policy.model_dump(mode="json", exclude={"leads"} if same_leads else None)


def _is_multi_label(store: Store, policy: FramePolicy) -> bool:
    """Return whether a frame of this store may have several classes, or none."""
    frames = Frames(store, policy)
    return bool((frames.targets(np.arange(len(frames))).sum(1) != 1).any())
