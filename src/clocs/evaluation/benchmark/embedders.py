"""Embedders: one interface for encoders of this package, plain modules, ONNX files and models of others."""

from __future__ import annotations

import copy
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.encoders import Encoder, wrap
from clocs.encoders.encoder import describe_encoder
from clocs.inference.frame_pooling import POOLING, Pooling
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats
from clocs.training.devices import device_of, to_device
from clocs.training.encoder_module import load_encoder_folder, weights_hash
from clocs.training.onnx_session import OnnxNetwork
from clocs.training.shipped import find_encoder_folder

Mask = npt.NDArray[np.bool_]
EMBEDDING, ADAPTED = "embedding", "adapted"
"""Names of an embedder's outputs: the embedding of the model, and the PCA of its features fitted on target data."""


class Embedder(ABC):
    """A model that turns frames into embeddings, with the frames that it takes.

    Subclass it to evaluate a model of your own: state the frames in the constructor, and implement :meth:`embed` with
    the model's own preprocessing.

    Args:
        name: Name in tables.
        policy: Frames that the model takes: number of samples, sampling rate, normalization and leads.
        all_leads: True if the model takes the leads of ``policy`` at once. False: it takes one lead at a time, and the
            embeddings of all leads are concatenated.
        identity: JSON value that changes whenever the embeddings change, such as the hash of the weights. Cached
            features are found by it.
        pooling: Statistics over the frames of a recording that make its features.

    Example:
        >>> class Amplitudes(Embedder):
        ...     def __init__(self) -> None:
        ...         super().__init__("amplitudes", FramePolicy(num_samples=500, sampling_rate=100), identity="1")
        ...
        ...     def embed(self, frames, lead_mask):
        ...         return np.stack([frames.min((1, 2)), frames.max((1, 2))], axis=1)
        >>> Amplitudes().embed(np.zeros((4, 1, 500), np.float32), np.ones((4, 1), bool)).shape
        (4, 2)
    """

    def __init__(
        self,
        name: str,
        policy: FramePolicy,
        *,
        identity: Any,
        all_leads: bool = False,
        pooling: Sequence[Pooling] = POOLING,
    ) -> None:
        if policy.sampling_rate is None:
            raise ConfigError(f"embedder '{name}': its frames have no sampling rate. Set sampling_rate in Hz.")
        if all_leads and not policy.leads:
            raise ConfigError(f"embedder '{name}': it takes several leads at once. Set leads, one a channel.")
        self.name, self.policy, self.all_leads, self.pooling = name, policy, all_leads, tuple(pooling)
        self._identity = identity

    @property
    def identity(self) -> Any:
        """JSON value that changes whenever the embeddings change."""
        return self._identity

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs of :meth:`embed_all`."""
        return (EMBEDDING,)

    @abstractmethod
    def embed(self, frames: Floats, lead_mask: Mask) -> Floats:
        """Return the embeddings of frames.

        Args:
            frames: Frames (N, C, S) as ``policy`` states them; C is 1 unless ``all_leads``.
            lead_mask: False where a lead is missing, (N, C). Its samples are zero.

        Returns:
            Embeddings (N, E), float32.
        """

    def embed_all(self, frames: Floats, lead_mask: Mask) -> dict[str, Floats]:
        """Return every output of frames by its name, each (N, E). Arguments are those of :meth:`embed`."""
        return {EMBEDDING: self.embed(frames, lead_mask)}

    def features(self, frames: Floats, lead_mask: Mask) -> Floats:
        """Return the pooled activations of every block.

        Args:
            frames: Frames (N, C, S).
            lead_mask: False where a lead is missing, (N, C).

        Returns:
            Features (N, P).

        Raises:
            ConfigError: This model has no features.
        """
        raise ConfigError(f"embedder '{self.name}' has no features. Use an encoder of clocs.encoders that has them.")


class EncoderEmbedder(Embedder):
    """Embedder of an encoder of this package, run by torch on its device. Arguments are those of :class:`Embedder`.

    Args:
        name: Name in tables.
        encoder: The encoder. It is copied and set to eval mode.
        policy: Frames that it takes.
        components: Linear layer on the features whose output is called ``adapted``; see
            :func:`clocs.evaluation.benchmark.adapted_pca.fit_adapted_pca`.

    Example:
        >>> from clocs.encoders import ResNet
        >>> policy = FramePolicy(num_samples=500, sampling_rate=100, leads=("I", "II"))
        >>> embedder = EncoderEmbedder("resnet", ResNet(in_channels=2), policy)
        >>> embedder.embed(np.zeros((4, 2, 500), np.float32), np.ones((4, 2), bool)).shape
        (4, 128)
    """

    def __init__(
        self, name: str, encoder: Encoder, policy: FramePolicy, *, components: nn.Linear | None = None
    ) -> None:
        self.encoder = copy.deepcopy(encoder).eval()
        self._device = device_of(self.encoder)
        self.components = None if components is None else copy.deepcopy(components).to(self._device)
        all_leads = encoder.in_channels > 1
        if all_leads and len(policy.leads) != encoder.in_channels:
            raise ConfigError(
                f"embedder '{name}': the encoder takes {encoder.in_channels} leads, and {len(policy.leads)} are named. "
                "Set leads, one a channel."
            )
        super().__init__(name, policy, identity=None, all_leads=all_leads)

    @property
    def identity(self) -> Any:
        """Hashes of the weights, and the description of the network."""
        parts: dict[str, Any] = {"encoder": describe_encoder(self.encoder), "weights": weights_hash(self.encoder)}
        if not parts["encoder"].get("registered", True):
            parts["modules"] = repr(self.encoder)
        return parts | ({} if self.components is None else {"components": weights_hash(self.components)})

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the outputs: ``embedding`` and, with components, ``adapted``."""
        return (EMBEDDING,) if self.components is None else (EMBEDDING, ADAPTED)

    @torch.inference_mode()
    def embed(self, frames: Floats, lead_mask: Mask) -> Floats:
        """Return the embeddings (N, E) of frames (N, C, S)."""
        return self._numpy(self.encoder(*self.inputs(frames, lead_mask)))

    @torch.inference_mode()
    def features(self, frames: Floats, lead_mask: Mask) -> Floats:
        """Return the pooled activations (N, P) of every block for frames (N, C, S)."""
        return self._numpy(self.encoder.features(*self.inputs(frames, lead_mask)))

    @torch.inference_mode()
    def embed_all(self, frames: Floats, lead_mask: Mask) -> dict[str, Floats]:
        """Return every output of frames by its name. The network runs once if the features give the embedding."""
        if self.components is None:
            return {EMBEDDING: self.embed(frames, lead_mask)}
        inputs = self.inputs(frames, lead_mask)
        features = self.encoder.features(*inputs)
        embeddings = self.encoder.embed_features(features)
        embeddings = self.encoder(*inputs) if embeddings is None else embeddings
        return {EMBEDDING: self._numpy(embeddings), ADAPTED: self._numpy(self.components(features))}

    def inputs(self, frames: Floats, lead_mask: Mask) -> tuple[Tensor, Tensor | None]:
        """Return frames and lead mask as the encoder's arguments; the mask is None if no lead is missing."""
        signals = to_device(torch.from_numpy(np.ascontiguousarray(frames, np.float32)), self._device)
        return signals, None if lead_mask.all() else to_device(torch.from_numpy(lead_mask), self._device)

    def _numpy(self, values: Tensor) -> Floats:
        if values.ndim != 2:
            raise ConfigError(
                f"embedder '{self.name}': expected embeddings of shape (N, E), got {tuple(values.shape)}. Pool them "
                "over time in the module."
            )
        return np.asarray(values.float().cpu().numpy())


class OnnxEmbedder(Embedder):
    """Embedder of an ONNX file, run by ONNX Runtime.

    The first input takes frames (N, C, S); a second one, if there is one, the lead mask (N, C). The first output has
    embeddings (N, E).

    Args:
        path: The file.
        policy: Frames that it takes.
        all_leads: True if it takes the leads of ``policy`` at once.
        name: Name in tables; None for the name of the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], policy: FramePolicy, *, all_leads: bool, name: str | None = None
    ) -> None:
        raw = Path(path).read_bytes()
        self._network = OnnxNetwork(raw)
        sha256 = hashlib.sha256(raw).hexdigest()
        super().__init__(name or Path(path).stem, policy, identity={"onnx": sha256}, all_leads=all_leads)

    def embed(self, frames: Floats, lead_mask: Mask) -> Floats:
        """Return the embeddings (N, E) of frames (N, C, S)."""
        values = self._network(np.ascontiguousarray(frames, np.float32), lead_mask)
        if values.ndim != 2:
            raise ConfigError(
                f"embedder '{self.name}': expected embeddings of shape (N, E), got {values.shape}. Export a network "
                "that pools them over time."
            )
        return np.asarray(values, np.float32)


def load_embedder(
    source: str | os.PathLike[str] | nn.Module | Embedder,
    *,
    policy: FramePolicy | None = None,
    all_leads: bool | None = None,
    name: str | None = None,
) -> Embedder:
    """Return the embedder of an encoder.

    Args:
        source: Name of a shipped encoder, folder of a run or of an encoder, path of an ONNX file, a module, or an
            embedder, which is returned as it is.
        policy: Frames that a module or an ONNX file takes. Encoders of this package state their own.
        all_leads: True if a module or an ONNX file takes the leads of the policy at once; by default, if the policy
            names several leads.
        name: Name in tables; by default that of the encoder, the file or the class.

    Returns:
        The embedder.

    Raises:
        ConfigError: There is no such encoder, or its frames are not described.

    Example:
        >>> embedder = load_embedder("clocs-small")
        >>> embedder.all_leads, embedder.policy.num_samples, embedder.policy.sampling_rate
        (False, 2500, 500.0)
    """
    if isinstance(source, Embedder):
        return source
    if isinstance(source, nn.Module):
        needed = _require_policy(policy, type(source).__name__)
        joint = len(needed.leads) > 1 if all_leads is None else all_leads
        encoder = _as_encoder(source, len(needed.leads) if joint else 1, needed.num_samples)
        return EncoderEmbedder(name or encoder.label, encoder, needed)
    path = os.fspath(source)
    if path.endswith(".onnx"):
        needed = _require_policy(policy, path)
        joint = len(needed.leads) > 1 if all_leads is None else all_leads
        return OnnxEmbedder(path, needed, all_leads=joint, name=name)
    encoder, about = load_encoder_folder(find_encoder_folder(path))
    return trained_embedder(name or path, encoder, about["input"])


def trained_embedder(name: str, encoder: Encoder, described: Mapping[str, Any]) -> EncoderEmbedder:
    """Return the embedder of an encoder of this package.

    Args:
        name: Name in tables and messages.
        encoder: The encoder.
        described: Section ``input`` of its config.json.
    """
    return EncoderEmbedder(name, encoder, _trained_policy(name, encoder, described))


def _as_encoder(module: nn.Module, in_channels: int, num_samples: int) -> Encoder:
    """Return a module as an encoder. The dimension of a plain module's embedding is that of its output."""
    if isinstance(module, Encoder):
        return module
    copied = copy.deepcopy(module).eval()
    with torch.inference_mode():
        output = copied(torch.zeros(2, in_channels, num_samples))
    return wrap(copied, in_channels=in_channels, embedding_dim=int(output.shape[-1]))


def _require_policy(policy: FramePolicy | None, name: str) -> FramePolicy:
    if policy is None:
        raise ConfigError(
            f"{name}: its frames are unknown. Pass policy=FramePolicy(num_samples=..., sampling_rate=..., leads=...)."
        )
    return policy


def _trained_policy(name: str, encoder: Encoder, described: Mapping[str, Any]) -> FramePolicy:
    """Return the frames of training, one segment each. Encoders of one lead name none, as they take any."""
    trained = FramePolicy.model_validate(described["policy"])
    if trained.sampling_rate is None:
        raise ConfigError(
            f"encoder '{name}' was trained on frames without a sampling rate, so recordings cannot be resampled for it."
        )
    leads = tuple(described["leads"]) if encoder.in_channels > 1 else ()
    return FramePolicy(
        num_samples=trained.num_samples,
        sampling_rate=trained.sampling_rate,
        normalization=trained.normalization,
        normalization_scope=trained.normalization_scope,
        unnamed_lead=trained.unnamed_lead if encoder.in_channels > 1 else None,
        leads=leads,
    )
