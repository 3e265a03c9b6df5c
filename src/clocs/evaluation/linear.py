"""Linear classifiers on embeddings. Validation rows select the regularization."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed
from clocs.evaluation.model_outputs import ModelOutputs
from clocs.losses import ClassificationLoss
from clocs.metrics.ranking import auc, macro_average

Solver = Literal["lbfgs", "adam"]
"""``lbfgs``: logistic regression. ``adam``: a linear layer trained with early stopping, as in the paper."""
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Values of C of scikit-learn's logistic regression, from strong to weak regularization."""
ABSENT_LOGIT = -30.0
"""Logit of a class without a training row."""
ADAM_LEARNING_RATE, ADAM_BATCH_SIZE, ADAM_MAX_EPOCHS, ADAM_PATIENCE = 1e-4, 256, 400, 15

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinearClassifier:
    """A linear classifier of K classes: ``weight @ (value - mean) / scale + bias``."""

    mean: Floats
    """Mean of the training embeddings, (E,)."""
    scale: Floats
    """Standard deviation of the training embeddings, (E,), over 0."""
    weight: Floats
    """Weights, (K, E)."""
    bias: Floats
    """Biases, (K,)."""
    multi_label: bool
    """True if a row may have several classes, or none."""
    strength: float | None
    """The C that validation selected. None: fitted by Adam."""

    def logits(self, values: npt.NDArray[np.floating]) -> Floats:
        """Return logits (N, K) of embeddings (N, E)."""
        return np.asarray(((values - self.mean) / self.scale) @ self.weight.T + self.bias)

    def probabilities(self, values: npt.NDArray[np.floating]) -> Floats:
        """Return class probabilities (N, K) of embeddings (N, E)."""
        from clocs.metrics.calibration import to_probabilities

        return to_probabilities(self.logits(values), self.multi_label)


def fit_linear(
    train: ModelOutputs, validation: ModelOutputs, *, solver: Solver = "lbfgs", seed: int = 0
) -> LinearClassifier:
    """Fit a linear classifier and select its regularization by macro AUC on the validation rows.

    A class without a training row has a very low constant logit.

    Args:
        train: Labelled embeddings.
        validation: Embeddings that select the regularization, or the epoch with ``adam``.
        solver: Algorithm.
        seed: Seed of ``adam``.

    Raises:
        ConfigError: Training or validation rows have a single class.
    """
    multi_label = train.multi_label or validation.multi_label
    if not multi_label and not train.truth.any(0).sum() > 1:
        raise ConfigError(
            "The labelled rows have a single class. Use a larger fraction of the labels, or more labelled patients "
            "(--label-fraction, --num-labelled-patients)."
        )
    if solver == "adam":
        return _adam(train, validation, multi_label, seed)
    mean, scale = _mean_and_scale(train.values)
    best: tuple[float, LinearClassifier] | None = None
    for strength in STRENGTHS:
        weight, bias = _logistic((train.values - mean) / scale, train.truth, multi_label, strength)
        found = LinearClassifier(mean, scale, weight, bias, multi_label, strength)
        score = macro_average(auc(validation.truth, found.probabilities(validation.values)))
        if np.isnan(score):
            raise ConfigError("The validation rows have a single class, so no AUC can be computed. Use another split.")
        if best is None or score > best[0]:
            best = score, found
    assert best is not None
    return best[1]


def _mean_and_scale(values: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
    scale = values.std(0, dtype=np.float64)
    return values.mean(0, dtype=np.float64), np.where(scale > 1e-12, scale, 1.0)


def _logistic(
    values: Floats, truth: npt.NDArray[np.bool_], multi_label: bool, strength: float
) -> tuple[Floats, Floats]:
    """Fit weight (K, E) and bias (K,): multinomial if each row has one class, otherwise one-vs-rest."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    classes, length = truth.shape[1], values.shape[1]
    weight, bias = np.zeros((classes, length)), np.full(classes, ABSENT_LOGIT)
    present = np.flatnonzero(truth.any(0))

    def fit(labels: npt.NDArray[np.generic]) -> LogisticRegression:
        with warnings.catch_warnings(), threadpool_limits(1, "blas"):  # more threads are slower
            warnings.simplefilter("ignore", category=UserWarning)  # convergence warnings
            return LogisticRegression(C=strength, max_iter=500, tol=1e-4).fit(values, labels)

    if not multi_label:
        model = fit(truth.argmax(1))
        if len(present) == 2:  # scikit-learn has one row for two classes: split it
            weight[present], bias[present] = model.coef_ * [[-0.5], [0.5]], model.intercept_ * [-0.5, 0.5]
        else:
            weight[present], bias[present] = model.coef_, model.intercept_
        return weight, bias
    for column in present:
        if truth[:, column].all():
            bias[column] = -ABSENT_LOGIT
            continue
        model = fit(truth[:, column])
        weight[column], bias[column] = model.coef_[0], model.intercept_[0]
    return weight, bias


def _adam(train: ModelOutputs, validation: ModelOutputs, multi_label: bool, seed: int) -> LinearClassifier:
    """Train a linear layer by Adam on embeddings that are not standardized, with early stopping by validation loss."""
    torch.manual_seed(derived_seed(seed, "linear"))
    length, classes = train.values.shape[1], train.truth.shape[1]
    layer, criterion = nn.Linear(length, classes), ClassificationLoss(multi_label)
    optimizer = torch.optim.Adam(layer.parameters(), ADAM_LEARNING_RATE, fused=True)
    values, truth = torch.from_numpy(train.values), torch.from_numpy(train.truth)
    held_out = torch.from_numpy(validation.values), torch.from_numpy(validation.truth)
    best, stale, kept = float("inf"), 0, {name: value.clone() for name, value in layer.state_dict().items()}
    for _ in range(ADAM_MAX_EPOCHS):
        for part in torch.split(torch.randperm(len(values)), ADAM_BATCH_SIZE):
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(criterion(layer(values[part]), truth[part]))
            optimizer.step()
        with torch.no_grad():
            loss = float(criterion(layer(held_out[0]), held_out[1]))
        if loss < best:
            best, stale, kept = loss, 0, {name: value.clone() for name, value in layer.state_dict().items()}
        else:
            stale += 1
        if stale >= ADAM_PATIENCE:
            break
    weight, bias = (kept[name].double().numpy() for name in ("weight", "bias"))
    absent = ~train.truth.any(0)
    weight[absent], bias[absent] = 0.0, ABSENT_LOGIT
    return LinearClassifier(np.zeros(length), np.ones(length), weight, bias, multi_label, None)
