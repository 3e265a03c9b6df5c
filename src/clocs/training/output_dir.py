"""Where an encoder may be written to without loss of another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clocs.core.errors import ConfigError, IntegrityError
from clocs.core.files import unseal

OWN = ("model.safetensors", "model.onnx", "seen.npy", "config.json", "README.md", "classifiers")
"""How names of an encoder's files begin; what a killed attempt left has an ending behind."""


def check_output_dir(out: Path, same: Callable[[dict[str, Any]], bool]) -> None:
    """Refuse to write over a run, or over an encoder whose config does not say that it is the ``same``.

    What a killed attempt left, a folder without config.json, may be written over.
    """
    path = out / "config.json"
    if not path.exists():
        _refuse_unrelated_files(out)
        return
    why = ""
    try:
        held = unseal(path.read_bytes(), path.name)
    except IntegrityError as error:  # damaged, or another program's: nobody knows what is there
        held, why = {}, f" ({error})"
    if not same(held):
        raise ConfigError(
            f"{out} holds a run or another encoder{why}, which would be written over; name a new folder, or delete "
            "this one if nobody needs it"
        )


def _refuse_unrelated_files(out: Path) -> None:
    """What is to be passed on whole must not hold files of another kind, such as recordings."""
    held = (entry.name for entry in out.iterdir()) if out.is_dir() else ()
    strangers = sorted(name for name in held if not name.startswith(OWN))
    if strangers:
        raise ConfigError(f"{out} holds other files, '{strangers[0]}' among them; name a new folder")
