"""Folders of encoders: those shipped with the package, and those of the user, on disk or in a bucket."""

from __future__ import annotations

import os
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from clocs.core.errors import ConfigError
from clocs.core.storage.locations import ObjectPath, to_location
from clocs.core.storage.object_cache import local_tree
from clocs.training.encoder_folder import CONFIG
from clocs.training.run_mirror import mirrored_files

BEST = "best/"
"""Beginning of the names of a run's files that are its best encoder."""
DEFAULT_ENCODER = "clocs-small"
"""Name of the shipped encoder that is used by default."""


def shipped_encoders() -> dict[str, Path]:
    """Return the folders of the encoders that are shipped with the package, by name."""
    models = Path(str(resources.files("clocs") / "models"))
    return {path.parent.name: path.parent for path in sorted(models.glob("*/config.json"))}


def find_encoder_folder(name_or_folder: str | os.PathLike[str]) -> Path:
    """Return the folder of an encoder.

    Args:
        name_or_folder: Name of a shipped encoder, folder of an encoder, or folder of a run, for its best encoder. A
            folder in a bucket is copied to this machine.

    Raises:
        ConfigError: There is no such encoder.
    """
    name, shipped = os.fspath(name_or_folder), shipped_encoders()
    if name in shipped:
        return shipped[name]
    folder = to_location(name)
    if isinstance(folder, ObjectPath):
        return _copied_folder(folder)
    if (folder / "best" / "config.json").exists():
        return folder / "best"
    if folder.is_dir():
        return folder
    near = get_close_matches(name, shipped, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    known = ", ".join(shipped) or "none"
    raise ConfigError(f"'{name}' is neither a folder nor a shipped encoder ({known}).{hint}")


def _copied_folder(folder: ObjectPath) -> Path:
    """Return this machine's copy of an encoder in a bucket: a folder of an encoder, of a run, or the copy of a run."""
    listed = mirrored_files(folder)
    found = {name.removeprefix(BEST): path for name, path in listed.items() if name.startswith(BEST)}
    if not listed:
        root = folder / "best" if (folder / "best" / CONFIG).exists() else folder
        if (root / CONFIG).exists():
            found = {path.relative_to(root).as_posix(): path for path in root.rglob("*")}
    if CONFIG not in found:
        raise ConfigError(f"{folder} has no encoder. Pass the folder of an encoder or of a finished run.")
    return local_tree(folder, {name: found[name] for name in sorted(found, key=lambda name: (name == CONFIG, name))})
