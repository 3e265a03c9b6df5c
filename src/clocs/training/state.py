"""State of a training run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass
class TrainingState:
    """Progress of a training run. With the tensors, it determines the next step."""

    epoch: int = 0
    """Number of finished epochs."""
    step: int = 0
    """Number of steps done, over all epochs."""
    in_epoch: int = 0
    """Number of steps done in the current epoch."""
    loss_sum: float = 0.0
    """Sum of the losses of the current epoch."""
    best_loss: float = float("inf")
    """Validation loss of the best epoch, which is not always the lowest loss."""
    best_epoch: int = -1
    """Index of the best epoch; -1 before the first one is finished."""
    finished: bool = False
    """True if training has ended."""
    best_auc: float | None = None
    """Validation AUC of the best epoch; None without labels."""

    def is_better(self, metrics: Mapping[str, float], monitor: Literal["loss", "auc"]) -> bool:
        """Return whether an epoch with these metrics is better than the best one so far."""
        if monitor == "auc":
            return self.best_auc is None or metrics["validation_auc"] > self.best_auc
        return metrics["validation_loss"] < self.best_loss

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON, which has no infinity."""
        return {**asdict(self), "best_loss": None if self.best_epoch < 0 else self.best_loss}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainingState:
        """Return the state that a checkpoint holds."""
        loss = values["best_loss"]
        return cls(**{**values, "best_loss": float("inf") if loss is None else loss})
