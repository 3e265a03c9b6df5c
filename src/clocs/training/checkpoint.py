"""Checkpoints of a run: tensors as safetensors, everything else as JSON, without pickle.

The JSON file is written last. It contains hashes of itself, of the tensors and of the metrics so far. A checkpoint
without it does not exist, and a damaged one is skipped. Two checkpoints are kept, in case one is damaged.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from clocs.core.errors import IntegrityError
from clocs.core.hashes import seal, unseal
from clocs.core.storage.files import remove_file, write_bytes
from clocs.training.run_logs import LogDigest, read_checked_part

_NAME = re.compile(r"^step-(\d{8})\.(json|safetensors)$")


@dataclass(frozen=True)
class Checkpoint:
    """An undamaged checkpoint of a run."""

    step: int
    """Number of steps done."""
    state: dict[str, Any]
    """State of the training loop, as JSON."""
    metrics: LogDigest
    """Digest of the metrics up to the checkpoint."""
    tensors: Path
    """File of the tensors."""
    tensors_sha256: str
    """SHA-256 of that file."""
    damaged: tuple[str, ...] = field(default=())
    """Faults of newer checkpoints that were skipped, each with the file's name."""


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    metrics: LogDigest,
) -> None:
    """Write a checkpoint after a step, and remove old ones. The metrics of the step are on disk already."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= _optimizer_tensors(optimizer)
    path = _tensors_path(folder, step)
    sha256 = write_bytes(path, save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}))
    body = {"step": step, "tensors_sha256": sha256, "state": state, "metrics": metrics}
    write_bytes(path.with_suffix(".json"), seal(body))
    _keep_two(folder, step)


def _keep_two(folder: Path, step: int) -> None:
    """Remove all checkpoints except that of a step and the one before it, and incomplete ones."""
    kept = {step, *[other for other in checkpoint_steps(folder) if other < step][-1:]}
    for old in sorted(folder.iterdir()):  # a JSON file before its tensors
        match = _NAME.match(old.name)
        if match and int(match.group(1)) not in kept:
            remove_file(old)


def checkpoint_steps(folder: Path) -> list[int]:
    """Return the steps of all checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    matches = (_NAME.match(path.name) for path in folder.glob("*.json"))
    return sorted(int(match.group(1)) for match in matches if match)


def newest_undamaged(folder: Path, metrics: Path) -> Checkpoint | None:
    """Return the newest checkpoint with undamaged state, tensors and metrics; None if there are no checkpoints.

    Raises:
        IntegrityError: All checkpoints are damaged.
    """
    damaged: list[str] = []
    for step in reversed(checkpoint_steps(folder)):
        path = _tensors_path(folder, step)
        try:
            body = _read_json(path.with_suffix(".json"))
            _read_bytes(path, body["tensors_sha256"])
            read_checked_part(metrics, body["metrics"])
        except IntegrityError as error:
            damaged.append(str(error))
        else:
            return Checkpoint(step, body["state"], body["metrics"], path, body["tensors_sha256"], tuple(damaged))
    if damaged:
        raise IntegrityError(
            f"{'; '.join(dict.fromkeys(damaged))}. No undamaged checkpoint is left. Restore one of these files from a "
            f"copy, or delete {folder}, so that the same command trains the run again from its start."
        )
    return None


def load_checkpoint(checkpoint: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Load the tensors of a checkpoint into a model and an optimizer.

    Raises:
        IntegrityError: The file has changed.
    """
    tensors = _read_tensors(checkpoint.tensors, checkpoint.tensors_sha256)
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    model.load_state_dict(weights)
    _restore_optimizer(optimizer, tensors)


def _tensors_path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}.safetensors"


def _read_json(path: Path) -> dict[str, Any]:
    try:
        body = unseal(path.read_bytes(), str(path))
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read: {error.strerror}") from error
    if not {"tensors_sha256", "state", "metrics"} <= body.keys():
        raise IntegrityError(f"{path}: not a checkpoint of this version of clocs")
    return body


def _read_tensors(path: Path, sha256: str) -> dict[str, Tensor]:
    try:
        return load(_read_bytes(path, sha256))
    except SafetensorError as error:
        raise IntegrityError(f"{path}: cannot be read: {error}") from error


def _read_bytes(path: Path, sha256: str) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise IntegrityError(f"{path}: content differs from its hash")
    return raw


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return Adam's moments and steps, named by the parameter's index."""
    return {
        f"optimiser.{index}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for index, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, index, key = name.split(".", 2)
            state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
