"""Presets: how frames are cut and labels are drawn, by the paper's text or by our recommendation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clocs.evaluation.evaluation_frames import FrameChoice
from clocs.training.labels import LabelUnit

Preset = Literal["paper", "recommended", "trial"]


@dataclass(frozen=True)
class Settings:
    """Settings of a preset. No preset has a leaking split."""

    frames: FrameChoice
    label_unit: LabelUnit


PRESETS: dict[Preset, Settings] = {
    # The paper does not state the unit in which labels are drawn.
    "paper": Settings(frames="paper", label_unit="patients"),
    "recommended": Settings(frames="encoder", label_unit="patients"),
    # For the search: cells state everything themselves.
    "trial": Settings(frames="encoder", label_unit="patients"),
}
