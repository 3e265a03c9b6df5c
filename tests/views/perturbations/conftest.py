"""What tests of perturbations are made of."""

from __future__ import annotations

import torch

from clocs.views.perturbations import Perturbation, parse_perturbations


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(rows: int, samples: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn((rows, samples), generator=seeded(99), dtype=dtype)


def step(name: str, **options: float | str) -> Perturbation:
    return parse_perturbations([{"name": name, **options}])[0]
