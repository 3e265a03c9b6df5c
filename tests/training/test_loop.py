"""The loop: what a step weighs, what an epoch says, when a run ends, and what a supervised one leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import clocs
from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.store.store import open_store
from clocs.training.config_resolution import resolve_config
from clocs.training.data import open_training_stores
from clocs.training.encoder_module import load_encoder_folder, load_head
from clocs.training.initialization import build_initial_method
from clocs.training.loop import _parts
from clocs.training.prefetch import Prefetcher
from clocs.training.runs import timings
from tests.training.conftest import Driver, data_of

SETTINGS = ["max_epochs=3", "batch_size=64", "learning_rate=0.003"]
OVERLAPPING = {"sinus": ("SR", "SB", "ST"), "fast": ("ST", "AFIB"), "irregular": ("AFIB", "PVC")}


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of a hundred recordings with overlapping classes."""
    folder = tmp_path_factory.mktemp("overlapping") / "store"
    dataset = replace(clocs.DATASETS.get("synthetic"), classes=OVERLAPPING)
    clocs.split(clocs.ingest(dataset, None, folder, options={"num_records": 100, "leads": 4}))
    return folder


def epochs(run: str) -> Iterator[dict[str, Any]]:
    lines = (json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines())
    return (line for line in lines if "validation_loss" in line)


@pytest.mark.parametrize("multi_label", [False, True])
def test_validation_auc_is_that_of_the_saved_encoder_and_head(
    multi_label: bool, store: Path, overlapping: Path, tmp_path: Path
) -> None:
    folder = overlapping if multi_label else store
    here = [f"store={folder}", f"runs={tmp_path}", f"method.multi_label={str(multi_label).lower()}"]
    result = clocs.pretrain("supervised-synthetic", [*here, *SETTINGS])
    found = [line["validation_auc"] for line in epochs(result["run"])]
    assert len(found) == result["epochs"] == 3

    best = Path(result["best"])
    encoder, about = load_encoder_folder(best)
    place = open_store(folder)
    frames = place.frames("evaluation", records=place.split().mask("validation"))
    assert len(frames) % 64 == 0, "the loop drops an incomplete batch"
    items = np.arange(len(frames))
    with torch.no_grad():
        logits = nn.Sequential(encoder, load_head(best, about))(torch.from_numpy(frames.gather(items)))
    scores = torch.sigmoid(logits.double()) if multi_label else logits.double().softmax(1)
    expected = roc_auc_score(frames.targets(items), scores.numpy(), average="macro")
    assert found[result["best_epoch"]] == pytest.approx(expected, abs=1e-5)
    assert len({round(value, 3) for value in found}) > 1, "an epoch changes it"


def test_the_time_of_waiting_for_batches_is_logged(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, pauses = Prefetcher.get, []

    def slow(self: Prefetcher[Any], number: int) -> Any:
        pauses.append(0.02)
        time.sleep(pauses[-1])
        return get(self, number)

    monkeypatch.setattr(Prefetcher, "get", slow)
    result = clocs.pretrain("cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", "max_steps=2", "max_epochs=2"])
    lines = timings(Path(result["run"]))
    assert all(0 < line["waiting"] < line["seconds"] for line in lines)
    assert sum(line["waiting"] for line in lines) >= 2 * 0.02


def test_without_labels_there_is_neither(store: Path, tmp_path: Path) -> None:
    result = clocs.pretrain("cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", "max_steps=1"])
    assert all("validation_auc" not in line for line in epochs(result["run"]))
    best = Path(result["best"])
    assert not (best / "head.safetensors").exists()
    with pytest.raises(StoreError, match="without a classifier"):
        load_head(best, load_encoder_folder(best)[1])


def test_a_damaged_head_is_refused(store: Path, tmp_path: Path) -> None:
    result = clocs.pretrain("supervised-synthetic", [f"store={store}", f"runs={tmp_path}", "max_steps=1"])
    path = Path(result["best"]) / "head.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(IntegrityError, match=f"^{path}: content differs from its hash. Copy {path.parent} again"):
        load_head(path.parent, load_encoder_folder(path.parent)[1])


@pytest.mark.slow
def test_two_ranks_measure_what_one_does(drive: Driver, tmp_path: Path) -> None:
    """AUC and effective rank are of all ranks' rows, not of one rank's share."""
    lines = []
    for ranks in (1, 2):
        runs = tmp_path / str(ranks)
        exact = ("precision=64-true", "encoder.dropout=0", "batch_size=64", "max_epochs=1")
        drive("supervised", *exact, f"runs={runs}", ranks=ranks)
        lines.append(next(epochs(str(next(runs.iterdir())))))
    assert lines[1] == pytest.approx(lines[0], rel=1e-8)


@pytest.mark.parametrize("method", ["cmsc", "supervised"])
def test_a_loss_that_is_not_finite_ends_a_run_without_an_encoder(method: str, store: Path, tmp_path: Path) -> None:
    told = [
        f"store={store}",
        f"runs={tmp_path}",
        "learning_rate=1e30",
        "max_steps=4",
        "batch_size=16",
        "checkpoint_every=1",
    ]
    with pytest.raises(ConfigError, match=r"not finite at epoch 0\. Try a smaller learning_rate"):
        clocs.pretrain(f"{method}-synthetic", told)
    assert not list(tmp_path.rglob("model.safetensors"))


def test_one_class_in_validation_leaves_the_auc_out(tmp_path: Path) -> None:
    """A single validation patient has one rhythm."""
    small = clocs.ingest("synthetic", None, tmp_path / "small", options={"num_records": 16})
    clocs.split(small)
    told = [
        f"store={small.folder}",
        f"runs={tmp_path / 'runs'}",
        "max_epochs=1",
        "batch_size=4",
        "encoder.embedding_dim=8",
    ]
    run = Path(clocs.pretrain("supervised-synthetic", told)["run"])
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert "validation_loss" in lines[-1]
    assert "validation_auc" not in lines[-1]
    with pytest.raises(ConfigError, match="a single class"):
        clocs.pretrain("supervised-synthetic", [*told, "monitor=auc"])


def test_float64_is_reset_after_a_run(store: Path, tmp_path: Path) -> None:
    clocs.pretrain(
        "cmsc-synthetic", [f"store={store}", f"runs={tmp_path}", "max_steps=1", "batch_size=16", "precision=64-true"]
    )
    assert torch.get_default_dtype() == torch.float32


def test_parts_of_a_batch_weigh_by_their_instances(store: Path, tmp_path: Path) -> None:
    """Ten in four parts are 3, 3, 3 and 1: the loss is their mean over instances, not over parts."""
    told = [
        f"store={store}",
        f"runs={tmp_path}",
        "max_steps=1",
        "batch_size=10",
        "accumulate_batches=4",
        "encoder.dropout=0",
    ]
    config = resolve_config("mtssl-synthetic", told)
    parts = open_training_stores(config)
    data = data_of(config, parts)
    num_pieces = _parts(data.train.make(data.sampler.batch(0, 0), 0, "train", 0, 0), 4)
    assert [len(piece["item"]) for piece in num_pieces] == [3, 3, 3, 1]
    method = build_initial_method(config, parts).train()
    means = [float(method.training_step(piece, 0).detach()) for piece in num_pieces]
    logged = json.loads((Path(clocs.pretrain(config)["run"]) / "metrics.jsonl").read_text().splitlines()[0])["loss"]
    assert logged == pytest.approx(np.dot(means, [0.3, 0.3, 0.3, 0.1]), rel=1e-5)
    assert logged != pytest.approx(np.mean(means), rel=1e-5)
