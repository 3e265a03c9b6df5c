"""Precisions that a processor is slow at or has not, and what one of them keeps from step to step."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.precision.amp import MixedPrecision

import clocs
from clocs.core.errors import ConfigError
from clocs.training.precision import warn_if_bfloat16_is_slow

CPU = torch.device("cpu")
OLD = {"architecture": "x86_64", "avx512_f": True, "avx512_bf16": False, "amx_bf16": False}


def test_emulated_bfloat16_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="precision=32-true"):
        warn_if_bfloat16_is_slow("bf16-mixed", CPU, OLD)


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
def test_no_warning_for_fast_or_unknown_processors(
    precision: str, device: torch.device, processor: dict[str, object]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_bfloat16_is_slow(precision, device, processor)


def test_half_precision_is_refused_where_there_is_no_gpu(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="16-mixed needs a GPU"):
        clocs.pretrain("cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", "precision=16-mixed", "max_steps=1"])


def test_the_gradient_scale_of_half_precision_is_restored(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin that a GPU gets, on a processor: its scale falls at each overflow, and has fallen before the kill."""
    scales: list[torch.amp.GradScaler] = []

    def fabric(config: Any, run: Any) -> Fabric:
        scales.append(torch.amp.GradScaler("cpu", init_scale=2.0**40))
        made = Fabric(accelerator="cpu", devices=1, plugins=[MixedPrecision("16-mixed", "cpu", scales[-1])])
        made.launch()
        return made

    def killed(told: dict[str, Any]) -> None:
        if told["step"] == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("clocs.training.pretrain.build_fabric", fabric)
    told = [f"store={store}", "max_steps=8", "batch_size=16", "checkpoint_every=4", "encoder=resnet", "encoder.width=4"]
    whole = clocs.pretrain("cmsc-synthetic", [*told, f"runs={tmp_path / 'whole'}"])
    with pytest.raises(KeyboardInterrupt):
        clocs.pretrain("cmsc-synthetic", [*told, f"runs={tmp_path / 'killed'}"], progress=killed)
    resumed = clocs.pretrain("cmsc-synthetic", [*told, f"runs={tmp_path / 'killed'}"])
    assert scales[0].get_scale() == scales[2].get_scale() < scales[1].get_scale() < 2.0**40
    one, other = (Path(found["best"], "model.safetensors").read_bytes() for found in (whole, resumed))
    assert one == other
