"""Checkpoints: tensors as safetensors, everything else as JSON beside them. Never pickle.

The JSON is written last and carries the tensors' hash: a checkpoint without it does not exist, and one
whose bytes have changed is refused.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from clocs.core.errors import IntegrityError, StoreError
from clocs.core.files import file_hash, seal, unseal, write_bytes

WEIGHTS = ("model.safetensors", "config.json")
"""Files of an encoder's folder without which there is none."""
_NAME = re.compile(r"^step-(\d{8})\.json$")


def save_checkpoint(
    folder: Path, step: int, model: nn.Module, optimiser: torch.optim.Optimizer, state: dict[str, Any]
) -> None:
    """Write the state after a step; older ones are removed once it is there."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= _optimiser_tensors(optimiser)
    path = folder / f"step-{step:08d}.safetensors"
    write_bytes(path, save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}))
    write_bytes(path.with_suffix(".json"), seal({"step": step, "tensors_sha256": file_hash(path), "state": state}))
    for old in checkpoints(folder):
        if old != step:
            (folder / f"step-{old:08d}.json").unlink(missing_ok=True)
            (folder / f"step-{old:08d}.safetensors").unlink(missing_ok=True)


def checkpoints(folder: Path) -> list[int]:
    """Steps of the checkpoints that are there, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(int(match.group(1)) for path in folder.iterdir() if (match := _NAME.match(path.name)))


def load_checkpoint(folder: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Any] | None:
    """Restore the newest checkpoint and return its state; None where there is none."""
    path = _newest(folder)
    if path is None:
        return None
    with _lost_if_damaged(folder):
        body = unseal(path.read_bytes(), str(path))
        tensors = _read(path.with_suffix(".safetensors"), body["tensors_sha256"])
    weights = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
    model.load_state_dict(weights)
    _restore_optimiser(optimiser, tensors)
    return dict(body["state"])


def newest_state(folder: Path) -> dict[str, Any] | None:
    """What the newest checkpoint says of where the run is; None where there is none."""
    path = _newest(folder)
    if path is None:
        return None
    with _lost_if_damaged(folder):
        return dict(unseal(path.read_bytes(), str(path))["state"])


def _newest(folder: Path) -> Path | None:
    found = checkpoints(folder)
    return folder / f"step-{found[-1]:08d}.json" if found else None


@contextlib.contextmanager
def _advising(advice: str) -> Iterator[None]:
    """What is said of a damaged file, and what to do."""
    try:
        yield
    except IntegrityError as error:
        raise IntegrityError(f"{error}. {advice}") from error


def _lost_if_damaged(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Of checkpoints."""
    return _advising(f"Delete {folder}, and the same command trains the run again from its start")


def _spoilt_if_damaged(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Of an encoder."""
    return _advising(f"Copy {folder} again from where it came, or delete the folder of its run and train again")


def _read(path: Path, sha256: str) -> dict[str, Tensor]:
    try:
        if file_hash(path) != sha256:
            raise IntegrityError(f"{path}: content differs from its hash")
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise IntegrityError(f"{path}: cannot be read: {error}") from error


def _optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Adam's moments and step, by the parameter's place."""
    return {
        f"optimiser.{place}.{name}": value if isinstance(value, Tensor) else torch.tensor(value)
        for place, state in optimiser.state_dict()["state"].items()
        for name, value in state.items()
    }


def _restore_optimiser(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimiser."):
            _, place, field = name.split(".", 2)
            state.setdefault(int(place), {})[field] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})


def save_encoder(folder: Path, encoder: nn.Module, about: dict[str, Any], head: nn.Module | None = None) -> None:
    """A trained encoder in the layout model hubs take: model.safetensors and config.json.

    ``head``: the classifier it was trained with, beside it as head.safetensors. Without, none is spoken of, whatever
    the encoder that this one was made of had.
    """
    about = {key: value for key, value in about.items() if key != "head_sha256"}
    about["weights_sha256"] = _write_weights(folder / "model.safetensors", encoder)
    if head is not None:
        about["head_sha256"] = _write_weights(folder / "head.safetensors", head)
    write_bytes(folder / "config.json", seal(about))


def _write_weights(path: Path, module: nn.Module) -> str:
    write_bytes(path, save({name: value.detach().cpu().contiguous() for name, value in module.state_dict().items()}))
    return file_hash(path)


def load_encoder_folder(folder: Path) -> tuple[nn.Module, dict[str, Any]]:
    """An encoder as saved, in eval mode, and what its config says."""
    from clocs.encoders import build_encoder

    path = folder / "config.json"
    if not path.exists():
        raise StoreError(f"{folder} holds no encoder: there is no config.json")
    _refuse_run(path)
    with _spoilt_if_damaged(folder):
        about = unseal(path.read_bytes(), str(path))
        weights = _read(folder / "model.safetensors", about["weights_sha256"])
    encoder = build_encoder(about["encoder"]["name"], about["encoder"]["options"])
    encoder.load_state_dict(weights)
    return encoder.eval(), about


def _refuse_run(path: Path) -> None:
    """A run's folder has a config.json of its own, which is not an encoder's."""
    try:
        told = json.loads(path.read_bytes())
    except ValueError:
        return  # damaged, whatever it was
    if not isinstance(told, dict) or "format" in told or "sha256" in told:
        return
    best = path.parent / "best"
    if (best / "config.json").exists():
        raise StoreError(f"{path.parent} is a run's folder; its encoder is in its 'best' folder: name {best}")
    raise StoreError(
        f"{path.parent} is a run's folder without an encoder: that would be in its 'best' folder, which is written "
        "after the first epoch"
    )


def load_head(folder: Path, about: dict[str, Any]) -> nn.Linear:
    """The classifier that was trained with an encoder."""
    if "head_sha256" not in about:
        raise StoreError(f"{folder} holds an encoder without a classifier: it was trained, or saved, without")
    with _spoilt_if_damaged(folder):
        weights = _read(folder / "head.safetensors", about["head_sha256"])
    head = nn.Linear(weights["weight"].shape[1], weights["weight"].shape[0])
    head.load_state_dict(weights)
    return head.eval()
