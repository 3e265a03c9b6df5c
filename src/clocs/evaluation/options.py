"""Options that all evaluations share."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from clocs.evaluation.evaluation_frames import FrameChoice
from clocs.training.labels import LabelUnit

EXECUTION: Final = frozenset({"device", "num_threads"})
"""Options that do not change results, and are left out of the name of a run."""


class EvaluationOptions(BaseModel):
    """Options of an evaluation with a part of the labels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: str = "default"
    """Name of the split."""
    label_fraction: float = Field(default=0.5, gt=0, le=1)
    """Fraction of the training labels that are used."""
    num_labelled_patients: int | None = Field(default=None, gt=0)
    """Number of training patients with labels, instead of a fraction."""
    label_unit: LabelUnit = "patients"
    """Unit in which labels are drawn at random: ``patients`` or ``frames``."""
    seed: int = Field(default=0, ge=0)
    """Seed of the draw of labels, and of random weights."""
    frames: FrameChoice = "encoder"
    """Frames of the encoder's training (``encoder``), or the dataset's own frames in the paper (``paper``)."""
    part: Literal["validation", "test"] = "test"
    """Part of the split that is scored. Use ``validation`` to choose among encoders: the validation part then also
    selects the regularization of a probe and the epoch of fine-tuning."""
    subgroups: tuple[str, ...] = ()
    """Columns of the store, such as ``sex`` or ``device``. The AUC of each group of a column is reported, too."""
    device: str | None = None
    """Torch device that runs the encoder, such as ``cuda``. None: the CPU."""
    on_leak: Literal["raise", "measure"] = "raise"
    """``raise``: reject encoders that have seen test patients. ``measure``: score them and count the leaks."""
