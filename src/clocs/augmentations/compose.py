"""Sequences of augmentations: composed, parsed from a config and described for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Generator, Tensor

from clocs.augmentations.augmentation import AUGMENTATIONS, Augmentation
from clocs.core.errors import ConfigError
from clocs.core.options import constructor_options, non_default_options, options_of


class Compose(Augmentation):
    """Apply augmentations one after another, the paper's G2(G1(x)).

    Args:
        augmentations: Augmentations, names, or mappings of a ``name`` and options. A ``Compose`` may be among them.

    Example:
        >>> import torch
        >>> augment = Compose([{"name": "gaussian_noise", "sigma": 0.02}, "flip_time"])
        >>> augment(torch.randn(8, 12, 500)).shape
        torch.Size([8, 12, 500])
    """

    def __init__(self, augmentations: Iterable[Augmentation | str | Mapping[str, Any]]) -> None:
        super().__init__()
        self.augmentations = parse_augmentations(list(augmentations))
        self.drops_leads = any(step.drops_leads for step in self.augmentations)

    @property
    def needs_millivolt(self) -> bool:
        """Return whether any of the augmentations needs millivolt."""
        return any(step.needs_millivolt for step in self.augmentations)

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Apply all augmentations in order."""
        for step in self.augmentations:
            signals = step(signals, generator)
        return signals

    def __repr__(self) -> str:
        """Return the constructor call with all augmentations."""
        return f"Compose([{', '.join(map(repr, self.augmentations))}])"


def parse_augmentations(value: object) -> tuple[Augmentation, ...]:
    """Build augmentations from a config.

    Args:
        value: A list of names, of mappings of a ``name`` and options, and of ``Augmentation`` objects; or one of these.
            A ``Compose`` is replaced by its parts.

    Returns:
        The augmentations in order.

    Raises:
        ConfigError: A name or an option is invalid. The message lists all errors.

    Example:
        >>> parse_augmentations(["flip_time", {"name": "scaling", "low": 0.7}])
        (FlipTime(probability=0.5), Scaling(low=0.7, high=0.9, probability=1.0))
    """
    if isinstance(value, str | Mapping | Augmentation):
        value = [value]
    if not isinstance(value, Sequence):
        raise ConfigError(f"augmentations: expected a list of names, got {value!r:.80}")
    steps: list[Augmentation] = []
    errors: list[str] = []
    for number, item in enumerate(value):
        try:
            steps += _parse_one(item)
        except ConfigError as error:
            errors.append(f"augmentations[{number}]: {error}")
    if errors:
        raise ConfigError("\n".join(errors))
    return tuple(steps)


def _parse_one(item: object) -> Iterator[Augmentation]:
    if isinstance(item, Augmentation):
        yield from item.augmentations if isinstance(item, Compose) else (item,)
        return
    options = {"name": item} if isinstance(item, str) else dict(item) if isinstance(item, Mapping) else {}
    name = options.pop("name", None)
    if not isinstance(name, str):
        raise ConfigError(f"expected a name, or a mapping with 'name'. Known: {', '.join(AUGMENTATIONS.names())}.")
    kind = AUGMENTATIONS.get(name)
    yield kind(**constructor_options(kind, options, name))


def describe_augmentations(value: object) -> list[dict[str, Any]]:
    """Describe augmentations as a config does, with all options.

    Args:
        value: The same as for :func:`parse_augmentations`.

    Returns:
        A mapping of ``name`` and all options for each augmentation.

    Raises:
        ConfigError: A name or an option is invalid, or an augmentation is not registered.

    Example:
        >>> describe_augmentations(["flip_time"])
        [{'name': 'flip_time', 'probability': 0.5}]
    """
    return [{"name": _name(step), **options_of(step)} for step in parse_augmentations(value)]


def non_default_augmentations(value: object) -> list[dict[str, Any]]:
    """Describe augmentations by their names and the options that differ from the defaults."""
    steps = parse_augmentations(value)
    return [{"name": _name(step), **non_default_options(type(step), options_of(step))} for step in steps]


def _name(step: Augmentation) -> str:
    name = AUGMENTATIONS.name_of(type(step))
    if name is None:
        kind = type(step).__name__
        raise ConfigError(f"{kind} has no name for a config. Register it: @augmentations.register('{kind.lower()}').")
    return name
