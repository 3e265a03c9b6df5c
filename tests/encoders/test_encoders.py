"""Contract tests of every registered encoder; the registry; encoders in configs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders import ENCODERS, Encoder, PCAEncoder, ResNet, build_encoder, register, wrap
from clocs.encoders.encoder import describe_encoder, parse_encoder
from tests import forked

RESNET = {"name": "resnet", "depth": 2}
NEEDED: dict[str, dict[str, Any]] = {
    "pca": {"encoder": RESNET},
    "lead_and_joint": {"lead_encoder": RESNET, "joint_encoder": RESNET},
}
"""Options without a default."""
NUM_SAMPLES = 500


def small(name: str, **options: Any) -> Encoder:
    """Build an encoder for frames of ``NUM_SAMPLES``, where it has to know their length."""
    needed = dict(NEEDED.get(name, {}))
    try:
        return build_encoder(name, {**needed, "num_samples": NUM_SAMPLES, **options})
    except ConfigError:
        return build_encoder(name, {**needed, **options})


def outputs(encoder: Encoder) -> list[Callable[..., Tensor]]:
    """Return the functions that give the outputs which an encoder has."""
    sizes = {encoder.tokens: encoder.token_dim, encoder.features: encoder.num_features}
    return [encoder, *(call for call, size in sizes.items() if size is not None)]


every_encoder = pytest.mark.parametrize("name", ENCODERS.names())


def test_the_encoders_of_the_package_are_registered() -> None:
    assert ENCODERS.names() == ["cnn", "lead_and_joint", "patch_transformer", "pca", "resnet", "s4d"]


@every_encoder
@pytest.mark.parametrize("in_channels", [1, 2, 12])
def test_shapes_and_gradients(name: str, in_channels: int) -> None:
    torch.manual_seed(0)
    encoder = small(name, in_channels=in_channels, embedding_dim=6)
    assert (encoder.in_channels, encoder.embedding_dim) == (in_channels, 6)
    embeddings = encoder(torch.randn(3, in_channels, NUM_SAMPLES))
    assert embeddings.shape == (3, 6)
    embeddings.square().sum().backward()
    for parameter in encoder.parameters():
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()


@every_encoder
def test_a_frozen_head_leaves_the_token_layers_trainable(name: str) -> None:
    encoder = small(name, in_channels=2)
    encoder.freeze_head()
    frozen = [parameter for parameter in encoder.parameters() if not parameter.requires_grad]
    if encoder.token_dim is not None:
        torch.autograd.backward(encoder.tokens(torch.randn(3, 2, NUM_SAMPLES)).square().sum())
        assert all((value.grad is not None) == value.requires_grad for value in encoder.parameters())
        assert frozen
    assert encoder(torch.randn(3, 2, NUM_SAMPLES)).shape == (3, encoder.embedding_dim)


@every_encoder
def test_only_encoders_of_patches_leave_tokens_out(name: str) -> None:
    encoder, signals = small(name, in_channels=2), torch.randn(3, 2, NUM_SAMPLES)
    if encoder.token_dim is None:
        return
    keep = torch.zeros(3, 1, dtype=torch.int64)
    if encoder.patch_size is None:
        with pytest.raises(ConfigError, match="cannot leave tokens out"):
            encoder.tokens(signals, keep=keep)
    else:
        assert encoder.tokens(signals, keep=keep).shape == (3, 1, encoder.token_dim)
        assert encoder.num_tokens(NUM_SAMPLES) == NUM_SAMPLES // encoder.patch_size


@every_encoder
def test_features_give_the_embedding_where_an_encoder_says_so(name: str) -> None:
    encoder, signals = small(name, in_channels=2).eval(), torch.randn(3, 2, NUM_SAMPLES)
    if encoder.num_features is None:
        return
    with torch.no_grad():
        embeddings = encoder.embed_features(encoder.features(signals))
        assert (embeddings is None) == (name == "cnn")
        if embeddings is not None:
            torch.testing.assert_close(embeddings, encoder(signals))


@every_encoder
def test_tokens_and_features_have_the_stated_sizes(name: str) -> None:
    encoder = small(name, in_channels=2).eval()
    for num_samples in (400, 401, 499, 500, 1234):
        signals = torch.randn(2, 2, num_samples)
        if encoder.token_dim is None:
            with pytest.raises(ConfigError, match="has no tokens"):
                encoder.tokens(signals)
        else:
            expected = (2, encoder.num_tokens(num_samples), encoder.token_dim)
            assert encoder.tokens(signals).shape == expected
        if encoder.num_features is None:
            with pytest.raises(ConfigError, match="has no features"):
                encoder.features(signals)
        else:
            assert encoder.features(signals).shape == (2, encoder.num_features)


@every_encoder
def test_an_absent_lead_is_a_zero_lead(name: str) -> None:
    torch.manual_seed(1)
    encoder = small(name, in_channels=3).eval()
    signals = torch.randn(4, 3, NUM_SAMPLES)
    mask = torch.tensor([[True, True, True], [True, False, True], [False, False, True], [True, True, False]])
    zeroed = signals * mask.unsqueeze(2)
    signals[~mask] = torch.nan  # any values of an absent lead
    for call in outputs(encoder):
        torch.testing.assert_close(call(signals, mask), call(zeroed), rtol=0, atol=0)
    whole = torch.ones(4, 3, dtype=torch.bool)
    torch.testing.assert_close(encoder(zeroed, whole), encoder(zeroed), rtol=0, atol=0)
    with pytest.raises(ConfigError, match=r"Expected a lead mask of shape \(N, 3\), got \(4, 2\)"):
        encoder(signals, mask[:, :2])


@every_encoder
def test_another_number_of_leads_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"Expected frames of shape \(N, 2, S\), got \(4, 3, 500\)"):
        small(name, in_channels=2)(torch.randn(4, 3, NUM_SAMPLES))


@every_encoder
def test_weights_come_from_the_seed_and_eval_is_deterministic(name: str) -> None:
    signals = torch.randn(2, 1, NUM_SAMPLES)
    made = []
    for _ in range(2):
        torch.manual_seed(5)
        made.append(small(name, in_channels=1).eval())
    torch.testing.assert_close(made[0](signals), made[1](signals), rtol=0, atol=0)
    torch.testing.assert_close(made[0](signals), made[0](signals), rtol=0, atol=0)
    torch.testing.assert_close(made[0](signals)[:1], made[0](signals[:1]), rtol=1e-4, atol=1e-6)


@every_encoder
def test_a_state_dict_restores_the_method(name: str) -> None:
    trained, other = small(name, in_channels=2), small(name, in_channels=2)
    signals = torch.randn(8, 2, NUM_SAMPLES)
    trained(signals)  # running statistics
    other.load_state_dict(trained.state_dict())
    torch.testing.assert_close(trained.eval()(signals), other.eval()(signals), rtol=0, atol=0)


@every_encoder
def test_float64(name: str) -> None:
    encoder = small(name, in_channels=2).double()
    signals = torch.randn(3, 2, NUM_SAMPLES, dtype=torch.float64)
    for call in outputs(encoder):
        assert call(signals).dtype == torch.float64
    single = small(name, in_channels=2)
    single.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(encoder.eval()(signals), single.eval()(signals.float()).double(), rtol=1e-3, atol=1e-4)


@every_encoder
def test_all_invalid_options_are_reported_at_once(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        small(name, in_channels=0, embedding_dim=-3, colour=1)
    for part in (f"encoder '{name}': ", "in_channels: ", "embedding_dim: ", "unknown option 'colour'", "Its options: "):
        assert part in str(caught.value)


@every_encoder
def test_a_description_builds_the_same_encoder(name: str) -> None:
    encoder = small(name, in_channels=2, embedding_dim=6)
    section = describe_encoder(encoder)
    assert section["name"] == name
    assert (section["options"]["in_channels"], section["options"]["embedding_dim"]) == (2, 6)
    assert section["options"] == parse_encoder(name, section["options"]), "all options, as plain values"
    rebuilt = build_encoder(section["name"], section["options"])
    rebuilt.load_state_dict(encoder.state_dict())
    assert describe_encoder(rebuilt) == section
    for copied in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert describe_encoder(copied) == section


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown encoder 'nope'"):
        build_encoder("nope")


class Mean(nn.Module):
    """A user's plain module."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, signals: Tensor) -> Tensor:
        embeddings: Tensor = self.linear(signals.mean(2))
        return embeddings


class MeanEncoder(Encoder):
    """A user's encoder without tokens and features."""

    def __init__(self, in_channels: int = 3, embedding_dim: int = 5) -> None:
        super().__init__(in_channels, embedding_dim)
        self.network = Mean()

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        embeddings: Tensor = self.network(self.masked(signals, lead_mask))
        return embeddings


def test_a_plain_module_is_wrapped() -> None:
    module = Mean()
    encoder = wrap(module, in_channels=3, embedding_dim=5)
    signals, mask = torch.randn(2, 3, 100), torch.tensor([[True, True, False], [True, True, True]])
    torch.testing.assert_close(encoder(signals, mask), module(signals * mask.unsqueeze(2)))
    options = {"in_channels": 3, "embedding_dim": 5}
    assert describe_encoder(encoder) == {"name": "Mean", "registered": False, "options": options}
    for refused in (encoder.tokens, encoder.features):
        with pytest.raises(ConfigError, match="WrappedEncoder has no"):
            refused(signals)
    with pytest.raises(ConfigError, match="has no tokens"):
        encoder.num_tokens(100)
    known = ResNet()
    assert wrap(known, in_channels=1, embedding_dim=128) is known


def test_an_encoder_that_is_not_registered_is_marked() -> None:
    section = describe_encoder(MeanEncoder())
    assert section == {"name": "MeanEncoder", "registered": False, "options": {"in_channels": 3, "embedding_dim": 5}}


class WithFeatures(MeanEncoder):
    """A user's encoder with features."""

    num_features = 3

    def features(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        return self.masked(signals, lead_mask).mean(2)


def test_the_parts_of_pca_have_the_same_number_of_leads() -> None:
    options = describe_encoder(PCAEncoder({"name": "resnet"}, in_channels=3))["options"]
    assert options["in_channels"] == options["encoder"]["in_channels"] == 3
    assert options == describe_encoder(PCAEncoder(ResNet(in_channels=3)))["options"]
    with pytest.raises(ConfigError, match="in_channels=2: the encoder has 3"):
        PCAEncoder(ResNet(in_channels=3), in_channels=2)


def test_pca_keeps_a_copy_of_the_encoder_as_it_was() -> None:
    encoder = ResNet(depth=2).eval()
    signals = torch.randn(2, 1, NUM_SAMPLES)
    before = encoder(signals)
    made = PCAEncoder(encoder, embedding_dim=4).eval()
    torch.testing.assert_close(made.features(signals), encoder.features(signals), rtol=0, atol=0)
    torch.testing.assert_close(encoder(signals), before, rtol=0, atol=0)


def test_pca_of_an_encoder_that_is_not_registered_is_not_either() -> None:
    encoder = PCAEncoder(WithFeatures(), embedding_dim=2)
    assert encoder(torch.randn(2, 3, 100)).shape == (2, 2)
    options = {"in_channels": 3, "embedding_dim": 2}
    assert describe_encoder(encoder) == {"name": "pca", "registered": False, "options": options}


def test_what_is_no_encoder_is_not_registered() -> None:
    with pytest.raises(ConfigError, match=r"'plain': .* must be a subclass of clocs\.encoders\.Encoder"):
        register("plain")(Mean)

    class Fixed(MeanEncoder):
        def __init__(self) -> None:
            super().__init__(3, 5)

    with pytest.raises(ConfigError, match=r"constructor of .*Fixed lacks in_channels and embedding_dim"):
        register("fixed")(Fixed)
    assert {"plain", "fixed"}.isdisjoint(ENCODERS.names())


CELL = """
import torch
from clocs import encoders

@encoders.register("mine")
class Mine(encoders.Encoder):
    def __init__(self, in_channels: int = 1, embedding_dim: int = 8, scale: float = {scale}) -> None:
        super().__init__(in_channels, embedding_dim)
        self.linear, self.scale = torch.nn.Linear(in_channels, embedding_dim), scale

    def forward(self, signals, lead_mask=None):
        return self.scale * self.linear(self.masked(signals, lead_mask).mean(2))
"""
NOTEBOOK = f"""
{CELL.format(scale=1.0)}
{CELL.format(scale=2.0)}
assert encoders.ENCODERS.names()[-1] == "mine"
made = encoders.build_encoder("mine", {{"in_channels": 12}})
assert type(made) is Mine and made.scale == 2.0
assert made(torch.randn(2, 12, 100)).shape == (2, 8)
from clocs.training.config_resolution import resolve_config
section = resolve_config("cmsc-synthetic", ["encoder={{name: mine, scale: 3}}"]).identity()["encoder"]
assert section == {{"name": "mine", "scale": 3.0}}
try:
    @encoders.register("mine")
    class Other(Mine):
        pass
except Exception as error:
    print(error)
try:
    encoders.register("resnet")(Mine)
except Exception as error:
    print(error)
"""


def test_a_notebook_registers_an_encoder_and_may_run_its_cell_twice() -> None:
    done = forked.run("-c", NOTEBOOK)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith(
        "__main__:Other cannot be registered, because the encoder 'mine' is already registered by __main__:Mine"
    )
    assert "the encoder 'resnet' is already registered by clocs.encoders.resnet:ResNet" in second
