"""Signals and generators for tests of augmentations."""

from __future__ import annotations

import torch

from clocs.augmentations import Augmentation
from clocs.augmentations.compose import parse_augmentations


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(frames: int, num_samples: int, dtype: torch.dtype = torch.float64, leads: int = 1) -> torch.Tensor:
    """Return (N, C, S) normal values, different in every lead."""
    return torch.randn((frames, leads, num_samples), generator=seeded(99), dtype=dtype)


def named(name: str, **options: float | str) -> Augmentation:
    """Return a registered augmentation."""
    return parse_augmentations([{"name": name, **options}])[0]
