"""The identity of a run, a cell or another result: a hash of everything that decides its numbers.

A name depends on values that differ from the defaults only, so a new option with a default renames nothing. A changed
default would give other numbers under an old name. ``tests/defaults.json`` therefore lists every default, and whoever
changes one raises ``SCHEMA``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from clocs.core.files import content_hash

SCHEMA: Final = 3
"""Raise it when a default changes, or when the code computes other numbers from the same values."""
DIGITS: Final = 12
"""Digits of the hash that a name shows."""


def changed_values(model: BaseModel, *, exclude: set[str] | None = None) -> dict[str, Any]:
    """Return the values of a model that differ from its defaults, as JSON."""
    return model.model_dump(mode="json", exclude_defaults=True, exclude=exclude)


def identity_hash(values: Mapping[str, Any], origin: Mapping[str, Any] | None = None) -> str:
    """Return the hash of the schema number, of changed values, and of the hashes of the inputs.

    Args:
        values: Values that differ from the defaults, as JSON.
        origin: Hashes of the inputs: store, split, frame policy, given initial weights.
    """
    return content_hash({"schema": SCHEMA, "values": dict(values), "origin": dict(origin or {})})


def identity_name(label: str, values: Mapping[str, Any], origin: Mapping[str, Any] | None = None) -> str:
    """Return a readable label with the first digits of the identity hash."""
    return f"{label}-{identity_hash(values, origin)[:DIGITS]}"
