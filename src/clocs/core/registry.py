"""Parts by name: lazily imported ones of a catalogue, entry points of other packages, and classes that register."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from clocs.core.errors import ConfigError

Part = TypeVar("Part")
Registered = TypeVar("Registered")
_EMPTY: Mapping[str, str] = MappingProxyType({})


class Registry(Generic[Part]):
    """Map names to parts of one kind.

    A part comes from the catalogue, from an entry point of the group ``clocs.<plural>``, or from the decorator
    :meth:`register`.

    Args:
        kind: What the parts are, in the singular, such as "encoder".
        plural: The name of all parts of the kind, "encoders" unless given.
        catalogue: Location of each part, ``"module:attribute"``, by name. It is imported when it is first used.
        check: Called with the name and the part when a part is registered or first imported. It raises
            :class:`~clocs.core.errors.ConfigError` for a part that breaks the contract.

    Example:
        >>> shapes = Registry("shape")
        >>> @shapes.register("square")
        ... class Square:
        ...     pass
        >>> shapes.names()
        ['square']
        >>> shapes.get("square") is Square
        True
    """

    def __init__(
        self,
        kind: str,
        catalogue: Mapping[str, str] = _EMPTY,
        *,
        plural: str | None = None,
        check: Callable[[str, Part], None] | None = None,
    ) -> None:
        self.kind = kind
        self._plural = plural or f"{kind}s"
        self._check = check
        self._locations = dict(catalogue)
        self._foreign: set[str] = set()
        self._parts: dict[str, Part] = {}
        self._entry_points_read = False

    def names(self) -> list[str]:
        """Return all names: those of the package first, in catalogue order."""
        self._read_entry_points()
        return list(self._locations)

    def get(self, name: str) -> Part:
        """Return the part with a name.

        Raises:
            ConfigError: The name is unknown, or another package's part cannot be imported.
        """
        if name in self._parts:
            return self._parts[name]
        self._read_entry_points()
        if name not in self._locations:
            near = get_close_matches(name, self._locations, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(f"unknown {self.kind} '{name}'.{hint} Known: {', '.join(self._locations)}.")
        try:
            part = self._imported(name)
        except Exception as error:
            if name not in self._foreign:
                raise
            raise ConfigError(
                f"the {self.kind} '{name}' of {self._locations[name]} cannot be imported: {error!r}"
            ) from error
        self._parts[name] = part
        return part

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """Return a decorator that registers a class under a name.

        A class of the same module and qualified name replaces the one before, so that a notebook cell can run twice.

        Args:
            name: The name, as configs spell it.

        Raises:
            ConfigError: Another class has the name, or the class breaks the contract.
        """

        def decorate(part: Registered) -> Registered:
            location = _location(part)
            taken = self._locations.get(name, location)
            if taken != location:
                raise ConfigError(
                    f"{location} cannot be registered: the {self.kind} '{name}' is already registered by {taken}; "
                    "use another name"
                )
            self._accept(name, cast(Part, part))
            self._locations[name] = location
            self._parts[name] = cast(Part, part)
            return part

        return decorate

    def name_of(self, part: Any) -> str | None:
        """Return the name of a registered part; None for any other object."""
        self._read_entry_points()
        location = _location(part)
        return next((name for name, known in self._locations.items() if known == location), None)

    def __iter__(self) -> Iterator[Part]:
        """Yield all parts; another package's that cannot be imported is left out with a warning."""
        for name in self.names():
            try:
                part = self.get(name)
            except ConfigError as error:
                warnings.warn(str(error), stacklevel=2)
                continue
            yield part

    def _imported(self, name: str) -> Part:
        module, _, attribute = self._locations[name].partition(":")
        part = cast(Part, getattr(import_module(module), attribute))
        self._accept(name, part)
        return part

    def _accept(self, name: str, part: Part) -> None:
        if self._check is not None:
            self._check(name, part)

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        for point in entry_points(group=f"clocs.{self._plural}"):
            if self._locations.setdefault(point.name, point.value) != point.value:
                raise ConfigError(
                    f"{point.value} registers the {self.kind} '{point.name}', a name that is taken by "
                    f"{self._locations[point.name]}; rename one of them."
                )
            self._foreign.add(point.name)
        self._entry_points_read = True


def _location(part: Any) -> str:
    """Return ``module:qualified name`` of a class; an object without a name has no location."""
    return f"{getattr(part, '__module__', '')}:{getattr(part, '__qualname__', '')}"
