"""Fine-tuning: from a checkpoint or from scratch, judged as a probe is, and the same if it was killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import nn

import clocs
import clocs.evaluation.evaluation_run as evaluation_run
import clocs.evaluation.finetune as tuning
from clocs.core.errors import ConfigError, LeakError
from clocs.evaluation.checkpoint import load_encoder_checkpoint
from clocs.evaluation.finetune import FinetuneConfig, finetune
from clocs.evaluation.results import compare, load_scores
from clocs.evaluation.scoring import compute_metrics
from clocs.signals.framing import FramePolicy
from clocs.store.store import Store
from clocs.training.config import PretrainConfig
from clocs.training.encoder_module import load_encoder_folder, load_head
from clocs.training.pretrain import pretrain
from clocs.training.runs import finished_epochs
from clocs.training.seen_recordings import load_seen_keys
from tests.conftest import make_recording
from tests.evaluation.conftest import make_store

CONFIG = FinetuneConfig(max_epochs=2, batch_size=32, learning_rate=1e-3)
OVERLAPPING = {"sinus": ("SR", "SB", "ST"), "fast": ("ST", "AFIB"), "irregular": ("AFIB", "PVC")}


@pytest.fixture(scope="module", autouse=True)
def _few_replicates() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation_run, "compute_metrics", partial(compute_metrics, replicates=20))
        yield


@pytest.fixture(scope="module")
def tuned(store: Store, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return finetune(trained, store, CONFIG, runs=tmp_path_factory.mktemp("tuned"))


def best(found: dict[str, Any]) -> Path:
    return Path(found["training"]["run"]) / "best"


def logits(found: dict[str, Any], store: Store, part: str) -> tuple[torch.Tensor, Any]:
    """Of the saved encoder and head, without anything of the evaluation; and the truth."""
    encoder, about = load_encoder_folder(best(found))
    frames = store.frames("evaluation", records=store.split().mask(part))
    items = np.arange(len(frames))
    with torch.no_grad():
        values = nn.Sequential(encoder, load_head(best(found), about))(torch.from_numpy(frames.gather(items)))
    return values.double(), frames.targets(items)


@pytest.mark.parametrize("start", ["trained", "random"])
def test_validation_auc_of_epochs_equals_scikit_learn(
    start: str, store: Store, tuned: dict[str, Any], tmp_path: Path
) -> None:
    found = tuned if start == "trained" else finetune("random", store, CONFIG, runs=tmp_path)
    lines = (Path(found["training"]["run"]) / "metrics.jsonl").read_text().splitlines()
    aucs = [line["validation_auc"] for line in map(json.loads, lines) if "validation_loss" in line]
    assert len(aucs) == found["training"]["epochs"] == 2
    values, truth = logits(found, store, "validation")
    assert len(truth) % 32 == 0, "the loop drops an incomplete batch"
    expected = roc_auc_score(truth, values.softmax(1).numpy())
    assert aucs[found["training"]["best_epoch"]] == pytest.approx(expected, abs=1e-5)


def test_the_test_part_is_scored_with_intervals(store: Store, tuned: dict[str, Any]) -> None:
    values, truth = logits(tuned, store, "test")
    kept = load_scores(Path(tuned["run"]))
    np.testing.assert_allclose(kept.values, values.softmax(1).numpy(), atol=1e-5)
    np.testing.assert_array_equal(kept.truth, truth)
    for level in ("frame", "recording", "patient"):
        interval = tuned["test"][level]["auc"]
        assert interval["low"] < interval["value"] < interval["high"]
    assert tuned["test"]["frame"]["auc"]["value"] == pytest.approx(roc_auc_score(truth, kept.values), abs=1e-6)
    assert tuned["rows"] == {"test": 256}
    assert (tuned["encoder"]["method"], tuned["notes"]) == ("cmsc", [])
    assert compare([Path(tuned["run"])], [Path(tuned["run"])], replicates=5)["patient"].value == 0


@pytest.mark.parametrize("start", ["trained", "random"])
def test_training_starts_from_the_encoder(start: str, store: Store, trained: Path, tmp_path: Path) -> None:
    """At a learning rate of nearly nothing, its weights are what is left."""
    checkpoint = str(trained) if start == "trained" else "random"
    still = CONFIG.model_copy(update={"max_epochs": 1, "learning_rate": 1e-12})
    found = finetune(checkpoint, store, still, runs=tmp_path)
    before = load_encoder_checkpoint(checkpoint, store).module.state_dict()
    after = load_encoder_folder(best(found))[0].state_dict()
    for name in ("blocks.0.convolution.weight", "linear.weight"):
        torch.testing.assert_close(after[name], before[name], atol=1e-8, rtol=0)
    other = load_encoder_checkpoint("random" if start == "trained" else trained, store).module.state_dict()
    assert not torch.allclose(after["linear.weight"], other["linear.weight"])


def test_a_finished_run_is_not_computed_again(
    store: Store, trained: Path, tuned: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Path(tuned["run"]).parent
    other = finetune(trained, store, CONFIG.model_copy(update={"seed": 1, "max_epochs": 1}), runs=runs)
    assert other["run"] != tuned["run"]
    assert not other["already_finished"]
    monkeypatch.setattr(tuning, "compute_outputs", None)
    again = finetune(trained, store, CONFIG, runs=runs)
    assert again == {**tuned, "already_finished": True}
    assert not tuned["already_finished"]


class KilledError(Exception):
    """Ends a training as a signal would."""


@pytest.mark.parametrize("step", [5, 16])
def test_a_killed_run_continues_to_the_same_result(
    step: int, store: Store, trained: Path, tuned: dict[str, Any], tmp_path: Path
) -> None:
    """In the first epoch, of 13 steps, and in the second."""

    def stop(known: dict[str, Any]) -> None:
        if known["step"] == step:
            raise KilledError

    with pytest.raises(KilledError):
        finetune(trained, store, CONFIG, runs=tmp_path, progress=stop)
    found = finetune(trained, store, CONFIG, runs=tmp_path)
    assert not found["already_finished"]
    assert Path(found["run"]).name == Path(tuned["run"]).name
    assert found["test"] == tuned["test"]
    here, there = (Path(one["training"]["run"]) / "metrics.jsonl" for one in (found, tuned))
    assert here.read_bytes() == there.read_bytes()


def test_only_scoring_is_repeated_after_a_finished_training_was_moved(
    store: Store, trained: Path, tuned: dict[str, Any], tmp_path: Path
) -> None:
    training = Path(tuned["training"]["run"])
    shutil.copytree(training, tmp_path / training.name)
    shown: list[Any] = []
    found = finetune(trained, store, CONFIG, runs=tmp_path, progress=shown.append)
    assert shown == []
    assert found["training"]["run"] == str(tmp_path / training.name)
    assert found["test"] == tuned["test"]


def test_overlapping_classes_are_multi_label(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", OVERLAPPING, num_records=100)
    found = finetune("random", store, CONFIG, runs=tmp_path)
    values, _ = logits(found, store, "test")
    kept = load_scores(Path(found["run"])).values
    np.testing.assert_allclose(kept, torch.sigmoid(values).numpy(), atol=1e-5)
    told = load_encoder_folder(best(found))[1]["training"]
    assert told["method"]["multi_label"] is True
    assert told["label_fraction"] == 0.5


def test_recordings_without_the_usual_leads_count_for_multi_label(tmp_path: Path) -> None:
    """Here only those of one lead do, and most have two."""
    archive = tmp_path / "archive"
    archive.mkdir()
    layouts = {"a": (("I", "II"), "SR"), "b": (("I", "II"), "AF"), "c": (("V5",), "AF;LBBB")}
    for seed, (name, (leads, _)) in enumerate(layouts.items()):
        clocs.write(make_recording(leads, seed=seed), archive / f"{name}.hea")
    table = tmp_path / "table.csv"
    table.write_text("file,labels\n" + "".join(f"{name},{labels}\n" for name, (_, labels) in layouts.items()))
    store = clocs.ingest("folder", archive, tmp_path / "store", options={"table": str(table), "classes": "SR,AF,LBBB"})
    assert tuning._is_multi_label(store, FramePolicy(num_samples=2500, sampling_rate=500))


def test_a_fine_tuned_encoder_has_seen_the_data_of_pre_training(
    store: Store, trained: Path, tuned: dict[str, Any], tmp_path: Path
) -> None:
    """Tuned on other patients, it still may not be tested on those it was pre-trained on."""
    elsewhere = make_store(tmp_path / "elsewhere", num_records=60, seed=5)
    found = finetune(trained, elsewhere, CONFIG, runs=tmp_path / "runs")
    assert found["contract"]["seen"] == {"train": 0, "validation": 0, "test": 0, "unused": 0}
    first, second = (
        set(load_seen_keys(folder, load_encoder_folder(folder)[1]["seen_sha256"]).tolist())
        for folder in (trained, best(found))
    )
    assert first < second
    for split, place in (("other", store), ("default", make_store(tmp_path / "other", num_records=80, seed=5))):
        with pytest.raises(LeakError, match="test recordings"):
            finetune(best(found), place, FinetuneConfig(split=split), runs=tmp_path / "runs")


def test_a_leak_is_rejected_before_training(store: Store, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(LeakError):
        finetune(trained, store, FinetuneConfig(split="other"), runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_options_are_passed_to_training(
    store: Store, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[PretrainConfig] = []

    def caught(config: PretrainConfig, **_: Any) -> Any:
        told.append(config)
        raise KilledError

    def ask(encoder: Path = trained, **given: Any) -> PretrainConfig:
        with pytest.raises(KilledError):
            finetune(encoder, store, FinetuneConfig(**given), runs=tmp_path)
        return told[-1]

    unusual = ["encoder.final_relu=false", "encoder.dropout=0.3", "encoder.embedding_dim=16"]
    here = [f"store={store.folder}", f"runs={tmp_path}", "max_steps=1"]
    other = Path(pretrain("cmsc-synthetic", [*here, *unusual])["best"])
    monkeypatch.setattr(tuning, "pretrain", caught)
    config = ask(label_fraction=0.25, label_unit="frames", seed=4)
    assert (config.batch_size, config.max_epochs, config.patience, config.learning_rate) == (256, 400, 15, 1e-4)
    assert (config.label_fraction, config.label_unit, config.seed) == (0.25, "frames", 4)
    assert config.init_from == str(trained)
    assert (config.encoder["embedding_dim"], config.encoder["final_relu"]) == (128, True)
    assert "leads" not in config.frames, "it knows all of the store's: the run keeps its name"
    config = ask(other, batch_size=8)
    assert config.batch_size == 8
    unusual_options = {"in_channels": 1, "embedding_dim": 16, "dropout": 0.3, "final_relu": False}
    assert config.encoder == {"name": "cnn", **unusual_options}
    monkeypatch.setitem(tuning.SMALL_BATCH, "synthetic", 16)
    assert ask().batch_size == 16
    assert tuning.SMALL_BATCH["cardiology"] == 16, "the paper's"


def test_training_and_scoring_use_the_same_leads(store: Store, tmp_path: Path) -> None:
    """Of a store that names none, those that the encoder knows: two of four."""
    here = [f"store={store.folder}", f"runs={tmp_path}", "max_steps=1", "batch_size=32", "leads=II,V2"]
    start = pretrain("cmsc-synthetic", here)["best"]
    found = finetune(start, store, CONFIG, runs=tmp_path)
    assert load_encoder_folder(best(found))[1]["input"]["leads"] == ["II", "V2"]
    recordings = int(store.split().mask("test").sum())
    assert found["rows"] == {"test": recordings * 2 * 2}
    (first, *_) = finished_epochs(Path(found["training"]["run"]))
    labelled = int(store.split().mask("train").sum()) // 2
    assert first["step"] == labelled * 2 * 2 // 32, "whole batches"


def test_monitor_selects_the_epoch_of_lowest_loss_or_highest_auc(
    store: Store, tuned: dict[str, Any], tmp_path: Path
) -> None:
    """A learning rate that is far too high: loss and AUC then choose different epochs."""
    given = {"max_epochs": 6, "batch_size": 32, "learning_rate": 0.1, "passes_per_epoch": 2, "monitor": "auc"}
    by_auc = finetune("random", store, FinetuneConfig.model_validate(given), runs=tmp_path)["training"]
    by_loss = tuned["training"]
    epochs, others = (finished_epochs(Path(done["run"])) for done in (by_auc, by_loss))
    losses, aucs = ([each[f"validation_{by}"] for each in epochs] for by in ("loss", "auc"))
    assert by_auc["best_epoch"] == np.argmax(aucs) != np.argmin(losses)
    assert by_auc["validation_loss"] == losses[by_auc["best_epoch"]]
    assert by_loss["best_epoch"] == np.argmin([each["validation_loss"] for each in others])
    assert epochs[0]["step"] == 2 * (epochs[0]["step"] // 2) > 2, "each epoch goes twice over the labels"


def test_monitor_auc_needs_labels(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="monitor=auc: cmsc uses no labels"):
        pretrain("cmsc-synthetic", [f"store={store.folder}", f"runs={tmp_path}", "monitor=auc"])


def test_too_few_labels_for_a_batch_are_rejected(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="do not fill a batch of 256"):
        finetune("random", store, FinetuneConfig(label_fraction=0.02), runs=tmp_path)
