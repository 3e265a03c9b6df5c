"""Options that came after the first runs: unused, they leave the names of runs as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


class Later:
    """Marks such an option: ``width: Annotated[int, Later()] = 3``."""


def later(model: type[BaseModel]) -> dict[str, Any]:
    """Such options of a model, with the values that leave a name as it was."""
    fields = model.model_fields.items()
    return {name: field.default for name, field in fields if any(isinstance(item, Later) for item in field.metadata)}


def without_unused(values: Mapping[str, Any], unused: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` as JSON but for those that are ``unused``: what goes into a name."""
    return {name: value for name, value in values.items() if name not in unused or value != unused[name]}
