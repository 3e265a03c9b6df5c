"""Named parts, imported only when asked for; others' packages add theirs through entry points."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar, cast

from clocs.core.errors import ConfigError

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Maps a name to ``module:attribute``; the entry point group is ``clocs.<kind>s``."""

    def __init__(self, kind: str, catalogue: dict[str, str]) -> None:
        self.kind = kind
        self._places = dict(catalogue)
        self._foreign: set[str] = set()
        self._parts: dict[str, Part] = {}
        self._entry_points_read = False

    def names(self) -> list[str]:
        """All names, ours first, in catalogue order."""
        self._read_entry_points()
        return list(self._places)

    def get(self, name: str) -> Part:
        """The part of that name; an unknown one is refused with what is known."""
        if name in self._parts:
            return self._parts[name]
        self._read_entry_points()
        if name not in self._places:
            near = get_close_matches(name, self._places, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(f"unknown {self.kind} '{name}'.{hint} Known: {', '.join(self._places)}.")
        module, _, attribute = self._places[name].partition(":")
        try:
            part = self._parts[name] = cast(Part, getattr(import_module(module), attribute))
            return part
        except Exception as error:
            if name not in self._foreign:
                raise
            raise ConfigError(
                f"the {self.kind} '{name}' of {self._places[name]} cannot be imported: {error!r}"
            ) from error

    def __iter__(self) -> Iterator[Part]:
        """All parts; another package's that cannot be imported is left out with a warning."""
        for name in self.names():
            try:
                part = self.get(name)
            except ConfigError as error:
                warnings.warn(str(error), stacklevel=2)
                continue
            yield part

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        for point in entry_points(group=f"clocs.{self.kind}s"):
            if self._places.setdefault(point.name, point.value) != point.value:
                raise ConfigError(
                    f"{point.value} registers the {self.kind} '{point.name}', a name that is taken by "
                    f"{self._places[point.name]}; rename one of them."
                )
            self._foreign.add(point.name)
        self._entry_points_read = True
