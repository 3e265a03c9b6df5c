"""Where an encoder may be written to without loss of another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clocs.core.errors import ConfigError, IntegrityError
from clocs.core.files import unseal


def refuse_taken(out: Path, same: Callable[[dict[str, Any]], bool]) -> None:
    """Refuse to write over a run, or over an encoder whose config does not say that it is the ``same``.

    What a killed attempt left, a folder without config.json, may be written over.
    """
    path = out / "config.json"
    if not path.exists():
        return
    try:
        held = unseal(path.read_bytes(), path.name)
    except IntegrityError:  # a run's, which has no seal, or damaged: nobody knows what is there
        held = {}
    if not same(held):
        raise ConfigError(
            f"{out} holds a run or another encoder, which would be written over; name a new folder, or delete this one "
            "if nobody needs it"
        )
