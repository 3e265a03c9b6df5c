"""The ONNX file of an encoder: it gives what torch gives, for any batch, and is left out where it would not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from clocs.core.hashes import file_hash
from clocs.encoders import wrap
from clocs.inference.pretrained import load_encoder
from clocs.training import onnx_export
from clocs.training.encoder_folder import read_config
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.onnx_export import finish_encoder
from clocs.training.pretrain import pretrain
from tests.inference.conftest import LEADS, POLICY, make_encoder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_encoder(tmp_path_factory.mktemp("finished") / "best")
    assert finish_encoder(folder) == ""
    return folder


def walks(count: int, channels: int = 1) -> np.ndarray:
    """Return frames (count, channels, 2500) of smooth signals from 0 to 1."""
    walk = np.cumsum(np.random.default_rng(5).normal(size=(count, channels, POLICY.num_samples)), axis=-1)
    return POLICY.normalize(walk.astype(np.float32))


def test_frames_give_the_same_embeddings_at_any_batch_size(finished: Path) -> None:
    session = onnxruntime.InferenceSession(str(finished / "model.onnx"), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.name, given.shape[1:], given.type) == ("signals", [1, 2500], "tensor(float)")
    module = load_encoder_folder(finished)[0]
    for count in (1, 3, 70):
        frames = walks(count)
        (found,) = session.run(None, {"signals": frames})
        with torch.inference_mode():
            np.testing.assert_allclose(found, module(torch.from_numpy(frames)).numpy(), atol=1e-5)


def test_the_config_has_the_hash_of_the_onnx_file_and_the_file_has_the_config(finished: Path) -> None:
    about = read_config(finished)
    assert about.pop("onnx_sha256") == file_hash(finished / "model.onnx")
    model = onnx.load(finished / "model.onnx")
    onnx.checker.check_model(model)
    held = json.loads({entry.key: entry.value for entry in model.metadata_props}["clocs-encoder"])
    assert held == about
    assert held["input"]["leads"] == list(LEADS)


def test_the_onnx_file_contains_no_paths(finished: Path) -> None:
    raw = (finished / "model.onnx").read_bytes()
    assert str(Path(onnx_export.__file__).parents[1]).encode() not in raw
    assert b"site-packages" not in raw


def test_finishing_again_writes_the_same_bytes(finished: Path) -> None:
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    assert finish_encoder(finished) == ""
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before


def test_an_onnx_file_that_differs_from_torch_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate an export error: the biases of a layer are 1e-3 off."""
    right = onnx_export._translate

    def wrong(module: nn.Module, channels: int, num_samples: int) -> onnx.ModelProto:
        model = right(module, channels, num_samples)
        (bias,) = (item for item in model.graph.initializer if item.name == "linear.bias")
        bias.raw_data = (np.frombuffer(bias.raw_data, np.float32) + np.float32(1e-3)).tobytes()
        return model

    folder = make_encoder(tmp_path)
    monkeypatch.setattr(onnx_export, "_translate", wrong)
    assert "differ from torch's by up to 0.001" in finish_encoder(folder)
    about = read_config(folder)
    assert "differ from torch's by up to 0.001" in about["onnx_missing"]
    assert "onnx_sha256" not in about
    assert not (folder / "model.onnx").exists()
    monkeypatch.undo()
    assert finish_encoder(folder) == ""
    assert "onnx_missing" not in read_config(folder)


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_a_missing_package_leaves_the_encoder_usable(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_encoder(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    assert package in finish_encoder(folder)
    assert package in read_config(folder)["onnx_missing"]


def test_several_leads_need_a_mask_and_a_module_may_be_passed(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Conv1d(4, 8, 7, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 32))
    module = wrap(network, in_channels=4, embedding_dim=32)
    folder = make_encoder(tmp_path, module=module, in_channels=4)
    assert finish_encoder(folder, network) == ""
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    assert [(given.name, given.shape[1:], given.type) for given in session.get_inputs()] == [
        ("signals", [4, 2500], "tensor(float)"),
        ("lead_mask", [4], "tensor(bool)"),
    ]
    frames, lead_mask = walks(5, 4), np.eye(5, 4, dtype=np.bool_)
    (found,) = session.run(None, {"signals": frames, "lead_mask": lead_mask})
    with torch.inference_mode():
        truth = module(torch.from_numpy(frames), torch.from_numpy(lead_mask)).numpy()
    np.testing.assert_allclose(found, truth, atol=1e-5)


def test_telemetry_of_onnx_runtime_is_off(finished: Path, tmp_path: Path) -> None:
    """It would keep an id for the machine, and a queue of what it sends, in the user's home."""
    script = (
        "import sys; from clocs.training.onnx_session import OnnxNetwork; OnnxNetwork(open(sys.argv[1], 'rb').read())"
    )
    places = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", script, str(finished / "model.onnx")]
    subprocess.run(command, env={**os.environ, **places}, check=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_run_ends_with_the_file_of_its_best_encoder(store: Path, tmp_path: Path) -> None:
    told = (
        f"store={store}",
        f"runs={tmp_path}",
        "batch_size=32",
        "max_steps=2",
        "encoder.embedding_dim=16",
        "frames.num_samples=500",
    )
    done = pretrain({"method": "cmsc"}, [*told, "onnx=true"])
    encoder = load_encoder(done["run"])
    assert encoder.runtime == "onnxruntime"
    np.testing.assert_allclose(
        encoder.embed_frames(walks(3)[..., :500]),
        load_encoder(done["run"], device="cpu").embed_frames(walks(3)[..., :500]),
        atol=1e-5,
    )
