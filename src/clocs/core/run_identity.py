"""Names of runs, cells and other results: a hash of everything that determines their numbers.

A name depends only on values that differ from the defaults, so adding an option with a default renames nothing.
Changing a default would give different numbers under an old name. ``tests/defaults.json`` therefore lists every
default. Increase ``SCHEMA`` when you change one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from clocs.core.hashes import content_hash

SCHEMA: Final = 4
"""Schema number. Increase it when a default changes, or when the same values give different numbers."""
DIGITS: Final = 12
"""Number of digits of the hash in a name."""


def non_default_values(model: BaseModel, *, exclude: set[str] | None = None) -> dict[str, Any]:
    """Return the values of a model that differ from its defaults.

    Args:
        model: The model.
        exclude: Fields to leave out.

    Returns:
        JSON-compatible values by field.
    """
    return model.model_dump(mode="json", exclude_defaults=True, exclude=exclude)


def identity_hash(values: Mapping[str, Any], origin: Mapping[str, Any] | None = None) -> str:
    """Return the hash of the schema number, the changed values and the hashes of the inputs.

    Args:
        values: JSON-compatible values that differ from the defaults.
        origin: Hashes of the inputs: store, split, frame policy, initial weights.

    Returns:
        A SHA-256 hash in hexadecimal digits.
    """
    return content_hash({"schema": SCHEMA, "values": dict(values), "origin": dict(origin or {})})


def identity_name(label: str, values: Mapping[str, Any], origin: Mapping[str, Any] | None = None) -> str:
    """Return a readable label followed by the first digits of :func:`identity_hash`."""
    return f"{label}-{identity_hash(values, origin)[:DIGITS]}"
