"""The solvers against scikit-learn's, with more and with fewer rows than dimensions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from clocs.evaluation.benchmark.linear_solver import LogisticSolver, RidgeSolver

STRENGTHS = (1e-4, 1e-2, 1.0)


def make_rows(count: int, dimension: int, classes: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Correlated values with a mean of their own, and labels that depend on some of them."""
    random = np.random.default_rng(count)
    values = random.normal(size=(count, dimension)) @ random.normal(size=(dimension, dimension)) / dimension**0.5
    logits = values @ random.normal(size=(dimension, classes)) / dimension**0.5
    truth = logits + random.logistic(size=logits.shape) > 0.5
    return (values + 0.3).astype(np.float32), truth


@pytest.mark.parametrize(("count", "dimension"), [(400, 30), (60, 90)], ids=["many rows", "few rows"])
def test_one_fit_of_all_classes_equals_one_fit_of_each(count: int, dimension: int) -> None:
    values, truth = make_rows(count, dimension, 4)
    exact = values.astype(np.float64)
    solver = LogisticSolver(torch.from_numpy(values), torch.from_numpy(truth), "sigmoid")
    for strength in STRENGTHS:
        weight, bias = solver.solve(strength)
        for column in range(4):
            model = LogisticRegression(C=strength, tol=1e-8, max_iter=10_000).fit(exact, truth[:, column])
            expected = model.decision_function(exact)
            found = values @ weight[column].numpy() + float(bias[column])
            np.testing.assert_allclose(found, expected, atol=0.02 * expected.std() + 1e-4)


@pytest.mark.parametrize(("count", "dimension"), [(400, 30), (60, 90)], ids=["many rows", "few rows"])
def test_softmax_equals_the_multinomial_regression(count: int, dimension: int) -> None:
    values, truth = make_rows(count, dimension, 3)
    label = truth.argmax(1)
    solver = LogisticSolver(torch.from_numpy(values), torch.from_numpy(np.eye(3, dtype=bool)[label]), "softmax")
    for strength in STRENGTHS:
        weight, bias = solver.solve(strength)
        logits = torch.from_numpy(values) @ weight.T + bias
        expected = LogisticRegression(C=strength, tol=1e-8, max_iter=10_000).fit(values, label).predict_proba(values)
        np.testing.assert_allclose(logits.softmax(1).numpy(), expected, atol=2e-3)


def test_a_stronger_penalty_after_a_weaker_one_gives_the_same() -> None:
    values, truth = (torch.from_numpy(part) for part in make_rows(400, 30, 2))
    solver = LogisticSolver(values, truth, "sigmoid")
    first = solver.solve(1e-3)
    solver.solve(10.0)
    torch.testing.assert_close(solver.solve(1e-3), first)


@pytest.mark.parametrize(("count", "dimension"), [(400, 30), (60, 90)], ids=["many rows", "few rows"])
def test_ridge_equals_scikit_learn(count: int, dimension: int) -> None:
    values, truth = make_rows(count, dimension, 2)
    targets = truth * 2.0 - 1
    solver = RidgeSolver(torch.from_numpy(values), torch.from_numpy(targets.astype(np.float32)))
    for strength in (*STRENGTHS, 10.0):
        weight, bias = solver.solve(strength)
        model = Ridge(alpha=1 / strength).fit(values.astype(np.float64), targets)
        np.testing.assert_allclose(weight.numpy(), model.coef_, atol=2e-3)
        np.testing.assert_allclose(bias.numpy(), model.intercept_, atol=2e-3)


def test_rows_that_repeat_a_feature_have_a_ridge_solution() -> None:
    values = torch.from_numpy(np.repeat(make_rows(400, 10, 1)[0], 3, axis=1))
    weight, _ = RidgeSolver(values, values[:, :1]).solve(1e12)
    torch.testing.assert_close(
        values @ weight.T - (values @ weight.T).mean(0), values[:, :1] - values[:, :1].mean(0), atol=0.01, rtol=0
    )
