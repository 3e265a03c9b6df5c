"""Every registered method satisfies the interface, and its views are those of the paper."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import scipy.stats
import torch
from torch import Tensor

from clocs.core.errors import ConfigError
from clocs.core.options import option_names
from clocs.encoders import CNN, Encoder, PatchTransformer, ResNet
from clocs.losses import PatientNCELoss
from clocs.methods import BYOL, CMSC, CMSMLC, METHODS, MTSSL, Batch, Method, build_method, register
from clocs.methods.method import RUN_ARGUMENTS, non_default_method, parse_method

B, LEADS, SEGMENTS, SAMPLES, EMBEDDING, CLASSES = 6, 4, 2, 500, 16, 5
SEVERAL = [name for name in METHODS.names() if not METHODS.get(name).leads_as_views]
"""Methods for encoders of several leads."""


def made(name: str, **options: Any) -> Method:
    torch.manual_seed(0)
    part = METHODS.get(name)
    encoder: Encoder = CNN(1, EMBEDDING, SAMPLES, dropout=0)
    if part.needs_patches:
        encoder = patches()
    elif part.needs_tokens:
        encoder = ResNet(embedding_dim=EMBEDDING, width=4, depth=2)  # 25 tokens; the other has one
    return build_method({"name": name, **options}, encoder, CLASSES)


def patches(in_channels: int = 1) -> Encoder:
    """Return an encoder of patches, for methods that leave some out."""
    return PatchTransformer(in_channels, EMBEDDING, patch_size=20, width=8, depth=1, num_heads=2)


def frames_for(method: Method) -> Tensor:
    segments = SEGMENTS if method.frame_policy == "segments" else 1
    leads = LEADS if method.leads_as_views else method.encoder.in_channels
    return torch.randn((B, segments, leads, SAMPLES), generator=generator())


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batch_for(method: Method, seed: int = 0) -> Batch:
    draws = generator(seed)
    views = method.views(frames_for(method), draws)
    target = torch.nn.functional.one_hot(torch.arange(B) % CLASSES, CLASSES).bool()
    known = {"patient": torch.tensor([0, 0, 1, 2, 3, 4]), "item": torch.arange(B), "target": target}
    return {"views": views, **method.draw_masks(views, draws), **known}


@pytest.mark.parametrize("name", METHODS.names())
def test_a_step_changes_all_trainable_parameters(name: str) -> None:
    method = made(name)
    batch = batch_for(method)
    assert batch["views"].shape[0] == B
    assert batch["views"].shape[2:] == (method.encoder.in_channels, SAMPLES)
    loss = method.training_step(batch, 0)
    assert loss.shape == ()
    assert math.isfinite(float(loss.detach()))
    torch.autograd.backward(loss)
    for parameter_name, parameter in method.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, parameter_name
    method.after_step(0)


@pytest.mark.parametrize("name", SEVERAL)
def test_a_method_trains_an_encoder_of_twelve_leads_and_ignores_missing_leads(name: str) -> None:
    torch.manual_seed(0)
    convolutional = ResNet(in_channels=12, embedding_dim=EMBEDDING, width=4, depth=2)
    encoder = patches(12) if METHODS.get(name).needs_patches else convolutional
    method = build_method({"name": name}, encoder, CLASSES)
    batch = batch_for(method)
    assert batch["views"].shape[2:] == (12, SAMPLES)
    mask = torch.ones(batch["views"].shape[:3], dtype=torch.bool)
    mask[:, :, 3] = False
    other = batch["views"].clone()
    other[:, :, 3] += 7
    one, two = (
        copy.deepcopy(method).training_step({**batch, "views": views, "lead_mask": mask}, 0)
        for views in (batch["views"], other)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, copy.deepcopy(method).training_step(batch, 0))


@pytest.mark.parametrize("name", METHODS.names())
def test_views_are_a_function_of_the_generator(name: str) -> None:
    method = made(name)
    one, again, other = (batch_for(method, seed) for seed in (1, 1, 2))
    assert all(torch.equal(value, again[key]) for key, value in one.items())
    assert all(torch.equal(value, other[key]) for key, value in one.items()) == (not method.is_stochastic)


@pytest.mark.parametrize("name", METHODS.names())
def test_validation_in_eval_mode_gives_the_loss_and_scores_where_there_are_labels(name: str) -> None:
    method = made(name).eval()
    batch = batch_for(method)
    with torch.no_grad():
        found = method.validation_step(batch)
        assert torch.equal(found["loss"], method.loss(method(batch), batch))
    assert set(found) == ({"loss", "scores"} if method.needs_labels else {"loss"})


@pytest.mark.parametrize("name", METHODS.names())
def test_options_are_attributes_and_build_the_same_method_again(name: str) -> None:
    method, parsed = made(name), parse_method({"name": name})
    assert {"name", *option_names(type(method), exclude=RUN_ARGUMENTS)} == parsed.keys()
    for option, value in parsed.items():
        if option not in ("name", "augmentations"):
            assert getattr(method, option) == value
    assert parse_method(parsed) == parsed
    assert non_default_method(parsed) == {"name": name}


@pytest.mark.parametrize(
    ("name", "views"), [("cmsc", 2), ("cmlc", 4), ("cmsmlc", 8), ("simclr", 2), ("byol", 2), ("vicreg", 2), ("cpc", 1)]
)
def test_the_number_of_views(name: str, views: int) -> None:
    method = made(name)
    assert method.views(frames_for(method), generator()).shape[1] == views


def test_contrastive_views_are_segments_and_leads_as_they_are() -> None:
    method = made("cmsmlc")
    frames = frames_for(method)
    views = method.views(frames, generator())
    for lead in range(LEADS):
        for segment in range(SEGMENTS):
            assert torch.equal(views[:, lead * SEGMENTS + segment, 0], frames[:, segment, lead])


def test_mtssl_has_the_original_and_one_view_per_task() -> None:
    method = made("mtssl")
    frames = frames_for(method)
    views = method.views(frames, generator())
    assert views.shape[1] == 7, "six tasks on PhysioNet 2020"
    assert torch.equal(views[:, 0], frames[:, 0])
    assert torch.equal(views[:, 3], -frames[:, 0])
    assert torch.equal(views[:, 4], frames[:, 0].flip(2))


def test_mtssl_applies_tasks_with_probability_one() -> None:
    given: list[Any] = ["flip_time", {"name": "scaling", "probability": 0}]
    parsed = parse_method({"name": "mtssl", "augmentations": given})
    assert [task["probability"] for task in parsed["augmentations"]] == [1, 1]
    method = MTSSL(ResNet(embedding_dim=EMBEDDING), augmentations=given)
    views = method.views(frames_for(method), generator())
    assert not (views[:, 1:] == views[:, :1]).all(dim=-1).any()
    with pytest.raises(ConfigError, match="one augmentation or more"):
        MTSSL(ResNet(), augmentations=[])


def test_byol_moves_its_target_by_the_decay() -> None:
    method = made("byol", decay=0.75)
    assert isinstance(method, BYOL)
    before = [value.clone() for value in method.target.parameters()]
    with torch.no_grad():
        for parameter in method.encoder.parameters():
            parameter.add_(1.0)
    method.after_step(0)
    for old, new in zip(before, method.target.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.25)


@pytest.mark.parametrize("name", ["cmsc", "cmlc", "cmsmlc", "simclr"])
def test_a_projection_head_is_trained_beside_the_encoder(name: str) -> None:
    """Against its four layers written out; parameters by hand: 16 x 24, twice 24, 24 x 16 + 16."""
    method = made(name, projection_hidden_dim=24)
    head = {key: value for key, value in method.state_dict().items() if not key.startswith("encoder.")}
    assert {key.partition(".")[0] for key in head} == {"projection"}
    every, own = (sum(value.numel() for value in part.parameters()) for part in (method, method.encoder))
    assert every - own == 16 * 24 + 2 * 24 + (24 * 16 + 16)

    batch = batch_for(method)
    outputs = method(batch)
    hidden = method.encoder(batch["views"].flatten(0, 1)) @ head["projection.0.weight"].T
    hidden = (hidden - hidden.mean(0)) / (hidden.var(0, correction=0) + 1e-5).sqrt()  # gain 1 and shift 0 at first
    expected = hidden.clamp(min=0) @ head["projection.3.weight"].T + head["projection.3.bias"]
    torch.testing.assert_close(outputs, expected.view(B, -1, EMBEDDING), rtol=1e-4, atol=1e-5)
    torch.autograd.backward(method.loss(outputs, batch))
    assert all(value.grad is not None for value in method.parameters())


@pytest.mark.parametrize("name", METHODS.names())
def test_without_a_head_only_those_with_one_of_their_own_have_more_than_an_encoder(name: str) -> None:
    beside = {key.partition(".")[0] for key in made(name).state_dict()} - {"encoder"}
    own = {"byol": {"predictor", "target"}, "mtssl": {"heads"}, "supervised": {"head"}}
    own |= {"mae": {"decoder"}, "jepa": {"predictor", "target"}}
    own |= {"vicreg": {"expander"}, "cpc": {"context", "predictors"}}
    assert beside == own.get(name, set())


def test_a_random_pair_is_each_segment_of_a_lead_drawn_for_it() -> None:
    """2,000 instances whose values say which lead and segment they are: all 16 pairs of leads are as likely."""
    method = CMSMLC(ResNet(), view_choice="random_pair")
    lead, segment = torch.arange(LEADS).view(1, 1, LEADS, 1), torch.arange(SEGMENTS).view(1, SEGMENTS, 1, 1)
    frames = (10.0 * lead + segment).expand(2000, SEGMENTS, LEADS, 3)
    views = method.views(frames, generator())
    assert views.shape == (2000, SEGMENTS, 1, 3)
    assert torch.equal(views % 10, torch.arange(2.0).view(1, 2, 1, 1).expand_as(views)), "segments stay where they are"
    leads = (views[..., 0, 0] // 10).long()
    counts = torch.bincount(LEADS * leads[:, 0] + leads[:, 1], minlength=LEADS**2)
    assert scipy.stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_random_pairs_are_drawn_and_their_loss_is_that_of_one_pair() -> None:
    method, plain = made("cmsmlc", view_choice="random_pair"), made("cmsmlc")
    assert method.is_stochastic
    assert not plain.is_stochastic
    frames = frames_for(method)
    one = method.views(frames, generator(1))
    outputs, patients = torch.randn(B, 2, EMBEDDING), torch.tensor([0, 0, 1, 2, 3, 4])
    expected = PatientNCELoss()(outputs, patients)
    torch.testing.assert_close(method.loss(outputs, {"patient": patients}), expected)
    noisy = made("cmsmlc", view_choice="random_pair", augmentations=["gaussian_noise"])
    assert 0 < float((noisy.views(frames, generator(1)) - one).abs().max()) < 0.1, "leads are drawn first"


def test_augmentations_are_described_with_all_options_and_wrong_ones_refused() -> None:
    parsed = parse_method({"name": "cmsc", "augmentations": ["gaussian_noise"]})
    assert parsed["augmentations"][0]["sigma"] == 0.01
    assert non_default_method(parsed)["augmentations"] == [{"name": "gaussian_noise"}]
    with pytest.raises(ConfigError, match="gausian"):
        parse_method({"name": "simclr", "augmentations": ["gausian"]})
    with pytest.raises(ConfigError, match="Did you mean 'cmsc'"):
        parse_method({"name": "cmcs"})
    with pytest.raises(ConfigError, match="did you mean 'temperature'"):
        parse_method({"name": "cmsc", "temprature": 1})


@pytest.mark.parametrize("given", [12, None, True])
def test_augmentations_that_are_no_list_are_refused_with_all_other_errors(given: object) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_method({"name": "simclr", "augmentations": given, "temperature": math.inf, "projection_hidden_dim": True})
    for part in (
        f"augmentations: expected a list of names, got {given}",
        "temperature: ",
        "projection_hidden_dim: must be a number",
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("name", "segments", "views", "needs"),
    [
        ("cmsc", 1, 1, "two views or more of an instance"),
        ("cmlc", 1, 1, "two views or more of an instance"),
        *(("cmsc", 2, 2, None), ("cmlc", 1, 4, None), ("cmlc", 2, 8, None), ("cmsmlc", 2, 8, None)),
        *((name, 1, 2, None) for name in ("simclr", "byol", "mtssl", "supervised")),
        *((name, 1, 1, None) for name in ("mae", "jepa")),
        *((name, 2, 2, "one segment a frame") for name in ("mae", "jepa")),
        *((name, 2, 4, "one segment a frame") for name in ("simclr", "byol", "mtssl", "supervised")),
    ],
)
def test_requirements_of_methods(name: str, segments: int, views: int, needs: str | None) -> None:
    assert made(name).unsupported_frames(segments, views) == needs


def test_leads_as_views_need_an_encoder_of_one_lead() -> None:
    with pytest.raises(ConfigError, match=r"got Linear\. .*encoders\.wrap"):
        CMSC(torch.nn.Linear(500, 16))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="takes one lead, not 12"):
        CMSMLC(ResNet(in_channels=12))


def test_a_class_that_breaks_the_contract_is_not_registered() -> None:
    class NoViews(CMSC):
        frame_policy = "beats"  # type: ignore[assignment]
        needs_labels = True

        def __init__(self, network: object) -> None: ...

    class Abstract(Method):
        pass

    with pytest.raises(ConfigError, match=r"frame_policy must be .*first parameter must be 'encoder'.*num_classes"):
        register("wrong")(NoViews)
    with pytest.raises(ConfigError, match="implement forward, loss, views"):
        register("wrong")(Abstract)
    with pytest.raises(ConfigError, match="must be a subclass of"):
        register("wrong")(dict)
    assert "wrong" not in METHODS.names()
