"""Tests of published folders: classifiers, model card and leakage checks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import clocs.publishing.publish as publishing
from clocs.core.errors import ClocsError, ConfigError, LeakError
from clocs.core.sources.source import open_source
from clocs.datasets import DATASETS
from clocs.datasets.dataset import SplitPolicy
from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.recording_classifier import lead_sets_of
from clocs.inference import classification, long_recordings
from clocs.inference.abstention import InputVerdict
from clocs.inference.classification import format_set
from clocs.inference.pretrained import load_encoder
from clocs.publishing.model_card import CardContent, format_model_card
from clocs.publishing.publish import publish
from clocs.signals.leads import LEAD_SETS
from clocs.similarity.scoring.audit import audit, table_rows
from clocs.store.duplicates import signal_keys
from clocs.store.splits import make_split
from clocs.store.store import Store
from clocs.training.encoder_folder import read_config
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.pretrain import pretrain
from clocs.training.seen_recordings import load_seen_keys
from clocs.training.shipped import shipped_encoders
from tests.evaluation.conftest import make_store
from tests.inference.conftest import make_encoder

SHIPPED = {
    "clocs-base": (2048, 21_000_000),
    "clocs-small": (128, 3_500_000),
    "cmsc-chapman": (128, 3_500_000),
    "cmsc-physionet2020": (128, 3_500_000),
}
"""Dimension of an embedding and maximum number of bytes of each shipped encoder."""


@pytest.fixture(scope="module")
def published(store: Store, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "mine"
    publish(trained, store, folder, "mine")
    return folder


@pytest.fixture(autouse=True)
def _no_second_onnx_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ONNX file takes longer than the rest of a folder; only ``published`` has one."""
    monkeypatch.setattr(publishing, "finish_encoder", lambda folder, module: "")


def test_the_folder_is_self_contained(published: Path, store: Store) -> None:
    encoder = load_encoder(published)
    names = {path.name for path in published.iterdir()}
    assert names == {"README.md", "config.json", "model.safetensors", "model.onnx", "seen.npy", "classifiers"}
    assert list(encoder.classifiers) == ["synthetic"]
    sets = [item.leads for item in encoder.classifier().card.lead_sets]
    assert sets == list(lead_sets_of(store.frames("evaluation").leads))
    found = encoder.classify(store.recording(0))
    assert sum(item.probability for item in found.classes) == pytest.approx(1)


def test_the_metrics_of_the_card_are_those_of_its_classifier(
    published: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every test recording classified as a user would, one by one; the AUC by scikit-learn.

    The gate is open, because metrics are those of all test recordings.
    """
    monkeypatch.setattr(long_recordings, "judge_signal", lambda recording: InputVerdict(recording.leads))
    monkeypatch.setattr(classification, "judge_patient", lambda recording: ((), ()))
    monkeypatch.setattr(classification, "judge_features", lambda *arguments: ())
    encoder, split = load_encoder(published), store.split()
    names = [item.name for item in encoder.classifier().card.classes]
    groups = store.manifest.dataset["classes"]
    scores, truth = [], []
    for number in np.flatnonzero(split.mask("test")):
        recording = store.recording(int(number))
        found = {item.name: item.probability for item in encoder.classify(recording).classes}
        scores.append([found[name] for name in names])
        truth.append([not set(groups[name]).isdisjoint(recording.labels) for name in names])
    columns = [place for place in range(len(names)) if 0 < np.sum(truth, axis=0)[place] < len(truth)]
    macro = np.mean([roc_auc_score(np.array(truth)[:, place], np.array(scores)[:, place]) for place in columns])
    card = (published / "README.md").read_text()
    stated = re.search(r"\| recording \([\d,]+\) \| ([\d.]+)", card)
    assert stated is not None
    assert float(stated[1]) == pytest.approx(macro, abs=6e-4)


def test_the_card_states_use_subgroups_and_licence(published: Path) -> None:
    card = (published / "README.md").read_text()
    for said in (
        "Research use only",
        "female",
        "male",
        "age 40 to 59",
        "license:",
        "seen.npy",
        "sum to 1",
    ):
        assert said in card


def test_classifiers_of_several_tasks_have_their_names(store: Store, trained: Path, tmp_path: Path) -> None:
    """Multi-label, with a set of leads each; the audit of the store is there once."""
    found = publish(trained, store, tmp_path / "out", "mine", tasks=("findings", "sex"), cache=tmp_path / "features")
    encoder = load_encoder(tmp_path / "out")
    assert list(found["test"]) == list(encoder.classifiers) == ["findings", "sex"]
    assert all(classifier.card.multi_label for classifier in encoder.classifiers.values())
    classified = encoder.classify(store.recording(0), classifier="sex")
    assert [item.name for item in classified.classes] == ["female"]
    assert classified.leads == encoder.classifier("sex").card.lead_sets[0].leads
    for name, classifier in encoder.classifiers.items():
        assert list(found["test"][name]) == [", ".join(item.leads) for item in classifier.card.lead_sets]
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.count("See the classifier before") == 1
    assert card.count(f"| {DATASETS.get('synthetic').title}") == 1
    with pytest.raises(ConfigError, match="no task 'mood'"):
        publish(trained, store, tmp_path / "other", "mine", tasks=("mood",))


def test_the_card_has_the_privacy_audit(published: Path, store: Store) -> None:
    card, found = (published / "README.md").read_text(), audit(published, store)
    section = card.split("## Privacy audit")[1].split("\n## ")[0]
    rows = table_rows(found)
    assert len(rows) == section.count("\n| ") - 1
    for row in rows:
        assert f"| {' | '.join(row)} |" in section
    assert f"on {found['patients']:,} test patients" in section
    assert "stronger ones may find more" in section


def test_an_encoder_of_two_stores_has_a_classifier_for_each(store: Store, tmp_path: Path) -> None:
    """Their order is that of training; both parts of both stores are listed as seen."""
    other = make_store(tmp_path / "other", num_records=120, seed=5)
    here = [f"store={store.folder}", f"extra_stores=[{other.folder}]", f"runs={tmp_path / 'runs'}"]
    best = pretrain("cmsc-synthetic", [*here, "max_epochs=1", "batch_size=32", "frames.normalization=none"])["best"]
    with pytest.raises(ConfigError, match="in their order"):
        publish(best, other, tmp_path / "out", "both", extra_stores=[store])
    found = publish(best, store, tmp_path / "out", "both", extra_stores=[other.folder])
    encoder = load_encoder(tmp_path / "out")
    assert list(found["test"]) == list(encoder.classifiers) == ["synthetic", "synthetic-2"]
    hashes = [item.card.trained_on["store_sha256"] for item in encoder.classifiers.values()]
    assert hashes == [store.sha256, other.sha256]
    seen = load_seen_keys(tmp_path / "out", encoder.about["seen_sha256"])
    for place in (store, other):
        keys, split = signal_keys(place), place.split()
        used = split.mask("train") | split.mask("validation")
        np.testing.assert_array_equal(np.isin(keys, seen), used)
    card = (tmp_path / "out" / "README.md").read_text()
    assert card.count("### `synthetic-2`") == 3
    assert 'classifier="synthetic-2"' in card


def test_recordings_seen_by_the_initial_encoder_stay_on_the_list(store: Store, trained: Path, tmp_path: Path) -> None:
    """Trained on one store and then on another: patients of the first may not test what is published either."""
    other = make_store(tmp_path / "other", num_records=120, seed=5)
    here = [f"store={other.folder}", f"runs={tmp_path / 'runs'}", f"init_from={trained}"]
    best = Path(pretrain("cmsc-synthetic", [*here, "max_epochs=1", "batch_size=32"])["best"])
    publish(best, other, tmp_path / "out", "second")
    for folder in (best, tmp_path / "out"):
        with pytest.raises(LeakError):
            check_leakage(folder, load_encoder_folder(folder)[1], store, store.split("other"))


def test_a_classifier_can_be_fitted_to_other_data_than_the_encoder(store: Store, trained: Path, tmp_path: Path) -> None:
    """The encoder stays as it is; both stores' patients are listed as seen, and the card says who trained what."""
    other = make_store(tmp_path / "other", num_records=120, seed=5)
    make_split(other, "second", seed=1)
    publish(trained, other, tmp_path / "out", "ward", split="second")
    encoder = load_encoder(tmp_path / "out")
    weights = [(folder / "model.safetensors").read_bytes() for folder in (trained, tmp_path / "out")]
    assert weights[0] == weights[1]
    told = encoder.classifier().card.trained_on
    assert (told["store_sha256"], told["split_sha256"]) == (other.sha256, other.split("second").sha256)
    assert sum(item.probability for item in encoder.classify(other.recording(0)).classes) == pytest.approx(1)
    seen = load_seen_keys(tmp_path / "out", encoder.about["seen_sha256"])
    for place, split in ((store, store.split()), (other, other.split("second"))):
        np.testing.assert_array_equal(np.isin(signal_keys(place), seen), ~split.mask("test"))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "trained before, without labels, on other data (synthetic)" in " ".join(card.split())
    assert "there is no membership to infer" in card


def test_leaks_and_incompatible_stores_are_rejected(store: Store, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="random weights"):
        publish("random", store, tmp_path / "out", "name")
    with pytest.raises(LeakError, match="trained on patients of the test part"):
        publish(trained, make_store(tmp_path / "store", num_records=80), tmp_path / "out", "name")
    with pytest.raises(ConfigError, match="trained with 'default'; leave the split out"):
        publish(trained, store, tmp_path / "out", "name", split="other")
    with pytest.raises(ConfigError, match="all stores that the encoder was trained with"):
        publish(trained, store, tmp_path / "out", "name", extra_stores=[make_store(tmp_path / "more", seed=5)])
    assert not (tmp_path / "out").exists()


def test_a_run_or_another_encoder_is_not_overwritten(
    store: Store, trained: Path, published: Path, tmp_path: Path
) -> None:
    """Not even the encoder that is read; only one that was published before."""
    other = make_encoder(tmp_path / "other")
    for out in (trained, trained.parent, other):
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        with pytest.raises(ConfigError, match=rf"{out} holds a run or another encoder.*Name a new folder"):
            publish(trained, store, out, "mine")
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    again = shutil.copytree(published, tmp_path / "again")
    publish(trained, store, again, "yours")
    assert (again / "README.md").read_text() == (published / "README.md").read_text().replace("mine", "yours")


def test_a_folder_with_recordings_is_rejected(store: Store, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "1.hea").touch()
    with pytest.raises(ConfigError, match=r"such as '1\.hea'\. Name a new folder"):
        publish(trained, store, tmp_path, "mine")
    assert [path.name for path in tmp_path.iterdir()] == ["1.hea"]


def test_results_need_test_patients(store: Store, tmp_path: Path) -> None:
    make_split(store, "all", policy=SplitPolicy(train=0.8, validation=0.2, test=0))
    here = [f"store={store.folder}", f"runs={tmp_path}", "split=all", "max_steps=1", "batch_size=32"]
    best = pretrain("cmsc-synthetic", here)["best"]
    with pytest.raises(ConfigError, match=r"split 'all' of .* has no patient in its test part"):
        publish(best, store, tmp_path / "out", "name")


def test_a_store_without_classes_is_rejected(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no classes"):
        publish(trained, make_store(tmp_path / "store", {}, num_records=20), tmp_path / "out", "name")


@pytest.mark.parametrize("name", sorted(shipped_encoders()))
def test_classifiers_of_shipped_encoders_have_sets_of_leads(name: str) -> None:
    """Twelve, six, I and II; the paper's network I and II; CinC 2017 one. The card has a test result for each."""
    card = (shipped_encoders()[name] / "README.md").read_text()
    for which, classifier in load_encoder(name).classifiers.items():
        sets = tuple(item.leads for item in classifier.card.lead_sets)
        expected = lead_sets_of(("I", "II")) if name == "cmsc-chapman" else LEAD_SETS
        assert sets == ((("ECG",),) if which == "physionet2017" else expected)
        assert f"It was fitted on {' or '.join(map(format_set, sets))}; " in card
        for item in classifier.card.lead_sets:
            assert item.test_auc is not None
            assert f"{item.test_auc:.3f}" in card


@pytest.mark.parametrize("name", sorted(shipped_encoders()))
def test_a_shipped_encoder_is_complete_small_and_documented(name: str) -> None:
    folder = shipped_encoders()[name]
    encoder = load_encoder(name)
    embedding_dim, max_bytes = SHIPPED[name]
    assert encoder.embedding_dim == embedding_dim
    assert (encoder.input.sampling_rate, encoder.input.num_samples) == (500.0, 2500)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < max_bytes
    card = (folder / "README.md").read_text()
    assert "## Privacy audit" in card
    assert "equal error rate" in card
    for item in (item for classifier in encoder.classifiers.values() for item in classifier.card.classes):
        assert f"| {item.name} | {item.meaning} |" in card
        assert item.meaning != item.name
    assert all(all(item.reliability) for one in encoder.classifiers.values() for item in one.card.lead_sets)


def test_the_shipped_encoders_are_those_of_the_documentation() -> None:
    assert sorted(shipped_encoders()) == list(SHIPPED)


@pytest.mark.parametrize(
    ("name", "classifier"),
    [("clocs-small", "chapman"), ("cmsc-chapman", "chapman"), ("clocs-base", "chapman-groups")],
)
def test_shipped_encoders_classify_rhythms_of_original_files(name: str, classifier: str, originals: Path) -> None:
    """Chapman's originals as published, hard ones among them: most rhythms are named as their publisher has them."""
    chapman, encoder = DATASETS.get("chapman"), load_encoder(name)
    right: list[str] = []
    wrong: list[str] = []
    for entry in chapman.entries(open_source(originals), chapman.parse_options({})):
        groups = [name for name, labels in chapman.classes.items() if not set(labels).isdisjoint(entry.labels)]
        try:
            classes = encoder.classify(originals / entry.file, classifier=classifier).classes
        except ClocsError:
            continue
        if classes:
            (right if [classes[0].name] == groups else wrong).append(entry.record_id)
    assert len(right) + len(wrong) == 14
    assert len(right) > len(wrong), wrong


def test_the_card_of_an_encoder_without_classifiers_has_its_audit_and_objectives(published: Path, store: Store) -> None:
    config = read_config(published)
    method = {**config["training"]["method"], "objectives": ["contrast", "samples", "kernels"]}
    pca = {"explained": {"lead_encoder": 0.95, "joint_encoder": 0.99}, "recordings": 1000, "whitening": 0.5}
    about = {
        **{key: value for key, value in config.items() if key not in ("epoch", "validation_loss")},
        "training": {**config["training"], "method": method},
        "pca": pca,
    }
    text = format_model_card(CardContent("mine", about, (), (("Synthetic", audit(published, store)),)))
    card = " ".join(text.split())
    for sentence in (
        "giving back the samples of leads and spans that were left out, and by predicting random kernel features",
        "without classifiers.",
        "trained without labels on the training patients of synthetic.",
        "divided by its deviation to the power of 0.5",
        "explains 99% of the variance in the joint encoder and 95% of the variance in the lead encoder.",
        "## Privacy audit ### Synthetic",
    ):
        assert sentence in card
    assert "classify" not in card
    assert "validation loss" not in card
