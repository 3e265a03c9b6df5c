"""Conversion of half types to float32. Half types have three digits, too few for a loss."""

from __future__ import annotations

import torch
from torch import Tensor


def full_precision(values: Tensor) -> Tensor:
    """Return half types as float32, and other types unchanged."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
