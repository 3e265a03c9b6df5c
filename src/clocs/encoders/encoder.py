"""What an encoder is: any module that turns (N, C, S) into (N, E); how one is built by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from clocs.core.options import checked
from clocs.core.registry import Registry


class EncoderOptions(BaseModel):
    """What every encoder takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    embedding: int = Field(default=128, gt=0)
    """E, the length of a representation."""
    channels: int = Field(default=1, gt=0)
    """C, leads taken at once; 1 in the paper."""
    samples: int = Field(default=2500, gt=0)
    """S, samples of a frame."""


@dataclass(frozen=True)
class EncoderKind:
    """A named family of encoders: its options, and how they become a module."""

    name: str
    description: str
    options: type[EncoderOptions]
    build: Callable[[Any], nn.Module]


ENCODERS: Registry[EncoderKind] = Registry(
    "encoder", {"cnn": "clocs.encoders.cnn:CNN_KIND", "resnet": "clocs.encoders.resnet:RESNET_KIND"}
)


def build_encoder(name: str, options: Mapping[str, Any] | None = None) -> nn.Module:
    """A freshly initialised encoder; its weights come from torch's global generator."""
    return ENCODERS.get(name).build(parse_encoder(name, options or {}))


def parse_encoder(name: str, options: Mapping[str, Any]) -> EncoderOptions:
    """An encoder's options, checked; all that is wrong is said at once."""
    return checked(ENCODERS.get(name).options, options, f"encoder '{name}'")
