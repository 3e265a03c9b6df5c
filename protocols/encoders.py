"""Encoders of the measurements: pre-trained ones, and the same networks with random weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clocs.encoders import CNN
from clocs.evaluation.benchmark.embedders import EncoderEmbedder, load_embedder
from clocs.evaluation.benchmark.unlabelled_fits import untrained_embedder
from clocs.signals.framing import FramePolicy
from protocols.inputs import FRAME, RATE
from protocols.pretraining import Progress, find_progress
from protocols.problems import Problem
from protocols.results import Row

RANDOM, PRETRAINED, SCRATCH = "random weights", "CMSC", "from scratch"


@dataclass(frozen=True)
class Subject:
    """An encoder that is measured, and how far its pre-training has come."""

    name: str
    embedder: EncoderEmbedder
    progress: Progress | None = None

    @property
    def about(self) -> Row:
        """Name, and steps and state of the pre-training, for a row of the results."""
        return {"encoder": self.name} | ({} if self.progress is None else self.progress.about)


def paper_network(problem: Problem) -> Subject:
    """Return the paper's network with random weights, and BatchNorm statistics of unlabelled training recordings."""
    policy = FramePolicy(num_samples=FRAME, sampling_rate=RATE, normalization="minmax")
    network = EncoderEmbedder("cnn", CNN(), policy)
    return Subject(RANDOM, untrained_embedder(network, problem.store, problem.train))


def pretrained(name: str, runs: Path) -> Subject | None:
    """Return the encoder of a pre-training; None if it has none yet."""
    progress = find_progress(name, runs)
    if progress is None:
        return None
    embedder = load_embedder(progress.encoder, name=name)
    assert isinstance(embedder, EncoderEmbedder)
    return Subject(PRETRAINED, embedder, progress)
