"""Encoders as torch modules: written to a folder and built from one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from clocs.core.errors import ConfigError, IntegrityError, StoreError
from clocs.core.storage.files import write_bytes
from clocs.encoders import Encoder, build_encoder, wrap
from clocs.encoders.encoder import is_registered
from clocs.training.encoder_folder import (
    HEAD,
    ONNX_HASH,
    ONNX_MISSING,
    WEIGHTS,
    read_config,
    read_file,
    write_config,
)

FILE_KEYS = ("head_sha256", ONNX_HASH, ONNX_MISSING)
"""Keys of a config about files that belong to other weights."""


def save_encoder(folder: Path, encoder: nn.Module, about: dict[str, Any], head: nn.Module | None = None) -> None:
    """Write a trained encoder in the layout of model hubs: model.safetensors and config.json.

    Its ONNX file is written by :func:`clocs.training.onnx_export.finish_encoder`, once the encoder is final.

    Args:
        folder: Folder to write.
        encoder: The encoder.
        about: Its config. Keys about files are replaced.
        head: The classifier that was trained with it, written as head.safetensors; None for no classifier.
    """
    about = {key: value for key, value in about.items() if key not in FILE_KEYS}
    about["weights_sha256"] = _write_weights(folder / WEIGHTS, encoder)
    if head is not None:
        about["head_sha256"] = _write_weights(folder / HEAD, head)
    write_config(folder, about)


def load_encoder_folder(folder: Path, module: nn.Module | None = None) -> tuple[Encoder, dict[str, Any]]:
    """Return a saved encoder, in eval mode, and its config.

    Args:
        folder: Folder of the encoder.
        module: Network of an encoder that is not registered, into which the weights are loaded.

    Raises:
        StoreError: The folder holds no encoder, or one that needs its module.
        IntegrityError: Its files are damaged.
    """
    about = read_config(folder)
    weights = _read_weights(folder, WEIGHTS, about["weights_sha256"])
    encoder = _build(folder, about["encoder"], module)
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        if module is None:
            raise
        raise ConfigError(f"The weights of {folder} do not fit the module: {error}") from error
    return encoder.eval(), about


def _build(folder: Path, section: dict[str, Any], module: nn.Module | None) -> Encoder:
    """Return the passed network, or the one that a config describes."""
    name, options = section["name"], section["options"]
    if module is not None:
        encoder = wrap(module, in_channels=options["in_channels"], embedding_dim=options["embedding_dim"])
        if [encoder.in_channels, encoder.embedding_dim] != [options["in_channels"], options["embedding_dim"]]:
            raise ConfigError(
                f"The module has in_channels={encoder.in_channels} and embedding_dim={encoder.embedding_dim}, but "
                f"{folder} needs {options['in_channels']} and {options['embedding_dim']}"
            )
        return encoder
    if not is_registered(section):
        raise StoreError(
            f"{folder} holds the encoder '{name}', which is not registered. Pass its network: "
            "load_encoder(folder, module=...)."
        )
    return build_encoder(name, options)


def load_head(folder: Path, about: dict[str, Any]) -> nn.Linear:
    """Return the classifier that was trained with an encoder."""
    if "head_sha256" not in about:
        raise StoreError(f"{folder} holds an encoder without a classifier")
    weights = _read_weights(folder, HEAD, about["head_sha256"])
    head = nn.Linear(weights["weight"].shape[1], weights["weight"].shape[0])
    head.load_state_dict(weights)
    return head.eval()


def weights_hash(module: nn.Module) -> str:
    """Return the SHA-256 of a module's weights as a safetensors file."""
    return hashlib.sha256(_weights(module)).hexdigest()


def _write_weights(path: Path, module: nn.Module) -> str:
    return write_bytes(path, _weights(module))


def _weights(module: nn.Module) -> bytes:
    return save({name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()})


def _read_weights(folder: Path, name: str, sha256: str) -> dict[str, Tensor]:
    try:
        return load(read_file(folder, name, sha256))
    except SafetensorError as error:
        raise IntegrityError(f"{folder / name}: cannot be read: {error}") from error
