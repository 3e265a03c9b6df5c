"""The learning rate as a function of the step alone: a continued run needs no state of it."""

from __future__ import annotations

import math

from clocs.core.errors import ConfigError
from clocs.training.config import PretrainConfig


def planned_steps(config: PretrainConfig, per_epoch: int) -> int:
    """Steps of a run that patience does not end earlier: what a cosine falls over."""
    steps = config.max_epochs * per_epoch
    planned = steps if config.max_steps is None else min(steps, config.max_steps)
    if config.warmup_steps and config.warmup_steps >= planned:
        raise ConfigError(f"warmup_steps={config.warmup_steps}: the run has {planned} steps, and none would be left")
    return planned


def learning_rate(config: PretrainConfig, step: int, planned: int) -> float:
    """Of the step that follows ``step`` others: a linear rise, then constant or half a cosine down to zero."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    done = (step - config.warmup_steps) / (planned - config.warmup_steps)
    return config.learning_rate * (1 + math.cos(math.pi * done)) / 2
