"""The embedding that principal components make, held against scikit-learn's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from torch import nn
from typer.testing import CliRunner

import clocs
from clocs.cli.main import app
from clocs.core.errors import ConfigError, LeakError
from clocs.encoders import PCAEncoder, wrap
from clocs.encoders.pca import components
from clocs.evaluation import pca
from clocs.evaluation.checkpoint import load_encoder_checkpoint
from clocs.evaluation.evaluation_frames import frame_policy_for
from clocs.evaluation.finetune import FinetuneConfig, finetune
from clocs.evaluation.model_outputs import compute_outputs
from clocs.evaluation.pca import write_pca_encoder
from clocs.evaluation.probe import ProbeConfig, probe
from clocs.publishing.publish import publish
from clocs.store.store import Store
from clocs.training.encoder_folder import read_config, write_config
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.onnx_export import finish_encoder
from clocs.training.pretrain import pretrain

EMBEDDING = 16
ENCODER = f"encoder={{name: resnet, width: 4, embedding_dim: {EMBEDDING}}}"
RESNET = (ENCODER, "frames.normalization=none", "batch_size=32")


@pytest.fixture(scope="module", autouse=True)
def _no_onnx_file() -> Iterator[None]:
    """An ONNX file takes longer than the components; one test writes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pca, "finish_encoder", lambda folder, module: "")
        yield


@pytest.fixture(scope="module")
def residual(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = [f"store={store.folder}", f"runs={tmp_path_factory.mktemp('runs')}"]
    return Path(pretrain("cmsc-synthetic", [*here, *RESNET, "max_epochs=1"])["best"])


@pytest.fixture(scope="module")
def made(store: Store, residual: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pca") / "out"
    write_pca_encoder(residual, store, out)
    return out


def test_the_embedding_equals_scikit_learns_pca_of_the_features(store: Store, made: Path) -> None:
    """Whitened, of standardised channels; up to signs. Scikit-learn divides variances by one less."""
    encoder = load_encoder_checkpoint(made, store)
    assert isinstance(encoder.module, PCAEncoder)
    policy, training = frame_policy_for(encoder.about, store, "encoder"), store.split().mask("train")
    embeddings = compute_outputs(encoder.module, store, policy, training).values
    channels = compute_outputs(pca._Features(encoder.module), store, policy, training).values
    assert channels.shape[1] == 2 * (4 + 8 + 12 + 16)
    fitted = PCA(EMBEDDING, whiten=True).fit(StandardScaler().fit_transform(channels.astype(np.float64)))
    expected = fitted.transform(StandardScaler().fit_transform(channels.astype(np.float64)))
    signs = np.sign((embeddings * expected).sum(0))
    few = 6  # later ones differ little in variance and may change places with rounding
    np.testing.assert_allclose(embeddings[:, :few], (signs * expected)[:, :few], rtol=0.02, atol=0.02)
    np.testing.assert_allclose(np.cov(embeddings.T), np.eye(EMBEDDING), atol=0.02)
    explained = encoder.about["pca"]["explained"]
    assert explained == pytest.approx(fitted.explained_variance_ratio_.sum(), abs=1e-3)


def test_only_the_last_layer_changes(store: Store, residual: Path, made: Path) -> None:
    before, after = (load_encoder_checkpoint(folder, store).module.state_dict() for folder in (residual, made))
    kept = {f"encoder.{name}": value for name, value in before.items() if not name.startswith("linear.")}
    assert after.keys() - kept.keys() == {"linear.weight", "linear.bias"}
    assert all(np.array_equal(after[name], value) for name, value in kept.items())
    assert after["linear.weight"].shape == (EMBEDDING, 80)


def test_it_can_be_used_like_any_encoder_and_keeps_the_list_of_seen_recordings(
    store: Store, made: Path, tmp_path: Path
) -> None:
    encoder = clocs.load_encoder(made)
    assert encoder.embed(store.recording("0000000")).values.shape[1] == EMBEDDING
    found = probe(made, store, runs=tmp_path)
    assert 0 < found["test"]["recording"]["auc"]["value"] <= 1
    with pytest.raises(LeakError):
        probe(made, store, ProbeConfig(split="other"), runs=tmp_path)


def test_components_of_an_untrained_network_have_seen_their_patients(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pca, "finish_encoder", finish_encoder)
    here = [f"store={store.folder}", f"runs={tmp_path / 'runs'}", *RESNET, "max_epochs=0"]
    start = pretrain("cmsc-synthetic", here)["best"]
    assert probe(start, store, ProbeConfig(split="other"), runs=tmp_path)["contract"]["seen"]["train"] == 0
    write_pca_encoder(start, store, tmp_path / "out")
    with pytest.raises(LeakError):
        probe(tmp_path / "out", store, ProbeConfig(split="other"), runs=tmp_path)
    assert clocs.load_encoder(tmp_path / "out").runtime == "onnxruntime"


def test_the_command_writes_the_same_bytes(store: Store, residual: Path, made: Path, tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["evaluate", "pca", str(residual), str(store.folder), str(tmp_path / "out")])
    assert said.exit_code == 0
    assert "of the variance" in said.output
    for name in ("config.json", "model.safetensors", "seen.npy"):
        assert (tmp_path / "out" / name).read_bytes() == (made / name).read_bytes()


@pytest.mark.slow
def test_recordings_are_sampled_from_a_large_store(
    store: Store, residual: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pca, "MAX_RECORDINGS", 20)
    weights = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        write_pca_encoder(residual, store, tmp_path / name, seed=seed)
        weights.append((tmp_path / name / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]
    assert weights[0] != (made / "model.safetensors").read_bytes()


def test_stores_of_any_size_have_equal_weight() -> None:
    """By hand: the larger has 100 times the rows, and the mean of both lies midway."""
    random = np.random.default_rng(0)
    small, large = random.normal(1, 1, (50, 3)), random.normal(3, 2, (5000, 3))
    moments = [(rows.mean(0), rows.T @ rows / len(rows)) for rows in (small, large)]
    weight, bias, explained = components(moments, 3)
    assert explained == pytest.approx(1)
    np.testing.assert_allclose(weight @ ((small.mean(0) + large.mean(0)) / 2) + bias, 0, atol=1e-12)
    both = np.concatenate([np.repeat(small, 100, axis=0), large]) @ weight.T + bias
    np.testing.assert_allclose(both.T @ both / len(both), np.eye(3), atol=1e-9)


@pytest.mark.parametrize("whitening", [0.0, 0.5, 1.0])
def test_whitening_leaves_a_power_of_each_variance_and_a_mean_variance_of_one(whitening: float) -> None:
    """By hand: variances of standardised features are eigenvalues of their correlations."""
    values = np.random.default_rng(0).normal(size=(500, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    weight, bias, _ = components([(values.mean(0), values.T @ values / len(values))], 4, whitening)
    expected = np.linalg.eigvalsh(np.corrcoef(values.T))[::-1] ** (1 - whitening)
    np.testing.assert_allclose((values @ weight.T + bias).var(0), expected / expected.mean(), rtol=1e-9)


def test_a_constant_feature_has_no_weight_and_too_many_components_are_rejected() -> None:
    values = np.random.default_rng(0).normal(size=(40, 3))
    values[:, 1] = 7
    moments = [(values.mean(0), values.T @ values / len(values))]
    weight, _, _ = components(moments, 2)
    np.testing.assert_array_equal(weight[:, 1], 0)
    with pytest.raises(ConfigError, match="features have only 2 dimensions"):
        components(moments, 3)


@pytest.mark.slow
def test_classifiers_and_head_of_the_old_layer_are_left_out(store: Store, residual: Path, tmp_path: Path) -> None:
    """A published encoder's classifiers, and the head of one that was trained with labels."""
    publish(residual, store, tmp_path / "published", "residual")
    here = [f"store={store.folder}", f"runs={tmp_path / 'runs'}"]
    labelled = pretrain("supervised-synthetic", [*here, *RESNET, "max_epochs=1"])["best"]
    for number, folder in enumerate((tmp_path / "published", labelled)):
        out = tmp_path / str(number)
        write_pca_encoder(folder, store, out)
        encoder = clocs.load_encoder(out)
        assert not encoder.classifiers
        assert not {"classifiers", "head_sha256"} & encoder.about.keys()


def test_a_run_or_another_encoder_is_not_overwritten(store: Store, residual: Path, made: Path, tmp_path: Path) -> None:
    """Nor the one that is read, nor the same one once it has classifiers."""
    published = shutil.copytree(made, tmp_path / "published")
    write_config(published, {**read_config(published), "classifiers": ["mine"]})
    for out, seed in ((residual, 0), (residual.parent, 0), (made, 1), (published, 0)):
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        with pytest.raises(ConfigError, match=rf"{out} holds a run or another encoder.*Name a new folder"):
            write_pca_encoder(residual, store, out, seed=seed)
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("finished", [False, True])
def test_an_incomplete_result_is_written_again(
    finished: bool, store: Store, residual: Path, made: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(made, tmp_path / "out")
    (out / "model.safetensors").write_bytes(b"torn")
    if not finished:
        (out / "config.json").unlink()
    write_pca_encoder(residual, store, out)
    for path in made.iterdir():
        assert (out / path.name).read_bytes() == path.read_bytes()


def test_the_number_of_components_can_be_chosen(store: Store, trained: Path, tmp_path: Path) -> None:
    """The paper's network, whose 104 features are fewer than its 128 outputs."""
    with pytest.raises(ConfigError, match=r"embedding_dim=128: the features have only \d+ dimensions"):
        write_pca_encoder(trained, store, tmp_path / "out")
    write_pca_encoder(trained, store, tmp_path / "out", embedding_dim=12)
    encoder = clocs.load_encoder(tmp_path / "out")
    assert encoder.embed(store.recording("0000000")).values.shape[1] == 12
    section = encoder.about["encoder"]
    assert (section["name"], section["options"]["encoder"]["name"]) == ("pca", "cnn")
    with pytest.raises(ConfigError, match="holds a run or another encoder"):
        write_pca_encoder(trained, store, tmp_path / "out", embedding_dim=13)


def test_it_can_be_fine_tuned(store: Store, made: Path, tmp_path: Path) -> None:
    found = finetune(made, store, FinetuneConfig(max_epochs=1), runs=tmp_path)
    module, about = load_encoder_folder(Path(found["training"]["run"]) / "best")
    assert isinstance(module, PCAEncoder)
    assert about["encoder"] == load_encoder_folder(made)[1]["encoder"]


def test_encoders_without_features_and_random_weights_are_rejected(store: Store, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="PCA needs an encoder with features, and Flatten has none"):
        PCAEncoder(wrap(nn.Flatten(), in_channels=1, embedding_dim=500), 4)
    with pytest.raises(ConfigError, match="random weights"):
        write_pca_encoder("random", store, tmp_path / "out")
    assert not (tmp_path / "out").exists()
