"""Every registered method keeps the contract; its views are what the paper says they are."""

from __future__ import annotations

import math

import pytest
import scipy.stats
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


def test_mtssl_applies_tasks_for_certain_however_they_are_named() -> None:
    method: Method = parse_method(
        {"name": "mtssl", "augmentations": ["flip_time", {"name": "scaling", "probability": 0}]}
    )
    views = method.views(frames_for(method), generator())
    assert not (views[:, 1:] == views[:, :1]).all(dim=2).any()


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


@pytest.mark.parametrize("name", ["cmsc", "cmlc", "cmsmlc", "simclr"])
def test_a_projection_head_is_trained_beside_the_encoder(name: str) -> None:
    """Against its four layers written out; parameters by hand: 16 x 24, twice 24, 24 x 16 + 16."""
    method: Method = parse_method({"name": name, "head": 24})
    encoder = build_encoder("cnn", {"samples": SAMPLES, "embedding": EMBEDDING, "dropout": 0})
    model = method.model(encoder, EMBEDDING, CLASSES)
    assert model.encoder is encoder
    head = {key: value for key, value in model.state_dict().items() if not key.startswith("encoder.")}
    assert {key.partition(".")[0] for key in head} == {"projection"}
    added = sum(value.numel() for value in model.parameters()) - sum(value.numel() for value in encoder.parameters())
    assert added == 16 * 24 + 2 * 24 + (24 * 16 + 16)

    views = method.views(frames_for(method), generator()).unsqueeze(2)
    outputs = model(views)
    hidden = encoder(views.flatten(0, 1)) @ head["projection.0.weight"].T
    hidden = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt()  # gain 1 and shift 0 at first
    expected = hidden.clamp(min=0) @ head["projection.3.weight"].T + head["projection.3.bias"]
    torch.testing.assert_close(outputs, expected.view(B, -1, EMBEDDING), rtol=1e-4, atol=1e-5)
    torch.autograd.backward(method.loss(outputs, torch.arange(B), torch.zeros(B, 0)))
    assert all(value.grad is not None for value in model.parameters())


@pytest.mark.parametrize("name", METHODS.names())
def test_without_a_head_only_those_with_one_of_their_own_have_more_than_an_encoder(name: str) -> None:
    method: Method = parse_method({"name": name})
    encoder = build_encoder("cnn", {"samples": SAMPLES, "embedding": EMBEDDING})
    beside = {key.partition(".")[0] for key in method.model(encoder, EMBEDDING, CLASSES).state_dict()} - {"encoder"}
    own = {"byol": {"predictor", "target"}, "mtssl": {"heads"}, "supervised": {"head"}}
    assert beside == own.get(name, set())


def test_a_random_pair_is_each_segment_of_a_lead_drawn_for_it() -> None:
    """2,000 instances whose values say which lead and segment they are: all 16 pairs of leads are as likely."""
    method: Method = parse_method({"name": "cmsmlc", "view_choice": "random_pair"})
    lead, segment = torch.arange(LEADS).view(1, LEADS, 1, 1), torch.arange(SEGMENTS).view(1, 1, SEGMENTS, 1)
    frames = (10.0 * lead + segment).expand(2000, LEADS, SEGMENTS, 3)
    views = method.views(frames, generator())
    assert views.shape == (2000, SEGMENTS, 3)
    assert torch.equal(views % 10, torch.arange(2.0).view(1, 2, 1).expand_as(views)), "segments stay where they are"
    leads = (views[..., 0] // 10).long()
    counts = torch.bincount(LEADS * leads[:, 0] + leads[:, 1], minlength=LEADS**2)
    assert scipy.stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_random_pairs_are_drawn_and_their_loss_is_that_of_one_pair() -> None:
    method: Method = parse_method({"name": "cmsmlc", "view_choice": "random_pair"})
    assert method.draws
    assert not parse_method({"name": "cmsmlc"}).draws
    frames = frames_for(method)
    one, again, other = (method.views(frames, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    embeddings, patients = torch.randn(B, 2, EMBEDDING), torch.tensor([0, 0, 1, 2, 3, 4])
    cmsc: Method = parse_method({"name": "cmsc"})
    expected = cmsc.loss(embeddings, patients, torch.zeros(B, 0))
    torch.testing.assert_close(method.loss(embeddings, patients, torch.zeros(B, 0)), expected)
    noisy: Method = parse_method({"name": "cmsmlc", "view_choice": "random_pair", "augmentations": ["gaussian_noise"]})
    assert 0 < float((noisy.views(frames, generator(1)) - one).abs().max()) < 0.1, "leads are drawn first"


def test_augmentations_are_spelled_out_and_wrong_options_refused() -> None:
    method = parse_method({"name": "cmsc", "augmentations": ["gaussian_noise"]})
    assert method.augmentations[0]["sigma"] == 0.01
    with pytest.raises(ConfigError, match="gausian"):
        parse_method({"name": "simclr", "augmentations": ["gausian"]})
    with pytest.raises(ConfigError, match="Did you mean 'cmsc'"):
        parse_method({"name": "cmcs"})
    with pytest.raises(ConfigError, match="did you mean 'temperature'"):
        parse_method({"name": "cmsc", "temprature": 1})


@pytest.mark.parametrize("given", [12, None, True])
def test_augmentations_that_are_no_list_are_refused_with_all_else_that_is_wrong(given: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_method({"name": "simclr", "augmentations": given, "temperature": math.inf, "head": True})
    for part in (f"augmentations: give a list of names, not {given}", "temperature: ", "head: must be a number"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "segments", "views", "needs"),
    [
        ("cmsc", 1, 1, "two views or more of an instance"),
        ("cmlc", 1, 1, "two views or more of an instance"),
        *(("cmsc", 2, 2, None), ("cmlc", 1, 4, None), ("cmlc", 2, 8, None), ("cmsmlc", 2, 8, None)),
        *((name, 1, 2, None) for name in ("simclr", "byol", "mtssl", "supervised")),
        *((name, 2, 4, "one segment a frame") for name in ("simclr", "byol", "mtssl", "supervised")),
    ],
)
def test_a_method_says_what_it_needs(name: str, segments: int, views: int, needs: str | None) -> None:
    assert parse_method({"name": name}).needs(segments, views) == needs
