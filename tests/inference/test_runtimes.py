"""What runs an encoder: ONNX Runtime where it has an ONNX file, else torch; without torch, a clear refusal."""

from __future__ import annotations

import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import ConfigError, IntegrityError, MissingExtraError
from clocs.core.hashes import seal, unseal
from clocs.core.recording import Recording
from clocs.inference.preparation import prepare
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from tests.inference.conftest import make_encoder


def test_onnx_runtime_and_torch_agree(encoder: PretrainedEncoder, twelve: Recording) -> None:
    other = load_encoder(encoder.folder, device="cpu")
    assert (encoder.runtime, other.runtime) == ("onnxruntime", "torch")
    for copies in (1, 40):  # more frames than go through at once
        frames = np.concatenate([prepare(twelve, encoder.input).signals()] * copies)
        np.testing.assert_allclose(other.embed_frames(frames), encoder.embed_frames(frames), atol=1e-5)
    assert other.embed_frames(frames[:0]).shape == (0, encoder.embedding_dim)


def test_an_encoder_without_an_onnx_file_is_run_by_torch(tmp_path: Path, twelve: Recording) -> None:
    encoder = load_encoder(make_encoder(tmp_path))
    assert encoder.runtime == "torch"
    np.testing.assert_array_equal(
        encoder.embed(twelve).values, load_encoder(tmp_path, device="cpu").embed(twelve).values
    )


@pytest.mark.parametrize(
    ("told", "why"), [({}, "its run has not ended"), ({"onnx_missing": "RuntimeError: no such layer"}, "no such layer")]
)
def test_without_torch_the_error_names_reason_and_extra(
    told: dict[str, str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_encoder(tmp_path)
    path = folder / "config.json"
    path.write_bytes(seal({**unseal(path.read_bytes(), ""), **told}))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=rf"has no model\.onnx \(.*{why}\).*pip install 'clocs\[train\]'"):
        load_encoder(folder)


def test_without_torch_the_module_and_devices_name_the_extra(
    encoder_folder: Path, twelve: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    encoder = load_encoder(encoder_folder)
    assert encoder.embed(twelve).values.any()
    with pytest.raises(MissingExtraError, match=r"trainable module .*clocs\[train\]"):
        _ = encoder.module
    with pytest.raises(MissingExtraError, match=r"device 'cuda'.*clocs\[train\]"):
        load_encoder(encoder_folder, device="cuda")


def test_an_unknown_device_is_rejected(encoder_folder: Path) -> None:
    with pytest.raises(ConfigError, match="device 'abacus' cannot be used"):
        load_encoder(encoder_folder, device="abacus")


def test_a_worker_opens_a_pickled_encoder_once(encoder_folder: Path, tmp_path: Path, twelve: Recording) -> None:
    folder = Path(shutil.copytree(encoder_folder, tmp_path / "copy"))
    encoder = load_encoder(folder)
    packed = pickle.dumps(encoder)
    assert len(packed) < 1000, "no weights travel"
    there = pickle.loads(packed)
    assert pickle.loads(packed) is there
    np.testing.assert_array_equal(there.embed(twelve).values, encoder.embed(twelve).values)


def test_a_damaged_onnx_file_raises_an_error(encoder_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(encoder_folder, tmp_path / "copy"))
    raw = bytearray((folder / "model.onnx").read_bytes())
    raw[1000] ^= 1
    (folder / "model.onnx").write_bytes(raw)
    with pytest.raises(IntegrityError, match=r"model\.onnx: content differs from its hash"):
        load_encoder(folder)
    assert load_encoder(folder, device="cpu").runtime == "torch"
