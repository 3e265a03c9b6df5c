"""Base class and registry of pre-training methods."""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn

from clocs.augmentations import Augmentation, Compose
from clocs.augmentations.compose import describe_augmentations, non_default_augmentations, parse_augmentations
from clocs.core.errors import ConfigError
from clocs.core.options import constructor_options, non_default_options
from clocs.core.registry import Registry
from clocs.encoders import Encoder
from clocs.losses.cosine import divided_among_ranks
from clocs.methods.gather import gather_ranks

Batch = dict[str, Tensor]
"""Tensors of B instances by name: ``views`` (B, V, C, S), ``lead_mask`` (B, V, C) if leads may be missing, ``patient``
(B,), ``item`` (B,), ``target`` (B, K), and the tensors of :meth:`Method.draw_masks`."""
Outputs = Tensor | dict[str, Tensor]
"""Outputs of a method's network for a batch: a tensor, or tensors by name. The first dimension counts instances."""
FramePolicyName = Literal["segments", "evaluation"]
"""Name of a dataset's frame policy."""
RUN_ARGUMENTS: Final = ("encoder", "num_classes")
"""Constructor parameters that a run supplies. All others are options of the method."""
GATHERED_KEYS: Final = ("patient", "item", "target")
"""Keys of a batch that are gathered over ranks, for a loss over the batches of all ranks."""


def describe_or_invalid(value: object) -> list[dict[str, Any]]:
    """Describe augmentations with all options, for a run's config; raise a ValueError if they are invalid."""
    try:
        return describe_augmentations(value)
    except ConfigError as error:  # pydantic collects a ValueError with the errors of the other options
        raise ValueError(str(error).removeprefix("augmentations: ")) from error


Augmentations = Annotated[Sequence[str | Mapping[str, Any] | Augmentation], BeforeValidator(describe_or_invalid)]
"""Augmentations of each view, in order: names, mappings of a ``name`` and options, or objects."""


class Method(nn.Module, ABC):
    """Base class of pre-training methods. A method is built from an encoder.

    A subclass selects its frames by class attributes, makes views of them in :meth:`views`, encodes the views in
    :meth:`forward` and compares the outputs in :meth:`loss`. All random draws happen in :meth:`views` and
    :meth:`draw_masks`, from the passed generator. So a run can be resumed, and several ranks draw the same as one.
    Constructor arguments other than ``encoder`` and ``num_classes`` are the method's options. They are stored as
    attributes of the same name.

    Args:
        encoder: The encoder to train.
        augmentations: Applied to each view independently, in millivolt unless :attr:`normalizes_first`.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> class SameEmbedding(Method):
        ...     def views(self, signals, generator):
        ...         return self.augment(signals.repeat(1, 2, 1, 1), generator)
        ...
        ...     def forward(self, batch):
        ...         return self.encode(batch)
        ...
        ...     def loss(self, outputs, batch):
        ...         return (outputs[:, 0] - outputs[:, 1]).square().mean()
        >>> method = SameEmbedding(ResNet(in_channels=12, embedding_dim=64), augmentations=["lead_dropout"])
        >>> views = method.views(torch.randn(4, 1, 12, 500), torch.Generator())
        >>> method.training_step({"views": views}, step=0).shape
        torch.Size([])
    """

    frame_policy: ClassVar[FramePolicyName] = "evaluation"
    """Name of the dataset's frame policy that the method uses by default."""
    leads_as_views: ClassVar[bool] = False
    """True if a frame comes with all its leads and each lead becomes a view."""
    needs_global_batch: ClassVar[bool] = False
    """True if the loss compares instances with each other, so that it needs the outputs of all ranks."""
    needs_labels: ClassVar[bool] = False
    """True if the loss takes ``target``. Such a method has a constructor parameter ``num_classes``."""
    needs_patches: ClassVar[bool] = False
    """True if the method leaves tokens out, which needs an encoder of patches such as ``patch_transformer``."""
    needs_tokens: ClassVar[bool] = False
    """True if only tokens are trained. The encoder must have tokens, and the layers that only its ``forward`` uses are
    frozen. Build it without them (``ResNet(head="none", embedding_dim=192)``), so that embeddings pool trained
    tokens."""

    def __init__(self, encoder: Encoder, augmentations: Augmentations = ()) -> None:
        super().__init__()
        if not isinstance(encoder, Encoder):
            raise ConfigError(
                f"Expected an Encoder, got {type(encoder).__name__}. Wrap another module: "
                "encoders.wrap(module, in_channels=..., embedding_dim=...)."
            )
        if self.leads_as_views and encoder.in_channels != 1:
            raise ConfigError(
                f"{type(self).__name__} takes each lead as a view, so its encoder takes one lead, not "
                f"{encoder.in_channels}. Set encoder.in_channels=1, or use a method with segments or copies as views."
            )
        if self.needs_patches and encoder.patch_size is None:
            raise ConfigError(
                f"{type(self).__name__} leaves tokens out, and {encoder.label} cannot. Use an encoder of patches: "
                "encoder={name: patch_transformer, head: none, embedding_dim: 96}."
            )
        if self.needs_tokens:
            if encoder.token_dim is None:
                raise ConfigError(
                    f"{type(self).__name__} needs an encoder with tokens, and {encoder.label} has none. Use another: "
                    "encoder={name: resnet, head: none, embedding_dim: 192}."
                )
            encoder.freeze_head()
        self.encoder = encoder
        self.augmentations = parse_augmentations(augmentations)
        self.batch_is_shared = False
        """True if each rank holds a part of the batch. The training loop sets it."""

    @property
    def is_stochastic(self) -> bool:
        """Return whether views are random."""
        return bool(self.augmentations)

    @property
    def needs_millivolt(self) -> bool:
        """Return whether views need signals in millivolt."""
        return any(step.needs_millivolt for step in self.augmentations)

    @property
    def drops_leads(self) -> bool:
        """Return whether an augmentation removes leads, so that the encoder learns to work without them."""
        return any(step.drops_leads for step in self.augmentations)

    @property
    def normalizes_first(self) -> bool:
        """Return whether views are made of normalized frames. By default they are made in mV and normalized later."""
        return False

    def unsupported_frames(self, num_segments: int, num_views: int) -> str | None:
        """Return which frames the method supports, if it does not support frames of these sizes.

        Args:
            num_segments: Segments of a frame.
            num_views: Views that :meth:`views` makes of a frame.

        Returns:
            A description of supported frames; None if the frames are supported.
        """
        return "one segment a frame" if self.frame_policy == "evaluation" and num_segments > 1 else None

    @abstractmethod
    def views(self, signals: Tensor, generator: torch.Generator) -> Tensor:
        """Make views of frames.

        Args:
            signals: Frames (B, segments, C, S).
            generator: Source of all randomness.

        Returns:
            Views (B, V, C', S), where C' is the encoder's ``in_channels``.
        """

    def draw_masks(self, views: Tensor, generator: torch.Generator) -> Batch:
        """Draw further random tensors of a batch, such as masks of tokens. By default there are none.

        Args:
            views: Views (B, V, C, S).
            generator: Source of all randomness.

        Returns:
            Tensors (B, ...) by name, which are added to the batch.
        """
        return {}

    @abstractmethod
    def forward(self, batch: Batch) -> Outputs:
        """Encode a batch.

        Args:
            batch: The batch, or this rank's part of it.

        Returns:
            The outputs that the loss takes.
        """

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss of a whole batch.

        Args:
            outputs: Outputs of :meth:`forward`; of all ranks if ``needs_global_batch`` is true.
            batch: The batch.

        Returns:
            A scalar.
        """

    def training_step(self, batch: Batch, step: int) -> Tensor:
        """Return the loss of a step. An override calls :meth:`gather` if its loss spans all ranks.

        Args:
            batch: The batch, or this rank's part of it.
            step: Number of steps done before this one.

        Returns:
            A scalar.
        """
        return self.global_loss(self(batch), batch)

    def validation_step(self, batch: Batch) -> Batch:
        """Return the results of a validation batch.

        Args:
            batch: The batch, or this rank's part of it.

        Returns:
            ``loss`` and, for a method with labels, the ``scores`` (B, K) of the classes.
        """
        return {"loss": self.global_loss(self(batch), batch)}

    def global_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        """Return the loss, over the outputs of all ranks if ``needs_global_batch`` is true.

        Each rank computes the similarities of its own part of the instances with all others.

        Args:
            outputs: Outputs of :meth:`forward` on this rank.
            batch: The batch, or this rank's part of it.

        Returns:
            A scalar.
        """
        if not self.needs_global_batch:
            return self.loss(outputs, batch)
        gathered: Batch = {name: self.gather(batch[name]) for name in GATHERED_KEYS if name in batch}
        everything: Outputs
        if isinstance(outputs, Tensor):
            everything = self.gather(outputs)
        else:
            everything = {name: self.gather(value) for name, value in outputs.items()}
        with divided_among_ranks() if self.batch_is_shared else contextlib.nullcontext():
            return self.loss(everything, {**batch, **gathered})

    def gather(self, values: Tensor) -> Tensor:
        """Return the rows of all ranks, with exact gradients.

        Args:
            values: Values (b, ...) of this rank.

        Returns:
            Values (B, ...) of all ranks, in their order; on one rank, ``values`` itself.
        """
        return gather_ranks(values) if self.batch_is_shared else values

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return the parameters to train, in groups for the optimizer. By default they are one group.

        Returns:
            Groups of ``params`` and ``rate_factor``, by which the learning rate of the run is multiplied.
        """
        return [{"params": [each for each in self.parameters() if each.requires_grad], "rate_factor": 1.0}]

    def after_step(self, step: int) -> None:
        """Update the method after an optimizer's step, such as a moving average. By default nothing happens.

        Args:
            step: Number of steps done before this one.
        """

    def trained_encoder(self) -> Encoder:
        """Return the encoder that a run saves and probes. By default it is the trained one."""
        return self.encoder

    def trained_head(self) -> nn.Module | None:
        """Return the classifier to save with the encoder; None by default."""
        return None

    def augment(self, views: Tensor, generator: torch.Generator) -> Tensor:
        """Augment each view independently.

        Args:
            views: Views (B, V, C, S).
            generator: Source of all randomness.

        Returns:
            Augmented views (B, V, C, S).
        """
        if not self.augmentations:
            return views
        return Compose(self.augmentations)(views.flatten(0, 1), generator).reshape(views.shape)

    def encode(self, batch: Batch) -> Tensor:
        """Encode all views of a batch.

        Args:
            batch: The batch, or this rank's part of it.

        Returns:
            Embeddings (B, V, E).
        """
        return encode_views(self.encoder, batch["views"], batch.get("lead_mask"))


def encode_views(encoder: nn.Module, views: Tensor, lead_mask: Tensor | None = None) -> Tensor:
    """Encode views in one pass, so that BatchNorm sees them together: (B, V, C, S) -> (B, V, E)."""
    flat = views.flatten(0, 1)
    embeddings: Tensor = encoder(flat) if lead_mask is None else encoder(flat, lead_mask.flatten(0, 1))
    return embeddings.reshape(*views.shape[:2], -1)


def _check(name: str, part: type[Method]) -> None:
    """Raise a ConfigError that lists all faults of a class that is not a valid method."""
    if not (isinstance(part, type) and issubclass(part, Method)):
        raise ConfigError(f"method '{name}': {part!r} must be a subclass of clocs.methods.Method")
    parameters = list(inspect.signature(part).parameters)
    faults = []
    if part.__abstractmethods__:
        faults.append(f"implement {', '.join(sorted(part.__abstractmethods__))}")
    if part.frame_policy not in get_args(FramePolicyName):
        faults.append(f"frame_policy must be one of {', '.join(get_args(FramePolicyName))}")
    if not parameters or parameters[0] != "encoder":
        faults.append("the constructor's first parameter must be 'encoder'")
    if part.needs_labels != ("num_classes" in parameters):
        faults.append("needs_labels and a constructor parameter 'num_classes' belong together")
    if faults:
        raise ConfigError(f"method '{name}' ({part.__qualname__}) is not a valid method: {'; '.join(faults)}")


METHODS: Registry[type[Method]] = Registry("method", check=_check)
"""All methods by name."""
register = METHODS.register


def parse_method(section: Mapping[str, Any]) -> dict[str, Any]:
    """Check a method's config section, ``{"name": ..., option: value}``, and return it with all options.

    Raises:
        ConfigError: The name or options are invalid. The message lists all errors.
    """
    options = dict(section)
    name = str(options.pop("name", ""))
    return {"name": name, **constructor_options(METHODS.get(name), options, f"method '{name}'", exclude=RUN_ARGUMENTS)}


def build_method(section: Mapping[str, Any], encoder: Encoder, num_classes: int = 0) -> Method:
    """Build a method from its config section.

    Args:
        section: Name and options, ``{"name": ..., option: value}``.
        encoder: The encoder to train.
        num_classes: Number of classes, for a method that needs labels.

    Returns:
        The method.

    Raises:
        ConfigError: The name or options are invalid. The message lists all errors.

    Example:
        >>> from clocs.encoders import ResNet
        >>> build_method({"name": "simclr", "temperature": 0.2}, ResNet()).temperature
        0.2
    """
    options = parse_method(section)
    part = METHODS.get(options.pop("name"))
    if part.needs_labels:
        options["num_classes"] = num_classes
    return part(encoder, **options)


def non_default_method(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a method's name and the options that differ from the defaults, also within its augmentations."""
    options = dict(section)
    name = str(options.pop("name"))
    changed = non_default_options(METHODS.get(name), options, exclude=RUN_ARGUMENTS)
    if "augmentations" in changed:
        changed["augmentations"] = non_default_augmentations(changed["augmentations"])
    return {"name": name, **changed}
