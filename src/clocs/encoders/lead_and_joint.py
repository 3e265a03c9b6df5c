"""An encoder of single leads and an encoder of all leads, side by side."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, Field
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders.encoder import ENCODERS, Encoder, encoder_from_section, section_with_all_options

EncoderOrSection = Annotated[Encoder | dict[str, Any], AfterValidator(section_with_all_options)]


@ENCODERS.register("lead_and_joint")
class LeadAndJointEncoder(Encoder):
    """Join the embeddings of single leads, by one encoder, with the embedding of all leads, by another.

    The encoder of single leads sees the details of each lead. The joint encoder sees what the leads have in common.
    An absent lead is embedded as a lead of zeros.

    Args:
        lead_encoder: An encoder of one lead, which is copied; or its config section, ``{"name": ..., option: value}``.
        joint_encoder: An encoder of C leads, likewise.
        in_channels: Number of leads C; None for that of the joint encoder.
        embedding_dim: Dimension E of an embedding.
        head: ``linear``: the embedding is a linear function of all joined embeddings. ``none``: it is all of
            them, the leads in order and then the joint one, and ``embedding_dim`` is the total dimension.

    Raises:
        ConfigError: An encoder has another number of leads, or without a head ``embedding_dim`` is not the total.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> parts = ResNet(embedding_dim=16), ResNet(in_channels=12, embedding_dim=64)
        >>> LeadAndJointEncoder(*parts, embedding_dim=12 * 16 + 64, head="none")(torch.randn(2, 12, 500)).shape
        torch.Size([2, 256])
    """

    def __init__(
        self,
        lead_encoder: EncoderOrSection,
        joint_encoder: EncoderOrSection,
        in_channels: Annotated[int, Field(gt=0)] | None = None,
        embedding_dim: Annotated[int, Field(gt=0)] = 128,
        head: Literal["linear", "none"] = "linear",
    ) -> None:
        lead, joint = _built(lead_encoder, 1), _built(joint_encoder, in_channels)
        for name, part, expected in (("lead", lead, 1), ("joint", joint, in_channels)):
            if expected not in (None, part.in_channels):
                raise ConfigError(f"{name}_encoder has in_channels={part.in_channels}, and {expected} is needed.")
        total = joint.in_channels * lead.embedding_dim + joint.embedding_dim
        if head == "none" and embedding_dim != total:
            raise ConfigError(f"embedding_dim={embedding_dim}: without a head it is the total dimension, {total}")
        super().__init__(joint.in_channels, embedding_dim)
        for name, part in (("lead_encoder", lead), ("joint_encoder", joint)):
            if not isinstance(self._arguments.get(name), Encoder):
                self._arguments[name] = {**self._arguments[name], "in_channels": part.in_channels}
        self.lead_encoder, self.joint_encoder = lead, joint
        self.linear: nn.Module = nn.Linear(total, embedding_dim) if head == "linear" else nn.Identity()

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Embeddings (N, E).
        """
        signals = self.masked(signals, lead_mask)
        joined = torch.cat([self._of_leads(signals, lead_mask), self.joint_encoder(signals, lead_mask)], dim=1)
        embeddings: Tensor = self.linear(joined)
        return embeddings

    def remove_head(self) -> None:
        """Remove the linear layer, and the heads of both encoders."""
        self.linear = nn.Identity()
        self.lead_encoder.remove_head()
        self.joint_encoder.remove_head()

    def _of_leads(self, signals: Tensor, lead_mask: Tensor | None) -> Tensor:
        """Return the embeddings of all leads (N, C E'). In inference, an absent lead takes no time."""
        count, channels, length = signals.shape
        leads = signals.reshape(-1, 1, length)
        if lead_mask is None or self.training:
            every: Tensor = self.lead_encoder(leads)
            return every.reshape(count, -1)
        present = lead_mask.flatten().nonzero()[:, 0]
        absent: Tensor = self.lead_encoder(leads.new_zeros(1, 1, length))
        embeddings = absent.repeat(count * channels, 1).index_copy(0, present, self.lead_encoder(leads[present]))
        return embeddings.reshape(count, -1)


def _built(encoder: Encoder | Mapping[str, Any], in_channels: int | None) -> Encoder:
    """Return a copy of an encoder, or the encoder of a section."""
    return copy.deepcopy(encoder) if isinstance(encoder, Encoder) else encoder_from_section(encoder, in_channels)
