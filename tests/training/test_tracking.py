"""Metrics arrive in a real TensorBoard log and in a real MLflow database, and equal the run's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from clocs.core.errors import MissingExtraError
from clocs.training.pretrain import pretrain

SETTINGS = ("steps=3", "batch=32")


def train(store: Path, runs: Path, *overrides: str) -> tuple[Path, list[dict[str, Any]]]:
    result = pretrain("cmsc-synthetic", [f"store={store}", f"runs={runs}", *SETTINGS, *overrides])
    folder = Path(result["run"])
    return folder, [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_tensorboard(store: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, lines = train(store, tmp_path, "track=tensorboard")
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    assert losses == [(line["step"], pytest.approx(line["loss"], rel=1e-6)) for line in lines if "loss" in line]
    assert events.Scalars("validation_loss")[0].value == pytest.approx(lines[-1]["validation_loss"], rel=1e-6)


def test_mlflow(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    folder, lines = train(store, tmp_path, "track=mlflow")
    client = MlflowClient()
    experiment = client.get_experiment_by_name("clocs")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.run_name, found.info.status, found.data.params["batch"]) == (folder.name, "FINISHED", "32")
    history = sorted((metric.step, metric.value) for metric in client.get_metric_history(found.info.run_id, "loss"))
    assert history == [(line["step"], line["loss"]) for line in lines if "loss" in line]


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow"])
def test_a_missing_extra_is_named(kind: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(MissingExtraError, match=f"clocs\\[{kind}\\]"):
        train(store, tmp_path, f"track={kind}")
