"""Every registered method keeps the contract; its views are what the paper says they are."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.encoders import build_encoder
from clocs.methods import METHODS, Method, parse_method
from clocs.methods.byol import ByolModel

B, LEADS, SEGMENTS, SAMPLES, EMBEDDING, CLASSES = 6, 4, 2, 500, 16, 5


def frames_for(method: Method) -> Tensor:
    segments = SEGMENTS if method.purpose == "segments" else 1
    shape = (B, LEADS, segments, SAMPLES) if method.together else (B, segments, SAMPLES)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", METHODS.names())
def test_a_step_trains_everything_that_is_to_be_trained(name: str) -> None:
    torch.manual_seed(0)
    method: Method = parse_method({"name": name})
    views = method.views(frames_for(method), generator())
    assert views.shape[0] == B
    assert views.shape[2] == SAMPLES
    encoder = build_encoder("cnn", {"samples": SAMPLES, "embedding": EMBEDDING, "dropout": 0})
    model = method.model(encoder, EMBEDDING, CLASSES)
    assert model.encoder is encoder
    targets = torch.nn.functional.one_hot(torch.arange(B) % CLASSES, CLASSES).bool()
    loss = method.loss(model(views.unsqueeze(2)), torch.tensor([0, 0, 1, 2, 3, 4]), targets)
    assert math.isfinite(float(loss.detach()))
    torch.autograd.backward(loss)
    for parameter_name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, parameter_name
    method.after_step(model)


@pytest.mark.parametrize("name", METHODS.names())
def test_views_are_a_function_of_the_generator(name: str) -> None:
    method: Method = parse_method({"name": name})
    frames = frames_for(method)
    one, again, other = (method.views(frames, generator(seed)) for seed in (1, 1, 2))
    torch.testing.assert_close(one, again, rtol=0, atol=0)
    assert torch.equal(one, other) == (not method.draws)


@pytest.mark.parametrize(("name", "views"), [("cmsc", 2), ("cmlc", 4), ("cmsmlc", 8), ("simclr", 2), ("byol", 2)])
def test_the_number_of_views(name: str, views: int) -> None:
    method: Method = parse_method({"name": name})
    assert method.views(frames_for(method), generator()).shape[1] == views


def test_contrastive_views_are_segments_and_leads_as_they_are() -> None:
    cmsmlc: Method = parse_method({"name": "cmsmlc"})
    frames = frames_for(cmsmlc)
    views = cmsmlc.views(frames, generator())
    for lead in range(LEADS):
        for segment in range(SEGMENTS):
            torch.testing.assert_close(views[:, lead * SEGMENTS + segment], frames[:, lead, segment], rtol=0, atol=0)


def test_mtssl_has_the_original_and_one_view_a_task() -> None:
    method: Method = parse_method({"name": "mtssl"})
    frames = frames_for(method)
    views = method.views(frames, generator())
    assert views.shape[1] == 7, "six tasks on PhysioNet 2020"
    torch.testing.assert_close(views[:, 0], frames[:, 0], rtol=0, atol=0)
    torch.testing.assert_close(views[:, 3], -frames[:, 0], rtol=0, atol=0)
    torch.testing.assert_close(views[:, 4], frames[:, 0].flip(1), rtol=0, atol=0)


def test_byol_moves_its_target_by_the_decay() -> None:
    torch.manual_seed(0)
    method: Method = parse_method({"name": "byol", "decay": 0.75})
    model = method.model(build_encoder("cnn", {"samples": SAMPLES, "embedding": EMBEDDING}), EMBEDDING, 0)
    assert isinstance(model, ByolModel)
    before = [value.clone() for value in model.target.parameters()]
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.add_(1.0)
    method.after_step(model)
    for old, new in zip(before, model.target.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.25)


def test_perturbations_are_spelled_out_and_wrong_options_refused() -> None:
    method = parse_method({"name": "cmsc", "perturbations": ["gaussian"]})
    assert method.perturbations[0]["sigma"] == 0.01
    with pytest.raises(ConfigError, match="gausian"):
        parse_method({"name": "simclr", "perturbations": ["gausian"]})
    with pytest.raises(ConfigError, match="Did you mean 'cmsc'"):
        parse_method({"name": "cmcs"})
    with pytest.raises(ConfigError, match="temprature"):
        parse_method({"name": "cmsc", "temprature": 1})
