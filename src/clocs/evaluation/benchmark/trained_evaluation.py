"""Evaluation with training by gradient descent: attention pooling, fine-tuning, and training from scratch."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import torch

from clocs.core.errors import ConfigError
from clocs.core.run_identity import non_default_values
from clocs.core.seeds import derived_seed, generator
from clocs.encoders import Encoder
from clocs.evaluation.benchmark.embedders import Embedder, EncoderEmbedder
from clocs.evaluation.benchmark.recording_features import recording_policy
from clocs.evaluation.benchmark.recording_inputs import FrameInputs, RecordingInputs, TokenInputs
from clocs.evaluation.benchmark.recording_networks import AttentionPooling, ConcatenatedLeads, RecordingClassifier
from clocs.evaluation.benchmark.recording_training import (
    LabelledRecordings,
    TrainingOptions,
    predict,
    to_scores,
    train_recordings,
)
from clocs.evaluation.benchmark.scratch_networks import SCRATCH, find_network
from clocs.evaluation.benchmark.task_evaluation import (
    NUM_DRAWS,
    BenchmarkOptions,
    Selection,
    TaskProblem,
    label_fractions,
    score_runs,
    selections,
    task_problem,
)
from clocs.store.splits import Split
from clocs.store.store import Store
from clocs.store.task_targets import TaskTargets
from clocs.training.labels import sample_patients

TrainedWay = Literal["attentive", "fine-tuned", "from scratch"]
"""``attentive``: attention pooling of frozen embeddings. ``fine-tuned``: encoder and head from the encoder's weights.
``from scratch``: encoder and head from random weights."""
TRAINING: Final[dict[TrainedWay, TrainingOptions]] = {
    "attentive": TrainingOptions(max_epochs=30, learning_rate=1e-3),
    "fine-tuned": TrainingOptions(max_epochs=10, learning_rate=1e-3, encoder_rate_factor=0.1),
}
"""Options of the protocol by way. From scratch they depend on the network."""
HELD_OUT: Final = 0.2
"""Fraction of the labelled patients that stop the training if no validation labels may."""


def training_options(way: TrainedWay, encoder: str) -> TrainingOptions:
    """Return the protocol's options of a training.

    Args:
        way: The way.
        encoder: Name of the encoder, as ``scratch:resnet`` from scratch.

    Raises:
        ConfigError: There is no such way or network.

    Example:
        >>> training_options("fine-tuned", "clocs-small").encoder_rate_factor
        0.1
    """
    if way == "from scratch":
        return find_network(encoder).training
    if way not in TRAINING:
        raise ConfigError(f"Unknown way '{way}'. Choose from linear, attentive and fine-tuned.")
    return TRAINING[way]


def trained_fractions(encoder: str, options: BenchmarkOptions) -> tuple[float, ...]:
    """Return the label fractions that an encoder is trained on: all labels alone for a slow network from scratch."""
    is_slow = encoder.startswith(SCRATCH) and find_network(encoder).needs_all_labels
    return (1.0,) if is_slow and 1.0 in options.label_fractions else options.label_fractions


@dataclass(frozen=True)
class TrainedWayInputs:
    """Inputs of all recordings for a way of evaluation, and its network before training."""

    way: TrainedWay
    """The way."""
    inputs: RecordingInputs
    """Inputs of all recordings."""
    encoder: Encoder
    """Network with its initial weights, without the head."""
    identity: dict[str, Any]
    """JSON values that determine both."""

    @classmethod
    def prepare(
        cls, way: TrainedWay, embedder: Embedder, store: Store, train: npt.NDArray[np.bool_], cache: Path
    ) -> TrainedWayInputs:
        """Read or compute the inputs of all recordings of a store.

        Args:
            way: The way.
            embedder: The embedder. Only ``attentive`` takes one that is no module.
            store: The store.
            train: Training recordings, a mask over the store. Their labels are not used.
            cache: Folder of cached embeddings and frames.

        Raises:
            ConfigError: The embedder cannot be trained.
        """
        policy = non_default_values(recording_policy(embedder, store))
        identity = {"way": way, "embedder": embedder.identity, "frames": policy}
        if way == "attentive":
            tokens = TokenInputs(embedder, store, train, cache / "features")
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derived_seed(0, "attention"))
                pooling = AttentionPooling(tokens.num_channels, tokens.token_dim)
            return cls(way, tokens, pooling, identity)
        if not isinstance(embedder, EncoderEmbedder):
            raise ConfigError(f"embedder '{embedder.name}' is no torch module, so it cannot be trained.")
        frames = FrameInputs(embedder, store, cache / "frames")
        encoder = copy.deepcopy(embedder.encoder)
        if not embedder.all_leads:
            encoder = ConcatenatedLeads(encoder, frames.num_channels)
        return cls(way, frames, encoder, identity)


def evaluate_trained(
    prepared: TrainedWayInputs,
    store: Store,
    split: Split,
    targets: TaskTargets,
    options: BenchmarkOptions,
    training: TrainingOptions,
    *,
    runs: Path,
    num_threads: int = 1,
) -> list[dict[str, Any]]:
    """Train networks on labelled recordings, and score them on the test part.

    The draws of labels, the scores and the form of the rows are those of
    :func:`clocs.evaluation.benchmark.task_evaluation.evaluate_task`. The epoch is selected by the validation labels
    or, for ``cross-validation``, by a fifth of the labelled patients, which are then not trained on.

    Args:
        prepared: Way, inputs and network.
        store: The store.
        split: Its split.
        targets: Targets of the task.
        options: Label fractions, selections and bootstrap replicates.
        training: Options of the training, see :func:`training_options`.
        runs: Folder of runs. A killed training continues.
        num_threads: Threads of torch.

    Returns:
        A row for each label fraction and selection.

    Raises:
        ConfigError: A part of the split has no recording of the task.
    """
    problem = task_problem(store, split, targets)
    origin = {"store": store.sha256, "split": split.sha256, "task": targets.task.model_dump(mode="json")}
    trainer = _Trainer(prepared, problem, training, runs, origin, num_threads)
    rows = []
    for fraction in label_fractions(options, targets):
        for selection in selections(options, fraction):
            about = {
                "features": "frames and leads" if prepared.way == "attentive" else "frames",
                "dimension": prepared.encoder.embedding_dim,
                "label_fraction": fraction,
                "selection": selection,
            }
            rows.append({**about, **trainer.row(fraction, selection, options.replicates)})
    return rows


@dataclass(frozen=True)
class _Trainer:
    prepared: TrainedWayInputs
    problem: TaskProblem
    training: TrainingOptions
    runs: Path
    origin: dict[str, Any]
    num_threads: int

    def row(self, fraction: float, selection: Selection, replicates: int) -> dict[str, Any]:
        """Train on every draw of labels, and score the test part; the reason if that is impossible."""
        draws = []
        try:
            draws = [self._train(fraction, draw, selection) for draw in range(NUM_DRAWS.get(fraction, 1))]
        except ConfigError as error:
            return {"not_possible": str(error)}
        scores = score_runs(
            self.problem,
            [draw.validation for draw in draws],
            [draw.test for draw in draws],
            [draw.absent for draw in draws],
            replicates,
        )
        about = {"num_labelled": [draw.num_labelled for draw in draws], "epochs": [draw.epochs for draw in draws]}
        return {**about, "scores": scores}

    def _train(self, fraction: float, draw: int, selection: Selection) -> _TrainedDraw:
        problem, inputs, is_regression = self.problem, self.prepared.inputs, not self.problem.targets.classes
        labelled = sample_patients(problem.store, problem.train, fraction, draw)
        train, stopping = labelled, problem.validation
        if selection == "cross-validation":
            stopping = labelled & _some_patients(problem.patients, labelled, draw)
            train = labelled & ~stopping
        truth, mean, scale = problem.truth, 0.0, 1.0
        if is_regression:
            mean, scale = float(truth[labelled].mean()), float(truth[labelled].std()) or 1.0
            truth = ((truth - mean) / scale).astype(np.float32)
        data = LabelledRecordings(
            inputs, truth, np.flatnonzero(train & inputs.available), np.flatnonzero(stopping & inputs.available)
        )
        model = self._model(truth.shape[1], draw)
        epochs = train_recordings(
            model,
            data,
            self.training,
            runs=self.runs,
            label=f"{self.prepared.way.replace(' ', '-')}-{problem.targets.name}",
            origin={**self.origin, **self.prepared.identity, "labels": [fraction, draw, selection]},
            seed=draw,
            num_threads=self.num_threads,
        )
        validation, test = (
            to_scores(model, predict(model, inputs, np.flatnonzero(records))) * scale + mean
            for records in (problem.validation, problem.test)
        )
        absent = np.zeros(0, np.bool_) if is_regression else np.asarray(~problem.truth[train].any(0))
        return _TrainedDraw(validation, test, absent, int(labelled.sum()), epochs)

    def _model(self, num_outputs: int, draw: int) -> RecordingClassifier:
        kind, training = self.problem.targets.task.kind, self.training
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(draw, "head"))
            return RecordingClassifier(
                copy.deepcopy(self.prepared.encoder),
                num_outputs,
                multi_label=kind in ("multi-label", "binary"),
                is_regression=kind == "regression",
                encoder_rate_factor=training.encoder_rate_factor,
            )


@dataclass(frozen=True)
class _TrainedDraw:
    """Scores of a network that was trained on one draw of labels."""

    validation: npt.NDArray[np.float32]
    test: npt.NDArray[np.float32]
    absent: npt.NDArray[np.bool_]
    num_labelled: int
    epochs: int


def _some_patients(
    patients: npt.NDArray[np.int64], labelled: npt.NDArray[np.bool_], seed: int
) -> npt.NDArray[np.bool_]:
    """Return the recordings of a fifth of the labelled patients, at least one."""
    known = np.unique(patients[labelled])
    count = max(1, round(HELD_OUT * len(known)))
    return np.isin(patients, generator(seed, "stopping").permutation(known)[:count])
