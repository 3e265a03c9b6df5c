"""Presets: the same experiment by the paper's word, by the released code's behaviour, or as we would do it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from clocs.evaluation.evaluation_frames import FrameChoice
from clocs.training.labels import LabelUnit

Preset = Literal["paper", "released", "recommended", "trial"]


@dataclass(frozen=True)
class Settings:
    """What a preset decides. No preset has a split that leaks."""

    frames: FrameChoice
    label_unit: LabelUnit
    train_mode: bool = False
    """Linear evaluation with BatchNorm and dropout active."""
    encoder_options: dict[str, Any] = field(default_factory=dict)
    contrast_options: dict[str, Any] = field(default_factory=dict)
    """Of CMSC, CMLC and CMSMLC."""
    config: dict[str, Any] = field(default_factory=dict)
    """Other keys of a pre-training's config."""

    def method_options(self, method: str) -> dict[str, Any]:
        """What changes in a method."""
        return self.contrast_options if method in ("cmsc", "cmlc", "cmsmlc") else {}


PRESETS: dict[Preset, Settings] = {
    # The paper does not say what a fraction of the labels is drawn over: our choice.
    "paper": Settings(frames="paper", label_unit="patients"),
    "released": Settings(
        frames="paper",
        label_unit="frames",
        train_mode=True,
        encoder_options={"final_relu": False},
        contrast_options={"off_diagonals": "one_triangle", "pairs": "last"},
    ),
    "recommended": Settings(frames="encoder", label_unit="patients"),
    # Nothing but what a cell says itself: for the search of what to recommend.
    "trial": Settings(frames="encoder", label_unit="patients"),
}
