"""JEPA: its blocks, its loss against loops, and its moving average by hand."""

from __future__ import annotations

import doctest
import itertools
from collections import Counter
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

import clocs.methods.jepa
from clocs.core.errors import ConfigError
from clocs.encoders import PatchTransformer
from clocs.methods import JEPA, Batch
from tests.methods.test_masked import predicted

B, LEADS, PATCH, TOKENS = 3, 2, 10, 12


def made(head: bool = False, **options: Any) -> JEPA:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"patch_size": PATCH, "width": 8, "depth": 1, "num_heads": 2, "dropout": 0.2}
    encoder = PatchTransformer(LEADS, 5 if head else 8, **sizes, head="linear" if head else "none")
    given = {"num_targets": 2, "target_length": 0.25, "predictor_width": 6, "predictor_depth": 1, "num_heads": 3}
    return JEPA(encoder, **{**given, **options}).double()


def batch_for(method: JEPA, seed: int = 0) -> Batch:
    draws = torch.Generator().manual_seed(seed)
    signals = torch.randn((B, 1, LEADS, TOKENS * PATCH), generator=draws, dtype=torch.float64)
    views = method.views(signals, draws)
    return {"views": views, **method.draw_masks(views, draws)}


def literal_loss(method: JEPA, context: Tensor, whole: Tensor, batch: Batch, normalized: bool, smooth: bool) -> float:
    """Compute the mean over frames, blocks, tokens and dimensions from the tokens of context and whole frame."""
    distances: list[float] = []
    for n in range(B):
        for block in batch["blocks"][n]:
            rows = predicted(method.predictor, context[n], batch["keep"][n], block, heads=3)
            for t, row in zip(block.tolist(), rows, strict=True):
                target = whole[n, t].tolist()
                if normalized:
                    mean = sum(target) / len(target)
                    variance = sum((x - mean) ** 2 for x in target) / len(target)
                    target = [(x - mean) / (variance + 1e-5) ** 0.5 for x in target]
                for x, y in zip(row, target, strict=True):
                    d = abs(x - y)
                    distances.append((0.5 * d * d if d < 1 else d - 0.5) if smooth else d * d)
    return sum(distances) / len(distances)


@pytest.mark.parametrize(("normalized", "distance"), [(True, "squared"), (False, "squared"), (True, "smooth_l1")])
def test_the_loss_equals_the_loops(normalized: bool, distance: str) -> None:
    method = made(normalize_targets=normalized, distance=distance).eval()
    with torch.no_grad():
        for parameter in method.target.parameters():  # no longer a copy of the encoder
            parameter.add_(0.2 * torch.randn_like(parameter))
    batch = batch_for(method)
    signals = batch["views"][:, 0]
    context, whole = method.encoder.tokens(signals, keep=batch["keep"]), method.target.tokens(signals)
    expected = literal_loss(method, context, whole, batch, normalized, distance == "smooth_l1")
    assert float(method.validation_step(batch)["loss"].detach()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("options", "length", "kept"),
    [
        ({}, 3, 5),
        ({"context_ratio": 1.0}, 3, 6),
        ({"context_ratio": 0.01}, 3, 1),
        ({"num_targets": 11, "target_length": 0.01}, 1, 1),
        ({"num_targets": 1, "target_length": 0.9}, 11, 1),
    ],
)
def test_blocks_and_context_are_disjoint_and_their_sizes_fixed(options: Any, length: int, kept: int) -> None:
    method = made(**options)
    for seed in range(20):
        batch = batch_for(method, seed)
        assert batch["blocks"].shape == (B, method.num_targets, length)
        assert batch["keep"].shape == (B, kept)
        for keep, blocks in zip(batch["keep"].tolist(), batch["blocks"].tolist(), strict=True):
            inside = [t for block in blocks for t in block]
            assert inside == sorted(set(inside)), "blocks do not overlap"
            assert all(block == list(range(block[0], block[0] + length)) for block in blocks)
            outside = [t for t in range(TOKENS) if t not in inside]
            begin = outside.index(keep[0])
            assert keep == outside[begin : begin + kept], "a window over what is outside the blocks"


def test_every_arrangement_of_blocks_and_every_window_is_equally_likely() -> None:
    method = made(context_ratio=0.5)
    draws = torch.Generator().manual_seed(0)
    drawn = method.draw_masks(torch.zeros(6000, 1, LEADS, TOKENS * PATCH), draws)
    starts = Counter(map(tuple, drawn["blocks"][:, :, 0].tolist()))
    allowed = [(a, b) for a, b in itertools.combinations(range(TOKENS - 2), 2) if b >= a + 3]
    assert set(starts) <= set(allowed)
    assert scipy.stats.chisquare([starts[pair] for pair in allowed]).pvalue > 1e-3
    apart = torch.ones(6000, TOKENS).scatter_(1, drawn["blocks"].flatten(1), 0).cumsum(1) - 1
    begins = apart.gather(1, drawn["keep"][:, :1]).long().flatten()
    assert scipy.stats.chisquare(torch.bincount(begins, minlength=4).numpy()).pvalue > 1e-3


def test_masks_depend_only_on_the_generator() -> None:
    method = made()
    views = torch.randn(B, 1, LEADS, TOKENS * PATCH)
    one, again, other = (
        method.draw_masks(given, torch.Generator().manual_seed(seed))
        for given, seed in ((views, 1), (views + 1, 1), (views, 2))
    )
    assert all(torch.equal(value, again[name]) for name, value in one.items())
    assert not torch.equal(one["blocks"], other["blocks"])


def test_the_encoder_does_not_see_the_targets_and_the_target_encoder_sees_the_whole_frame() -> None:
    method = made().eval()
    batch = batch_for(method)
    other = batch["views"].clone()
    for n, blocks in enumerate(batch["blocks"].tolist()):
        for t in itertools.chain.from_iterable(blocks):
            other[n, :, :, t * PATCH : (t + 1) * PATCH] += 1
    one, two = method(batch), method({**batch, "views": other})
    assert torch.equal(one["prediction"], two["prediction"])
    assert not torch.equal(one["target"], two["target"])


def test_gradients_do_not_reach_the_target_encoder() -> None:
    method = made(head=True)
    outputs = method(batch_for(method))
    assert not outputs["target"].requires_grad
    torch.autograd.backward(method.loss(outputs, {}))
    assert all(value.grad is None and not value.requires_grad for value in method.target.parameters())
    assert all((value.grad is not None) == value.requires_grad for value in method.encoder.parameters())


def test_the_moving_average_by_hand() -> None:
    method = made(decay=0.5, final_decay=0.9, decay_steps=4)
    assert [method.decay_at(step) for step in (0, 1, 2, 4, 100)] == pytest.approx([0.5, 0.6, 0.7, 0.9, 0.9])
    expected = {name: value.clone() for name, value in method.target.named_parameters()}
    for step, decay in ((0, 0.5), (1, 0.6), (7, 0.9)):
        with torch.no_grad():
            for parameter in method.encoder.parameters():
                parameter.add_(1.0)
        for name, value in method.encoder.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * value.detach()
        method.after_step(step)
    for name, value in method.target.named_parameters():
        torch.testing.assert_close(value, expected[name], rtol=1e-12, atol=1e-12)


def test_the_target_encoder_is_saved_unless_the_other_is_asked_for() -> None:
    method, other = made(head=True), made(saved_encoder="online")
    assert method.trained_encoder() is method.target
    assert other.trained_encoder() is other.encoder
    method.after_step(0)
    assert torch.equal(method.target.state_dict()["linear.weight"], method.encoder.state_dict()["linear.weight"])


def test_targets_are_not_random_while_the_encoder_trains() -> None:
    method = made().train()
    assert method.encoder.training
    assert not method.target.training
    batch = batch_for(method)
    torch.manual_seed(1)
    one = method(batch)
    torch.manual_seed(2)
    two = method(batch)
    assert torch.equal(one["target"], two["target"])
    assert not torch.equal(one["prediction"], two["prediction"]), "dropout"


def test_targets_that_leave_no_context_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"4 targets of length 0\.25 leave no context"):
        made(num_targets=4)
    method = made(num_targets=4, target_length=0.2)
    with pytest.raises(ConfigError, match="4 targets of 1 patches leave no context in a frame of 3"):
        method.draw_masks(torch.zeros(B, 1, LEADS, 30), torch.Generator())


def test_the_examples_are_right() -> None:
    found = doctest.testmod(clocs.methods.jepa)
    assert found.attempted > 0
    assert found.failed == 0
