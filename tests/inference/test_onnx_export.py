"""ONNX: the file gives what the encoder gives, for any batch, and is not made where it would not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from clocs.core.errors import MissingExtraError, StoreError
from clocs.core.recording import Recording
from clocs.inference import onnx_export
from clocs.inference.onnx_export import export_onnx, use_onnx
from clocs.inference.preparation import prepare
from clocs.inference.pretrained import PretrainedEncoder

pytest.importorskip("onnxscript", reason="needs the extra 'onnx'")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, encoder: PretrainedEncoder) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "encoder.onnx"
    result = export_onnx(encoder, path)
    assert result == {"path": str(path), "opset": 18, "max_difference": result["max_difference"]}
    assert 0 < result["max_difference"] <= 1e-5, "0 would mean that nothing was compared"
    return path


def test_real_frames_give_the_same_embeddings_at_any_batch_size(
    exported: Path, encoder: PretrainedEncoder, twelve: Recording
) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(exported), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.name, given.shape[1:], given.type) == ("signals", [1, 2500], "tensor(float)")
    frames = prepare(twelve, encoder.input).frames
    for count in (1, 3, 8):
        (found,) = session.run(None, {"signals": frames[:count, None]})
        np.testing.assert_allclose(found, encoder.embed(twelve).values[:count], atol=1e-5)


def test_the_file_says_what_it_takes(exported: Path, encoder: PretrainedEncoder) -> None:
    import onnx

    model = onnx.load(exported)
    onnx.checker.check_model(model)
    about = {entry.key: entry.value for entry in model.metadata_props}["clocs-encoder"]
    assert json.loads(about) == encoder.about
    assert json.loads(about)["input"]["leads"] == ["II", "V2", "aVL", "aVR"]


def test_a_file_that_differs_is_not_written(
    encoder: PretrainedEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a layer had been translated wrongly: its biases are 1e-3 off."""
    right = onnx_export._model(encoder)
    (bias,) = (item for item in right.graph.initializer if item.name == "linear.bias")
    bias.raw_data = (np.frombuffer(bias.raw_data, np.float32) + np.float32(1e-3)).tobytes()
    monkeypatch.setattr(onnx_export, "_model", lambda _: right)
    with pytest.raises(StoreError, match=r"is not made: .* differ from torch's by up to 0\.001"):
        export_onnx(encoder, tmp_path / "x.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_a_missing_package_is_answered_with_how_to_get_it(
    package: str, encoder: PretrainedEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'clocs\[onnx\]'"):
        export_onnx(encoder, tmp_path / "x.onnx")


def test_an_encoder_that_is_run_by_onnx_says_the_same(encoder: PretrainedEncoder, twelve: Recording) -> None:
    other = PretrainedEncoder(encoder.name, encoder.module, encoder.about, encoder.classifiers)
    use_onnx(other)
    assert other.module is not encoder.module
    for copies in (1, 40):  # more frames than go through at once
        frames = np.concatenate([prepare(twelve, encoder.input).frames] * copies)
        np.testing.assert_allclose(other.embed_frames(frames), encoder.embed_frames(frames), atol=1e-5)
    assert other.embed_frames(frames[:0]).shape == (0, encoder.embedding)


def test_nothing_is_told_to_its_makers(exported: Path, tmp_path: Path) -> None:
    """ONNX Runtime keeps a number for the machine, and a queue of what it sends, in the user's home."""
    script = "import sys; from clocs.inference.onnx_export import _opened; _opened(open(sys.argv[1], 'rb').read())"
    places = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script, str(exported)], env={**os.environ, **places}, check=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
