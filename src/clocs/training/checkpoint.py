"""Checkpoints of a run: tensors as safetensors, everything else as JSON beside them. Never pickle.

The JSON is written last. It carries its own hash, that of the tensors and that of the metrics so far: a checkpoint
without it does not exist, and one with changed bytes is passed over. Two are kept, so that one can be damaged.
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
from clocs.core.files import remove_file, seal, unseal, write_bytes
from clocs.training.run_logs import Stated, checked_part

_NAME = re.compile(r"^step-(\d{8})\.(json|safetensors)$")


@dataclass(frozen=True)
class Checkpoint:
    """An undamaged checkpoint of a run."""

    step: int
    state: dict[str, Any]
    """Where the run was."""
    metrics: Stated
    """The lines of metrics that belong to it."""
    tensors: Path
    tensors_sha256: str
    damaged: tuple[str, ...] = field(default=())
    """What is wrong with the newer ones that were passed over, each with the file's name."""


def save_checkpoint(
    folder: Path,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    metrics: Stated,
) -> None:
    """Write the state after a step, whose metrics are on disk already; then remove those that are not needed."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= _optimiser_tensors(optimizer)
    path = _tensors(folder, step)
    sha256 = write_bytes(path, save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}))
    body = {"step": step, "tensors_sha256": sha256, "state": state, "metrics": metrics}
    write_bytes(path.with_suffix(".json"), seal(body))
    _keep_two(folder, step)


def _keep_two(folder: Path, step: int) -> None:
    """Remove all checkpoints but that of a step and the one before it, and what a kill left of others."""
    kept = {step, *[each for each in checkpoints(folder) if each < step][-1:]}
    for old in sorted(folder.iterdir()):  # the JSON before its tensors
        match = _NAME.match(old.name)
        if match and int(match.group(1)) not in kept:
            remove_file(old)


def checkpoints(folder: Path) -> list[int]:
    """Return the steps of the checkpoints that are there, oldest first."""
    if not folder.is_dir():
        return []
    found = (_NAME.match(path.name) for path in folder.glob("*.json"))
    return sorted(int(match.group(1)) for match in found if match)


def newest_undamaged(folder: Path, metrics: Path) -> Checkpoint | None:
    """Return the newest checkpoint whose state, tensors and lines of metrics are all undamaged.

    Raises:
        IntegrityError: There are checkpoints, and all are damaged.
    """
    damaged: list[str] = []
    for step in reversed(checkpoints(folder)):
        path = _tensors(folder, step)
        try:
            body = _body(path.with_suffix(".json"))
            _checked(path, body["tensors_sha256"])
            checked_part(metrics, body["metrics"])
        except IntegrityError as error:
            damaged.append(str(error))
        else:
            return Checkpoint(step, body["state"], body["metrics"], path, body["tensors_sha256"], tuple(damaged))
    if damaged:
        raise IntegrityError(
            f"{'; '.join(dict.fromkeys(damaged))}. No undamaged checkpoint is left. Restore one of these files from a "
            f"copy. Or delete {folder}, and the same command trains the run again from its start"
        )
    return None


def load_checkpoint(chosen: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Restore the tensors of a checkpoint.

    Raises:
        IntegrityError: They are not those of the checkpoint that was chosen.
    """
    tensors = _read(chosen.tensors, chosen.tensors_sha256)
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    model.load_state_dict(weights)
    _restore_optimiser(optimizer, tensors)


def _tensors(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}.safetensors"


def _body(path: Path) -> dict[str, Any]:
    try:
        body = unseal(path.read_bytes(), str(path))
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read: {error.strerror}") from error
    if not {"tensors_sha256", "state", "metrics"} <= body.keys():
        raise IntegrityError(f"{path}: is no checkpoint of this version of clocs")
    return body


def _read(path: Path, sha256: str) -> dict[str, Tensor]:
    try:
        return load(_checked(path, sha256))
    except SafetensorError as error:
        raise IntegrityError(f"{path}: cannot be read: {error}") from error


def _checked(path: Path, sha256: str) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise IntegrityError(f"{path}: cannot be read: {error.strerror}") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise IntegrityError(f"{path}: content differs from its hash")
    return raw


def _optimiser_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return Adam's moments and step, by the parameter's index."""
    return {
        f"optimiser.{place}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for place, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
    }


def _restore_optimiser(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, place, field = name.split(".", 2)
            state.setdefault(int(place), {})[field] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
