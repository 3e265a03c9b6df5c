"""Training with labels, epoch by epoch: a linear layer on a frozen encoder, or a network from scratch."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from clocs.core.seeds import derived_seed, generator
from clocs.encoders import CNN, Encoder
from clocs.signals.resampling import Floats
from protocols.inputs import COPIED_LENGTH, FRAME, InputFrames
from protocols.problems import Bools, Problem, point_auc

Mode = Literal["eval", "train", "all"]
"""``eval``: the encoder is frozen and in eval mode. ``train``: its weights are frozen, but it is in train mode, so that
BatchNorm statistics move. ``all``: all weights are trained."""
LEARNING_RATES: Final[dict[Mode, float]] = {"eval": 1e-2, "train": 1e-2, "all": 5e-3}
"""Learning rates of Adam. That of ``all`` falls to zero along a cosine, epoch by epoch."""
EPOCHS: Final = 12
BATCH: Final = 32
"""Recordings of a batch; at most a quarter of the labelled ones."""


class RecordingNetwork(nn.Module):
    """A linear layer on the embeddings of all leads, averaged over the frames of an input.

    Args:
        encoder: An encoder of one lead, whose embeddings are concatenated, or of all leads at once.
        num_leads: Number of leads.
        num_samples: Samples of a frame; longer inputs are cut into frames.
        num_classes: Number of classes.
    """

    def __init__(self, encoder: Encoder, num_leads: int, num_samples: int, num_classes: int) -> None:
        super().__init__()
        self.encoder, self.num_samples = encoder, num_samples
        self.linear = nn.Linear(encoder.embedding_dim * num_leads // encoder.in_channels, num_classes)

    def forward(self, signals: Tensor) -> Tensor:
        """Return logits (N, classes) of inputs (N, leads, samples)."""
        logits: Tensor = self.linear(self.embed(signals))
        return logits

    def embed(self, signals: Tensor) -> Tensor:
        """Return embeddings (N, E) of inputs (N, leads, samples)."""
        count, leads, samples = signals.shape
        halves = signals.reshape(count, leads, samples // self.num_samples, self.num_samples).transpose(1, 2)
        rows = halves.reshape(-1, self.encoder.in_channels, self.num_samples)
        embeddings: Tensor = self.encoder(rows)
        return embeddings.reshape(count, halves.shape[1], -1).mean(1)


@dataclass(frozen=True)
class Trajectory:
    """Results after each epoch."""

    validation_auc: tuple[float, ...]
    test_auc: tuple[float, ...]
    scores: Floats
    """Scores of all recordings, (epochs, recordings, classes); NaN outside validation and test."""

    @property
    def best(self) -> int:
        """Index of the epoch with the highest validation AUC."""
        return int(np.argmax(self.validation_auc))


def train_epochs(
    network: RecordingNetwork,
    inputs: InputFrames,
    problem: Problem,
    *,
    mode: Mode,
    num_epochs: int = EPOCHS,
    passes_per_epoch: int = 1,
    train: Bools | None = None,
    labels: Bools | None = None,
    seed: int = 0,
) -> Trajectory:
    """Train with labels, and score validation and test recordings after each epoch.

    A pass takes one random frame of each training recording. A recording's score is the mean over its frames.

    Args:
        network: The network. It is copied.
        inputs: Inputs of all recordings.
        problem: The problem.
        mode: What is trained, and the mode of the encoder while it is. Scores are always computed in eval mode.
        num_epochs: Number of epochs.
        passes_per_epoch: Passes over the training recordings in an epoch.
        train: Labelled recordings; None for the training part.
        labels: Labels to train with, (recordings, classes); None for the true ones.
        seed: Seed of the order of recordings.
    """
    network = copy.deepcopy(network).requires_grad_(mode == "all")
    network.linear.requires_grad_(True)
    optimizer = torch.optim.Adam([each for each in network.parameters() if each.requires_grad], LEARNING_RATES[mode])
    order, labelled = generator(seed, "epochs"), problem.train if train is None else train
    targets = torch.from_numpy((problem.truth if labels is None else labels).astype(np.float32))
    held_out = problem.validation | problem.test
    cached = _embeddings(network, inputs) if mode == "eval" else None
    validation_auc, test_auc, scores = [], [], []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "dropout"))
        for epoch in range(num_epochs):
            if mode == "all":
                optimizer.param_groups[0]["lr"] = (
                    LEARNING_RATES[mode] * (1 + math.cos(math.pi * epoch / num_epochs)) / 2
                )
            batches = (_batches(inputs, labelled, order) for _ in range(passes_per_epoch))
            for rows in itertools.chain.from_iterable(batches):
                logits = _logits(network, inputs, rows, cached, training=mode != "eval")
                loss = binary_cross_entropy_with_logits(logits, targets[inputs.record[rows]])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            scores.append(_recording_scores(network, inputs, held_out, cached, problem.truth.shape))
            validation_auc.append(point_auc(problem, scores[-1], problem.validation))
            test_auc.append(point_auc(problem, scores[-1], problem.test))
    return Trajectory(tuple(validation_auc), tuple(test_auc), np.stack(scores))


def scratch_network(inputs: InputFrames, num_classes: int, *, seed: int = 0) -> RecordingNetwork:
    """Return the paper's network with one input channel a lead, random weights and a linear layer."""
    leads, num_samples = len(inputs.frames.leads), COPIED_LENGTH if inputs.kind == "copied" else FRAME
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "scratch"))
        return RecordingNetwork(CNN(in_channels=leads, num_samples=num_samples), leads, num_samples, num_classes)


def probe_network(encoder: Encoder, inputs: InputFrames, num_classes: int, *, seed: int = 0) -> RecordingNetwork:
    """Return an encoder with a new linear layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "linear layer"))
        return RecordingNetwork(copy.deepcopy(encoder), len(inputs.frames.leads), FRAME, num_classes)


def _batches(inputs: InputFrames, labelled: Bools, order: np.random.Generator) -> list[npt.NDArray[np.intp]]:
    """Return the rows of a pass: one random frame of each labelled recording, in random order."""
    rows = order.permutation(np.flatnonzero(labelled[inputs.record]))
    rows = rows[np.sort(np.unique(inputs.record[rows], return_index=True)[1])]
    size = max(2, min(BATCH, len(rows) // 4))
    return [rows[begin : begin + size] for begin in range(0, len(rows) - size + 1, size)]


def _logits(
    network: RecordingNetwork,
    inputs: InputFrames,
    rows: npt.NDArray[np.intp],
    cached: Tensor | None,
    *,
    training: bool,
) -> Tensor:
    network.train(training)
    logits: Tensor = network(torch.from_numpy(inputs.read(rows))) if cached is None else network.linear(cached[rows])
    return logits


@torch.no_grad()
def _embeddings(network: RecordingNetwork, inputs: InputFrames) -> Tensor:
    """Return the embeddings of all inputs in eval mode."""
    network.eval()
    parts = np.array_split(np.arange(len(inputs.items)), max(1, len(inputs.items) // 256))
    return torch.cat([network.embed(torch.from_numpy(inputs.read(rows))) for rows in parts])


@torch.no_grad()
def _recording_scores(
    network: RecordingNetwork, inputs: InputFrames, records: Bools, cached: Tensor | None, shape: tuple[int, ...]
) -> Floats:
    """Return the mean logits of recordings over their frames, NaN for all others."""
    total, count = np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)
    chosen = np.flatnonzero(records[inputs.record])
    for rows in np.array_split(chosen, max(1, len(chosen) // 256)):
        logits = _logits(network, inputs, rows, cached, training=False).numpy()
        np.add.at(total, inputs.record[rows], logits)
        np.add.at(count, inputs.record[rows], 1)
    return np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], np.float32(np.nan))
