"""Registries of parts by name: a lazily imported catalogue, entry points of other packages, and a decorator."""

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
_NO_LOCATIONS: Mapping[str, str] = MappingProxyType({})


class Registry(Generic[Part]):
    """Parts of one kind by name.

    A part comes from the catalogue, from an entry point of the group ``clocs.<plural>``, or from the decorator
    :meth:`register`.

    Args:
        kind: Kind of the parts in the singular, for example "encoder".
        plural: Plural of the kind. The default appends an "s".
        catalogue: Name -> location as ``"module:attribute"``. A part is imported on first use.
        check: Function that is called with the name and the part when a part is registered or first imported. It raises
            :class:`~clocs.core.errors.ConfigError` if the part does not satisfy the interface of its kind.

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
        catalogue: Mapping[str, str] = _NO_LOCATIONS,
        *,
        plural: str | None = None,
        check: Callable[[str, Part], None] | None = None,
    ) -> None:
        self.kind = kind
        self._plural = plural or f"{kind}s"
        self._check = check
        self._locations = dict(catalogue)
        self._from_entry_points: set[str] = set()
        self._parts: dict[str, Part] = {}
        self._entry_points_read = False

    def names(self) -> list[str]:
        """Return all names: those of the catalogue in its order, then the others."""
        self._read_entry_points()
        return list(self._locations)

    def get(self, name: str) -> Part:
        """Return the part with a name.

        Args:
            name: The name.

        Returns:
            The part.

        Raises:
            ConfigError: The name is unknown, or the part of another package cannot be imported.
        """
        if name in self._parts:
            return self._parts[name]
        self._read_entry_points()
        if name not in self._locations:
            similar = get_close_matches(name, self._locations, n=1)
            hint = f" Did you mean '{similar[0]}'?" if similar else ""
            own = "" if similar else " Or import the module, or install the package, that registers it."
            raise ConfigError(f"Unknown {self.kind} '{name}'.{hint} Choose from {', '.join(self._locations)}.{own}")
        try:
            part = self._import(name)
        except Exception as error:
            if name not in self._from_entry_points:
                raise
            raise ConfigError(
                f"The {self.kind} '{name}' of {self._locations[name]} cannot be imported: {error!r}"
            ) from error
        self._parts[name] = part
        return part

    def register(self, name: str) -> Callable[[Registered], Registered]:
        """Return a decorator that registers a class under a name.

        Configurations and the command line can then use the name. A class with the same module and qualified name
        replaces the registered one, so a notebook cell can be run again.

        Args:
            name: The name for configurations.

        Returns:
            A decorator that registers a class and returns it unchanged.

        Raises:
            ConfigError: The name is taken by another class, or the class does not satisfy the interface of its kind.

        Example:
            The public namespaces export this method: ``clocs.encoders.register`` is that of
            ``clocs.encoders.ENCODERS``. A dataset is an object: ``clocs.DATASETS.register("ward")(WARD)``.

            >>> from clocs.core.registry import Registry
            >>> ENCODERS = Registry("encoder")  # in your code: from clocs.encoders import ENCODERS
            >>> @ENCODERS.register("my_encoder")
            ... class MyEncoder:
            ...     pass
            >>> ENCODERS.get("my_encoder") is MyEncoder
            True
        """

        def decorate(part: Registered) -> Registered:
            location = _location(part)
            owner = self._locations.get(name, location)
            if owner != location:
                raise ConfigError(
                    f"{location} cannot be registered, because the {self.kind} '{name}' is already registered by "
                    f"{owner}. Use another name."
                )
            self._check_part(name, cast(Part, part))
            self._locations[name] = location
            self._parts[name] = cast(Part, part)
            return part

        return decorate

    def name_of(self, part: Any) -> str | None:
        """Return the name of a part.

        Args:
            part: Any object.

        Returns:
            The name, or None if the object is not registered.
        """
        self._read_entry_points()
        location = _location(part)
        return next((name for name, other in self._locations.items() if other == location), None)

    def __iter__(self) -> Iterator[Part]:
        """Iterate over all parts. A part of another package that cannot be imported is skipped with a warning."""
        for name in self.names():
            try:
                part = self.get(name)
            except ConfigError as error:
                warnings.warn(str(error), stacklevel=2)
                continue
            yield part

    def _import(self, name: str) -> Part:
        module, _, attribute = self._locations[name].partition(":")
        part = cast(Part, getattr(import_module(module), attribute))
        self._check_part(name, part)
        return part

    def _check_part(self, name: str, part: Part) -> None:
        if self._check is not None:
            self._check(name, part)

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        for point in entry_points(group=f"clocs.{self._plural}"):
            if self._locations.setdefault(point.name, point.value) != point.value:
                raise ConfigError(
                    f"{point.value} registers the {self.kind} '{point.name}', but the name is taken by "
                    f"{self._locations[point.name]}. Rename one of them."
                )
            self._from_entry_points.add(point.name)
        self._entry_points_read = True


def _location(part: Any) -> str:
    """Return ``"module:qualified name"`` of a class, or ":" for an object without a name."""
    return f"{getattr(part, '__module__', '')}:{getattr(part, '__qualname__', '')}"
