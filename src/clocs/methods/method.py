"""The contract of a pre-training method: the views it needs, what it trains, and its loss."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn

from clocs.augmentations import Augmentation, Compose
from clocs.augmentations.compose import changed_augmentations, describe_augmentations, parse_augmentations
from clocs.core.errors import ConfigError
from clocs.core.options import changed_options, constructor_options
from clocs.core.registry import Registry
from clocs.encoders import Encoder
from clocs.methods.gather import gather_ranks

Batch = dict[str, Tensor]
"""Tensors of B instances: ``views`` (B, V, C, S), ``lead_mask`` (B, V, C) where leads may be missing, ``patient`` (B,),
``item`` (B,), ``target`` (B, K), and what :meth:`Method.draw_masks` adds."""
Outputs = Tensor | dict[str, Tensor]
"""What a method's network returns for a batch; the first dimension counts instances."""
FramePolicyName = Literal["segments", "evaluation"]
RUN_ARGUMENTS: Final = ("encoder", "num_classes")
"""Constructor parameters that a run supplies. All others are options."""
PER_INSTANCE: Final = ("patient", "item", "target")
"""Entries of a batch that a loss over the batches of all ranks may need."""


def describe_given(given: object) -> list[dict[str, Any]]:
    """Spell out all options of augmentations, so that a run's config says what was applied."""
    try:
        return describe_augmentations(given)
    except ConfigError as error:  # pydantic collects a ValueError with the errors of the other options
        raise ValueError(str(error).removeprefix("augmentations: ")) from error


Augmentations = Annotated[Sequence[str | Mapping[str, Any] | Augmentation], BeforeValidator(describe_given)]
"""Names, mappings of a name and options, or objects; applied in order to each view."""


class Method(nn.Module, ABC):
    """A pre-training method, built from an encoder.

    A subclass states which frames it takes by class attributes, makes views of them in :meth:`views`, encodes the
    views in :meth:`forward` and compares the outputs in :meth:`loss`. All random draws happen in :meth:`views` and
    :meth:`draw_masks`, from the generator that is passed: then a run can be resumed, and several ranks draw what one
    would. Constructor arguments other than ``encoder`` and ``num_classes`` are the method's options; they are kept as
    attributes of the same name.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each view on its own, in millivolt unless :attr:`normalizes_first`.
    """

    frame_policy: ClassVar[FramePolicyName] = "evaluation"
    """Which of a dataset's frame policies the method takes by default."""
    leads_as_views: ClassVar[bool] = False
    """Whether a frame comes with all its leads, of which each becomes a view of its own."""
    needs_global_batch: ClassVar[bool] = False
    """Whether the loss compares instances with each other, and so needs the outputs of all ranks."""
    needs_labels: ClassVar[bool] = False
    """Whether the loss takes ``target``. Such a method has a constructor parameter ``num_classes``."""
    needs_patches: ClassVar[bool] = False
    """Whether some tokens are left out, so that the encoder must be one of patches, such as ``patch_transformer``."""
    needs_tokens: ClassVar[bool] = False
    """Whether only tokens are trained. The encoder must have tokens; the layers that only its ``forward`` uses are
    frozen. Build it without them (``ResNet(head="none", embedding_dim=192)``), and embeddings pool trained tokens."""

    def __init__(self, encoder: Encoder, augmentations: Augmentations = ()) -> None:
        super().__init__()
        if self.leads_as_views and encoder.in_channels != 1:
            raise ConfigError(
                f"{type(self).__name__} takes each lead as a view, so its encoder takes one lead, not "
                f"{encoder.in_channels}. Set encoder.in_channels=1, or use a method whose views are segments or copies."
            )
        if self.needs_patches and encoder.patch_size is None:
            raise ConfigError(
                f"{type(self).__name__} leaves tokens out, and {encoder.label} cannot. Use an encoder of patches: "
                "encoder={name: patch_transformer, head: none, embedding_dim: 96}"
            )
        if self.needs_tokens:
            if encoder.token_dim is None:
                raise ConfigError(
                    f"{type(self).__name__} needs an encoder with tokens, and {encoder.label} has none. Use another: "
                    "encoder={name: resnet, head: none, embedding_dim: 192}"
                )
            encoder.freeze_head()
        self.encoder = encoder
        self.augmentations = parse_augmentations(augmentations)
        self.batch_is_shared = False
        """Whether each rank holds a part of the batch. The training loop sets it."""

    @property
    def is_stochastic(self) -> bool:
        """Whether views are random."""
        return bool(self.augmentations)

    @property
    def needs_millivolt(self) -> bool:
        """Whether views cannot be made of signals without a unit."""
        return any(step.needs_millivolt for step in self.augmentations)

    @property
    def drops_leads(self) -> bool:
        """Whether an augmentation removes leads, so that the encoder learns to work without them."""
        return any(step.drops_leads for step in self.augmentations)

    @property
    def normalizes_first(self) -> bool:
        """Whether views are made of normalised frames. By default they are made in mV and normalised afterwards."""
        return False

    def unsupported_frames(self, num_segments: int, num_views: int) -> str | None:
        """Return what the method takes instead, where it cannot take such frames; None where it can.

        Args:
            num_segments: Segments of a frame.
            num_views: Views that :meth:`views` makes of it.
        """
        return "one segment a frame" if self.frame_policy == "evaluation" and num_segments > 1 else None

    @abstractmethod
    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Make views of frames: (B, segments, C, S) -> (B, V, C', S). C' is the encoder's ``in_channels``."""

    def draw_masks(self, views: Tensor, generator: torch.Generator) -> Batch:
        """Return further random tensors of a batch, such as masks of tokens, each (B, ...). None by default."""
        return {}

    @abstractmethod
    def forward(self, batch: Batch) -> Outputs:
        """Encode a batch."""

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss of a whole batch, a scalar."""

    def training_step(self, batch: Batch, step: int) -> Tensor:
        """Return the loss of a step. Whoever overrides this calls :meth:`gather` where the loss spans all ranks.

        Args:
            batch: The batch, or this rank's part of it.
            step: Number of steps done before.
        """
        return self.global_loss(self(batch), batch)

    def validation_step(self, batch: Batch) -> Batch:
        """Return ``loss`` of a validation batch and, for a method with labels, the ``scores`` (B, K) of its classes."""
        return {"loss": self.global_loss(self(batch), batch)}

    def global_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss, over the outputs of all ranks where the method compares instances."""
        if not self.needs_global_batch:
            return self.loss(outputs, batch)
        known: Batch = {name: self.gather(batch[name]) for name in PER_INSTANCE if name in batch}
        if isinstance(outputs, Tensor):
            return self.loss(self.gather(outputs), {**batch, **known})
        return self.loss({name: self.gather(value) for name, value in outputs.items()}, {**batch, **known})

    def gather(self, values: Tensor) -> Tensor:
        """Return the rows of all ranks, with exact gradients; on one rank, the values as they are."""
        return gather_ranks(values) if self.batch_is_shared else values

    def after_step(self, step: int) -> None:
        """Do what follows an optimizer's step, such as moving an average. Nothing by default."""

    def trained_encoder(self) -> Encoder:
        """Return the encoder that is saved, and whose embeddings are probed. By default it is the one that trains."""
        return self.encoder

    def trained_head(self) -> nn.Module | None:
        """Return the classifier that is saved beside the encoder, if there is one."""
        return None

    def augment(self, views: Tensor, generator: torch.Generator) -> Tensor:
        """Augment each view on its own: (B, V, C, S) -> (B, V, C, S)."""
        if not self.augmentations:
            return views
        return Compose(self.augmentations)(views.flatten(0, 1), generator).reshape(views.shape)

    def encode(self, batch: Batch) -> Tensor:
        """Encode all views of a batch: (B, V, E)."""
        return encode_views(self.encoder, batch["views"], batch.get("lead_mask"))


def encode_views(encoder: nn.Module, views: Tensor, lead_mask: Tensor | None = None) -> Tensor:
    """Encode views in one pass, so that BatchNorm sees them together: (B, V, C, S) -> (B, V, E)."""
    flat = views.flatten(0, 1)
    embeddings: Tensor = encoder(flat) if lead_mask is None else encoder(flat, lead_mask.flatten(0, 1))
    return embeddings.reshape(*views.shape[:2], -1)


def _check(name: str, part: type[Method]) -> None:
    """Refuse a class that does not keep the contract.

    Raises:
        ConfigError: It says what is missing.
    """
    if not (isinstance(part, type) and issubclass(part, Method)):
        raise ConfigError(f"method '{name}': {part!r} is no subclass of clocs.methods.Method")
    parameters = list(inspect.signature(part).parameters)
    wrong = []
    if part.__abstractmethods__:
        wrong.append(f"implement {', '.join(sorted(part.__abstractmethods__))}")
    if part.frame_policy not in get_args(FramePolicyName):
        wrong.append(f"frame_policy must be one of {', '.join(get_args(FramePolicyName))}")
    if not parameters or parameters[0] != "encoder":
        wrong.append("the constructor's first parameter must be 'encoder'")
    if part.needs_labels != ("num_classes" in parameters):
        wrong.append("needs_labels and a constructor parameter 'num_classes' belong together")
    if wrong:
        raise ConfigError(f"method '{name}' ({part.__qualname__}) does not keep the contract: {'; '.join(wrong)}")


METHODS: Registry[type[Method]] = Registry("method", check=_check)
"""All methods by name."""
register = METHODS.register


def parse_method(given: Mapping[str, Any]) -> dict[str, Any]:
    """Check ``{"name": ..., option: value}`` and return it with all options spelled out.

    Raises:
        ConfigError: All that is wrong, at once.
    """
    options = dict(given)
    name = str(options.pop("name", ""))
    return {"name": name, **constructor_options(METHODS.get(name), options, f"method '{name}'", exclude=RUN_ARGUMENTS)}


def build_method(given: Mapping[str, Any], encoder: Encoder, num_classes: int = 0) -> Method:
    """Build a method from ``{"name": ..., option: value}``.

    Args:
        given: Name and options.
        encoder: The encoder to train.
        num_classes: Classes of the labels, for a method that needs them.
    """
    options = parse_method(given)
    part = METHODS.get(options.pop("name"))
    if part.needs_labels:
        options["num_classes"] = num_classes
    return part(encoder, **options)


def changed_method(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's name and the options that differ from the defaults; the same within its augmentations."""
    options = dict(given)
    name = str(options.pop("name"))
    changed = changed_options(METHODS.get(name), options, exclude=RUN_ARGUMENTS)
    if "augmentations" in changed:
        changed["augmentations"] = changed_augmentations(changed["augmentations"])
    return {"name": name, **changed}
