"""Where an encoder lies: one that comes with the package, or a folder of the user's."""

from __future__ import annotations

import os
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from clocs.core.errors import ConfigError

DEFAULT_ENCODER = "clocs-small"


def shipped_encoders() -> dict[str, Path]:
    """Folders of the encoders that come with the package, by name."""
    models = Path(str(resources.files("clocs") / "models"))
    return {path.parent.name: path.parent for path in sorted(models.glob("*/config.json"))}


def find_encoder_folder(name_or_folder: str | os.PathLike[str]) -> Path:
    """The folder of a shipped encoder's name, of a run (its ``best``), or the folder itself."""
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
    known = ", ".join(shipped) or "none does"
    raise ConfigError(f"'{name}' is neither a folder nor an encoder that comes with clocs ({known}).{hint}")
