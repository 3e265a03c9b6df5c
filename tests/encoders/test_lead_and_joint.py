"""Two encoders side by side, against calls of each of them."""

from __future__ import annotations

import pytest
import torch

from clocs.core.errors import ConfigError
from clocs.encoders import LeadAndJointEncoder, ResNet
from clocs.encoders.encoder import build_encoder, describe_encoder, non_default_encoder_options


@pytest.fixture
def parts() -> tuple[ResNet, ResNet]:
    """An encoder of one lead and one of three, in eval mode."""
    torch.manual_seed(0)
    lead, joint = ResNet(embedding_dim=4, width=4), ResNet(in_channels=3, embedding_dim=6, width=4)
    return lead.eval(), joint.eval()


def test_the_embedding_is_that_of_each_lead_and_the_joint_one(parts: tuple[ResNet, ResNet]) -> None:
    lead, joint = parts
    encoder = LeadAndJointEncoder(lead, joint, embedding_dim=18, head="none").eval()
    signals = torch.randn(2, 3, 500)
    expected = torch.cat([*(lead(signals[:, [index]]) for index in range(3)), joint(signals)], dim=1)
    torch.testing.assert_close(encoder(signals), expected)
    headed = LeadAndJointEncoder(lead, joint, embedding_dim=5).eval()
    torch.testing.assert_close(headed(signals), headed.linear(expected))


def test_absent_leads_are_embedded_once_as_zeros(parts: tuple[ResNet, ResNet]) -> None:
    lead, joint = parts
    encoder = LeadAndJointEncoder(lead, joint, embedding_dim=18, head="none").eval()
    signals, mask = torch.randn(2, 3, 500), torch.tensor([[True, False, False], [True, False, True]])
    rows: list[int] = []
    lead_encoder = encoder.lead_encoder
    assert isinstance(lead_encoder, ResNet)
    lead_encoder.register_forward_hook(lambda _module, inputs, _output: rows.append(len(inputs[0])))
    torch.testing.assert_close(encoder(signals, mask), encoder(signals * mask.unsqueeze(2)))
    assert rows == [1, 3, 6], "a lead of zeros, the three that are present; then all leads"


def test_parts_that_do_not_fit_are_refused(parts: tuple[ResNet, ResNet]) -> None:
    lead, joint = parts
    with pytest.raises(ConfigError, match="lead_encoder has in_channels=3, and 1 is needed"):
        LeadAndJointEncoder(joint, joint)
    with pytest.raises(ConfigError, match="joint_encoder has in_channels=3, and 2 is needed"):
        LeadAndJointEncoder(lead, joint, in_channels=2)
    with pytest.raises(ConfigError, match="without a head it is the total dimension, 18"):
        LeadAndJointEncoder(lead, joint, embedding_dim=17, head="none")


def test_a_config_names_both_parts(parts: tuple[ResNet, ResNet]) -> None:
    section = describe_encoder(LeadAndJointEncoder(*parts, embedding_dim=18, head="none"))
    options = section["options"]
    assert [options["lead_encoder"][key] for key in ("name", "in_channels", "width")] == ["resnet", 1, 4]
    assert describe_encoder(build_encoder("lead_and_joint", options)) == section
    changed = non_default_encoder_options("lead_and_joint", options)
    assert changed["joint_encoder"] == {"name": "resnet", "in_channels": 3, "embedding_dim": 6, "width": 4}
