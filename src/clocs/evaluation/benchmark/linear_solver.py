"""Linear models of all classes at once, for a path of regularisation strengths.

Both solvers work on (N, D) float32 matrices that are centred implicitly. With fewer rows than dimensions they work in
the space of the rows, which has the same solution.
"""

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


class LinearSolver(ABC):
    """A linear model on fixed training rows, fitted for one strength after the other.

    Args:
        values: Training rows (N, D), float32.
    """

    def __init__(self, values: Tensor) -> None:
        count, dimension = values.shape
        self._basis: Tensor | None = None
        if count < dimension:
            self._basis, triangle = torch.linalg.qr(values.T)
            values = triangle.T.contiguous()
        self._values, self._mean = values, values.mean(0)

    @abstractmethod
    def solve(self, strength: float) -> tuple[Tensor, Tensor]:
        """Fit the model.

        Args:
            strength: C, the inverse of the factor of the penalty.

        Returns:
            Weights (K, D) and biases (K,).
        """

    def _gram(self) -> Tensor:
        """Return the covariance of the rows times their number, (D', D')."""
        gram = self._values.T @ self._values
        return gram.addr_(self._mean, self._mean, alpha=-len(self._values))

    def _original(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Return weights (D', K) and biases (K,) of centred rows as (K, D) and (K,) of the original rows."""
        bias = bias - self._mean @ weight
        return (weight if self._basis is None else self._basis @ weight).T.contiguous(), bias


class LogisticSolver(LinearSolver):
    """Logistic regression with an L2 penalty on the weights, as scikit-learn's: C * sum of losses + |W|^2 / 2.

    L-BFGS fits all classes at once. The Cholesky factor of an approximate Hessian, common to all classes, preconditions
    it. A fit starts from that of the next stronger penalty.

    Args:
        values: Training rows (N, D), float32.
        truth: Labels (N, K), bool; one true entry a row with ``softmax``.
        link: ``sigmoid``: each class for itself. ``softmax``: multinomial.
    """

    def __init__(self, values: Tensor, truth: Tensor, link: Link) -> None:
        super().__init__(values)
        self._truth, self._link = truth.float(), link
        share = self._truth.mean(0)
        self._curvature = float((share * (1 - share)).mean().clamp(min=1e-6))
        self._covariance = self._gram() / len(values)
        shares = share.clamp(1e-6, 1 - 1e-6)
        bias = shares.log() if link == "softmax" else shares.logit()
        constant = torch.zeros(self._values.shape[1], truth.shape[1]), bias
        self._fits = {0.0: constant}
        self._first_gradient = self._gradient(self._loss(*constant)[1])

    def solve(self, strength: float) -> tuple[Tensor, Tensor]:
        """Return weights (K, D) and biases (K,) of a strength."""
        penalty = 1 / (strength * len(self._values))
        factor, scale = self._preconditioner(penalty), self._curvature**-0.5
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
        return self._original(*self._fits[strength])

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

    def _preconditioner(self, penalty: float) -> Tensor:
        """Return the Cholesky factor of the approximate Hessian, (D', D')."""
        damping = max(penalty, MIN_DAMPING * self._curvature)
        while True:
            hessian = self._covariance * self._curvature
            hessian.diagonal().add_(damping)
            found: tuple[Tensor, Tensor] = torch.linalg.cholesky_ex(hessian)
            if not found[1]:
                return found[0]
            damping *= 10


class RidgeSolver(LinearSolver):
    """Ridge regression in closed form: sum of squared errors + |W|^2 / C.

    Args:
        values: Training rows (N, D), float32.
        targets: Targets (N, K), float32.
    """

    def __init__(self, values: Tensor, targets: Tensor) -> None:
        super().__init__(values)
        self._offset = targets.mean(0)
        self._moments = self._gram()
        self._products = self._values.T @ (targets - self._offset)
        del self._values  # moments and products are all that is needed

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
        return self._original(weight, self._offset)
