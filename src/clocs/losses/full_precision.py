"""Half types keep three digits, of which sums and logarithms leave fewer: losses are computed in float32."""

from __future__ import annotations

import torch
from torch import Tensor


def full_precision(values: Tensor) -> Tensor:
    """Half types as float32, all others as they are."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
