"""What every evaluation with some of the labels is told."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from clocs.evaluation.evaluation_frames import FrameChoice
from clocs.training.labels import LabelUnit

EXECUTION: Final = frozenset({"num_threads"})
"""Options that say how an evaluation is carried out: not part of what it is."""


class EvaluationOptions(BaseModel):
    """Which labels, of which frames."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    split: str = "default"
    label_fraction: float = Field(default=0.5, gt=0, le=1)
    """Of the training labels."""
    num_labelled_patients: int | None = Field(default=None, gt=0)
    """So many training patients have labels, in place of a fraction."""
    label_unit: LabelUnit = "patients"
    seed: int = Field(default=0, ge=0)
    """Of the label draw, and of random weights."""
    frames: FrameChoice = "encoder"
    part: Literal["validation", "test"] = "test"
    """Whose patients judge. A search for a better encoder must not see the test part: then the validation part both
    chooses (a probe's regularisation, when fine-tuning stops) and judges."""
    on_leak: Literal["raise", "measure"] = "raise"
    """``measure``: judge by patients the encoder has seen, too, and mark the result: what would leaks gain?"""
