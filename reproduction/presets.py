"""Presets: experiments by the paper's text, by its released code, or by our recommendation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from clocs.evaluation.evaluation_frames import FrameChoice
from clocs.training.labels import LabelUnit

Preset = Literal["paper", "released", "recommended", "trial"]


@dataclass(frozen=True)
class Settings:
    """Settings of a preset. No preset has a leaking split."""

    frames: FrameChoice
    label_unit: LabelUnit
    train_mode: bool = False
    """Linear evaluation with BatchNorm and dropout active."""
    encoder_options: dict[str, Any] = field(default_factory=dict)
    contrast_options: dict[str, Any] = field(default_factory=dict)
    """Options of CMSC, CMLC and CMSMLC."""
    config: dict[str, Any] = field(default_factory=dict)
    """Other keys of a pre-training's config."""

    def method_options(self, method: str) -> dict[str, Any]:
        """Return the options of a method that the preset changes."""
        return self.contrast_options if method in ("cmsc", "cmlc", "cmsmlc") else {}


PRESETS: dict[Preset, Settings] = {
    # The paper does not state the unit in which labels are drawn.
    "paper": Settings(frames="paper", label_unit="patients"),
    "released": Settings(
        frames="paper",
        label_unit="frames",
        train_mode=True,
        encoder_options={"final_relu": False},
        contrast_options={"off_diagonals": "one_triangle", "view_pairs": "last"},
    ),
    "recommended": Settings(frames="encoder", label_unit="patients"),
    # For the search: cells state everything themselves.
    "trial": Settings(frames="encoder", label_unit="patients"),
}
