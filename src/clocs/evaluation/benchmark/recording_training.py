"""Training of networks on labelled recordings, in the package's training loop. A killed training continues."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.core.storage.files import lock_folder
from clocs.encoders.encoder import describe_encoder
from clocs.evaluation.benchmark.recording_inputs import RecordingInputs
from clocs.evaluation.benchmark.recording_networks import RecordingClassifier
from clocs.methods import Batch
from clocs.metrics.ranking import auc, macro_average
from clocs.training.checkpoint import newest_undamaged
from clocs.training.config import PretrainConfig
from clocs.training.devices import to_device
from clocs.training.encoder_module import load_encoder_folder, load_head
from clocs.training.loop import Loop
from clocs.training.pretrain import build_fabric
from clocs.training.runs import Run
from clocs.training.sampler import RepeatedSampler, Sampler, ShuffledSampler
from clocs.training.validation import check_finite

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
MIN_STEPS: Final = 50
"""Minimum number of steps of an epoch. Few labelled recordings are repeated."""
MIN_BATCHES: Final = 4
"""Batches that the labelled recordings fill at least."""
STOPPING_FRAMES: Final = 3
"""Frames of a recording that the stopping criterion uses, at most. Test recordings use all."""
RECORDS_PER_READ, FRAMES_PER_PASS = 32, 64
"""Recordings that are read at a time for a prediction, and frames that the network takes at a time."""


class TrainingOptions(BaseModel):
    """Options of a training with labels.

    Example:
        >>> TrainingOptions(max_epochs=30, learning_rate=3e-3).batch_size
        64
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_epochs: int = Field(gt=0)
    """Maximum number of epochs, over which the learning rate decays to zero."""
    learning_rate: float = Field(gt=0)
    """Largest learning rate of the head."""
    encoder_rate_factor: float = Field(default=1.0, gt=0)
    """Factor of the encoder's learning rate."""
    patience: int = Field(default=10, gt=0)
    """Epochs without a better validation AUC (loss for a regression) after which training stops."""
    batch_size: int = Field(default=64, gt=1)
    """Recordings of a batch; at most a quarter of the labelled ones are used."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Weight decay of AdamW."""
    warmup: float = Field(default=0.1, ge=0, lt=1)
    """Fraction of the steps over which the learning rate rises from zero."""


@dataclass(frozen=True)
class LabelledRecordings:
    """Recordings that a training uses."""

    inputs: RecordingInputs
    """Inputs of all recordings of the store."""
    targets: npt.NDArray[Any]
    """Classes (N, K) of all recordings, bool, or standardized numbers (N, 1)."""
    train: Ints
    """Indices of the labelled recordings."""
    stopping: Ints
    """Indices of the recordings that stop the training."""


class RecordingBatches:
    """Batches of recordings for the training loop, one random input of each.

    Args:
        data: The recordings.
        records: Indices of those that are used.
        seed: Root seed of the draws.
    """

    classes: Collection[str] = ()

    def __init__(self, data: LabelledRecordings, records: Ints, seed: int) -> None:
        self._data, self._records, self._seed = data, records, seed

    def __len__(self) -> int:
        return len(self._records)

    def targets(self, items: Ints) -> npt.NDArray[Any]:
        """Return the targets (B, K) of items."""
        return np.asarray(self._data.targets[self._records[items]])

    def make(self, items: Ints, position: int, *names: str | int) -> Batch:
        """Make a batch. ``names`` are those of the random draws: part, epoch and step."""
        random = generator(self._seed, "crops", *names, position)
        signals, masks = self._data.inputs.sample(self._records[items], random)
        batch = {"views": torch.from_numpy(signals).unsqueeze(1), "lead_mask": torch.from_numpy(masks).unsqueeze(1)}
        return {**batch, "target": torch.from_numpy(self.targets(items)), "item": torch.from_numpy(items)}


@dataclass(frozen=True)
class _LoopData:
    train: RecordingBatches
    validation: RecordingBatches
    sampler: Sampler
    validation_sampler: None = None


class _RecordingLoop(Loop):
    """Training loop whose validation scores recordings as the test does, on fewer frames."""

    def __init__(self, config: PretrainConfig, model: RecordingClassifier, data: LabelledRecordings, run: Run) -> None:
        train = RecordingBatches(data, data.train, config.seed)
        sampler = ShuffledSampler(len(train), config.batch_size, config.seed)
        repeated = RepeatedSampler(sampler, config.passes_per_epoch)
        loop_data = _LoopData(train, RecordingBatches(data, data.stopping, config.seed), repeated)
        super().__init__(config, model, loop_data, run, build_fabric(config, run))
        self._labelled, self._classifier = data, model

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Return loss and macro AUC of the recordings that stop the training."""
        data = self._labelled
        logits = predict(self._classifier, data.inputs, data.stopping, limit=STOPPING_FRAMES)
        truth = data.targets[data.stopping]
        loss = float(self._classifier.loss(torch.from_numpy(logits), {"target": torch.from_numpy(truth)}))
        values = {"validation_loss": check_finite(loss, self.state.epoch)}
        if not self._classifier.is_regression:
            known = data.targets[data.train].any(0)
            scores = to_scores(self._classifier, logits)
            values["validation_auc"] = macro_average(auc(truth[:, known], scores[:, known]))
            if not math.isfinite(values["validation_auc"]):
                raise ConfigError("The recordings that stop the training have a single class. Use more of them.")
        return values


def train_recordings(
    model: RecordingClassifier,
    data: LabelledRecordings,
    options: TrainingOptions,
    *,
    runs: Path,
    label: str,
    origin: Mapping[str, Any],
    seed: int = 0,
    num_threads: int = 1,
) -> int:
    """Train a network on labelled recordings, and set it to the weights of the best epoch.

    The training is a run of the package. A finished one is looked up, and a killed one continues.

    Args:
        model: The network, with its initial weights.
        data: The recordings.
        options: Options of the training.
        runs: Folder of runs.
        label: First part of the run's name.
        origin: JSON values that determine the recordings, their inputs and the initial weights.
        seed: Root seed of order, crops and dropout.
        num_threads: Threads of torch.

    Returns:
        The number of epochs of the best weights.

    Raises:
        ConfigError: There are too few labelled recordings, or those that stop the training have a single class.
    """
    if len(data.train) < 2 * MIN_BATCHES:
        raise ConfigError(f"{len(data.train)} labelled recordings are too few to train on. Use more labels.")
    config = _config(model, data, options, runs, seed)
    run = Run(runs, label, {**options.model_dump(mode="json"), "seed": seed}, origin)
    result = run.result()
    if result is None:
        with lock_folder(run.folder), _threads(num_threads):
            start = newest_undamaged(run.checkpoints, run.metrics.path)
            run.begin()
            state = _RecordingLoop(config, model, data, run).train(_about(model, run), start, None)
            result = {"best_epoch": state.best_epoch, "epochs": state.epoch, "best": str(run.best)}
            run.finish(result)
    _, about = load_encoder_folder(run.best, model.encoder)
    model.head = load_head(run.best, about)
    return int(result["best_epoch"]) + 1


@torch.no_grad()
def predict(model: RecordingClassifier, inputs: RecordingInputs, records: Ints, *, limit: int | None = None) -> Floats:
    """Return the mean logits of recordings over their inputs.

    Args:
        model: The network. It is set to eval mode.
        inputs: Inputs of recordings.
        records: Indices of recordings, (N,).
        limit: Maximum number of inputs of a recording; None for all.

    Returns:
        Logits (N, K); those of an empty recording are the head's bias.
    """
    model.eval()
    logits = np.tile(model.head.bias.detach().cpu().numpy(), (len(records), 1))
    for begin in range(0, len(records), RECORDS_PER_READ):
        signals, masks, owner = inputs.read_all(records[begin : begin + RECORDS_PER_READ], limit)
        passes = [
            model(_view(torch.from_numpy(part), torch.from_numpy(mask), model.head.bias.device))
            for part, mask in zip(_split(signals), _split(masks), strict=True)
        ]
        if passes:
            values = torch.cat(passes).cpu().numpy()
            present, starts, counts = np.unique(owner, return_index=True, return_counts=True)
            logits[begin + present] = np.add.reduceat(values, starts) / counts[:, None]
    return logits


def to_scores(model: RecordingClassifier, logits: Floats) -> Floats:
    """Return probabilities of classes, or the numbers of a regression, (N, K)."""
    if model.is_regression:
        return logits
    values = torch.from_numpy(logits)
    return np.asarray((values.sigmoid() if model.multi_label else values.softmax(1)).numpy())


def _view(signals: Tensor, masks: Tensor, device: torch.device) -> Batch:
    return {"views": to_device(signals.unsqueeze(1), device), "lead_mask": to_device(masks.unsqueeze(1), device)}


def _split(values: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    return (values[begin : begin + FRAMES_PER_PASS] for begin in range(0, len(values), FRAMES_PER_PASS))


def _config(
    model: RecordingClassifier, data: LabelledRecordings, options: TrainingOptions, runs: Path, seed: int
) -> PretrainConfig:
    """Return the config of the training loop. Few labels have small batches, and several passes an epoch."""
    batch_size = min(options.batch_size, len(data.train) // MIN_BATCHES)
    passes = -(-MIN_STEPS // (len(data.train) // batch_size))
    steps = options.max_epochs * passes * (len(data.train) // batch_size)
    return PretrainConfig(
        method={"name": "supervised", "multi_label": model.multi_label},
        seed=seed,
        max_epochs=options.max_epochs,
        patience=options.patience,
        monitor="loss" if model.is_regression else "auc",
        passes_per_epoch=passes,
        batch_size=batch_size,
        optimizer="adamw",
        learning_rate=options.learning_rate,
        schedule="cosine",
        warmup_steps=int(options.warmup * steps),
        weight_decay=options.weight_decay,
        onnx=False,
        runs=runs,
    )


def _about(model: RecordingClassifier, run: Run) -> dict[str, Any]:
    return {"format": "clocs-encoder-2", "encoder": describe_encoder(model.encoder), "training": run.config}


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Set the number of threads of torch for a block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
