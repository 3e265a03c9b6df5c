"""Folders of the measurements, and the problems and features that they share."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clocs.core.storage.files import write_bytes
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.resampling import Floats
from clocs.store.store import Store
from protocols.encoders import PRETRAINED, RANDOM, SCRATCH, Subject, paper_network, pretrained
from protocols.epoch_training import Trajectory, scratch_network, train_epochs
from protocols.inputs import InputKind, input_features, input_frames
from protocols.pretraining import PAPER_LEADS
from protocols.problems import Problem, open_problem
from protocols.results import Row, Rows


@dataclass(frozen=True)
class Setting:
    """Folders of a measurement."""

    stores: Path
    runs: Path
    results: Path
    cache: Path | None = None
    common_split: Path | None = None
    encoders: tuple[str, ...] = (RANDOM, SCRATCH, PRETRAINED)
    """Encoders to measure."""
    num_seeds: int = 1
    """Runs of a training from scratch."""

    def rows(self, name: str) -> Rows:
        """Return the rows of a measurement."""
        return Rows(self.results / f"{name}.json")

    def cpsc(self) -> Problem:
        """Return CPSC 2018's nine classes on the common split."""
        return open_problem(self.stores, "physionet2020", "cpsc2018", self.common_split)

    def ptbxl(self, task: str) -> Problem:
        """Return a task of PTB-XL on its published folds."""
        return open_problem(self.stores, "ptbxl", task)

    def features(self, subject: Subject, store: Store, kind: InputKind = "whole") -> Floats:
        """Return features of the paper's four leads."""
        return input_features(subject.embedder, store, kind, PAPER_LEADS, self.cache)

    def subjects(self, problem: Problem, run: str) -> list[Subject]:
        """Return the paper's network with random weights and, if it exists, the pre-trained one."""
        found = [paper_network(problem)] if RANDOM in self.encoders else []
        trained = pretrained(run, self.runs) if PRETRAINED in self.encoders else None
        return found if trained is None else [*found, trained]

    @property
    def has_scratch(self) -> bool:
        """Return whether training from scratch is measured."""
        return SCRATCH in self.encoders

    @property
    def about_seeds(self) -> Row:
        """Return the number of seeds for a row of results."""
        return {"seeds": self.num_seeds}

    def scores_from_scratch(self, problem: Problem, kind: InputKind, name: str, **options: Any) -> list[Floats]:
        """Return the scores of the best validation epoch of each training from scratch, one a seed."""
        runs = [self.train_from_scratch(problem, kind, name, seed=seed, **options) for seed in range(self.num_seeds)]
        return [run.scores[run.best] for run in runs]

    def train_from_scratch(
        self, problem: Problem, kind: InputKind, name: str, *, seed: int = 0, **options: Any
    ) -> Trajectory:
        """Train the paper's network on twelve leads at once, or read the result from the cache.

        Args:
            problem: The problem.
            kind: Input of the network.
            name: Name of the result in the cache.
            seed: Seed of weights and order.
            options: Arguments of :func:`protocols.epoch_training.train_epochs`.
        """
        path = None if self.cache is None else self.cache / f"scratch-{name}-{seed}.npz"
        if path is not None and path.exists():
            with np.load(path) as saved:
                return Trajectory(tuple(saved["validation"].tolist()), tuple(saved["test"].tolist()), saved["scores"])
        inputs = input_frames(problem.store, kind, STANDARD_LEADS)
        network = scratch_network(inputs, len(problem.classes), seed=seed)
        found = train_epochs(network, inputs, problem, mode="all", seed=seed, **options)
        if path is not None:
            packed = io.BytesIO()
            np.savez(packed, validation=found.validation_auc, test=found.test_auc, scores=found.scores)
            write_bytes(path, packed.getvalue())
        return found
