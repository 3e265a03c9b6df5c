"""Advice on a precision that a processor is slow at."""

from __future__ import annotations

import warnings

import pytest
import torch

from clocs.training.precision import warn_if_slow

CPU = torch.device("cpu")
OLD = {"architecture": "x86_64", "avx512_f": True, "avx512_bf16": False, "amx_bf16": False}


def test_emulated_bfloat16_is_told() -> None:
    with pytest.warns(UserWarning, match="precision=32-true"):
        warn_if_slow("bf16-mixed", CPU, OLD)


@pytest.mark.parametrize(
    ("precision", "device", "processor"),
    [
        ("32-true", CPU, OLD),
        ("bf16-mixed", torch.device("cuda"), OLD),
        ("bf16-mixed", CPU, {**OLD, "amx_bf16": True}),
        ("bf16-mixed", CPU, {**OLD, "avx512_bf16": True}),
        ("bf16-mixed", CPU, {"architecture": "aarch64"}),
        ("bf16-mixed", CPU, {}),
    ],
)
def test_nothing_is_told_where_it_is_quick_or_unknown(
    precision: str, device: torch.device, processor: dict[str, object]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_slow(precision, device, processor)
