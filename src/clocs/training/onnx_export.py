"""Export of encoders to ONNX, with a comparison against torch."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from clocs.core.errors import StoreError
from clocs.core.storage.files import write_bytes
from clocs.encoders.encoder import Encoder
from clocs.signals.framing import FramePolicy
from clocs.training.encoder_folder import ONNX, ONNX_HASH, ONNX_MISSING, in_channels, write_config
from clocs.training.encoder_module import load_encoder_folder
from clocs.training.onnx_session import Floats, Mask, OnnxNetwork

OPSET: Final = 18
TOLERANCE: Final = 1e-5
"""Largest absolute difference from torch's embeddings."""
CHECKED_BATCH_SIZES: Final = (1, 64)
"""Sizes of the batches that are compared."""
METADATA: Final = "clocs-encoder"
"""Key of the file's metadata for the config."""
MAX_REASON_LENGTH: Final = 300
"""Characters of an error message that are stored in the config."""


def finish_encoder(folder: Path, module: nn.Module | None = None) -> str:
    """Write the ONNX file of a saved encoder, and its hash into config.json.

    The file takes ``signals`` (N, C, S) and, for C > 1, ``lead_mask`` (N, C), for any N. Its metadata hold the config
    without the hash. If the export fails, or embeddings differ from torch's by more than 1e-5, no file is written, and
    the config contains the reason. Such an encoder needs torch.

    Args:
        folder: The encoder's folder, written by ``save_encoder``.
        module: A module of the encoder's shape, if the encoder is not registered. It is not changed.

    Returns:
        The reason why there is no file; empty if there is one.
    """
    with _single_precision():
        network, about = load_encoder_folder(folder, copy.deepcopy(module))
        about = {key: value for key, value in about.items() if key not in (ONNX_HASH, ONNX_MISSING)}
        try:
            raw = export_onnx(network.float().cpu(), about)
        except Exception as error:  # a failed export must not lose the trained weights
            reason = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            about[ONNX_MISSING] = reason[:MAX_REASON_LENGTH]
        else:
            about[ONNX_HASH] = write_bytes(folder / ONNX, raw)
    write_config(folder, about)
    return str(about.get(ONNX_MISSING, ""))


def export_onnx(module: nn.Module, about: dict[str, Any]) -> bytes:
    """Return an encoder as the bytes of an ONNX file.

    Args:
        module: The encoder, in eval mode.
        about: Its config, which becomes the file's metadata.

    Raises:
        StoreError: The embeddings differ from torch's.
    """
    channels, policy = in_channels(about), FramePolicy.model_validate(about["input"]["policy"])
    for part in module.modules():
        if isinstance(part, Encoder):
            part.prepare_export(policy.num_samples)
    model = _translate(module, channels, policy.num_samples)
    for node in model.graph.node:  # paths of source files on this machine
        del node.metadata_props[:]
        node.doc_string = ""
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA, json.dumps(about, sort_keys=True)
    raw: bytes = model.SerializeToString(deterministic=True)
    difference = _difference(module, OnnxNetwork(raw), channels, policy)
    if not difference <= TOLERANCE:
        raise StoreError(f"The embeddings differ from torch's by up to {difference:.3g}, and {TOLERANCE:g} is allowed")
    return raw


def _translate(module: nn.Module, channels: int, num_samples: int) -> Any:
    """Translate a network to an ONNX model."""
    import onnx  # noqa: F401
    from onnxscript import optimizer

    batch = {0: torch.export.Dim("N")}
    signals, lead_mask = torch.zeros(2, channels, num_samples), torch.ones(2, channels, dtype=torch.bool)
    several = channels > 1
    with _quiet_torch():
        program = torch.onnx.export(
            module,
            (signals, lead_mask) if several else (signals,),
            dynamo=True,
            opset_version=OPSET,
            input_names=["signals", "lead_mask"] if several else ["signals"],
            output_names=["embeddings"],
            dynamic_shapes=(batch, batch) if several else (batch,),
            verbose=False,
            optimize=False,  # folding BatchNorm into convolutions costs precision
        )
    assert program is not None
    for simplify in (optimizer.inline, optimizer.fold_constants, optimizer.remove_unused_nodes):
        simplify(program.model)
    return program.model_proto


@contextlib.contextmanager
def _single_precision() -> Iterator[None]:
    """Build networks in float32, also in a run of another precision."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)


@contextlib.contextmanager
def _quiet_torch() -> Iterator[None]:
    """Suppress torch's warnings about its own parts and about optional packages."""
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _difference(module: nn.Module, network: OnnxNetwork, channels: int, policy: FramePolicy) -> float:
    """Return the largest absolute difference from torch, over random frames in batches of several sizes."""
    differences = []
    for signals, lead_mask in _random_frames(channels, policy):
        inputs: list[Tensor] = [torch.from_numpy(signals)]
        if channels > 1:
            inputs.append(torch.from_numpy(lead_mask))
        with torch.inference_mode():
            truth = module(*inputs).numpy()
        differences.append(float(np.abs(network(signals, lead_mask) - truth).max()))
    return max(differences)


def _random_frames(channels: int, policy: FramePolicy) -> Iterator[tuple[Floats, Mask]]:
    """Yield smooth walks of about 1 mV, normalized, and masks that leave at least the first lead.

    White noise would not do: it makes embeddings so large that torch itself is 1e-5 off the exact values.
    """
    random = np.random.default_rng(0)
    for size in CHECKED_BATCH_SIZES:
        walk = np.cumsum(random.normal(size=(size, channels, policy.num_samples)), axis=-1)
        walk /= np.abs(walk).max(axis=-1, keepdims=True)
        lead_mask = random.random((size, channels)) < 0.75
        lead_mask[:, 0] = True
        yield policy.normalize(walk.astype(np.float32)), lead_mask
