"""Patient NCE against Eq. 1-4 written out cell by cell, closed forms, symmetries, gradients, hard numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.losses import PatientNCELoss, cosine
from clocs.losses.patient_nce import OffDiagonals, Pairs

VARIANTS: list[tuple[OffDiagonals, Pairs]] = [
    (off, pairs) for off in get_args(OffDiagonals) for pairs in get_args(Pairs)
]


def batch(instances: int, views: int, size: int = 5, people: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return random float64 embeddings (B, V, E) with gradients, and patients (B,), some of them repeated."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(instances, views, size, generator=generator, dtype=torch.float64)
    patients = torch.randint(100, 100 + people, (instances,), generator=generator)
    return embeddings.requires_grad_(), patients


def similarity(first: list[float], second: list[float], temperature: float) -> float:
    """Compute equation 1."""
    dot = sum(x * y for x, y in zip(first, second, strict=True))
    norms = math.sqrt(sum(x * x for x in first)) * math.sqrt(sum(y * y for y in second))
    return dot / norms / temperature


def term(anchors: list[list[float]], others: list[list[float]], i: int, k: int, temperature: float) -> float:
    """Compute the bracket of equations 2 and 3."""
    total = sum(math.exp(similarity(anchors[i], other, temperature)) for other in others)
    return math.log(math.exp(similarity(anchors[i], others[k], temperature)) / total)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def literal(
    embeddings: Tensor, patients: Tensor, temperature: float, off_diagonals: OffDiagonals, view_pairs: Pairs
) -> float:
    """Compute equations 2-4 in loops, with the options of the released code and of one mean over all cells."""
    count, views, _ = embeddings.shape
    view: list[list[list[float]]] = embeddings.detach().transpose(0, 1).tolist()
    who = patients.tolist()
    cells = [(i, k) for i in range(count) for k in range(count) if i != k and who[i] == who[k]]
    upper = [(i, k) for i, k in cells if i < k]
    lower = [(i, k) for i, k in cells if i > k]
    # Cells (i, k) of the similarity matrix: i in the first view, k in the second. Columns are anchored at k.
    found = {"both": (cells, cells), "equal": (cells, cells), "one_triangle": (upper, lower), "none": ([], [])}
    rows, columns = found[off_diagonals]
    losses = []
    for a, b in combinations(range(views), 2):
        if off_diagonals == "equal":
            positive = [*cells, *((i, i) for i in range(count))]
            loss = -mean([term(view[a], view[b], i, k, temperature) for i, k in positive])
            losses.append(loss - mean([term(view[b], view[a], k, i, temperature) for i, k in positive]))
            continue
        loss = -mean([term(view[a], view[b], i, i, temperature) for i in range(count)])
        loss -= mean([term(view[b], view[a], i, i, temperature) for i in range(count)])
        loss -= mean([term(view[a], view[b], i, k, temperature) for i, k in rows])
        loss -= mean([term(view[b], view[a], k, i, temperature) for i, k in columns])
        losses.append(loss)
    return losses[-1] if view_pairs == "last" else mean(losses)


@pytest.mark.parametrize("views", range(2, 9))
@pytest.mark.parametrize(("off_diagonals", "view_pairs"), VARIANTS)
def test_equals_the_equations_written_out(views: int, off_diagonals: OffDiagonals, view_pairs: Pairs) -> None:
    embeddings, patients = batch(7, views, seed=views)
    loss = PatientNCELoss(off_diagonals=off_diagonals, view_pairs=view_pairs)(embeddings, patients)
    assert loss.dtype == torch.float64
    assert loss.item() == pytest.approx(literal(embeddings, patients, 0.1, off_diagonals, view_pairs), rel=0, abs=1e-10)


def literal_of_tensors(
    embeddings: Tensor, patients: Tensor, temperature: float, off_diagonals: OffDiagonals, view_pairs: Pairs
) -> Tensor:
    """Compute the same equations on (B, B) matrices, which autograd differentiates."""
    units = embeddings / embeddings.norm(dim=-1, keepdim=True)
    diagonal = torch.eye(len(embeddings), dtype=torch.bool)
    same = (patients[:, None] == patients) & ~diagonal
    above = {"both": (same, same), "one_triangle": (same.triu(), same.tril()), "none": (same & False,) * 2}
    losses = []
    for a, b in combinations(range(embeddings.shape[1]), 2):
        similarities = units[:, a] @ units[:, b].T / temperature
        rows, columns = -similarities.log_softmax(1), -similarities.log_softmax(0)
        if off_diagonals == "equal":
            losses.append((rows + columns)[same | diagonal].mean())
            continue
        loss = (rows + columns)[diagonal].mean()
        for terms, cells in zip((rows, columns), above[off_diagonals], strict=True):
            loss = loss + terms[cells].mean() if cells.any() else loss
        losses.append(loss)
    return losses[-1] if view_pairs == "last" else torch.stack(losses).mean()


@pytest.mark.parametrize("views", [2, 4])
@pytest.mark.parametrize(("off_diagonals", "view_pairs"), VARIANTS)
def test_gradients_equal_those_of_the_equations(views: int, off_diagonals: OffDiagonals, view_pairs: Pairs) -> None:
    embeddings, patients = batch(9, views, seed=views)
    fast = both(lambda each: PatientNCELoss(0.1, off_diagonals, view_pairs)(each, patients), embeddings)
    slow = both(lambda each: literal_of_tensors(each, patients, 0.1, off_diagonals, view_pairs), embeddings)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)


@settings(max_examples=40)
@given(
    who=st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 3), min_size=1, max_size=9),
    views=st.integers(2, 3),
    temperature=st.sampled_from([0.02, 0.1, 1.0, 7.0]),
    variant=st.sampled_from(VARIANTS),
    seed=st.integers(0, 1000),
)
def test_equals_the_equations_for_any_patients(
    who: list[int], views: int, temperature: float, variant: tuple[OffDiagonals, Pairs], seed: int
) -> None:
    embeddings, _ = batch(len(who), views, seed=seed)
    off_diagonals, view_pairs = variant
    patients = torch.tensor(who)
    loss = PatientNCELoss(temperature=temperature, off_diagonals=off_diagonals, view_pairs=view_pairs)(
        embeddings, patients
    )
    assert loss.item() == pytest.approx(literal(embeddings, patients, temperature, *variant), rel=0, abs=1e-10)


@pytest.mark.parametrize(("off_diagonals", "view_pairs"), VARIANTS)
def test_without_patients_every_instance_is_of_another(off_diagonals: OffDiagonals, view_pairs: Pairs) -> None:
    embeddings, _ = batch(7, 3)
    loss = PatientNCELoss(off_diagonals=off_diagonals, view_pairs=view_pairs)
    different = both(lambda each: loss(each, torch.arange(7)), embeddings)
    torch.testing.assert_close(both(loss, embeddings), different, rtol=0, atol=1e-12)


def test_the_options_differ() -> None:
    embeddings, patients = batch(9, 3)
    values = {
        PatientNCELoss(off_diagonals=off, view_pairs=view_pairs)(embeddings, patients).item()
        for off, view_pairs in VARIANTS
    }
    assert len(values) == len(VARIANTS)


@pytest.mark.parametrize("off_diagonals", get_args(OffDiagonals))
@pytest.mark.parametrize("distinct", [True, False])
def test_equal_embeddings_give_log_batch_per_term(off_diagonals: OffDiagonals, distinct: bool) -> None:
    embeddings = torch.ones(6, 3, 4, dtype=torch.float64)
    patients = torch.arange(6) // (1 if distinct else 2)
    terms = 2 if distinct or off_diagonals in ("equal", "none") else 4
    loss = PatientNCELoss(off_diagonals=off_diagonals)(embeddings, patients)
    assert loss.item() == pytest.approx(terms * math.log(6), rel=0, abs=1e-12)


def test_orthonormal_instances() -> None:
    """Similarity 1/t on the diagonal and 0 elsewhere: log(e^(1/t) + B - 1), less 1/t on the diagonal."""
    embeddings = torch.eye(6, dtype=torch.float64)[:, None].repeat(1, 2, 1)
    total = math.log(math.exp(10) + 5)
    alone = PatientNCELoss()(embeddings, torch.arange(6))
    repeated = PatientNCELoss()(embeddings, torch.tensor([0, 0, 0, 1, 2, 3]))
    assert alone.item() == pytest.approx(2 * (total - 10), rel=0, abs=1e-12)
    assert repeated.item() == pytest.approx(2 * (total - 10) + 2 * total, rel=0, abs=1e-12)


@pytest.mark.parametrize("off_diagonals", get_args(OffDiagonals))
def test_order_of_views_does_not_matter(off_diagonals: OffDiagonals) -> None:
    embeddings, patients = batch(10, 4)
    swapped = embeddings[:, [2, 0, 3, 1]]
    one, other = (PatientNCELoss(off_diagonals=off_diagonals)(each, patients) for each in (embeddings, swapped))
    assert one.item() == pytest.approx(other.item(), rel=0, abs=1e-12)


def test_order_of_the_batch_and_lengths_of_embeddings_do_not_matter() -> None:
    embeddings, patients = batch(10, 3)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(1))
    lengths = torch.linspace(0.1, 50, 30, dtype=torch.float64).reshape(10, 3, 1)
    loss = PatientNCELoss()(embeddings, patients).item()
    assert PatientNCELoss()(embeddings[order], patients[order]).item() == pytest.approx(loss, rel=0, abs=1e-12)
    assert PatientNCELoss()(embeddings * lengths, patients).item() == pytest.approx(loss, rel=0, abs=1e-12)


@pytest.mark.parametrize("off_diagonals", get_args(OffDiagonals))
@pytest.mark.parametrize("views", range(2, 9))
def test_every_view_and_instance_receives_gradient(views: int, off_diagonals: OffDiagonals) -> None:
    embeddings, patients = batch(9, views)
    (gradient,) = torch.autograd.grad(PatientNCELoss(off_diagonals=off_diagonals)(embeddings, patients), embeddings)
    assert (gradient.norm(dim=-1) > 1e-6).all()


def test_the_last_pair_trains_only_the_last_two_views() -> None:
    embeddings, patients = batch(9, 5)
    (gradient,) = torch.autograd.grad(PatientNCELoss(view_pairs="last")(embeddings, patients), embeddings)
    assert not gradient[:, :3].any()
    assert (gradient[:, 3:].norm(dim=-1) > 1e-6).all()


@pytest.mark.parametrize(("off_diagonals", "view_pairs"), VARIANTS)
@pytest.mark.parametrize("block", [None, 2])
def test_gradients_are_the_derivatives(off_diagonals: OffDiagonals, view_pairs: Pairs, block: int | None) -> None:
    embeddings, patients = batch(5, 3, size=3, people=2)

    def loss(values: Tensor) -> Tensor:
        found: Tensor = PatientNCELoss(off_diagonals=off_diagonals, view_pairs=view_pairs, block=block)(
            values, patients
        )
        return found

    assert torch.autograd.gradcheck(loss, (embeddings,))


def both(loss: Callable[[Tensor], Tensor], embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Return value and gradient."""
    leaf = embeddings.detach().clone().requires_grad_()
    value = loss(leaf)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient


@pytest.mark.parametrize(("off_diagonals", "view_pairs"), VARIANTS)
@pytest.mark.parametrize("block", [1, 4, 10, 99])
def test_block_by_block_is_the_same(off_diagonals: OffDiagonals, view_pairs: Pairs, block: int) -> None:
    embeddings, patients = batch(10, 4)
    options: dict[str, Any] = {"off_diagonals": off_diagonals, "view_pairs": view_pairs}
    whole = both(lambda each: PatientNCELoss(**options)(each, patients), embeddings)
    parts = both(lambda each: PatientNCELoss(block=block, **options)(each, patients), embeddings)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


def kept(loss: Callable[[], Tensor]) -> int:
    """Return the size of the largest tensor that is kept for the backward pass."""
    sizes = [0]

    def pack(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss()
    return max(sizes)


def test_large_batches_keep_no_similarities(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, patients = batch(300, 3, people=100)
    whole = both(lambda each: PatientNCELoss()(each, patients), embeddings)
    assert kept(lambda: PatientNCELoss()(embeddings, patients)) == embeddings.numel()
    monkeypatch.setattr(cosine, "MAX_BLOCK_BYTES", 64 * 3 * 300 * 8)
    parts = both(lambda each: PatientNCELoss()(each, patients), embeddings)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("block", [None, 3])
@pytest.mark.parametrize("off_diagonals", get_args(OffDiagonals))
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_zero_vectors_have_similarity_zero(dtype: torch.dtype, off_diagonals: OffDiagonals, block: int | None) -> None:
    embeddings, patients = batch(8, 3)
    with torch.no_grad():
        embeddings[0, 1] = embeddings[5] = 0
    value, gradient = both(
        lambda each: PatientNCELoss(off_diagonals=off_diagonals, block=block)(each, patients), embeddings.to(dtype)
    )
    assert value.isfinite()
    assert gradient.isfinite().all()
    assert not gradient[5].any()
    assert (gradient[1:5].norm(dim=-1) > 0).all()


def test_only_zero_vectors_give_log_batch_per_term() -> None:
    value, gradient = both(lambda each: PatientNCELoss()(each, torch.arange(8) // 2), torch.zeros(8, 2, 4))
    assert value.item() == pytest.approx(4 * math.log(8), rel=1e-6)
    assert not gradient.any()


@pytest.mark.parametrize("length", [1e-9, 1e15, 1e30, 3e38])
def test_float32_works_for_any_length(length: float) -> None:
    embeddings, patients = batch(8, 3)
    with torch.no_grad():
        embeddings /= embeddings.abs().amax(-1, keepdim=True)
    value, gradient = both(lambda each: PatientNCELoss()(each, patients), (embeddings * length).float())
    assert value.item() == pytest.approx(literal(embeddings, patients, 0.1, "both", "all"), rel=1e-5)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("temperature", [1e-4, 1e-2, 1e3])
def test_float32_works_for_any_temperature(temperature: float) -> None:
    embeddings, patients = batch(8, 3)
    single = both(lambda each: PatientNCELoss(temperature=temperature)(each, patients), embeddings.float())
    double = both(lambda each: PatientNCELoss(temperature=temperature)(each, patients), embeddings)
    assert single[0].item() == pytest.approx(double[0].item(), rel=1e-5)
    assert single[1].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_computed_in_float32(dtype: torch.dtype) -> None:
    embeddings, patients = batch(32, 4, size=16, people=10)
    halves = embeddings.detach().to(dtype)
    value, gradient = both(lambda each: PatientNCELoss()(each, patients), halves)
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert value.item() == pytest.approx(PatientNCELoss()(halves.double(), patients).item(), rel=1e-6)


@pytest.mark.parametrize("block", [None, 8])
def test_autocast_does_not_reduce_the_precision_of_similarities(block: int | None) -> None:
    embeddings, patients = batch(32, 3, size=16, people=10)

    def coarse(values: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found: Tensor = PatientNCELoss(block=block)(values, patients)
        return found

    plain = both(lambda each: PatientNCELoss(block=block)(each, patients), embeddings.float())
    torch.testing.assert_close(both(coarse, embeddings.float()), plain, rtol=0, atol=0)


def test_float32_does_not_lose_rare_pairs_in_a_large_batch() -> None:
    """One repeated patient among 2,000: its two cells must not drown in the rounding of all the diagonal."""
    embeddings, _ = batch(2000, 1, size=16)
    alike = embeddings.repeat(1, 2, 1)
    patients = torch.arange(2000)
    patients[-1] = 0
    single, double = (PatientNCELoss()(each, patients).item() for each in (alike.float(), alike))
    assert single == pytest.approx(double, rel=1e-6)


@pytest.mark.parametrize(
    ("shape", "people", "options", "message"),
    [
        pytest.param((4, 8), 4, {}, r"\(B, V, E\)", id="no views"),
        pytest.param((4, 1, 8), 4, {}, "V >= 2", id="one view"),
        pytest.param((0, 2, 8), 0, {}, r"\(0, 2, 8\)", id="empty"),
        pytest.param((4, 2, 8), 3, {}, "Expected patients of shape", id="patients"),
        pytest.param((4, 2, 8), 4, {"temperature": 0.0}, "temperature: .* greater than 0", id="temperature"),
        pytest.param(
            (4, 2, 8), 4, {"off_diagonals": "two"}, "off_diagonals: .* 'one_triangle' or 'none'", id="off_diagonals"
        ),
        pytest.param((4, 2, 8), 4, {"view_pairs": "first"}, "pairs: .* 'all' or 'last'", id="view_pairs"),
        pytest.param((4, 2, 8), 4, {"block": 0}, "block: .* greater than or equal to 1", id="block"),
    ],
)
def test_refuses_invalid_inputs(shape: tuple[int, ...], people: int, options: Any, message: str) -> None:
    with pytest.raises((ValueError, ConfigError), match=message):
        PatientNCELoss(**options)(torch.zeros(shape), torch.arange(people))
