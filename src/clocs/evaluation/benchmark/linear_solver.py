"""Linear models of all classes at once, for a path of regularization strengths, on (N, D) float32 rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import softplus

Link = Literal["sigmoid", "softmax"]
MAX_ITERATIONS = 100
"""Maximum number of L-BFGS iterations of one strength. With the preconditioner, 10 to 30 are usual."""
GRADIENT_TOLERANCE = 1e-3
"""Largest entry of the preconditioned gradient at which a fit ends, relative to that of zero weights."""
CHANGE_TOLERANCE = 1e-11
"""Change of the mean loss at which a fit ends."""
MIN_DAMPING = 1e-4
"""Smallest damping of the preconditioner, relative to the mean curvature, so that float32 suffices."""


class RowSpace:
    """Coordinates in the span of labelled rows, in which the solution of every penalty lies.

    With many fewer rows than dimensions, a fit on coordinates costs much less. Otherwise they are the features.

    Args:
        rows: Labelled rows (N, D), float32.
    """

    def __init__(self, rows: Tensor) -> None:
        count, dimension = rows.shape
        self._basis = torch.linalg.qr(rows.T)[0] if 2 * count < dimension else None

    def coordinates(self, values: Tensor) -> Tensor:
        """Return the coordinates (M, D') of rows (M, D)."""
        return values if self._basis is None else values @ self._basis

    def weights(self, weight: Tensor) -> Tensor:
        """Return weights (K, D) of features from weights (K, D') of coordinates."""
        return weight if self._basis is None else weight @ self._basis.T


class Preconditioner:
    """Cholesky factors of an approximate Hessian that is common to all classes, and to all folds.

    Args:
        gram: Sum of the outer products of the labelled rows, (D, D).
        mean: Mean of the rows, (D,).
        truth: Their labels, (N, K).
    """

    def __init__(self, gram: Tensor, mean: Tensor, truth: Tensor) -> None:
        self._count = len(truth)
        self._covariance = torch.addr(gram, mean, mean, alpha=-self._count) / self._count
        share = truth.float().mean(0)
        self.curvature = float((share * (1 - share)).mean().clamp(min=1e-6))
        self._factors: dict[float, Tensor] = {}

    def factor(self, strength: float) -> Tensor:
        """Return the Cholesky factor of a strength, (D, D)."""
        if strength not in self._factors:
            self._factors[strength] = self._factorize(1 / (strength * self._count))
        return self._factors[strength]

    def _factorize(self, penalty: float) -> Tensor:
        damping = max(penalty, MIN_DAMPING * self.curvature)
        while True:
            hessian = self._covariance * self.curvature
            hessian.diagonal().add_(damping)
            found: tuple[Tensor, Tensor] = torch.linalg.cholesky_ex(hessian)
            if not found[1]:
                return found[0]
            damping *= 10


class LinearSolver(ABC):
    """A linear model on fixed training rows, which are centered implicitly, fitted for one strength after the other."""

    @abstractmethod
    def solve(self, strength: float) -> tuple[Tensor, Tensor]:
        """Fit the model.

        Args:
            strength: C, the inverse of the factor of the penalty.

        Returns:
            Weights (K, D) and biases (K,).
        """


class LogisticSolver(LinearSolver):
    """Logistic regression with an L2 penalty on the weights, as scikit-learn's: C * sum of losses + |W|^2 / 2.

    L-BFGS fits all classes at once. A fit starts from that of the next stronger penalty.

    Args:
        values: Training rows (N, D), float32.
        truth: Labels (N, K), bool; one true entry a row with ``softmax``.
        link: ``sigmoid``: each class for itself. ``softmax``: multinomial.
        preconditioner: Preconditioner of these rows or of more. None: made from the rows.
    """

    def __init__(self, values: Tensor, truth: Tensor, link: Link, preconditioner: Preconditioner | None = None) -> None:
        self._values, self._mean = values, values.mean(0)
        self._preconditioner = preconditioner or Preconditioner(values.T @ values, self._mean, truth)
        self._truth, self._link = truth.float(), link
        shares = self._truth.mean(0).clamp(1e-6, 1 - 1e-6)
        constant = torch.zeros(values.shape[1], truth.shape[1]), shares.log() if link == "softmax" else shares.logit()
        self._fits = {0.0: constant}
        self._first_gradient = self._gradient(self._loss(*constant)[1])

    def solve(self, strength: float) -> tuple[Tensor, Tensor]:
        """Return weights (K, D) and biases (K,) of a strength."""
        penalty = 1 / (strength * len(self._values))
        factor, scale = self._preconditioner.factor(strength), self._preconditioner.curvature**-0.5
        weight, bias = self._fits[max(fitted for fitted in self._fits if fitted <= strength)]
        coordinates, offset = (factor.T @ weight).requires_grad_(), (bias / scale).requires_grad_()
        first = torch.linalg.solve_triangular(factor, self._first_gradient, upper=False)
        optimizer = torch.optim.LBFGS(
            [coordinates, offset],
            max_iter=MAX_ITERATIONS,
            tolerance_grad=GRADIENT_TOLERANCE * float(first.abs().max()),
            tolerance_change=CHANGE_TOLERANCE,
            history_size=10,
            line_search_fn="strong_wolfe",
        )

        @torch.no_grad()
        def closure() -> float:
            weight = torch.linalg.solve_triangular(factor.T, coordinates, upper=True)
            loss, residual = self._loss(weight, offset * scale)
            gradient = self._gradient(residual).add_(weight, alpha=penalty)
            coordinates.grad = torch.linalg.solve_triangular(factor, gradient, upper=False).contiguous()
            offset.grad = residual.sum(0) * scale
            return float(loss + weight.square().sum() * (penalty / 2))

        optimizer.step(closure)  # type: ignore[no-untyped-call]
        weight = torch.linalg.solve_triangular(factor.T, coordinates.detach(), upper=True)
        self._fits[strength] = weight, offset.detach() * scale
        return weight.T.contiguous(), self._fits[strength][1] - self._mean @ weight

    def _loss(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss, and its derivative by the logits (N, K).

        The loss is summed in float64, because its changes under a strong penalty are below the precision of float32.
        """
        logits = torch.addmm(bias - self._mean @ weight, self._values, weight).double()
        if self._link == "softmax":
            logarithms = logits.log_softmax(1)
            loss, probabilities = -(logarithms * self._truth).sum(), logarithms.exp()
        else:
            loss, probabilities = (softplus(logits) - logits * self._truth).sum(), logits.sigmoid()
        return loss / len(logits), ((probabilities - self._truth) / len(logits)).float()

    def _gradient(self, residual: Tensor) -> Tensor:
        """Return the derivative by the weights, (D', K), from that by the logits (N, K)."""
        return (self._values.T @ residual).addr_(self._mean, residual.sum(0), alpha=-1)


class RidgeSolver(LinearSolver):
    """Ridge regression in closed form: sum of squared errors + |W|^2 / C.

    Args:
        values: Training rows (N, D), float32.
        targets: Targets (N, K), float32.
        gram: Sum of the outer products of the rows, (D, D). None: computed.
    """

    def __init__(self, values: Tensor, targets: Tensor, gram: Tensor | None = None) -> None:
        self._mean, self._offset = values.mean(0), targets.mean(0)
        gram = values.T @ values if gram is None else gram
        self._moments = torch.addr(gram, self._mean, self._mean, alpha=-len(values))
        self._products = values.T @ (targets - self._offset)

    def solve(self, strength: float) -> tuple[Tensor, Tensor]:
        """Return weights (K, D) and biases (K,) of a strength."""
        for dtype in (torch.float32, torch.float64):
            system = self._moments.to(dtype, copy=True)
            system.diagonal().add_(1 / strength)
            factor, info = torch.linalg.cholesky_ex(system)
            if not info:
                break
        else:  # the penalty is below the precision of the moments
            system.diagonal().add_(1e-5 * float(self._moments.diagonal().mean()))
            factor = torch.linalg.cholesky(system)
        weight = torch.cholesky_solve(self._products.to(dtype), factor).float()
        return weight.T.contiguous(), self._offset - self._mean @ weight
