"""Folder of a trained encoder, read without torch.

The layout is that of model hubs: ``model.safetensors`` (weights), ``model.onnx`` (the network for ONNX Runtime) and
``config.json``. The config is written last and contains the hashes of all files and of itself.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.hashes import seal, unseal
from clocs.core.storage.files import write_bytes

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
HEAD: Final = "head.safetensors"
ONNX: Final = "model.onnx"
REQUIRED: Final = (WEIGHTS, CONFIG)
"""Files without which a folder holds no encoder."""
ONNX_HASH: Final = "onnx_sha256"
"""Key of the config for the hash of the ONNX file."""
ONNX_MISSING: Final = "onnx_missing"
"""Key of the config for the reason why there is no ONNX file."""


def read_config(folder: Path) -> dict[str, Any]:
    """Return the config of an encoder's folder.

    Raises:
        StoreError: The folder holds no encoder.
        IntegrityError: The bytes of config.json have changed.
    """
    path = folder / CONFIG
    if not path.exists():
        raise StoreError(f"{folder} holds no encoder: it has no {CONFIG}")
    try:
        about = unseal(path.read_bytes(), str(path))
    except IntegrityError as error:
        raise _damaged(folder, str(error)) from error
    _refuse_run(folder, about)
    return about


def write_config(folder: Path, about: dict[str, Any]) -> None:
    """Write config.json. Write all other files of the folder first."""
    write_bytes(folder / CONFIG, seal(about))


def read_file(folder: Path, name: str, sha256: str) -> bytes:
    """Return the bytes of a file of an encoder's folder.

    Args:
        folder: The encoder's folder.
        name: The file's name.
        sha256: Its hash, as the config states it.

    Raises:
        IntegrityError: The file is missing or its bytes have changed.
    """
    path = folder / name
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise _damaged(folder, f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise _damaged(folder, f"{path}: content differs from its hash")
    return raw


def read_onnx(folder: Path, about: dict[str, Any]) -> bytes | None:
    """Return the bytes of an encoder's ONNX file; None if it has none, see :func:`why_no_onnx`."""
    return read_file(folder, ONNX, about[ONNX_HASH]) if ONNX_HASH in about else None


def why_no_onnx(about: dict[str, Any]) -> str:
    """Return why an encoder has no ONNX file."""
    return str(about.get(ONNX_MISSING, "its run has not ended"))


def in_channels(about: dict[str, Any]) -> int:
    """Return the number C of leads that an encoder takes."""
    return int(about["encoder"]["options"]["in_channels"])


def embedding_dim(about: dict[str, Any]) -> int:
    """Return the dimension E of an embedding."""
    return int(about["encoder"]["options"]["embedding_dim"])


def _damaged(folder: Path, problem: str) -> IntegrityError:
    return IntegrityError(
        f"{problem}. Copy {folder} again from its origin, or delete the folder of its run and train again."
    )


def _refuse_run(folder: Path, about: dict[str, Any]) -> None:
    """Refuse the folder of a run, which has a config.json of another kind."""
    if "weights_sha256" in about:
        return
    best = folder / "best"
    if (best / CONFIG).exists():
        raise StoreError(f"{folder} is the folder of a run. Name the folder of its encoder: {best}.")
    raise StoreError(
        f"{folder} is the folder of a run without an encoder. Its 'best' folder is written after the first epoch."
    )
