"""Folders of encoders: those shipped with the package, and those of the user."""

from __future__ import annotations

import os
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from clocs.core.errors import ConfigError

DEFAULT_ENCODER = "clocs-small"
"""Name of the shipped encoder that is used by default."""


def shipped_encoders() -> dict[str, Path]:
    """Return the folders of the encoders that are shipped with the package, by name."""
    models = Path(str(resources.files("clocs") / "models"))
    return {path.parent.name: path.parent for path in sorted(models.glob("*/config.json"))}


def find_encoder_folder(name_or_folder: str | os.PathLike[str]) -> Path:
    """Return the folder of an encoder.

    Args:
        name_or_folder: Name of a shipped encoder, folder of an encoder, or folder of a run, for its best encoder.

    Raises:
        ConfigError: There is no such encoder.
    """
    name, shipped = os.fspath(name_or_folder), shipped_encoders()
    if name in shipped:
        return shipped[name]
    folder = Path(name)
    if (folder / "best" / "config.json").exists():
        return folder / "best"
    if folder.is_dir():
        return folder
    near = get_close_matches(name, shipped, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    known = ", ".join(shipped) or "none"
    raise ConfigError(f"'{name}' is neither a folder nor a shipped encoder ({known}).{hint}")
