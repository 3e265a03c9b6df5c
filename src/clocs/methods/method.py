"""What a pre-training method is: how frames become views, what is trained, and the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from torch import Tensor, nn

from clocs.augmentations import Compose, changed_augmentations, describe_augmentations, parse_augmentations
from clocs.core.errors import ConfigError
from clocs.core.options import checked
from clocs.core.registry import Registry


class Method(Protocol):
    """The contract. Options are fields of a frozen model; nothing else is kept in a method."""

    name: ClassVar[str]
    purpose: ClassVar[Literal["segments", "evaluation"]]
    """Which of a dataset's frame policies it takes in the paper."""
    together: ClassVar[bool]
    """Whether a frame comes with all its leads, or each lead is an instance of its own."""
    shares_batch: ClassVar[bool]
    """Whether the loss compares instances with each other, and so needs the outputs of all ranks."""
    needs_labels: ClassVar[bool]

    @property
    def draws(self) -> bool:
        """Whether views are random."""
        ...

    @property
    def needs_millivolt(self) -> bool:
        """Whether views cannot be made of signals without a unit."""
        ...

    @property
    def normalises_first(self) -> bool:
        """Whether views are made of frames as the encoder takes them, and not in mV and normalised afterwards."""
        ...

    def needs(self, segments: int, views: int) -> str | None:
        """What it takes instead, where it cannot take frames of so many segments, or so many views of an instance."""
        ...

    def views(self, frames: Tensor, generator: torch.Generator) -> Tensor:
        """(B, segments, S), or with ``together`` (B, leads, segments, S), to (B, V, S); both in mV or normalised."""
        ...

    def model(self, encoder: nn.Module, embedding: int, classes: int) -> nn.Module:
        """All that is trained: a module from (B, V, C, S) to what the loss takes, with ``.encoder``."""
        ...

    def loss(self, outputs: Tensor, patients: Tensor, targets: Tensor) -> Tensor:
        """Of the whole batch; ``patients`` (B,), ``targets`` (B, classes) or (B, 0)."""
        ...

    def after_step(self, model: nn.Module) -> None:
        """What happens besides the optimiser's step."""
        ...


METHODS: Registry[type[Any]] = Registry(
    "method",
    {
        "cmsc": "clocs.methods.cmsc:Cmsc",
        "cmlc": "clocs.methods.cmlc:Cmlc",
        "cmsmlc": "clocs.methods.cmsmlc:Cmsmlc",
        "simclr": "clocs.methods.simclr:SimClr",
        "byol": "clocs.methods.byol:Byol",
        "mtssl": "clocs.methods.mtssl:MtSsl",
        "supervised": "clocs.methods.supervised:Supervised",
    },
)


def parse_method(given: Mapping[str, Any]) -> Any:
    """A method from ``{"name": ..., option: value}``; all that is wrong is said at once."""
    options = dict(given)
    kind = METHODS.get(str(options.pop("name", "")))
    return checked(kind, options, f"method '{kind.name}'")


def changed_options(method: BaseModel) -> dict[str, Any]:
    """Return the options of a method that differ from its defaults, as JSON; the same within its augmentations."""
    given = method.model_dump(mode="json")
    try:
        usual = type(method)().model_dump(mode="json")
    except ValidationError:  # an option without a default
        usual = {}
    changed = {name: value for name, value in given.items() if name not in usual or value != usual[name]}
    if "augmentations" in changed:
        changed["augmentations"] = changed_augmentations(given["augmentations"])
    return changed


class AugmentedOptions(BaseModel):
    """Options of a method whose views may be augmented."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    purpose: ClassVar[Literal["segments", "evaluation"]]

    augmentations: tuple[dict[str, Any], ...] = ()
    """Applied in order, in mV, drawn again for each view; names or ``{"name": ..., option: value}``."""

    @property
    def draws(self) -> bool:
        """Whether views are random."""
        return bool(self.augmentations)

    @property
    def needs_millivolt(self) -> bool:
        """Whether an augmentation is given in mV."""
        return any(step.needs_millivolt for step in parse_augmentations(list(self.augmentations)))

    @property
    def normalises_first(self) -> bool:
        """Not unless a method says otherwise."""
        return False

    def needs(self, segments: int, views: int) -> str | None:
        """One segment a frame, where the paper's frames for the method have one: it would not see a second."""
        return "one segment a frame" if self.purpose == "evaluation" and segments > 1 else None

    def after_step(self, model: nn.Module) -> None:
        """Nothing, unless a method says otherwise."""

    @field_validator("augmentations", mode="before")
    @classmethod
    def _parsed(cls, given: object) -> tuple[dict[str, Any], ...]:
        """Spell out all options, so that a run's config says what was applied."""
        try:
            return tuple(describe_augmentations(given))
        except ConfigError as error:  # a ValueError is what pydantic gathers with the other options' faults
            raise ValueError(str(error).removeprefix("augmentations: ")) from error


def augmented(views: Tensor, steps: Sequence[Mapping[str, Any]], generator: torch.Generator) -> Tensor:
    """(B, V, S) with each view augmented on its own."""
    if not steps:
        return views
    flat = Compose(steps)(views.flatten(0, 1).unsqueeze(1), generator)
    return flat.reshape(views.shape)


def encode_views(encoder: nn.Module, views: Tensor) -> Tensor:
    """(B, V, C, S) -> (B, V, E): all views in one pass, so that BatchNorm sees them together."""
    embeddings: Tensor = encoder(views.flatten(0, 1))
    return embeddings.reshape(*views.shape[:2], -1)


class ViewEncoder(nn.Module):
    """An encoder of views and, where there is one, a projection that only the loss sees."""

    def __init__(self, encoder: nn.Module, projection: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder, self.projection = encoder, projection

    def forward(self, views: Tensor) -> Tensor:
        """(B, V, C, S) -> (B, V, E)."""
        embeddings = encode_views(self.encoder, views)
        return embeddings if self.projection is None else encode_views(self.projection, embeddings)


class ProjectedOptions(AugmentedOptions):
    """Options of a method whose loss takes embeddings as they are, or through a projection head."""

    head: int | None = Field(default=None, gt=0)
    """Hidden width of a projection head, trained with the encoder and dropped with the run; none in the paper."""

    def model(self, encoder: nn.Module, embedding: int, classes: int) -> nn.Module:
        """The encoder, shared by all views; with ``head``, Linear, BatchNorm, ReLU and Linear after it, E to E."""
        if self.head is None:
            return ViewEncoder(encoder)
        first = nn.Linear(embedding, self.head, bias=False)  # BatchNorm would take a bias away again
        return ViewEncoder(
            encoder, nn.Sequential(first, nn.BatchNorm1d(self.head), nn.ReLU(), nn.Linear(self.head, embedding))
        )
