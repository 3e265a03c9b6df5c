"""Check of output folders, so that no other encoder or run is overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clocs.core.errors import ConfigError, IntegrityError
from clocs.core.hashes import unseal

FILE_PREFIXES = ("model.safetensors", "model.onnx", "seen.npy", "config.json", "README.md", "classifiers")
"""Prefixes of the files of an encoder. Temporary files of an interrupted attempt have a suffix."""


def check_output_dir(out: Path, is_same: Callable[[dict[str, Any]], bool]) -> None:
    """Refuse a folder that holds a run or another encoder.

    A folder without config.json, left by an interrupted attempt, may be overwritten.

    Args:
        out: Folder to write.
        is_same: Returns whether a config describes the encoder that is about to be written.

    Raises:
        ConfigError: The folder holds something else.
    """
    path = out / "config.json"
    if not path.exists():
        _refuse_unrelated_files(out)
        return
    reason = ""
    try:
        config = unseal(path.read_bytes(), path.name)
    except IntegrityError as error:  # damaged, or written by another program
        config, reason = {}, f" ({error})"
    if not is_same(config):
        raise ConfigError(
            f"{out} holds a run or another encoder{reason}, which would be overwritten. "
            "Name a new folder, or delete this one if it is not needed."
        )


def _refuse_unrelated_files(out: Path) -> None:
    """Refuse a folder with other files, such as recordings, because the folder will be shared."""
    names = (entry.name for entry in out.iterdir()) if out.is_dir() else ()
    unrelated = sorted(name for name in names if not name.startswith(FILE_PREFIXES))
    if unrelated:
        raise ConfigError(f"{out} holds other files, such as '{unrelated[0]}'. Name a new folder.")
