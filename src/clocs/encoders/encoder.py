"""Base class and registry of encoders; encoders built from a config and described by one."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, Self

from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.core.options import constructor_options, non_default_options, option_names
from clocs.core.registry import Registry

REQUIRED = ("in_channels", "embedding_dim")
"""Options of every registered encoder."""


class Encoder(nn.Module, ABC):
    """Base class of encoders, which turn frames of C leads and S samples into embeddings.

    A subclass implements :meth:`forward` and passes every input through :meth:`masked`. It may also
    implement :meth:`tokens` with :meth:`num_tokens` and ``token_dim``, and :meth:`features` with ``num_features``.
    The keyword arguments of its constructor are its options in configs; ``in_channels`` and ``embedding_dim`` are
    always among them, and ``num_samples`` where the length of a frame is fixed.

    Args:
        in_channels: Number of leads C.
        embedding_dim: Dimension E of an embedding.

    Example:
        >>> import torch
        >>> class MeanOverTime(Encoder):
        ...     def __init__(self, in_channels: int = 1, embedding_dim: int = 8) -> None:
        ...         super().__init__(in_channels, embedding_dim)
        ...         self.linear = torch.nn.Linear(in_channels, embedding_dim)
        ...
        ...     def forward(self, signals, lead_mask=None):
        ...         return self.linear(self.masked(signals, lead_mask).mean(2))
        >>> MeanOverTime(in_channels=12)(torch.randn(4, 12, 500)).shape
        torch.Size([4, 8])
    """

    token_dim: int | None = None
    """Dimension D of a token; None if the encoder has no tokens."""
    patch_size: int | None = None
    """Samples P of a patch, if token t covers samples t P to (t + 1) P - 1 and :meth:`tokens` takes ``keep``; None for
    encoders that always compute all tokens."""
    num_features: int | None = None
    """Number P of pooled activations; None if the encoder has no features."""
    _arguments: dict[str, Any]
    """Arguments of the constructor."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Store the constructor's arguments, which :func:`describe_encoder` needs."""
        encoder = super().__new__(cls)
        bound = inspect.signature(cls.__init__).bind_partial(encoder, *_args, **_kwargs).arguments
        object.__setattr__(encoder, "_arguments", dict(list(bound.items())[1:]))
        return encoder

    def __init__(self, in_channels: int, embedding_dim: int) -> None:
        super().__init__()
        self.in_channels, self.embedding_dim = in_channels, embedding_dim

    @abstractmethod
    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Embeddings (N, E).
        """

    def tokens(self, signals: Tensor, lead_mask: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """Return one vector per position in time.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.
            keep: Tokens to compute (N, K), int64; None for all. Convolutional encoders refuse it.

        Returns:
            Tokens (N, T, D), or (N, K, D) with ``keep``.

        Raises:
            ConfigError: This encoder has no tokens, or cannot leave any out.
        """
        self._raise_missing("tokens")

    def features(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the pooled activations of every block.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Features (N, P).

        Raises:
            ConfigError: This encoder has no features.
        """
        self._raise_missing("features")

    def embed_features(self, features: Tensor) -> Tensor | None:
        """Return the embeddings of frames from their features, which saves a second pass through the network.

        Args:
            features: Features (N, P).

        Returns:
            Embeddings (N, E) as :meth:`forward` returns them; None if they depend on more than the features.
        """
        return None

    def num_tokens(self, num_samples: int) -> int:
        """Return the number of tokens of a frame.

        Args:
            num_samples: Samples S of the frame.

        Returns:
            Number T of tokens.

        Raises:
            ConfigError: This encoder has no tokens, or the frame is too short.
        """
        self._raise_missing("tokens")

    def remove_head(self) -> None:
        """Remove the layers that only :meth:`forward` uses, so that another head can replace them.

        Afterwards only :meth:`tokens` and :meth:`features` can be called. Otherwise the layers would stay as
        parameters without gradients, which training on several ranks does not allow.
        """

    def prepare_export(self, num_samples: int) -> None:
        """Compute in advance the values that depend only on the weights and the length of a frame.

        The ONNX export calls this method of every encoder in a network, in eval mode, so that the values become
        constants of the graph. They are used until the next call of ``train()`` or ``load_state_dict()``. By default
        there is nothing to prepare.

        Args:
            num_samples: Samples S of the frames that the exported network will take.
        """

    def freeze_head(self) -> None:
        """Freeze the layers that :meth:`remove_head` would remove, for methods that train tokens only.

        Their weights do not change, and :meth:`forward` can still be called.
        """
        headless = copy.deepcopy(self)
        headless.remove_head()
        trained = dict(headless.named_parameters())
        for name, parameter in self.named_parameters():
            if name not in trained:
                parameter.requires_grad_(False)

    def masked(self, signals: Tensor, lead_mask: Tensor | None) -> Tensor:
        """Return the signals (N, C, S) with absent leads set to zero.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Frames (N, C, S); without a mask, ``signals`` itself.

        Raises:
            ConfigError: The number of leads is not ``in_channels``.
        """
        if signals.ndim != 3 or signals.shape[1] != self.in_channels:
            raise ConfigError(f"Expected frames of shape (N, {self.in_channels}, S), got {tuple(signals.shape)}")
        if lead_mask is None:
            return signals
        if lead_mask.ndim != 2 or lead_mask.shape[1] != self.in_channels:
            raise ConfigError(f"Expected a lead mask of shape (N, {self.in_channels}), got {tuple(lead_mask.shape)}")
        return signals.masked_fill(~lead_mask.unsqueeze(2), 0)

    @property
    def label(self) -> str:
        """Return the network's name for a config, used if the network is not registered."""
        return type(self).__qualname__

    def _raise_missing(self, output: str) -> NoReturn:
        raise ConfigError(f"{type(self).__name__} has no {output}. Use an encoder that has them, such as resnet.")


def _check(name: str, part: type[Encoder]) -> None:
    """Refuse a class that is no encoder, or without options for the numbers of leads and dimensions."""
    if not (isinstance(part, type) and issubclass(part, Encoder)):
        raise ConfigError(f"encoder '{name}': {part!r} must be a subclass of clocs.encoders.Encoder")
    missing = [option for option in REQUIRED if option not in option_names(part)]
    if missing:
        raise ConfigError(f"encoder '{name}': the constructor of {part.__qualname__} lacks {' and '.join(missing)}")


ENCODERS: Registry[type[Encoder]] = Registry("encoder", check=_check)
"""All encoders by name."""
register = ENCODERS.register


def build_encoder(name: str, options: Mapping[str, Any] | None = None) -> Encoder:
    """Build an encoder by its name. Its weights are drawn from torch's global generator.

    Args:
        name: Name of a registered encoder.
        options: Keyword arguments of its constructor; the others have their defaults.

    Returns:
        The encoder, in training mode.

    Raises:
        ConfigError: The name or options are invalid. The message lists all errors.

    Example:
        >>> build_encoder("resnet", {"in_channels": 12}).embedding_dim
        128
    """
    return ENCODERS.get(name)(**parse_encoder(name, options or {}))


def parse_encoder(name: str, options: Mapping[str, Any], *, exclude: Collection[str] = ()) -> dict[str, Any]:
    """Return all options of a registered encoder, with the defaults filled in.

    Args:
        name: Name of a registered encoder.
        options: Options that are set.
        exclude: Options that the caller supplies itself; they are left out.

    Raises:
        ConfigError: The name or options are invalid. The message lists all errors.
    """
    return constructor_options(ENCODERS.get(name), options, f"encoder '{name}'", exclude=exclude)


def non_default_encoder_options(
    name: str, options: Mapping[str, Any], *, exclude: Collection[str] = ()
) -> dict[str, Any]:
    """Return the options of a registered encoder that differ from its defaults, also within an encoder in an option.

    Arguments and errors are those of :func:`parse_encoder`.
    """
    changed = non_default_options(ENCODERS.get(name), options, exclude=exclude)
    for key, inner in changed.items():
        if isinstance(inner, Mapping):
            changed[key] = {"name": inner["name"], **non_default_encoder_options(*_name_and_options(inner))}
    return changed


def section_with_all_options(encoder: Encoder | Mapping[str, Any]) -> Encoder | dict[str, Any]:
    """Return the config section of an encoder with all its options; an encoder object is returned as it is.

    Raises:
        ValueError: The section is invalid. Pydantic reports it with the errors of other options.
    """
    if isinstance(encoder, Encoder):
        return encoder
    name, options = _name_and_options(encoder)
    try:
        return {"name": name, **parse_encoder(name, options)}
    except ConfigError as error:
        raise ValueError(str(error)) from error


def encoder_from_section(section: Mapping[str, Any], in_channels: int | None = None) -> Encoder:
    """Build an encoder from its config section, ``{"name": ..., option: value}``.

    Args:
        section: The section.
        in_channels: Number of leads; None for that of the section.
    """
    name, options = _name_and_options(section)
    return build_encoder(name, options if in_channels is None else {**options, "in_channels": in_channels})


def _name_and_options(section: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    return str(section.get("name", "")), {key: value for key, value in section.items() if key != "name"}


def describe_encoder(encoder: Encoder) -> dict[str, Any]:
    """Return the encoder section of ``config.json``: name and all options.

    An encoder that is not registered, or contains one that is not, is marked with ``"registered": False``. Its section
    has only the options that all encoders have, and loading it needs the module.

    Example:
        >>> from clocs.encoders import CNN
        >>> describe_encoder(CNN(embedding_dim=32))["options"]["embedding_dim"]
        32
    """
    kind, common = type(encoder), {"in_channels": encoder.in_channels, "embedding_dim": encoder.embedding_dim}
    name = ENCODERS.name_of(kind)
    inner = {key: describe_encoder(value) for key, value in encoder._arguments.items() if isinstance(value, Encoder)}
    if name is None or not all(is_registered(section) for section in inner.values()):
        return {"name": name or encoder.label, "registered": False, "options": common}
    nested = {key: {"name": section["name"], **section["options"]} for key, section in inner.items()}
    return {"name": name, "options": parse_encoder(name, {**encoder._arguments, **common, **nested})}


def is_registered(section: Mapping[str, Any]) -> bool:
    """Return whether the encoder section of a config describes an encoder that can be built by its name."""
    return bool(section.get("registered", True))
