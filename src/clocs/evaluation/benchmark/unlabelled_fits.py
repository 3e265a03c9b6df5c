"""Fits on unlabelled recordings: the PCA of an encoder's features, and the untrained network as a control."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed, generator
from clocs.encoders import Encoder, build_encoder
from clocs.encoders.encoder import describe_encoder, is_registered
from clocs.encoders.pca import components
from clocs.evaluation.benchmark.embedders import Embedder, EncoderEmbedder
from clocs.evaluation.benchmark.random_kernels import sample_records
from clocs.evaluation.benchmark.recording_features import recording_policy
from clocs.signals.resampling import Floats
from clocs.store.frames import Frames
from clocs.store.store import Store

MAX_RECORDINGS = 1000
"""Maximum number of recordings. Each has several leads and frames, which some hundred features need no more of."""
BATCH = 512
"""Rows of a batch: leads of frames, or frames for an encoder of several leads."""
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

Mask = npt.NDArray[np.bool_]


def fit_adapted_pca(
    embedder: EncoderEmbedder, store: Store, records: Mask, *, num_components: int = 128, seed: int = 0
) -> EncoderEmbedder:
    """Add the PCA of an encoder's features, fitted on unlabelled recordings of a store, as the output ``adapted``.

    Args:
        embedder: Embedder of an encoder with features.
        store: The store.
        records: Training recordings, a mask over the store.
        num_components: Number of components; fewer if there are fewer features or rows.
        seed: Seed of the selection of recordings, if there are more than 1,000.

    Returns:
        A new embedder with both outputs.

    Raises:
        ConfigError: The encoder has no features.
    """
    count, total, products = 0, np.zeros(1), np.zeros((1, 1))
    for signals, lead_mask in _batches(embedder, store, records, seed):
        features = embedder.features(signals, lead_mask).astype(np.float64)
        count += len(features)
        total = total + features.sum(0)
        products = products + features.T @ features
    if not count:
        raise ConfigError("The recordings for the PCA have no frames. Use other recordings.")
    num_components = min(num_components, len(total), max(1, count - 1))
    weight, bias, _ = components([(total / count, products / count)], num_components)
    layer = nn.Linear(len(total), num_components)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        layer.bias.copy_(torch.from_numpy(bias))
    return EncoderEmbedder(embedder.name, embedder.encoder, embedder.policy, components=layer)


def untrained_embedder(embedder: Embedder, store: Store, records: Mask, *, seed: int = 0) -> EncoderEmbedder:
    """Return the same network with random weights, and BatchNorm statistics of unlabelled recordings.

    Args:
        embedder: Embedder of an encoder or of a plain module.
        store: The store.
        records: Training recordings, a mask over the store.
        seed: Seed of the weights, and of the selection of recordings if there are more than 1,000.

    Returns:
        The untrained embedder, without a PCA.

    Raises:
        ConfigError: The network has weights that cannot be drawn again.
    """
    if not isinstance(embedder, EncoderEmbedder):
        raise ConfigError(f"embedder '{embedder.name}' is no torch module, so it has no untrained control.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "untrained"))
        encoder = _random_weights(embedder.encoder)
    untrained = EncoderEmbedder(f"{embedder.name}, untrained", encoder, embedder.policy)
    _set_norm_statistics(untrained, _batches(untrained, store, records, seed))
    return untrained


def _random_weights(encoder: Encoder) -> Encoder:
    """Return the network with weights drawn from torch's generator."""
    section = describe_encoder(encoder)
    if is_registered(section):
        return build_encoder(section["name"], section["options"]).eval()
    drawn = copy.deepcopy(encoder)
    for name, module in drawn.named_modules():
        own = list(module.named_parameters(recurse=False))
        reset = getattr(module, "reset_parameters", None)
        if own and reset is None:
            raise ConfigError(
                f"{name or type(module).__name__} has weights and no method reset_parameters, so the untrained network "
                "cannot be made. Add the method."
            )
        if reset is not None:
            reset()
    return drawn.eval()


@torch.no_grad()
def _set_norm_statistics(embedder: EncoderEmbedder, batches: Iterator[tuple[Floats, Mask]]) -> None:
    """Set the running statistics of BatchNorm layers to the mean over batches. Other layers stay in eval mode."""
    norms = [module for module in embedder.encoder.modules() if isinstance(module, NORMS)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain mean over batches
        norm.train()
    for signals, lead_mask in batches if norms else ():
        embedder.encoder(*embedder.inputs(signals, lead_mask))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()


def _batches(embedder: Embedder, store: Store, records: Mask, seed: int) -> Iterator[tuple[Floats, Mask]]:
    """Yield frames (N, C, S) and lead masks (N, C) of a random selection of recordings, in random order."""
    policy = recording_policy(embedder, store, overlap=0.0)
    frames = Frames(store, policy, records=sample_records(records, MAX_RECORDINGS, seed), all_leads=True)
    items = generator(seed, "unlabelled frames").permutation(len(frames))
    per_batch = BATCH if embedder.all_leads else max(1, BATCH // len(frames.leads))
    for batch in np.array_split(items, max(1, -(-len(items) // per_batch))):  # of equal weight
        signals, mask = frames.views(batch)[:, 0], frames.lead_mask(batch)
        if not embedder.all_leads:
            signals = signals.reshape(-1, 1, signals.shape[2])[mask.reshape(-1)]
            mask = np.ones((len(signals), 1), np.bool_)
        yield signals, mask
