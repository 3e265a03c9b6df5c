"""An encoder by way of ONNX, as a file or run by ONNX Runtime; only if it gives what torch gives."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from clocs.core.errors import MissingExtraError, StoreError
from clocs.core.files import write_bytes
from clocs.inference.pretrained import PretrainedEncoder
from clocs.signals.resampling import Floats

OPSET: Final = 18
TOLERANCE: Final = 1e-5
"""Largest absolute difference from torch's embeddings."""
CHECKED: Final = (1, 64)
"""Sizes of the batches that are compared."""
METADATA: Final = "clocs-encoder"

# ONNX Runtime, when it is loaded, would else tell its makers about the machine, and keep a number for it at home.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"


def export_onnx(encoder: PretrainedEncoder, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Write an encoder (N, 1, S) -> (N, E) with any batch size N; its config.json is in the file's metadata.

    It takes frames as ``embed_frames`` does: at the encoder's rate, and normalised. Returns the path, the opset
    and the largest difference found from torch.
    """
    raw, opset, difference = _checked(encoder, os.fspath(path))
    write_bytes(Path(path), raw)
    return {"path": os.fspath(path), "opset": opset, "max_difference": difference}


def use_onnx(encoder: PretrainedEncoder) -> None:
    """From now on the encoder's network is run by ONNX Runtime, on one thread: quicker than torch on a processor."""
    encoder.module = _Session(_checked(encoder, encoder.name)[0]).eval()


class _Session(nn.Module):
    """A network that ONNX Runtime runs."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self._session = _opened(raw)

    def forward(self, signals: Tensor) -> Tensor:
        """(N, 1, S) -> (N, E)."""
        return torch.from_numpy(self._session.run(None, {"signals": signals.numpy()})[0])


def _checked(encoder: PretrainedEncoder, name: str) -> tuple[bytes, int, float]:
    """The model with the encoder's config.json in its metadata, its opset, and its difference from torch."""
    model = _model(encoder)
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA, json.dumps(encoder.about)
    raw = model.SerializeToString()
    difference = _difference(encoder, raw)
    if not difference <= TOLERANCE:
        raise StoreError(
            f"{name} is not made: the ONNX model's embeddings differ from torch's by up to {difference:.3g}, and "
            f"{TOLERANCE:g} is allowed. Try other versions of torch, onnxscript or onnxruntime."
        )
    return raw, int(model.opset_import[0].version), difference


def _opened(raw: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(raw, options, providers=["CPUExecutionProvider"])


def _model(encoder: PretrainedEncoder) -> Any:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("onnx", "ONNX export") from error
    with _quiet_torch():
        program = torch.onnx.export(
            encoder.module,
            (torch.zeros(2, 1, encoder.input.samples),),
            dynamo=True,
            opset_version=OPSET,
            input_names=["signals"],
            output_names=["embeddings"],
            dynamic_shapes=({0: torch.export.Dim("N")},),
            verbose=False,
        )
    assert program is not None
    return program.model_proto


@contextlib.contextmanager
def _quiet_torch() -> Iterator[None]:
    """Without torch's warnings about its own parts and about packages that are not needed here."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _difference(encoder: PretrainedEncoder, raw: bytes) -> float:
    """The largest absolute difference from torch, over random frames in batches of several sizes."""
    session = _opened(raw)
    return max(
        float(np.abs(session.run(None, {"signals": frames[:, None]})[0] - encoder.embed_frames(frames)).max())
        for frames in _random_frames(encoder)
    )


def _random_frames(encoder: PretrainedEncoder) -> Iterator[Floats]:
    """Smooth walks of about 1 mV. White noise is no such test: unlike any ECG, it makes embeddings so large that
    torch itself is 1e-5 off the exact values."""
    random = np.random.default_rng(0)
    for size in CHECKED:
        walk = np.cumsum(random.normal(size=(size, encoder.input.samples)), axis=1)
        walk /= np.abs(walk).max(axis=1, keepdims=True)
        yield encoder.input.policy.normalise(walk.astype(np.float32))
