"""Learning rate as a function of the step, so that a resumed run needs no state of it."""

from __future__ import annotations

import math

from clocs.core.errors import ConfigError
from clocs.training.config import PretrainConfig


def planned_steps(config: PretrainConfig, per_epoch: int) -> int:
    """Return the steps of a run without early stopping, over which a cosine schedule decays."""
    steps = config.max_epochs * per_epoch
    planned = steps if config.max_steps is None else min(steps, config.max_steps)
    if config.warmup_steps and config.warmup_steps >= planned:
        raise ConfigError(f"warmup_steps={config.warmup_steps} must be less than the {planned} steps of the run")
    return planned


def learning_rate(config: PretrainConfig, step: int, planned: int) -> float:
    """Return the learning rate of a step: a linear warm-up, then constant or half a cosine down to zero.

    Args:
        config: Config of the run.
        step: Number of steps done before this one.
        planned: Number of steps of the run without early stopping.
    """
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    done = (step - config.warmup_steps) / (planned - config.warmup_steps)
    return config.learning_rate * (1 + math.cos(math.pi * done)) / 2
