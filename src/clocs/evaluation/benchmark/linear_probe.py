"""Linear probes of recording features. Validation labels or cross-validation over patients select the strength."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.datasets.task import TaskKind
from clocs.evaluation.benchmark.linear_solver import (
    LinearSolver,
    Link,
    LogisticSolver,
    Preconditioner,
    RidgeSolver,
    RowSpace,
)
from clocs.metrics.ranking import auc, macro_average
from clocs.signals.resampling import Floats

Bools = npt.NDArray[np.bool_]
Solver = Literal["logistic", "ridge"]
"""``logistic``: logistic regression by L-BFGS. ``ridge``: ridge regression in closed form, on targets of -1 and 1."""
STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Values of C, from strong to weak regularization."""
PATIENCE = 2
"""Weaker strengths in a row below the best at which a path ends."""
MAX_EXTENSIONS = 4
"""Maximum number of further strengths at each end, a factor of 10 apart."""
ABSENT_LOGIT = -30.0
"""Logit of a class without a labelled positive."""
NUM_FOLDS = 5
"""Folds of a cross-validation."""


@dataclass(frozen=True)
class LinearProbe:
    """A fitted linear model of K classes, or of K numbers."""

    weight: Floats
    """Weights, (K, D)."""
    bias: Floats
    """Biases, (K,)."""
    kind: TaskKind
    """Kind of the task."""
    solver: Solver
    """Algorithm that fitted it."""
    strength: float
    """The C that was selected."""
    selection: dict[float, float]
    """Macro AUC, or R2 of a regression, by C, on the rows that selected it."""
    absent: Bools
    """True for classes without a labelled positive, (K,). Their scores are constant."""

    def logits(self, values: Floats) -> Floats:
        """Return the linear outputs (N, K) of features (N, D)."""
        return np.asarray(values @ self.weight.T + self.bias)

    def scores(self, values: Floats) -> Floats:
        """Return probabilities of classes, or predicted numbers, (N, K), of features (N, D).

        Scores of ``ridge`` are linear outputs: they rank recordings, and are no probabilities.
        """
        logits = self.logits(values)
        if self.kind == "regression" or self.solver == "ridge":
            return logits
        if self.kind == "multi-class":
            return np.asarray(torch.from_numpy(logits).softmax(1).numpy())
        return np.asarray(torch.from_numpy(logits).sigmoid().numpy())


def fit_probe(
    values: Floats,
    targets: npt.NDArray[Any],
    *,
    kind: TaskKind,
    train: Bools,
    validation: Bools | None = None,
    patients: npt.NDArray[np.int64] | None = None,
    solver: Solver = "logistic",
    strengths: Sequence[float] = STRENGTHS,
    seed: int = 0,
) -> LinearProbe:
    """Fit a linear model on labelled recordings, and select its regularization.

    Each strength is scored by macro AUC, or by R2 for a regression, on the validation recordings or by
    cross-validation over patients within the labelled recordings. The path runs from strong to weak regularization and
    ends after two strengths in a row below the best. Strengths are added while the best one is the first or the last,
    then half a step on either side of the best. The model of the best is fitted on ``train`` alone.

    Args:
        values: Standardized features of all recordings, (N, D).
        targets: Classes (N, K) bool, or numbers (N, K) of a regression.
        kind: Kind of the task. A regression always uses ridge.
        train: Labelled recordings, a mask (N,).
        validation: Recordings that select the strength, a mask (N,). None: cross-validation within ``train``.
        patients: Patient code of each recording, (N,), for a cross-validation.
        solver: Algorithm.
        strengths: Values of C.
        seed: Seed of the folds of a cross-validation.

    Returns:
        The fitted model.

    Raises:
        ConfigError: No class can be told apart on the labelled or on the selecting recordings.

    Example:
        >>> random = np.random.default_rng(0)
        >>> values = random.normal(size=(90, 3)).astype(np.float32)
        >>> part = np.arange(90) % 3
        >>> fit = fit_probe(values, values[:, :2] > 0, kind="multi-label", train=part == 0, validation=part == 1)
        >>> fit.scores(values[part == 2]).shape
        (30, 2)
    """
    targets = targets[:, None] if targets.ndim == 1 else targets
    used = train if validation is None else train | validation
    space = RowSpace(torch.from_numpy(np.ascontiguousarray(values[train], np.float32)))
    rows = space.coordinates(torch.from_numpy(np.ascontiguousarray(values[used], np.float32)))
    inside = train[used]
    data = _Data(rows, targets[used], kind, "ridge" if kind == "regression" else solver, inside)
    if validation is None:
        folds = _patient_folds(data, None if patients is None else patients[used], seed)
    else:
        folds = [_Fold(data, inside, validation[used])]
    selection: dict[float, float] = {}
    for strength in sorted(strengths):
        selection[strength] = _selection_score(folds, strength)
        if _is_past_the_best(selection):
            break
    while added := _extension(_best(selection), selection, strengths):
        selection[added] = _selection_score(folds, added)
    best = _best(selection)
    for refined in (best / 10**0.5, best * 10**0.5):
        selection[refined] = _selection_score(folds, refined)
    best = _best(selection)
    fold = _Fold(data, inside, inside) if validation is None else folds[0]
    probe = fold.fit(best)
    weight = space.weights(torch.from_numpy(probe.weight)).numpy()
    return replace(probe, weight=weight, selection=dict(sorted(selection.items())))


@dataclass(frozen=True)
class _Data:
    """Coordinates and targets of the recordings that are used, and what is fitted to them."""

    values: Tensor
    targets: npt.NDArray[Any]
    kind: TaskKind
    solver: Solver
    train: Bools

    @functools.cached_property
    def gram(self) -> Tensor:
        """Sum of the outer products of the labelled rows, (D, D)."""
        return _gram(self.rows(self.train))

    @functools.cached_property
    def preconditioner(self) -> Preconditioner:
        """Preconditioner of logistic regressions on the labelled rows, or on a part of them."""
        mean = self.rows(self.train).mean(0)
        return Preconditioner(self.gram, mean, torch.from_numpy(self.targets[self.train]))

    def rows(self, mask: Bools) -> Tensor:
        """Return the rows of a mask, without a copy if it has all of them."""
        return self.values if mask.all() else self.values[torch.from_numpy(mask)]


class _Fold:
    """Recordings to fit on, and recordings to score on."""

    def __init__(self, data: _Data, train: Bools, held_out: Bools) -> None:
        self.data, self.train, self.held_out = data, train, held_out
        truth: npt.NDArray[Any] = data.targets[train]
        self.absent: Bools = np.zeros(truth.shape[1], np.bool_)
        self.fitted: Bools = ~self.absent
        if data.kind != "regression":
            self.absent = np.asarray(~truth.any(0))
            self.fitted = ~self.absent if data.kind == "multi-class" else ~self.absent & ~truth.all(0)
        self._probes: dict[float, LinearProbe] = {}
        self._solver: LinearSolver | None = None

    def fit(self, strength: float) -> LinearProbe:
        """Return the model of a strength, which is fitted once."""
        if strength not in self._probes:
            self._probes[strength] = self._fit(strength)
        return self._probes[strength]

    def _fit(self, strength: float) -> LinearProbe:
        data, classes = self.data, len(self.absent)
        weight = np.zeros((classes, data.values.shape[1]), np.float32)
        bias = np.where(self.absent, ABSENT_LOGIT, -ABSENT_LOGIT).astype(np.float32)
        if self.fitted.sum() > (data.kind == "multi-class"):
            self._solver = self._solver or self._make_solver()
            found = self._solver.solve(strength)
            weight[self.fitted], bias[self.fitted] = found[0].numpy(), found[1].numpy()
        return LinearProbe(weight, bias, data.kind, data.solver, strength, {}, self.absent)

    def _make_solver(self) -> LinearSolver:
        data = self.data
        rows = data.rows(self.train)
        targets = torch.from_numpy(data.targets[self.train][:, self.fitted])
        if data.solver == "ridge":
            gram = data.gram - _gram(data.rows(data.train & ~self.train))
            return RidgeSolver(rows, targets.float() if data.kind == "regression" else targets.float() * 2 - 1, gram)
        link: Link = "softmax" if data.kind == "multi-class" else "sigmoid"
        return LogisticSolver(rows, targets, link, data.preconditioner)

    def class_scores(self, strength: float) -> npt.NDArray[np.float64]:
        """Return the AUC, or R2, of each class on the held-out recordings, (K,)."""
        values, truth = self.data.rows(self.held_out).numpy(), self.data.targets[self.held_out]
        metric = _r2 if self.data.kind == "regression" else auc
        return np.asarray(metric(truth, self.fit(strength).scores(values)))


def _selection_score(folds: list[_Fold], strength: float) -> float:
    """Return the macro average of a strength, over the mean of the folds in which a class is defined."""
    by_fold = np.array([fold.class_scores(strength) for fold in folds])  # (folds, classes)
    known = (~np.isnan(by_fold)).sum(0)
    means = np.where(known > 0, np.nansum(by_fold, axis=0) / np.maximum(known, 1), np.nan)
    return macro_average(means)


def _best(selection: dict[float, float]) -> float:
    """Return the strength of the best score, the stronger penalty of equal ones."""
    best = max(selection, key=lambda strength: (selection[strength], -strength))
    if np.isnan(selection[best]):
        raise ConfigError("The recordings that select the strength have a single class. Use more of them.")
    return best


def _is_past_the_best(selection: dict[float, float]) -> bool:
    """Return whether the last strengths of a path are all below the best."""
    scores = list(selection.values())
    return len(scores) > PATIENCE and max(scores[-PATIENCE:]) < max(scores)


def _extension(best: float, tried: dict[float, float], strengths: Sequence[float]) -> float | None:
    """Return the next strength to try if the best is the first or the last, at most four beyond the given ones."""
    if best == min(tried) and best > min(strengths) * 10.0 ** (0.5 - MAX_EXTENSIONS):
        return best / 10
    if best == max(tried) and best < max(strengths) * 10.0 ** (MAX_EXTENSIONS - 0.5):
        return best * 10
    return None


def _patient_folds(data: _Data, patients: npt.NDArray[np.int64] | None, seed: int) -> list[_Fold]:
    """Deal the patients of the labelled recordings to folds. All recordings of ``data`` are labelled."""
    if patients is None:
        raise ConfigError("A cross-validation needs the patient of each recording. Pass patients, or validation.")
    known = np.unique(patients)
    count = min(NUM_FOLDS, len(known))
    if count < 2:
        raise ConfigError("A cross-validation needs at least two labelled patients. Pass validation instead.")
    fold_of = dict(zip(generator(seed, "probe folds").permutation(known).tolist(), range(len(known)), strict=True))
    fold = np.array([fold_of[patient] % count for patient in patients.tolist()])
    return [_Fold(data, fold != number, fold == number) for number in range(count)]


def _gram(rows: Tensor) -> Tensor:
    return rows.T @ rows


def _r2(truth: npt.NDArray[Any], predicted: Floats) -> npt.NDArray[np.float64]:
    """Return the coefficient of determination of each column, (K,)."""
    residual = ((truth - predicted) ** 2).sum(0, dtype=np.float64)
    total = ((truth - truth.mean(0)) ** 2).sum(0, dtype=np.float64)
    return np.asarray(np.where(total > 0, 1 - residual / np.where(total > 0, total, 1), np.nan))
