"""Learning rates against torch's schedulers, as the optimiser uses them, and in a run that is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler

import clocs
from clocs.core.errors import ConfigError
from clocs.training.config_resolution import resolve_config
from clocs.training.schedule import learning_rate, planned_steps
from tests.training.conftest import Driver
from tests.training.test_resume import content


def rates(*overrides: str, planned: int) -> list[float]:
    config = resolve_config("cmsc-chapman", ["learning_rate=0.3", *overrides])
    return [learning_rate(config, step, planned) for step in range(planned)]


def torchs(kind: type[LRScheduler], steps: int, **options: Any) -> list[float]:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.3)
    scheduler, found = kind(optimizer, **options), []
    for _ in range(steps):
        found.append(float(optimizer.param_groups[0]["lr"]))
        optimizer.step()
        scheduler.step()
    return found


def test_rates_are_those_of_torchs_schedulers() -> None:
    cosine = torchs(CosineAnnealingLR, 40, T_max=40)
    assert rates("schedule=cosine", planned=40) == pytest.approx(cosine, abs=1e-12)
    rise = torchs(LinearLR, 10, start_factor=1 / 10, total_iters=9)
    assert rates("warmup_steps=10", planned=30) == pytest.approx([*rise, *[0.3] * 20], abs=1e-12)
    fall = torchs(CosineAnnealingLR, 30, T_max=30)
    assert rates("schedule=cosine", "warmup_steps=10", planned=40) == pytest.approx([*rise, *fall], abs=1e-12)


def test_without_a_schedule_the_rate_is_the_configs_to_the_bit() -> None:
    assert set(rates(planned=100)) == {0.3}
    assert rates("schedule=cosine", planned=100)[0] == 0.3


def test_a_run_is_planned_by_epochs_and_steps_whichever_end_first() -> None:
    def planned(*overrides: str) -> int:
        return planned_steps(resolve_config("cmsc-chapman", overrides), 7)

    assert planned("max_epochs=3") == 21
    assert planned("max_epochs=3", "max_steps=5") == 5
    assert planned("max_epochs=3", "max_steps=50") == 21
    assert planned("max_epochs=3", "warmup_steps=20") == 21
    with pytest.raises(ConfigError, match="warmup_steps=21 must be less than the 21 steps"):
        planned("max_epochs=3", "warmup_steps=21")


def test_the_optimizer_uses_the_scheduled_rates(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen from inside its step, and over the end of an epoch."""
    used, step = [], torch.optim.Adam.step

    def watched(self: torch.optim.Adam, *given: Any, **named: Any) -> Any:
        used.append(self.param_groups[0]["lr"])
        return step(self, *given, **named)

    monkeypatch.setattr(torch.optim.Adam, "step", watched)
    settings = ["schedule=cosine", "warmup_steps=2", "learning_rate=0.3", "batch_size=128", "max_steps=7"]
    result = clocs.pretrain("cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", *settings])
    assert result["steps"] == 7
    assert result["epochs"] > 1
    assert used == rates("schedule=cosine", "warmup_steps=2", planned=7)


@pytest.mark.slow
def test_a_resumed_run_has_the_same_learning_rates(drive: Driver, tmp_path: Path) -> None:
    """kill -9 in the rise and in the fall: weights, optimiser and metrics are bit-identical."""
    settings = ("max_steps=30", "checkpoint_every=3", "batch_size=32", "schedule=cosine", "warmup_steps=8")
    drive("cmsc", *settings, f"runs={tmp_path / 'whole'}")
    for moment in (5, 17):
        assert drive("cmsc", *settings, stop_at=moment, check=False).returncode == -9
    drive("cmsc", *settings)
    assert content(tmp_path / "runs") == content(tmp_path / "whole")
