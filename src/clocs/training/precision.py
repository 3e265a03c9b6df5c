"""Whether a processor is quick at the precision it is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch

INSTRUCTIONS = ("amx_bf16", "avx512_bf16")
"""Of x86 processors, for bfloat16."""


def warn_if_bfloat16_is_slow(
    precision: str, device: torch.device, processor: Mapping[str, object] | None = None
) -> None:
    """Say so where bfloat16 is emulated, at twice the time of float32; ``processor``: its capabilities, if not this."""
    if precision != "bf16-mixed" or device.type != "cpu":
        return
    told = _capabilities() if processor is None else processor
    if told.get("architecture") == "x86_64" and not any(told.get(name) for name in INSTRUCTIONS):
        warnings.warn(
            "precision=bf16-mixed: this processor has no instructions for bfloat16 (AMX, AVX512-BF16), so each step "
            "takes about twice as long as with precision=32-true",
            stacklevel=2,
        )


def _capabilities() -> Mapping[str, object]:
    """Of this processor; nothing where torch is too old to tell."""
    tell = getattr(torch.cpu, "get_capabilities", None)
    return {} if tell is None else tell()
