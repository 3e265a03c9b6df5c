"""What a perturbation is, how one is built by name, and how several are applied.

A perturbation is a frozen model: its options are its fields, and calling it perturbs a batch. Frames
are (N, S) floats, in millivolt unless a method says otherwise. All chance comes from the generator that is given, in
amounts that depend on shapes and options alone, never on values. A third party's is a subclass of
``Perturbation``, named by an entry point of the group ``clocs.perturbations``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Generator, Tensor

from clocs.core.errors import ConfigError
from clocs.core.options import checked
from clocs.core.registry import Registry


class Perturbation(BaseModel):
    """What all have: a name, and the chance that a row is perturbed. ``apply`` is the perturbation itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str
    probability: float = Field(default=1.0, ge=0, le=1)
    """Of each row (so of each view) by itself; the others stay as they are, to the bit."""

    @property
    def needs_millivolt(self) -> bool:
        """Whether an option is in mV, so that signals without a unit must be refused."""
        return False

    @abstractmethod
    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        """Every row perturbed, (N, S) -> a new (N, S) of the same type; ``signals`` is left alone."""

    def __call__(self, signals: Tensor, generator: Generator) -> Tensor:
        """Each row perturbed or not, as chance has it: (N, S) in mV -> a new (N, S) of the same type."""
        if signals.ndim != 2 or not signals.is_floating_point():
            raise ValueError(f"{self.name}: needs floats (N, S), not {signals.dtype} {tuple(signals.shape)}")
        if not signals.numel():
            return signals.clone()
        if self.probability == 1:
            return self.apply(signals, generator)
        chosen = uniform(signals, 1, generator) < self.probability
        return torch.where(chosen, self.apply(signals, generator), signals)


PERTURBATIONS: Registry[type[Perturbation]] = Registry(
    "perturbation",
    {
        "gaussian": "clocs.views.perturbations.noise:Gaussian",
        "flip_time": "clocs.views.perturbations.time:FlipTime",
        "flip_amplitude": "clocs.views.perturbations.amplitude:FlipAmplitude",
        "spec_augment_time": "clocs.views.perturbations.masks:SpecAugmentTime",
        "spec_augment_frequency": "clocs.views.perturbations.masks:SpecAugmentFrequency",
        "scaling": "clocs.views.perturbations.amplitude:Scaling",
        "permutation": "clocs.views.perturbations.time:Permutation",
        "time_warping": "clocs.views.perturbations.time:TimeWarping",
        "baseline_wander": "clocs.views.perturbations.noise:BaselineWander",
        "mask": "clocs.views.perturbations.masks:Mask",
    },
)


def perturb(signals: Tensor, steps: Sequence[Perturbation], generator: Generator) -> Tensor:
    """Several perturbations one after another, the paper's G2(G1(x)); none: the signals as they are."""
    for step in steps:
        signals = step(signals, generator)
    return signals


def parse_perturbations(given: object) -> tuple[Perturbation, ...]:
    """Steps from a config: names, or mappings of a ``name`` and options. All that is wrong is said at once."""
    if isinstance(given, str | Mapping | Perturbation):
        given = [given]
    if not isinstance(given, Sequence):
        raise ConfigError(f"perturbations: give a list of names, not {given!r:.80}")
    steps: list[Perturbation] = []
    wrong: list[str] = []
    for number, item in enumerate(given):
        try:
            steps.append(_parse(item))
        except ConfigError as error:
            wrong.append(f"perturbations[{number}]: {error}")
    if wrong:
        raise ConfigError("\n".join(wrong))
    return tuple(steps)


def _parse(item: object) -> Perturbation:
    if isinstance(item, Perturbation):
        return item
    options = {"name": item} if isinstance(item, str) else dict(item) if isinstance(item, Mapping) else {}
    if not isinstance(options.get("name"), str):
        raise ConfigError(f"give a name, or a mapping with 'name'. Known: {', '.join(PERTURBATIONS.names())}.")
    return checked(PERTURBATIONS.get(options["name"]), options, options["name"])


def uniform(signals: Tensor, columns: int, generator: Generator) -> Tensor:
    """(N, columns) of [0, 1), in float64 whatever the signals are, so that both draw alike."""
    size = (len(signals), columns)
    return torch.rand(size, generator=generator, device=generator.device, dtype=torch.float64).to(signals.device)
