"""Options checked against a model, with everything that is wrong said at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from clocs.core.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
NOWHERE: Mapping[str, str] = MappingProxyType({})


def checked(model: type[Model], values: Mapping[str, Any], what: str) -> Model:
    """``values`` as a ``model``; ``what`` names them in an error, which lists the fields there are if one is not."""
    made, wrong = examined(model, values)
    if made is None:
        allowed = ", ".join(model.model_fields) or "none"
        known = f" Its options: {allowed}." if values.keys() - model.model_fields.keys() else ""
        raise ConfigError(f"{what}: {'; '.join(wrong)}.{known}")
    return made


def examined(
    model: type[Model], values: Mapping[str, Any], below: Mapping[str, str] = NOWHERE
) -> tuple[Model | None, list[str]]:
    """``values`` as a ``model``, or None and all that is wrong with them.

    Besides what the model says: true and false are no numbers, and numbers are finite, since JSON knows no others.
    ``below``: whole names of options within options, to be named where they stand outside.
    """
    switches = {
        name: f"{name}: must be a number, not {str(value).lower()}"
        for name, value in values.items()
        if isinstance(value, bool) and name in model.model_fields and _is_number(model.model_fields[name].annotation)
    }
    try:
        made = model.model_validate(dict(values))
    except ValidationError as error:
        others = [item for item in error.errors() if not item["loc"] or item["loc"][0] not in switches]
        return None, [*switches.values(), *(_explained(item, model, below) for item in others)]
    endless = [
        f"{name}: must be a finite number, not {value}"
        for name, value in made
        if isinstance(value, float) and not math.isfinite(value)
    ]
    wrong = [*switches.values(), *endless]
    return (None, wrong) if wrong else (made, [])


def _is_number(annotation: Any) -> bool:
    """Whether a field takes numbers, and not true and false as well."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    return bool not in kinds and (int in kinds or float in kinds)


def _explained(item: Any, model: type[BaseModel], below: Mapping[str, str]) -> str:
    """A fault in a sentence; an unknown option with the nearest known one."""
    place = ".".join(map(str, item["loc"]))
    if item["type"] != "extra_forbidden":
        message = item["msg"].removeprefix("Value error, ")
        return f"{place}: {message}" if place else message
    near = [below[place]] if place in below else get_close_matches(place, model.model_fields, n=1)
    return f"unknown option '{place}'" + (f" (did you mean '{near[0]}'?)" if near else "")
