"""Linear evaluation: scikit-learn's own AUC on the same embeddings, once for each question, and no way to cheat."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import clocs.evaluation.evaluation_run as evaluation_run
import clocs.evaluation.probe as probing
from clocs.core.errors import ConfigError, LeakError
from clocs.evaluation.benchmark.embedders import load_embedder
from clocs.evaluation.benchmark.recording_features import recording_features
from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.model_outputs import ModelOutputs, compute_outputs
from clocs.evaluation.probe import ProbeConfig, probe
from clocs.evaluation.results import load_scores
from clocs.evaluation.scoring import compute_metrics
from clocs.signals.framing import FramePolicy
from clocs.store.splits import make_split
from clocs.store.store import Store, open_store
from clocs.store.task_targets import task_targets
from clocs.training.encoder_module import load_encoder_folder, save_encoder
from clocs.training.labels import sample_patients
from clocs.training.pretrain import pretrain
from tests.evaluation.conftest import make_store
from tests.inference.conftest import make_encoder

CLASSES = {
    "two": {"regular": ("SR", "SB", "ST"), "irregular": ("AFIB", "PVC")},
    "absent": {"slow": ("SB",), "pausing": ("PAUSE",), "other": ("SR", "ST", "AFIB", "PVC")},
    "overlapping": {"sinus": ("SR", "SB", "ST"), "fast": ("ST", "AFIB"), "irregular": ("AFIB", "PVC")},
}


@pytest.fixture(autouse=True)
def _few_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_run, "compute_metrics", partial(compute_metrics, replicates=20))


def literal_auc(train: ModelOutputs, test: ModelOutputs, strength: float) -> float:
    """scikit-learn used bare; classes that are not there left out of the mean."""
    scaler = StandardScaler().fit(train.values.astype(np.float64))
    model = LogisticRegression(C=strength, max_iter=500)
    several = bool((train.truth.sum(1) != 1).any())
    model = OneVsRestClassifier(model) if several else model
    model.fit(scaler.transform(train.values.astype(np.float64)), train.truth if several else train.truth.argmax(1))
    scores = model.predict_proba(scaler.transform(test.values.astype(np.float64))).astype(np.float32)
    present = np.flatnonzero(train.truth.any(0))
    return float(np.mean([roc_auc_score(test.truth[:, k], scores[:, place]) for place, k in enumerate(present)]))


def paper_config(**options: Any) -> ProbeConfig:
    """The protocol of the paper, which classifies frames."""
    return ProbeConfig(representation="frames", **options)


def embedded(module: torch.nn.Module, store: Store, records: npt.NDArray[np.bool_]) -> ModelOutputs:
    return compute_outputs(module, store, store.frame_policy("evaluation"), records)


def scores_of(found: dict[str, Any]) -> npt.NDArray[np.float32]:
    return load_scores(Path(found["run"])).values


def test_auc_equals_scikit_learn(store: Store, trained: Path, tmp_path: Path) -> None:
    found = probe(trained, store, paper_config(seed=3), runs=tmp_path)
    module = load_encoder_folder(trained)[0]
    labelled = sample_patients(store, store.split().mask("train"), 0.5, 3)
    train, test = (embedded(module, store, records) for records in (labelled, store.split().mask("test")))
    value = found["test"]["frame"]["auc"]["value"]
    assert value == pytest.approx(literal_auc(train, test, found["strength"]), abs=1e-6)
    assert found["rows"] == {"train": len(train.values), "validation": 192, "test": len(test.values)}
    assert found["patients"] == {"train": 26, "validation": 12, "test": 16}
    assert found["contract"] == {"seen": {"train": 104, "validation": 24, "test": 0, "unused": 0}}
    assert found["encoder"]["method"] == "cmsc"
    assert found["notes"] == []


@pytest.mark.parametrize("name", CLASSES)
def test_two_absent_and_overlapping_classes(name: str, tmp_path: Path) -> None:
    """Two; one that no recording has; several at once."""
    store = make_store(tmp_path / "store", CLASSES[name], num_records=120)
    found = probe("random", store, paper_config(label_fraction=1), runs=tmp_path)
    module = load_encoder_checkpoint("random", store).module
    train, test = (embedded(module, store, store.split().mask(part)) for part in ("train", "test"))
    value = found["test"]["frame"]["auc"]["value"]
    assert value == pytest.approx(literal_auc(train, test, found["strength"]), abs=1e-6)
    assert train.multi_label is (name == "overlapping")
    scores = scores_of(found)
    assert np.allclose(scores.sum(1), 1) is (name != "overlapping")
    if name == "absent":
        assert scores[:, 1].max() < 1e-9
        assert found["test"]["frame"]["classes"]["pausing"]["auc"]["value"] is None


def test_the_regularisation_has_the_best_validation_auc(store: Store, trained: Path, tmp_path: Path) -> None:
    found = probe(trained, store, paper_config(label_fraction=1), runs=tmp_path)
    module, split = load_encoder_folder(trained)[0], store.split()
    train, validation = (embedded(module, store, split.mask(part)) for part in ("train", "validation"))
    aucs = {strength: literal_auc(train, validation, strength) for strength in (0.001, 0.01, 0.1, 1.0, 10.0)}
    assert found["strength"] == max(aucs, key=lambda strength: aucs[strength])


def test_test_labels_do_not_change_the_classifier(
    store: Store, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the labels of the test part shuffled, classifier and scores stay; only the judgement changes."""
    honest = probe(trained, store, paper_config(), runs=tmp_path / "honest")
    test = store.split().mask("test")

    def shuffled(
        module: torch.nn.Module, place: Store, policy: FramePolicy, records: npt.NDArray[np.bool_], **options: Any
    ) -> ModelOutputs:
        rows = compute_outputs(module, place, policy, records, **options)
        if np.array_equal(records, test):
            np.random.default_rng(0).shuffle(rows.truth)
        return rows

    monkeypatch.setattr(probing, "compute_outputs", shuffled)
    blind = probe(trained, store, paper_config(), runs=tmp_path / "blind")
    assert blind["strength"] == honest["strength"]
    np.testing.assert_array_equal(scores_of(blind), scores_of(honest))
    assert blind["test"]["frame"]["auc"] != honest["test"]["frame"]["auc"]


def test_a_probe_is_computed_once_and_seeds_draw_different_labels(
    store: Store, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = (probe(trained, store, paper_config(seed=seed), runs=tmp_path) for seed in (0, 1))
    assert first["run"] != other["run"]
    assert first["rows"] == other["rows"]
    assert not np.array_equal(scores_of(first), scores_of(other))
    monkeypatch.setattr(probing, "compute_outputs", None)
    again = probe(trained.parent, store.folder, paper_config(seed=0), runs=tmp_path)
    assert (first.pop("already_finished"), again.pop("already_finished")) == (False, True)
    assert again == first


def test_options_without_weights_change_the_identity_of_an_encoder(store: Store, tmp_path: Path) -> None:
    """The same weights behind another stride are another network: its result must not be looked up."""
    here = [f"store={store.folder}", f"runs={tmp_path}", "max_epochs=0", "batch_size=32"]
    starts = [pretrain("cmsc-synthetic", [*here, f"encoder.final_relu={on}"])["best"] for on in ("true", "false")]
    hashes = {load_encoder_folder(Path(start))[1]["weights_sha256"] for start in starts}
    assert len(hashes) == 1
    first, second = (probe(start, store, paper_config(), runs=tmp_path) for start in starts)
    assert not second["already_finished"]
    assert first["test"]["frame"]["auc"] != second["test"]["frame"]["auc"]


def test_another_encoder_or_split_is_another_run(store: Store, trained: Path, tmp_path: Path) -> None:
    here = [f"store={store.folder}", f"runs={tmp_path}", "max_steps=1"]
    others = [pretrain("cmsc-synthetic", [*here, f"seed={seed}"])["best"] for seed in (1, 2)]
    shutil.copytree(store.folder, tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "splits")
    again = open_store(tmp_path / "store")
    make_split(again, seed=7)
    assert again.sha256 == store.sha256
    found = [probe(encoder, store, paper_config(), runs=tmp_path) for encoder in (*others, "random")]
    found.append(probe("random", again, paper_config(), runs=tmp_path))
    assert not any(one["already_finished"] for one in found)


@pytest.mark.parametrize("train_mode", [False, True])
def test_the_encoder_does_not_change(
    train_mode: bool, store: Store, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[EncoderCheckpoint] = []

    def keep(*given: Any) -> EncoderCheckpoint:
        held.append(load_encoder_checkpoint(*given))
        return held[-1]

    monkeypatch.setattr(evaluation_run, "load_encoder_checkpoint", keep)
    probe(trained, store, paper_config(train_mode=train_mode), runs=tmp_path)
    expected = load_encoder_folder(trained)[0].state_dict()
    assert not held[0].module.training
    assert all(torch.equal(value, expected[name]) for name, value in held[0].module.state_dict().items())


def test_train_mode_differs_and_is_deterministic(store: Store, trained: Path, tmp_path: Path) -> None:
    """Dropout is drawn from the seed, whatever was drawn before."""
    frozen = probe(trained, store, paper_config(), runs=tmp_path)
    noisy, again = (probe(trained, store, paper_config(train_mode=True), runs=tmp_path / name) for name in "ab")
    scores = [scores_of(found) for found in (frozen, noisy, again)]
    assert not np.allclose(scores[0], scores[1], atol=1e-3)
    np.testing.assert_array_equal(scores[1], scores[2])


def test_labels_may_be_drawn_over_frames(store: Store, trained: Path, tmp_path: Path) -> None:
    found = probe(trained, store, paper_config(label_fraction=0.25, label_unit="frames"), runs=tmp_path)
    assert found["rows"]["train"] == 104 * 8 // 4
    assert found["patients"]["train"] > 45, "some frames of nearly all 52"
    assert probe(trained, store, paper_config(label_fraction=0.25), runs=tmp_path)["patients"]["train"] == 13


def test_the_papers_solver(store: Store, trained: Path, tmp_path: Path) -> None:
    found = probe(trained, store, paper_config(solver="adam", label_fraction=1), runs=tmp_path)
    assert found["strength"] is None
    assert 0 <= found["test"]["frame"]["auc"]["value"] <= 1
    assert found["run"] != probe(trained, store, paper_config(label_fraction=1), runs=tmp_path)["run"]


def encoder_for(folder: Path, num_samples: int, sampling_rate: float, store: Store) -> Path:
    """An encoder of other frames, trained on the store's split."""
    module, told = load_encoder_folder(
        make_encoder(folder, FramePolicy(num_samples=num_samples, sampling_rate=sampling_rate))
    )
    told["training"] = {"store_sha256": store.sha256, "split_sha256": store.split().sha256}
    save_encoder(folder, module, told)
    return folder


def test_another_sampling_rate_is_resampled_or_noted(store: Store, tmp_path: Path) -> None:
    slow, fast = (
        encoder_for(tmp_path / str(sampling_rate), n, sampling_rate, store)
        for n, sampling_rate in ((1000, 100), (2500, 250))
    )
    found = probe(slow, store, paper_config(), runs=tmp_path / "runs")
    assert found["rows"]["test"] == 32 * 4, "one frame of 10 s a lead"
    assert found["notes"] == []
    noted = probe(fast, store, paper_config(frames="paper"), runs=tmp_path / "runs")
    assert noted["rows"]["test"] == 32 * 8
    assert noted["notes"] == ["the encoder was trained at 250 Hz, these frames have 500 Hz"]
    with pytest.raises(ConfigError, match="2500 samples, the encoder takes 1000"):
        probe(slow, store, paper_config(frames="paper"), runs=tmp_path / "runs")


def test_a_leak_writes_no_result(store: Store, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(LeakError):
        probe(trained, store, paper_config(split="other"), runs=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong", [{"label_fraction": 0}, {"label_fraction": 1.2}, {"frames": "mine"}, {"label_unit": "x"}, {"a": 1}]
)
def test_invalid_options_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ProbeConfig.model_validate(wrong)


def test_a_number_of_labelled_patients_is_a_fraction_of_them(store: Store, trained: Path, tmp_path: Path) -> None:
    people = len(np.unique(store.patient_codes()[0][store.split().mask("train")]))
    found = probe(trained, store, paper_config(num_labelled_patients=people // 2), runs=tmp_path)
    assert found["patients"]["train"] == people // 2
    same = probe(trained, store, paper_config(label_fraction=people // 2 / people), runs=tmp_path)
    assert np.array_equal(scores_of(found), scores_of(same))
    with pytest.raises(ConfigError, match=f"has {people} patients"):
        probe(trained, store, paper_config(num_labelled_patients=people + 1), runs=tmp_path)


def test_scoring_the_validation_part_does_not_use_the_test_part(store: Store, trained: Path, tmp_path: Path) -> None:
    found = probe(trained, store, paper_config(part="validation", seed=3), runs=tmp_path)
    assert "test" not in found
    module, split = load_encoder_folder(trained)[0], store.split()
    train = embedded(module, store, sample_patients(store, split.mask("train"), 0.5, 3))
    expected = literal_auc(train, embedded(module, store, split.mask("validation")), found["strength"])
    assert found["validation"]["frame"]["auc"]["value"] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("leads", [(), ("II",)])
def test_recordings_are_classified_by_default(
    leads: tuple[str, ...], store: Store, trained: Path, tmp_path: Path
) -> None:
    """AUC by scikit-learn on features of recordings, with the regularisation that the probe selected."""
    config = ProbeConfig(label_fraction=1, leads=leads)
    found = probe(trained, store, config, runs=tmp_path)
    features = recording_features(load_embedder(trained), store, leads=leads)["embedding"]
    assert sorted(found["test"]) == ["patient", "recording"]
    assert (tuple(found["leads"]), found["dimension"]) == (features.leads, features.dimension)
    truth, split = task_targets(store, "rhythm").truth, store.split()
    train, test = split.mask("train"), split.mask("test")
    values = StandardScaler().fit(features.values[train]).transform(features.values)
    model = LogisticRegression(C=found["strength"], max_iter=5000).fit(values[train], truth[train].argmax(axis=1))
    expected = roc_auc_score(truth[test], model.predict_proba(values[test]), average=None)
    assert found["test"]["recording"]["auc"]["value"] == pytest.approx(np.mean(expected), abs=5e-3)
    assert found["rows"]["test"] == test.sum()
    assert probe(trained, store, config, runs=tmp_path)["already_finished"]


def test_a_task_of_the_store_is_probed(store: Store, trained: Path, tmp_path: Path) -> None:
    found = probe(trained, store, ProbeConfig(task="sex"), runs=tmp_path)
    assert list(found["test"]["recording"]["classes"]) == ["female"]
    with pytest.raises(ConfigError, match="has numbers, not classes"):
        probe(trained, store, ProbeConfig(task="age"), runs=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "adam"}, "solver is an option of representation=frames"),
        ({"frames": "paper"}, "frames is an option of representation=frames"),
        ({"representation": "frames", "leads": ("I",)}, "leads is an option of representation=concatenated_leads"),
    ],
)
def test_options_of_the_other_representation_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ProbeConfig(**options)
