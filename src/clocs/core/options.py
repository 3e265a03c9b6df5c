"""Options checked against a model, with everything that is wrong said at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from clocs.core.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


def checked(model: type[Model], values: Mapping[str, Any], what: str) -> Model:
    """``values`` as a ``model``; ``what`` names them in an error, which lists the fields there are."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        allowed = ", ".join(model.model_fields) or "none"
        raise ConfigError(f"{what}: {wrong}. Its options: {allowed}.") from error
