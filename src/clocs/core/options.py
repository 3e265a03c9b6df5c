"""Validate options against a model or a constructor's signature; all errors are reported at once."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from clocs.core.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
NO_SUGGESTIONS: Mapping[str, str] = MappingProxyType({})


def constructor_options(
    cls: type[Any], values: Mapping[str, Any], what: str, *, exclude: Collection[str] = ()
) -> dict[str, Any]:
    """Validate the keyword arguments of a constructor against its signature.

    Annotations may state ranges: ``Annotated[float, Field(gt=0)]``.

    Args:
        cls: The class.
        values: Options by name.
        what: What the options belong to, for the error message.
        exclude: Parameters that the caller supplies itself. They are no options.

    Returns:
        All options, with the defaults filled in.

    Raises:
        ConfigError: Options are unknown, missing or invalid. The message lists all of them.

    Example:
        >>> class Noise:
        ...     def __init__(self, sigma: float = 0.1, repeats: int = 1) -> None: ...
        >>> constructor_options(Noise, {"repeats": 2}, "noise")
        {'sigma': 0.1, 'repeats': 2}
    """
    return dict(validate_model(constructor_model(cls, exclude=exclude), values, what))


def changed_options(cls: type[Any], values: Mapping[str, Any], *, exclude: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that differ from the defaults of a constructor.

    Args:
        cls: The class.
        values: Options by name.
        exclude: Parameters that the caller supplies itself. They are no options.

    Raises:
        ConfigError: Options are unknown, missing or invalid.
    """
    fields = constructor_model(cls, exclude=exclude).model_fields
    required = [name for name, field in fields.items() if field.is_required()]
    options = constructor_options(cls, values, cls.__name__, exclude=exclude)
    usual = constructor_options(cls, {name: options[name] for name in required}, cls.__name__, exclude=exclude)
    return {name: value for name, value in options.items() if name in required or value != usual[name]}


def options_of(part: object, *, exclude: Collection[str] = ()) -> dict[str, Any]:
    """Return the options of an object that keeps each as an attribute of the same name.

    A constructor that stores its arguments can end with it, to check them.

    Args:
        part: The object.
        exclude: Parameters of its constructor that the caller supplies itself. They are no options.

    Raises:
        ConfigError: Options are invalid. The message lists all of them.
    """
    values = {name: getattr(part, name) for name in option_names(type(part), exclude=exclude)}
    return constructor_options(type(part), values, type(part).__name__, exclude=exclude)


def option_names(cls: type[Any], *, exclude: Collection[str] = ()) -> list[str]:
    """Return the names of a constructor's options, without those in ``exclude``."""
    return list(constructor_model(cls, exclude=exclude).model_fields)


def constructor_model(cls: type[Any], *, exclude: Collection[str] = ()) -> type[BaseModel]:
    """Return the model of a constructor's keyword arguments, without those in ``exclude``.

    Raises:
        ConfigError: An annotation names a type that cannot be found or validated.
    """
    return _constructor_model(cls, frozenset(exclude))  # type: ignore[arg-type]  # a class is hashable


@cache
def _constructor_model(cls: type[Any], exclude: frozenset[str]) -> type[BaseModel]:
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    try:
        hints = get_type_hints(cls.__init__, include_extras=True)
        fields = {
            each.name: (hints.get(each.name, Any), ... if each.default is each.empty else each.default)
            for each in parameters
            if each.name not in exclude and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        }
        config = ConfigDict(
            frozen=True,
            extra="forbid",
            arbitrary_types_allowed=True,
            protected_namespaces=(),
            validate_default=True,
            allow_inf_nan=False,
        )
        return create_model(cls.__name__, __config__=config, **fields)  # type: ignore[call-overload, no-any-return]
    except (NameError, TypeError, ValueError) as error:
        raise ConfigError(f"the options of {cls.__qualname__} cannot be read from its constructor: {error}") from error


def validate_model(model: type[Model], values: Mapping[str, Any], what: str) -> Model:
    """Return ``values`` as a model.

    Args:
        model: The model.
        values: Values by field.
        what: What the values belong to, for the error message.

    Raises:
        ConfigError: Fields are unknown, missing or invalid. The message lists all of them.
    """
    made, wrong = try_validate(model, values)
    if made is None:
        allowed = ", ".join(model.model_fields) or "none"
        known = f" Its options: {allowed}." if values.keys() - model.model_fields.keys() else ""
        raise ConfigError(f"{what}: {'; '.join(wrong)}.{known}")
    return made


def try_validate(
    model: type[Model], values: Mapping[str, Any], below: Mapping[str, str] = NO_SUGGESTIONS
) -> tuple[Model | None, list[str]]:
    """Return ``values`` as a model and no errors, or None and all errors.

    Besides the model's own rules, true and false are not numbers, and numbers are finite, because JSON has no others.

    Args:
        model: The model.
        values: Values by field.
        below: Full names of options within options, to be suggested where they are written without their section.
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
    """Return whether a field takes numbers, and not true and false as well."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    kinds = [get_args(part)[0] if get_origin(part) is Annotated else part for part in parts]
    return bool not in kinds and (int in kinds or float in kinds)


def _explained(item: Any, model: type[BaseModel], below: Mapping[str, str]) -> str:
    """Return an error in words; an unknown option comes with the nearest known one."""
    place = ".".join(map(str, item["loc"]))
    if item["type"] != "extra_forbidden":
        message = item["msg"].removeprefix("Value error, ")
        return f"{place}: {message}" if place else message
    near = [below[place]] if place in below else get_close_matches(place, model.model_fields, n=1)
    return f"unknown option '{place}'" + (f" (did you mean '{near[0]}'?)" if near else "")
