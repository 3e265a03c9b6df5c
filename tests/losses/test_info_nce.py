"""InfoNCE and NT-Xent against their definitions written out, closed forms, symmetry, gradients, hard numbers."""

from __future__ import annotations

import math
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from clocs.core.errors import ConfigError
from clocs.losses import InfoNCELoss, PatientNCELoss, cosine
from clocs.losses.info_nce import Form

FORMS: tuple[Form, ...] = get_args(Form)


def batch(instances: int = 8, size: int = 5, seed: int = 0) -> Tensor:
    """Return random float64 embeddings (B, 2, E) with gradients."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(instances, 2, size, generator=generator, dtype=torch.float64).requires_grad_()


def graded(embeddings: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    leaf = embeddings.detach().clone().requires_grad_()
    value = InfoNCELoss(form=form)(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


def literal(embeddings: Tensor, temperature: float, form: Form) -> float:
    """Compute Oord et al. between two views in both directions, or equation 1 of Chen et al. over 2B views."""
    first, second = embeddings.detach().unbind(1)
    count = len(first)

    def exp(one: Tensor, other: Tensor) -> float:
        return math.exp(cosine_similarity(one, other, dim=0).item() / temperature)

    if form == "two_view":
        total = 0.0
        for i in range(count):
            total -= math.log(exp(first[i], second[i]) / sum(exp(first[i], second[j]) for j in range(count)))
            total -= math.log(exp(second[i], first[i]) / sum(exp(second[i], first[j]) for j in range(count)))
        return total / count
    z = [*first, *second]
    total = 0.0
    for i in range(2 * count):
        rest = sum(exp(z[i], z[j]) for j in range(2 * count) if j != i)
        total -= math.log(exp(z[i], z[(i + count) % (2 * count)]) / rest)
    return total / (2 * count)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("instances", [1, 2, 9])
@pytest.mark.parametrize("temperature", [0.05, 0.1, 1.0])
def test_equals_the_definition_written_out(form: Form, instances: int, temperature: float) -> None:
    embeddings = batch(instances, seed=instances)
    expected = literal(embeddings, temperature, form)
    assert InfoNCELoss(temperature, form)(embeddings).item() == pytest.approx(expected, rel=0, abs=1e-10)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_equal_those_of_cross_entropies(form: Form) -> None:
    embeddings = batch(9).detach().requires_grad_()
    first, second = (embeddings / embeddings.norm(dim=-1, keepdim=True)).unbind(1)
    if form == "two_view":
        logits, labels = first @ second.T / 0.1, torch.arange(9)
        slow = cross_entropy(logits, labels) + cross_entropy(logits.T, labels)
    else:
        every = torch.cat([first, second])
        logits = (every @ every.T / 0.1).masked_fill(torch.eye(18, dtype=torch.bool), -torch.inf)
        slow = cross_entropy(logits, torch.arange(18).roll(9))
    expected = slow.detach(), torch.autograd.grad(slow, embeddings)[0]
    torch.testing.assert_close(graded(embeddings, form), expected, rtol=0, atol=1e-10)


def test_two_views_have_the_scale_of_patient_nce() -> None:
    embeddings = batch(12)
    loss = InfoNCELoss()(embeddings).item()
    alone = PatientNCELoss(off_diagonals="none")(embeddings, torch.zeros(12, dtype=torch.int64))
    distinct = PatientNCELoss()(embeddings, torch.arange(12))
    assert loss == pytest.approx(alone.item(), rel=0, abs=1e-12)
    assert loss == pytest.approx(distinct.item(), rel=0, abs=1e-12)


@pytest.mark.parametrize(("form", "value"), [("two_view", 2 * math.log(6)), ("nt_xent", math.log(11))])
def test_equal_embeddings(form: Form, value: float) -> None:
    assert InfoNCELoss(form=form)(torch.ones(6, 2, 4).double()).item() == pytest.approx(value, rel=0, abs=1e-12)


@pytest.mark.parametrize(("form", "terms", "others"), [("two_view", 2, 5), ("nt_xent", 1, 10)])
def test_orthonormal_instances(form: Form, terms: int, others: int) -> None:
    embeddings = torch.eye(6, dtype=torch.float64)[:, None].repeat(1, 2, 1)
    expected = terms * (math.log(math.exp(10) + others) - 10)
    assert InfoNCELoss(form=form)(embeddings).item() == pytest.approx(expected, rel=0, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_order_does_not_matter(form: Form) -> None:
    embeddings = batch()
    value = InfoNCELoss(form=form)(embeddings).item()
    assert InfoNCELoss(form=form)(embeddings.flip(1)).item() == pytest.approx(value, rel=0, abs=1e-12)
    assert InfoNCELoss(form=form)(embeddings.flip(0)).item() == pytest.approx(value, rel=0, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_the_derivatives_and_reach_all(form: Form) -> None:
    embeddings = batch(4, 3)
    assert torch.autograd.gradcheck(lambda each: InfoNCELoss(form=form)(each), (embeddings,))
    assert (graded(embeddings, form)[1].norm(dim=-1) > 1e-6).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 5, 19])
def test_block_by_block_is_the_same(form: Form, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings = batch(20)
    whole = graded(embeddings, form)
    keys = 40 if form == "nt_xent" else 20
    monkeypatch.setattr(cosine, "MAX_BLOCK_BYTES", rows * keys * 8)
    torch.testing.assert_close(graded(embeddings, form), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_zero_vectors_stay_finite(form: Form, dtype: torch.dtype) -> None:
    embeddings = batch()
    with torch.no_grad():
        embeddings[0, 1] = embeddings[5] = 0
    value, gradient = graded(embeddings.to(dtype), form)
    assert value.isfinite()
    assert gradient.isfinite().all()
    assert not gradient[5].any()


@pytest.mark.parametrize("form", FORMS)
def test_extreme_values(form: Form) -> None:
    embeddings = batch(32, 16)
    with torch.no_grad():
        embeddings /= embeddings.abs().amax(-1, keepdim=True)
    expected = InfoNCELoss(form=form)(embeddings).item()
    huge, gradient = graded((embeddings * 3e38).float(), form)
    assert huge.item() == pytest.approx(expected, rel=1e-5)
    assert gradient.isfinite().all()
    halves = embeddings.detach().bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        coarse = InfoNCELoss(form=form)(halves)
    assert coarse.dtype == torch.float32
    assert coarse.item() == pytest.approx(InfoNCELoss(form=form)(halves.double()).item(), rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        pytest.param((4, 8), {}, r"\(B, 2, E\)", id="no views"),
        pytest.param((4, 3, 8), {}, "two views", id="three views"),
        pytest.param((0, 2, 8), {}, "two views", id="empty"),
        pytest.param((4, 2, 8), {"temperature": -1.0}, "temperature: Input should be greater than 0", id="temperature"),
        pytest.param((4, 2, 8), {"form": "simclr"}, "form: Input should be 'two_view' or 'nt_xent'", id="form"),
    ],
)
def test_refuses_invalid_inputs(shape: tuple[int, ...], options: Any, message: str) -> None:
    with pytest.raises((ValueError, ConfigError), match=message):
        InfoNCELoss(**options)(torch.zeros(shape))
