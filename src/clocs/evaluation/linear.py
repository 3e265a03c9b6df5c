"""Linear classifiers on embeddings: fitted on labelled rows, regularised by validation rows alone."""

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
"""``lbfgs``: logistic regression. ``adam``: as the paper trains its linear layer, with early stopping."""
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""C of scikit-learn's logistic regression, from strong to weak regularisation."""
NEVER = -30.0
"""The logit of a class without a training row."""
ADAM_RATE, ADAM_BATCH, ADAM_EPOCHS, ADAM_PATIENCE = 1e-4, 256, 400, 15

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LinearClassifier:
    """``weight @ (value - mean) / scale + bias`` over K classes."""

    mean: Floats
    """(E,)"""
    scale: Floats
    """(E,), over 0."""
    weight: Floats
    """(K, E)"""
    bias: Floats
    """(K,)"""
    multi_label: bool
    strength: float | None
    """The C that validation chose; None with ``adam``."""

    def logits(self, values: npt.NDArray[np.floating]) -> Floats:
        """(N, E) -> (N, K)."""
        return np.asarray(((values - self.mean) / self.scale) @ self.weight.T + self.bias)

    def probabilities(self, values: npt.NDArray[np.floating]) -> Floats:
        """(N, E) -> (N, K)."""
        from clocs.metrics.calibration import to_probabilities

        return to_probabilities(self.logits(values), 1.0, self.multi_label)


def fit_linear(
    train: ModelOutputs, validation: ModelOutputs, *, solver: Solver = "lbfgs", seed: int = 0
) -> LinearClassifier:
    """The classifier with the best macro AUC on the validation rows; classes without a training row never win."""
    multi_label = train.multi_label or validation.multi_label
    if not multi_label and not train.truth.any(0).sum() > 1:
        raise ConfigError(
            "the labelled rows have a single class: nothing to tell apart. Take more labels: a larger fraction, or "
            "more labelled patients (--label-fraction, --num-labelled-patients)"
        )
    if solver == "adam":
        return _adam(train, validation, multi_label, seed)
    mean, scale = _standard(train.values)
    best: tuple[float, LinearClassifier] | None = None
    for strength in STRENGTHS:
        weight, bias = _logistic((train.values - mean) / scale, train.truth, multi_label, strength)
        found = LinearClassifier(mean, scale, weight, bias, multi_label, strength)
        score = macro_average(auc(validation.truth, found.probabilities(validation.values)))
        if np.isnan(score):
            raise ConfigError("the validation rows have a single class: nothing to choose a classifier by")
        if best is None or score > best[0]:
            best = score, found
    assert best is not None
    return best[1]


def _standard(values: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
    scale = values.std(0, dtype=np.float64)
    return values.mean(0, dtype=np.float64), np.where(scale > 1e-12, scale, 1.0)


def _logistic(
    values: Floats, truth: npt.NDArray[np.bool_], multi_label: bool, strength: float
) -> tuple[Floats, Floats]:
    """Weight (K, E) and bias (K,): multinomial where each row has one class, else one against the rest."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    classes, length = truth.shape[1], values.shape[1]
    weight, bias = np.zeros((classes, length)), np.full(classes, NEVER)
    present = np.flatnonzero(truth.any(0))

    def fitted(labels: npt.NDArray[np.generic]) -> LogisticRegression:
        with warnings.catch_warnings(), threadpool_limits(1, "blas"):  # its threads would wait for each other
            warnings.simplefilter("ignore", category=UserWarning)  # not converged to the last digit: judged anyway
            return LogisticRegression(C=strength, max_iter=500, tol=1e-4).fit(values, labels)

    if not multi_label:
        model = fitted(truth.argmax(1))
        if len(present) == 2:  # scikit-learn keeps one row for two classes; half of it each way is the same softmax
            weight[present], bias[present] = model.coef_ * [[-0.5], [0.5]], model.intercept_ * [-0.5, 0.5]
        else:
            weight[present], bias[present] = model.coef_, model.intercept_
        return weight, bias
    for place in present:
        if truth[:, place].all():
            bias[place] = -NEVER
            continue
        model = fitted(truth[:, place])
        weight[place], bias[place] = model.coef_[0], model.intercept_[0]
    return weight, bias


def _adam(train: ModelOutputs, validation: ModelOutputs, multi_label: bool, seed: int) -> LinearClassifier:
    """A linear layer by Adam on plain embeddings, stopped by validation loss."""
    torch.manual_seed(derived_seed(seed, "linear"))
    length, classes = train.values.shape[1], train.truth.shape[1]
    layer, criterion = nn.Linear(length, classes), ClassificationLoss(multi_label)
    optimizer = torch.optim.Adam(layer.parameters(), ADAM_RATE, fused=True)
    values, truth = torch.from_numpy(train.values), torch.from_numpy(train.truth)
    others = torch.from_numpy(validation.values), torch.from_numpy(validation.truth)
    best, stale, kept = float("inf"), 0, {name: value.clone() for name, value in layer.state_dict().items()}
    for _ in range(ADAM_EPOCHS):
        for part in torch.split(torch.randperm(len(values)), ADAM_BATCH):
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(criterion(layer(values[part]), truth[part]))
            optimizer.step()
        with torch.no_grad():
            reached = float(criterion(layer(others[0]), others[1]))
        if reached < best:
            best, stale, kept = reached, 0, {name: value.clone() for name, value in layer.state_dict().items()}
        else:
            stale += 1
        if stale >= ADAM_PATIENCE:
            break
    weight, bias = (kept[name].double().numpy() for name in ("weight", "bias"))
    absent = ~train.truth.any(0)
    weight[absent], bias[absent] = 0.0, NEVER
    return LinearClassifier(np.zeros(length), np.ones(length), weight, bias, multi_label, None)
