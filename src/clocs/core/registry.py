"""Named parts, imported only when asked for; others' packages add theirs through entry points."""

from __future__ import annotations

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
        self._entry_points_read = False

    def names(self) -> list[str]:
        """All names, ours first, in catalogue order."""
        self._read_entry_points()
        return list(self._places)

    def get(self, name: str) -> Part:
        """The part of that name; an unknown one is refused with what is known."""
        self._read_entry_points()
        if name not in self._places:
            near = get_close_matches(name, self._places, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise ConfigError(f"unknown {self.kind} '{name}'.{hint} Known: {', '.join(self._places)}.")
        module, _, attribute = self._places[name].partition(":")
        return cast(Part, getattr(import_module(module), attribute))

    def __iter__(self) -> Iterator[Part]:
        return (self.get(name) for name in self.names())

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        for point in entry_points(group=f"clocs.{self.kind}s"):
            if self._places.setdefault(point.name, point.value) != point.value:
                raise ConfigError(
                    f"{point.value} registers the {self.kind} '{point.name}', a name that is taken by "
                    f"{self._places[point.name]}; rename one of them."
                )
        self._entry_points_read = True
