"""Perturbations of ECG frames: those of the paper's appendix B, and MT-SSL's (appendix C).

A perturbation is a frozen model: its options are its fields, and calling it perturbs a batch. Frames
are (N, S) floats in millivolt, before normalisation. All chance comes from the generator that is given, in
amounts that depend on shapes and options alone, never on values. A third party's is a subclass of
``Perturbation``, named by an entry point of the group ``clocs.perturbations``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, ValidationError, model_validator
from torch import Generator, Tensor

from clocs.core.errors import ConfigError
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
        chosen = _uniform(signals, 1, generator) < self.probability
        return torch.where(chosen, self.apply(signals, generator), signals)


class Gaussian(Perturbation):
    """White noise added: the paper's, whose sigma is 10 microvolt on Chapman."""

    name: Literal["gaussian"] = "gaussian"
    sigma: float = Field(default=0.01, ge=0)
    """mV, or with ``relative`` a fraction of each row's standard deviation, for signals without a unit."""
    relative: bool = False

    @property
    def needs_millivolt(self) -> bool:
        return not self.relative

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        noise = torch.randn(signals.shape, generator=generator, device=generator.device, dtype=signals.dtype)
        noise = noise.to(signals.device)
        if self.relative:
            noise *= signals.std(dim=-1, correction=0, keepdim=True)
        return signals.add(noise, alpha=self.sigma)


class FlipTime(Perturbation):
    """Read backwards: the paper's Flip_Y, MT-SSL's temporal inversion."""

    name: Literal["flip_time"] = "flip_time"
    probability: float = Field(default=0.5, ge=0, le=1)  # at 1, both views of a frame would be equal

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        return signals.flip(-1)


class FlipAmplitude(Perturbation):
    """Upside down, as when electrodes are swapped: the paper's Flip_X, MT-SSL's negation."""

    name: Literal["flip_amplitude"] = "flip_amplitude"
    probability: float = Field(default=0.5, ge=0, le=1)  # likewise

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        return -signals


class SpectrogramMask(Perturbation):
    """Options of SpecAugment on an STFT with a Hann window, centred on every ``hop``-th sample.

    ``width`` and ``repeats`` are the paper's, which states no window. Ours, of 0.5 s at 500 Hz, makes 129 bins
    of 2 Hz and 40 of 0.13 s out of 2,500 samples: short enough that a time mask (8 bins) is silent for 0.6 s.
    """

    width: float = Field(default=0.2, ge=0, le=1)
    """Fraction of the bins in one mask, rounded to whole bins."""
    repeats: int = Field(default=1, ge=1)
    """Masks, each placed by itself; they may overlap."""
    window: int = Field(default=256, ge=4, multiple_of=2)
    """Samples."""
    hop: int = Field(default=64, ge=1)
    """Samples; at most a quarter window, or the inverse would lose precision at the edges."""

    @model_validator(mode="after")
    def _overlaps(self) -> Self:
        if 4 * self.hop > self.window:
            raise ValueError(f"hop must be at most a quarter of the window, {self.window // 4}")
        return self

    def kept(self, signals: Tensor, bins: int, generator: Generator) -> Tensor:
        """(N, bins): false where a row's bins are masked."""
        masked, size = round(self.width * bins), (len(signals), self.repeats, 1)
        start = torch.randint(bins - masked + 1, size, generator=generator, device=generator.device)
        offset = torch.arange(bins, device=signals.device) - start.to(signals.device)
        return ((offset < 0) | (offset >= masked)).all(dim=1)


class SpecAugmentTime(SpectrogramMask):
    """A stretch of time silenced, softly at its edges: the paper's SA_t.

    Silencing whole windows of an STFT and inverting it weighs each sample by the share of its windows
    that is left, so that share is all we compute: the same signal, without Fourier transforms.
    """

    name: Literal["spec_augment_time"] = "spec_augment_time"

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        samples = torch.arange(signals.shape[-1], dtype=torch.float64, device=signals.device)
        centres = torch.arange(0, len(samples) + 1, self.hop, device=signals.device)
        phase = (samples - centres[:, None] + self.window // 2) / self.window
        power = torch.where((phase >= 0) & (phase < 1), torch.sin(torch.pi * phase) ** 4, 0)
        gain = self.kept(signals, len(centres), generator).to(torch.float64) @ (power / power.sum(dim=0))
        return signals * gain.to(signals.dtype)


class SpecAugmentFrequency(SpectrogramMask):
    """A band of frequencies silenced: the paper's SA_f.

    The band starts anywhere up to the Nyquist frequency, as the paper has it, so at 500 Hz most masks
    lie above the 40 Hz where an ECG has its power, and change little.
    """

    name: Literal["spec_augment_frequency"] = "spec_augment_frequency"

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        samples = signals.shape[-1]
        if self.window >= 2 * samples:
            raise ConfigError(f"{self.name}: frames of {samples} samples need a window below {2 * samples}")
        hann = torch.hann_window(self.window, dtype=signals.dtype, device=signals.device)
        spectrogram = torch.stft(signals, self.window, self.hop, window=hann, return_complex=True)
        spectrogram *= self.kept(signals, spectrogram.shape[1], generator)[:, :, None]
        return torch.istft(spectrogram, self.window, self.hop, window=hann, length=samples)


class Scaling(Perturbation):
    """Each row times one factor, drawn evenly between ``low`` and ``high``.

    The paper gives none. Ours is never 1, so that MT-SSL can tell a scaled frame from its original.
    """

    name: Literal["scaling"] = "scaling"
    low: float = 0.5
    high: float = 0.9

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        factor = self.low + (self.high - self.low) * _uniform(signals, 1, generator)
        return signals * factor.to(signals.dtype)


class Permutation(Perturbation):
    """Cut into ``pieces`` of equal length (to a sample) and put together in a random order.

    The paper gives no number; 20 pieces are our choice, a quarter of a second each in a frame of 5 s.
    """

    name: Literal["permutation"] = "permutation"
    pieces: int = Field(default=20, ge=1)

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        order = _uniform(signals, self.pieces, generator).argsort(dim=-1)
        edges = torch.arange(self.pieces + 1, device=signals.device) * signals.shape[-1] // self.pieces
        lengths = edges.diff()[order]
        shifts = edges[order] - (lengths.cumsum(dim=-1) - lengths)  # from a piece's new place to its old
        here = torch.arange(signals.shape[-1], device=signals.device)
        return signals.gather(-1, _spread(shifts, lengths, signals) + here)


class TimeWarping(Perturbation):
    """A random half of ``pieces`` equal pieces lasts ``factor`` times longer, the others as much shorter.

    The whole is fitted to S samples again, by linear interpolation; the first and the last sample stay. The
    paper gives no numbers; ours are mild enough to keep a beat's shape.
    """

    name: Literal["time_warping"] = "time_warping"
    pieces: int = Field(default=9, ge=1)
    factor: float = Field(default=1.05, ge=1)

    def positions(self, signals: Tensor, generator: Generator) -> Tensor:
        """(N, S) float64: where in its row each new sample is read; rises from 0 to S - 1."""
        last = signals.shape[-1] - 1
        squeezed = _uniform(signals, self.pieces, generator).argsort(dim=-1) % 2
        lengths = self.factor ** (1 - 2 * squeezed.to(torch.float64))
        speeds = lengths.mean(dim=-1, keepdim=True) / lengths
        old_ends = torch.arange(1, self.pieces + 1, dtype=torch.float64, device=signals.device) * (last / self.pieces)
        ends = lengths.cumsum(dim=-1) * (last / lengths.sum(dim=-1, keepdim=True))
        ends[:, -1] = last
        counts = torch.nn.functional.pad(ends.floor() + 1, (1, 0)).diff().long()
        speed, shift = _spread(speeds, counts, signals), _spread(old_ends - ends * speeds, counts, signals)
        here = torch.arange(last + 1, dtype=torch.float64, device=signals.device)
        return shift.addcmul_(speed, here).clamp_(0, last)

    def apply(self, signals: Tensor, generator: Generator) -> Tensor:
        read = self.positions(signals, generator)
        left = read.long()
        right = (left + 1).clamp_(max=signals.shape[-1] - 1)
        share = (read - left).to(signals.dtype)
        return torch.lerp(signals.gather(-1, left), signals.gather(-1, right), share)


PERTURBATIONS: Registry[type[Perturbation]] = Registry(
    "perturbation",
    {
        "gaussian": "clocs.views.perturbations:Gaussian",
        "flip_time": "clocs.views.perturbations:FlipTime",
        "flip_amplitude": "clocs.views.perturbations:FlipAmplitude",
        "spec_augment_time": "clocs.views.perturbations:SpecAugmentTime",
        "spec_augment_frequency": "clocs.views.perturbations:SpecAugmentFrequency",
        "scaling": "clocs.views.perturbations:Scaling",
        "permutation": "clocs.views.perturbations:Permutation",
        "time_warping": "clocs.views.perturbations:TimeWarping",
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
    kind = PERTURBATIONS.get(options["name"])
    try:
        return kind.model_validate(options)
    except ValidationError as error:
        allowed = [field for field in kind.model_fields if field != "name"]
        faults = "; ".join(_fault(fault, allowed) for fault in error.errors())
        raise ConfigError(f"{options['name']}: {faults}. Its options: {', '.join(allowed)}.") from error


def _fault(fault: Any, allowed: list[str]) -> str:
    place = ".".join(map(str, fault["loc"]))
    if fault["type"] != "extra_forbidden":
        return f"{place}: {fault['msg']}" if place else str(fault["msg"])
    return f"unknown option '{place}'" + "".join(f", did you mean '{n}'?" for n in get_close_matches(place, allowed, 1))


def _refusing(given: object) -> tuple[Perturbation, ...]:
    try:
        return parse_perturbations(given)
    except ConfigError as error:  # a ValueError is what pydantic gathers with the other fields' faults
        raise ValueError(str(error)) from error


Perturbations = Annotated[tuple[SerializeAsAny[Perturbation], ...], BeforeValidator(_refusing)]
"""The type of a field that holds steps, in the options of a method."""


def _uniform(signals: Tensor, columns: int, generator: Generator) -> Tensor:
    """(N, columns) of [0, 1), in float64 whatever the signals are, so that both draw alike."""
    size = (len(signals), columns)
    return torch.rand(size, generator=generator, device=generator.device, dtype=torch.float64).to(signals.device)


def _spread(values: Tensor, counts: Tensor, signals: Tensor) -> Tensor:
    """(N, pieces) -> (N, S): each piece's value at as many samples as it counts."""
    return values.flatten().repeat_interleave(counts.flatten(), output_size=signals.numel()).view(signals.shape)
