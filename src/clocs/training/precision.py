"""Warning for processors that emulate bfloat16."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import torch

INSTRUCTIONS = ("amx_bf16", "avx512_bf16")
"""Instructions of x86 processors for bfloat16, as torch names them."""


def warn_if_bfloat16_is_slow(
    precision: str, device: torch.device, processor: Mapping[str, object] | None = None
) -> None:
    """Warn if the processor emulates bfloat16, which takes twice the time of float32.

    Args:
        precision: Precision of the run.
        device: Device of the run.
        processor: Capabilities of the processor; None for those of this machine.
    """
    if precision != "bf16-mixed" or device.type != "cpu":
        return
    capabilities = _capabilities() if processor is None else processor
    if capabilities.get("architecture") == "x86_64" and not any(capabilities.get(name) for name in INSTRUCTIONS):
        warnings.warn(
            "precision=bf16-mixed: this processor has no instructions for bfloat16 (AMX, AVX512-BF16), so each step "
            "takes about twice as long as with precision=32-true",
            stacklevel=2,
        )


def _capabilities() -> Mapping[str, object]:
    """Return the capabilities of this processor; empty if torch is too old to report them."""
    get_capabilities = getattr(torch.cpu, "get_capabilities", None)
    return {} if get_capabilities is None else get_capabilities()
