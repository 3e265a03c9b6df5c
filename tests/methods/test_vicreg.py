"""VICReg: its views, its expander written out, and a loss that trains an encoder away from a collapse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from clocs.encoders import ResNet
from clocs.losses import VICRegLoss
from clocs.methods import VICReg

B, SAMPLES, EMBEDDING, WIDTH = 8, 250, 6, 10


def frames(segments: int = 1, leads: int = 1) -> Tensor:
    draws = torch.Generator().manual_seed(0)
    return torch.randn((B, segments, leads, SAMPLES), generator=draws, dtype=torch.float64)


def made(leads: int = 1, **options: Any) -> VICReg:
    torch.manual_seed(0)
    encoder = ResNet(in_channels=leads, embedding_dim=EMBEDDING, width=4, depth=2)
    return VICReg(encoder, width=WIDTH, **options).double()


def test_views_are_copies_of_one_segment_or_the_two_segments() -> None:
    plain = VICReg(ResNet(), augmentations=())
    one, two = frames(), frames(2)
    assert torch.equal(plain.views(one, torch.Generator()), one.repeat(1, 2, 1, 1))
    assert torch.equal(plain.views(two, torch.Generator()), two)
    views = VICReg(ResNet()).views(one, torch.Generator())
    assert not torch.equal(views[:, 0], views[:, 1])
    assert [plain.unsupported_frames(segments, 2) for segments in (1, 2)] == [None, None]
    assert plain.unsupported_frames(3, 3) == "one or two segments a frame"


def test_the_expander_and_the_loss_written_out() -> None:
    """Linear, BatchNorm, ReLU, twice, and Linear, on the views of all instances at once."""
    method = made(leads=12, invariance=3.0, variance=2.0, covariance=0.5)
    batch = {"views": method.views(frames(leads=12), torch.Generator())}
    weights = {key: value for key, value in method.state_dict().items() if key.startswith("expander.")}
    hidden = method.encoder(batch["views"].flatten(0, 1))
    for linear, norm in ((0, 1), (3, 4)):
        hidden = hidden @ weights[f"expander.{linear}.weight"].T
        hidden = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt()
        hidden = (hidden * weights[f"expander.{norm}.weight"] + weights[f"expander.{norm}.bias"]).clamp(min=0)
    expected = (hidden @ weights["expander.6.weight"].T + weights["expander.6.bias"]).view(B, 2, WIDTH)
    torch.testing.assert_close(method(batch), expected, rtol=1e-10, atol=1e-10)
    loss = VICRegLoss(3.0, 2.0, 0.5)(expected)
    torch.testing.assert_close(method.training_step(batch, 0), loss, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("term", ["variance", "covariance"])
def test_each_term_falls_when_it_is_trained_alone(term: str) -> None:
    weights: dict[str, Any] = {"invariance": 0.0, "variance": 0.0, "covariance": 0.0, term: 1.0}
    method = made(**weights)
    batch = {"views": method.views(frames(), torch.Generator().manual_seed(0))}
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-2)
    losses = []
    for step in range(20):
        optimizer.zero_grad()
        loss = method.training_step(batch, step)
        torch.autograd.backward(loss)
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
