"""PCA of the pooled activations of every block, as the embedding of any encoder with features."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import AfterValidator, Field
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.encoders.encoder import ENCODERS, Encoder, encoder_from_section, section_with_all_options

Floats = npt.NDArray[np.float64]
MIN_VARIANCE = 1e-10
"""Variance below which a feature counts as constant and gets no weight."""


@ENCODERS.register("pca")
class PCAEncoder(Encoder):
    """Replace the last layer of an encoder by the PCA of its features.

    The last layer is what the loss acted on, like a projection head, so features before it are often better.
    :meth:`fit` sets the components; until then the layer has random weights. The new layer is linear, and fine-tuning
    trains it like any other.

    Args:
        encoder: An encoder with features, which is copied; or its config section, ``{"name": ..., option: value}``.
        embedding_dim: Number E of components, at most the number of features.
        in_channels: Number of leads C; None for that of the encoder.

    Example:
        >>> import torch
        >>> from clocs.encoders import ResNet
        >>> encoder = PCAEncoder(ResNet(width=4).eval(), embedding_dim=3)
        >>> signals = torch.randn(50, 1, 500)
        >>> explained = encoder.fit([encoder.features(signals).detach()])
        >>> 0 < explained <= 1
        True
        >>> encoder(signals).var(0, correction=0).round(decimals=2)
        tensor([1., 1., 1.], grad_fn=<RoundBackward1>)
    """

    def __init__(
        self,
        encoder: Annotated[Encoder | dict[str, Any], AfterValidator(section_with_all_options)],
        embedding_dim: Annotated[int, Field(gt=0)] = 128,
        in_channels: Annotated[int, Field(gt=0)] | None = None,
    ) -> None:
        inner = copy.deepcopy(encoder) if isinstance(encoder, Encoder) else encoder_from_section(encoder, in_channels)
        if in_channels not in (None, inner.in_channels):
            raise ConfigError(f"in_channels={in_channels}: the encoder has {inner.in_channels}. Leave in_channels out.")
        if inner.num_features is None:
            raise ConfigError(
                f"PCA needs an encoder with features, and {inner.label} has none. Use another, such as resnet."
            )
        super().__init__(inner.in_channels, embedding_dim)
        if not isinstance(encoder, Encoder):
            self._arguments["encoder"] = {**encoder, "in_channels": inner.in_channels}
        inner.remove_head()
        self.encoder = inner
        self.token_dim, self.num_features = inner.token_dim, inner.num_features
        self.linear: nn.Module = nn.Linear(inner.num_features, embedding_dim)

    def forward(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the embeddings of frames.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Embeddings (N, E).
        """
        embeddings: Tensor = self.linear(self.features(signals, lead_mask))
        return embeddings

    def tokens(self, signals: Tensor, lead_mask: Tensor | None = None, keep: Tensor | None = None) -> Tensor:
        """Return the tokens of the wrapped encoder.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.
            keep: Tokens to compute (N, K), int64; None for all.

        Returns:
            Tokens (N, T, D), or (N, K, D) with ``keep``.
        """
        return self.encoder.tokens(signals, lead_mask, keep)

    def features(self, signals: Tensor, lead_mask: Tensor | None = None) -> Tensor:
        """Return the features of the wrapped encoder.

        Args:
            signals: Frames (N, C, S).
            lead_mask: Leads that are present (N, C), bool; None if all are.

        Returns:
            Features (N, P).
        """
        return self.encoder.features(signals, lead_mask)

    def embed_features(self, features: Tensor) -> Tensor:
        """Return the embeddings of frames from their features.

        Args:
            features: Features (N, P).

        Returns:
            Embeddings (N, E).
        """
        embeddings: Tensor = self.linear(features)
        return embeddings

    def num_tokens(self, num_samples: int) -> int:
        """Return the number of tokens of the wrapped encoder.

        Args:
            num_samples: Samples S of a frame.

        Returns:
            Number T of tokens.

        Raises:
            ConfigError: The frame is too short.
        """
        return self.encoder.num_tokens(num_samples)

    def remove_head(self) -> None:
        """Remove the components."""
        self.linear = nn.Identity()

    @torch.no_grad()
    def fit(
        self, datasets: Iterable[npt.NDArray[Any] | Tensor], *, whitening: float = 1.0, rotation: int | None = None
    ) -> float:
        """Set the last layer to the principal components of features.

        Features are scaled to variance one. All datasets have the same weight.

        Args:
            datasets: Features (N, P) of each dataset.
            whitening: Power of its standard deviation that each component is divided by. 1: all components have
                variance one. 0: variances keep their ratios. Their mean is one in any case.
            rotation: Seed of a random rotation of the components. All dimensions then have similar variances, so that
                scaling them one by one keeps what the whitening left. None: there is no rotation.

        Returns:
            The share of the variance that the components explain.

        Raises:
            ConfigError: The features have fewer dimensions than the embedding.
        """
        moments = [_moments(np.asarray(features)) for features in datasets]
        weight, bias, explained = components(moments, self.embedding_dim, whitening)
        if rotation is not None:
            size = (self.embedding_dim, self.embedding_dim)
            rotated = np.linalg.qr(generator(rotation, "rotation of components").standard_normal(size))[0]
            weight, bias = rotated @ weight, rotated @ bias
        assert isinstance(self.linear, nn.Linear)
        self.linear.weight.copy_(torch.from_numpy(weight))
        self.linear.bias.copy_(torch.from_numpy(bias))
        return explained


def _moments(features: npt.NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the mean (P,) and the mean of products (P, P)."""
    exact = features.astype(np.float64)
    return exact.mean(0), exact.T @ exact / len(exact)


def components(
    moments: list[tuple[Floats, Floats]], count: int, whitening: float = 1.0
) -> tuple[Floats, Floats, float]:
    """Return the linear layer, (E, P) and (E,), that gives components, and the share of the variance they explain.

    A constant feature gets no weight. The largest weight of each component is positive. The mean variance of the
    components is one.

    Args:
        moments: Mean (P,) and mean of products (P, P) of each dataset.
        count: Number E of components.
        whitening: Power of its standard deviation that each component is divided by.

    Raises:
        ConfigError: The features have fewer dimensions than ``count``.
    """
    mean = np.mean([first for first, _ in moments], axis=0)
    covariance = np.mean([second for _, second in moments], axis=0) - np.outer(mean, mean)
    variance = np.diag(covariance)
    scale = np.where(variance > MIN_VARIANCE, 1 / np.sqrt(np.maximum(variance, MIN_VARIANCE)), 0.0)
    values, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    kept, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    rank = int((values > 1e-8).sum())
    if rank < count:
        raise ConfigError(f"embedding_dim={count}: the features have only {rank} dimensions. Use at most {rank}.")
    largest = np.abs(vectors).argmax(0)
    vectors = vectors * np.sign(vectors[largest, np.arange(count)])
    factor = np.sqrt(np.mean(kept ** (1 - whitening)))
    weight = (vectors / (factor * kept ** (whitening / 2))).T * scale
    return weight, -weight @ mean, float(kept.sum() / values.sum())
