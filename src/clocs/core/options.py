"""Validate options against a model or the signature of a constructor, and report all errors at once."""

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
_NO_NAMES: Mapping[str, str] = MappingProxyType({})


def constructor_options(
    cls: type[Any], values: Mapping[str, Any], owner: str, *, exclude: Collection[str] = ()
) -> dict[str, Any]:
    """Validate the keyword arguments of a constructor against its signature.

    Annotations may state ranges: ``Annotated[float, Field(gt=0)]``.

    Args:
        cls: The class.
        values: Options by name.
        owner: Name of the part that has the options, for the error message.
        exclude: Parameters that the caller passes itself. They are not options.

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
    return dict(validate_model(constructor_model(cls, exclude=exclude), values, owner))


def non_default_options(cls: type[Any], values: Mapping[str, Any], *, exclude: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that differ from the defaults of a constructor.

    Args:
        cls: The class.
        values: Options by name.
        exclude: Parameters that the caller passes itself. They are not options.

    Returns:
        Options without a default, and options with another value than their default.

    Raises:
        ConfigError: Options are unknown, missing or invalid.
    """
    fields = constructor_model(cls, exclude=exclude).model_fields
    required = [name for name, field in fields.items() if field.is_required()]
    options = constructor_options(cls, values, cls.__name__, exclude=exclude)
    defaults = constructor_options(cls, {name: options[name] for name in required}, cls.__name__, exclude=exclude)
    return {name: value for name, value in options.items() if name in required or value != defaults[name]}


def options_of(part: object, *, exclude: Collection[str] = ()) -> dict[str, Any]:
    """Return the options of an object that stores each one as an attribute of the same name.

    Call it at the end of a constructor to validate the arguments.

    Args:
        part: The object.
        exclude: Parameters of its constructor that the caller passes itself. They are not options.

    Returns:
        All options by name.

    Raises:
        ConfigError: Options are invalid, or have no attribute. The message lists all of them.
    """
    names = option_names(type(part), exclude=exclude)
    missing = [f"self.{name}" for name in names if not hasattr(part, name)]
    if missing:
        raise ConfigError(
            f"{type(part).__name__} does not store each option as an attribute of the same name. "
            f"Assign {', '.join(missing)} in its constructor."
        )
    values = {name: getattr(part, name) for name in names}
    return constructor_options(type(part), values, type(part).__name__, exclude=exclude)


def option_names(cls: type[Any], *, exclude: Collection[str] = ()) -> list[str]:
    """Return the names of a constructor's options, without those in ``exclude``."""
    return list(constructor_model(cls, exclude=exclude).model_fields)


def constructor_model(cls: type[Any], *, exclude: Collection[str] = ()) -> type[BaseModel]:
    """Return a pydantic model of the keyword arguments of a constructor.

    Args:
        cls: The class.
        exclude: Parameters to leave out.

    Returns:
        The model. Unknown fields are forbidden.

    Raises:
        ConfigError: An annotation names a type that cannot be resolved or validated.
    """
    return _constructor_model(cls, frozenset(exclude))  # type: ignore[arg-type]  # a class is hashable


@cache
def _constructor_model(cls: type[Any], exclude: frozenset[str]) -> type[BaseModel]:
    _, *parameters = inspect.signature(cls.__init__).parameters.values()
    try:
        hints = get_type_hints(cls.__init__, include_extras=True)
        fields = {
            item.name: (hints.get(item.name, Any), ... if item.default is item.empty else item.default)
            for item in parameters
            if item.name not in exclude and item.kind in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY)
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
        raise ConfigError(f"The options of {cls.__qualname__} cannot be read from its constructor: {error}") from error


def validate_model(model: type[Model], values: Mapping[str, Any], owner: str) -> Model:
    """Validate values against a pydantic model.

    Args:
        model: The model class.
        values: Values by field.
        owner: Name of the part that has the options, for the error message.

    Returns:
        An instance of the model.

    Raises:
        ConfigError: Fields are unknown, missing or invalid. The message lists all of them.
    """
    instance, errors = try_validate(model, values)
    if instance is None:
        allowed = ", ".join(model.model_fields) or "none"
        hint = f" Its options: {allowed}." if values.keys() - model.model_fields.keys() else ""
        raise ConfigError(f"{owner}: {'; '.join(errors).removesuffix('.')}.{hint}")
    return instance


def try_validate(
    model: type[Model], values: Mapping[str, Any], nested_names: Mapping[str, str] = _NO_NAMES
) -> tuple[Model | None, list[str]]:
    """Validate values against a pydantic model and collect the errors.

    In addition to the rules of the model, booleans are not accepted as numbers, and numbers must be finite, because
    JSON cannot store others.

    Args:
        model: The model class.
        values: Values by field.
        nested_names: Full names of nested options by their last part. They are suggested for an option that is written
            without its section.

    Returns:
        An instance of the model and an empty list, or None and a list of all errors.
    """
    booleans = {
        name: f"{name}: must be a number, not {str(value).lower()}"
        for name, value in values.items()
        if isinstance(value, bool) and name in model.model_fields and _is_number(model.model_fields[name].annotation)
    }
    try:
        instance = model.model_validate(dict(values))
    except ValidationError as error:
        others = [item for item in error.errors() if not item["loc"] or item["loc"][0] not in booleans]
        return None, [*booleans.values(), *(_error_message(item, model, nested_names) for item in others)]
    infinite = [
        f"{name}: must be a finite number, not {value}"
        for name, value in instance
        if isinstance(value, float) and not math.isfinite(value)
    ]
    errors = [*booleans.values(), *infinite]
    return (None, errors) if errors else (instance, [])


def _is_number(annotation: Any) -> bool:
    """Return whether a field accepts numbers but not booleans."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    kinds = [get_args(part)[0] if get_origin(part) is Annotated else part for part in parts]
    return bool not in kinds and (int in kinds or float in kinds)


def _error_message(item: Any, model: type[BaseModel], nested_names: Mapping[str, str]) -> str:
    """Return a validation error as text. An unknown option comes with the most similar known one."""
    option = ".".join(map(str, item["loc"]))
    if item["type"] != "extra_forbidden":
        message = item["msg"].removeprefix("Value error, ")
        return f"{option}: {message}" if option else message
    similar = [nested_names[option]] if option in nested_names else get_close_matches(option, model.model_fields, n=1)
    return f"unknown option '{option}'" + (f" (did you mean '{similar[0]}'?)" if similar else "")
