"""PCA of the pooled activations of every block, as the embedding of a trained encoder.

The last layer is left out, as a projection head is. The loss trains it to distinguish patients, so it discards what
differs between leads and segments of a patient.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from clocs.core.seeds import generator
from clocs.encoders import Encoder, PCAEncoder
from clocs.encoders.encoder import describe_encoder
from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.evaluation_frames import frame_policy_for
from clocs.evaluation.model_outputs import compute_outputs
from clocs.store.reader import StoreLike
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.encoder_module import save_encoder
from clocs.training.onnx_export import finish_encoder
from clocs.training.output_dir import check_output_dir
from clocs.training.seen_recordings import extend_seen_keys, save_seen_keys, seen_keys

MAX_RECORDINGS = 4_000
"""Maximum number of recordings of each store. The covariance of some hundred features needs no more."""
LAYER_KEYS = ("head_sha256", "classifiers")
"""Keys of an encoder's config that belong to the layer that is left out."""


def write_pca_encoder(
    checkpoint: str | os.PathLike[str],
    store: StoreLike,
    out: str | os.PathLike[str],
    *,
    extra_stores: Sequence[StoreLike] = (),
    seed: int = 0,
    embedding_dim: int | None = None,
) -> dict[str, Any]:
    """Write a trained encoder whose embedding is a PCA of its features; see :class:`clocs.encoders.PCAEncoder`.

    Components are fitted without labels, on training patients only. All stores have the same weight.

    Args:
        checkpoint: Folder or name of an encoder with features.
        store: The store that it was trained on.
        out: Folder to write. It may have the result of an earlier call, and nothing else.
        extra_stores: The other stores that it was trained on, in their order.
        seed: Seed of the selection of recordings, if a store has more than 4,000.
        embedding_dim: Number of components. None: the dimension of the encoder's embedding.

    Returns:
        The folder, and the fraction of the variance that the components explain.

    Raises:
        ConfigError: The encoder has no features or too few, or the stores are not those of training.
    """
    opened = [open_store(each) for each in (store, *extra_stores)]
    encoder = load_encoder_checkpoint(checkpoint, opened[0])
    sources = encoder.training_data(opened)
    module = PCAEncoder(encoder.module, embedding_dim or encoder.module.embedding_dim).eval()
    folder = Path(out)
    fitted = {
        "of": encoder.about["weights_sha256"],
        "recordings": MAX_RECORDINGS,
        "seed": seed,
        "components": module.embedding_dim,
    }
    check_output_dir(folder, lambda config: _has_components(config, fitted))
    explained = module.fit(_features(module, encoder, *source, seed) for source in sources)
    assert encoder.folder is not None
    about = {key: value for key, value in encoder.about.items() if key not in LAYER_KEYS}
    about["seen_sha256"] = save_seen_keys(
        folder, extend_seen_keys(encoder.folder, encoder.about, starmap(seen_keys, sources))
    )
    about["pca"] = {**fitted, "explained": round(explained, 4)}
    save_encoder(folder, module, {**about, "encoder": describe_encoder(module)})
    finish_encoder(folder, module)
    return {"folder": str(folder), "explained": explained}


def _has_components(config: dict[str, Any], fitted: dict[str, Any]) -> bool:
    """Return whether a config describes these components, without a head or classifiers on them."""
    return fitted.items() <= config.get("pca", {}).items() and config.keys().isdisjoint(LAYER_KEYS)


class _Features(nn.Module):
    """An encoder that returns its features."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, signals: torch.Tensor, lead_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return features: (N, C, S) -> (N, P)."""
        return self.encoder.features(signals, lead_mask)


def _features(
    module: Encoder, encoder: EncoderCheckpoint, store: Store, split: Split, seed: int
) -> npt.NDArray[np.float32]:
    """Return the features (N, P) of the training recordings, or of a random selection of them."""
    records = np.flatnonzero(split.mask("train"))
    if len(records) > MAX_RECORDINGS:
        records = generator(seed, "principal components").choice(records, MAX_RECORDINGS, replace=False)
    chosen = np.zeros(len(split.mask("train")), np.bool_)
    chosen[records] = True
    policy = frame_policy_for(encoder.about, store, "encoder")
    return compute_outputs(_Features(module), store, policy, chosen, in_channels=module.in_channels).values
