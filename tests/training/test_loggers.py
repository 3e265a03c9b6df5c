"""Metrics arrive in a real TensorBoard log, MLflow database and W&B file, and equal those of the run's folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clocs.core.errors import ConfigError, MissingExtraError
from clocs.training.pretrain import pretrain

SETTINGS = ("max_steps=3", "batch_size=32")


def train(store: Path, runs: Path, *overrides: str) -> tuple[Path, list[dict[str, Any]]]:
    result = pretrain("cmsc-synthetic", [f"store={store}", f"runs={runs}", *SETTINGS, *overrides])
    folder = Path(result["run"])
    return folder, [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_tensorboard(store: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder, lines = train(store, tmp_path, "logger=tensorboard")
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    assert losses == [(line["step"], pytest.approx(line["loss"], rel=1e-6)) for line in lines if "loss" in line]
    assert events.Scalars("validation_loss")[0].value == pytest.approx(lines[-1]["validation_loss"], rel=1e-6)


@pytest.mark.slow
def test_mlflow(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    folder, lines = train(store, tmp_path, "logger=mlflow")
    client = MlflowClient()
    experiment = client.get_experiment_by_name("clocs")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.run_name, found.info.status, found.data.params["batch_size"]) == (folder.name, "FINISHED", "32")
    history = sorted((metric.step, metric.value) for metric in client.get_metric_history(found.info.run_id, "loss"))
    assert history == [(line["step"], line["loss"]) for line in lines if "loss" in line]


@pytest.fixture
def wandb_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Start a W&B session without a login, which ends with the test."""
    import wandb

    for name in ("WANDB_API_KEY", "WANDB_IDENTITY_TOKEN_FILE", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    wandb.teardown()
    yield monkeypatch
    wandb.teardown()


def records(path: Path) -> Iterator[Any]:
    """Read a W&B file: a header of 7 bytes, then protocol buffers in LevelDB's log format, in blocks of 32 KiB."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, whole = path.read_bytes(), 7, b""
    assert content.startswith(b":W&B")
    while place < len(content):
        left = 32768 - place % 32768
        if left < 7:  # too short for a chunk's header
            place += left
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        whole += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # a whole record, or the last chunk of one
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def logged(folder: Path) -> tuple[list[Any], list[dict[str, Any]]]:
    """Return the run records and the rows of history of the one offline session that W&B has written to a folder."""
    import wandb

    wandb.teardown()  # the process that writes the file ends; before that, the file may lack its last records
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    found = list(records(path))
    rows = [record.history.item for record in found if record.HasField("history")]
    values = [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in row} for row in rows]
    return [record.run for record in found if record.HasField("run")], values


def rows_of(rows: list[dict[str, Any]], *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(row[key] for key in ("step", *keys)) for row in rows if keys[0] in row]


def test_wandb(store: Path, tmp_path: Path, wandb_session: pytest.MonkeyPatch) -> None:
    wandb_session.setenv("WANDB_MODE", "offline")
    folder, lines = train(store, tmp_path, "logger=wandb")
    (run, *_), rows = logged(folder)
    assert (run.project, run.run_id, run.display_name) == ("clocs", folder.name, folder.name)
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    stated = json.loads((folder / "config.json").read_text())
    assert (config["batch_size"], config["method"]) == (32, stated["method"])
    for keys in (("loss",), ("train_loss", "validation_loss", "effective_rank")):
        assert rows_of(rows, *keys) == rows_of(lines, *keys)
    assert len(rows_of(rows, "loss")) == 3


def test_an_interrupted_run_resumes_in_the_same_wandb_run(
    store: Path, tmp_path: Path, wandb_session: pytest.MonkeyPatch
) -> None:
    """In one process, as in a notebook: the first call leaves its W&B run open, and the second repeats a step."""

    def interrupt(known: dict[str, Any]) -> None:
        if known["step"] == 3:
            raise KeyboardInterrupt

    first = tmp_path / "first"
    first.mkdir()
    wandb_session.setenv("WANDB_MODE", "offline")
    wandb_session.setenv("WANDB_DIR", str(first))
    settings = [f"store={store}", f"runs={tmp_path}", *SETTINGS, "logger=wandb", "checkpoint_every=2"]
    with pytest.raises(KeyboardInterrupt):
        pretrain("cmsc-synthetic", settings, progress=interrupt)
    wandb_session.delenv("WANDB_DIR")
    folder, lines = train(store, tmp_path, "logger=wandb", "checkpoint_every=2")
    (before, *_), interrupted = logged(first)
    (after, *_), resumed = logged(folder)
    assert before.run_id == after.run_id == folder.name
    losses = rows_of(lines, "loss")
    assert (rows_of(interrupted, "loss"), rows_of(resumed, "loss")) == (losses, losses[2:])
    assert rows_of(resumed, "validation_loss") == rows_of(lines, "validation_loss")


def test_wandb_without_a_login_is_refused_until_it_is_offline(
    store: Path, tmp_path: Path, wandb_session: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="WANDB_MODE=offline"):
        train(store, tmp_path, "logger=wandb")
    assert not list(tmp_path.glob("cmsc-*"))
    wandb_session.setenv("WANDB_MODE", "offline")  # as the error says, in the same process
    folder, _ = train(store, tmp_path, "logger=wandb")
    assert list(folder.glob("wandb/offline-run-*"))


@pytest.mark.parametrize("kind", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_extra_is_named(kind: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, kind, None)
    with pytest.raises(MissingExtraError, match=f"clocs\\[{kind}\\]"):
        train(store, tmp_path, f"logger={kind}")
