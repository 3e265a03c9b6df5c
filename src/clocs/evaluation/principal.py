"""Another embedding for a trained encoder: principal components of what all its blocks tell.

The layer that the loss saw is left behind, as a projection head is: it was made to tell patients apart, and drops what
changes between a patient's leads and segments. Components are fitted without labels, on training patients alone.
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

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.encoders import build_encoder
from clocs.encoders.resnet import ResNet
from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.frame_choice import frames_for
from clocs.evaluation.rows import rows_of
from clocs.store.reader import Folder
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.checkpoint import save_encoder
from clocs.training.output_dir import refuse_taken
from clocs.training.seen import save_seen, seen_also, seen_keys

Floats = npt.NDArray[np.float64]

RECORDINGS = 4_000
"""At most, of each store: thousands are many for the covariance of some hundred channels."""
OF_THE_LAYER = ("head_sha256", "classifiers")
"""What an encoder's config says of things that were fitted to the layer that is left behind."""


def with_principal_components(
    checkpoint: str | os.PathLike[str],
    store: Folder,
    out: str | os.PathLike[str],
    *,
    more_stores: Sequence[Folder] = (),
    seed: int = 0,
) -> dict[str, Any]:
    """Write the encoder with another last layer to a folder that all commands take.

    Its E numbers are the first E principal components of the pooled channels of all blocks, each channel and each
    component scaled to variance one; every store counts alike. The stores are those that it was trained on. A folder
    that holds anything but the same encoder, from an earlier call, is refused.
    """
    places = [open_store(place) for place in (store, *more_stores)]
    encoder = load_encoder_checkpoint(checkpoint, places[0])
    sources = encoder.sources(places)
    folder, told = Path(out), {"of": encoder.about["weights_sha256"], "recordings": RECORDINGS, "seed": seed}
    refuse_taken(folder, lambda held: _made_of(held, told))
    module, kind = _pooling_every_block(encoder)
    moments = [_moments(_channels(module, encoder, place, split, seed)) for place, split in sources]
    weight, bias, explained = components(moments, module.linear.out_features)
    with torch.no_grad():
        module.linear.weight.copy_(torch.from_numpy(weight))
        module.linear.bias.copy_(torch.from_numpy(bias))
    assert encoder.folder is not None
    about = {key: value for key, value in encoder.about.items() if key not in OF_THE_LAYER}
    about["seen_sha256"] = save_seen(folder, seen_also(encoder.folder, encoder.about, starmap(seen_keys, sources)))
    about["principal_components"] = {**told, "explained": round(explained, 4)}
    save_encoder(folder, module, {**about, "encoder": kind})
    return {"folder": str(folder), "explained": explained}


def _made_of(held: dict[str, Any], told: dict[str, Any]) -> bool:
    """Whether a config is that of these components, and nothing was fitted to them since."""
    known = held.get("principal_components", {})
    return told.items() <= known.items() and held.keys().isdisjoint(OF_THE_LAYER)


def _pooling_every_block(encoder: EncoderCheckpoint) -> tuple[ResNet, dict[str, Any]]:
    """The encoder with a last layer, not yet made, that takes all blocks; and what its config says of it."""
    if not isinstance(encoder.module, ResNet):
        raise ConfigError(f"principal components need the encoder 'resnet', not '{encoder.about['encoder']['name']}'")
    kind = encoder.about["encoder"]
    kind = {**kind, "options": {**kind["options"], "pooling": "every"}}
    module = build_encoder(kind["name"], kind["options"])
    assert isinstance(module, ResNet)
    trained = encoder.module.state_dict()
    module.load_state_dict({**module.state_dict(), **{k: v for k, v in trained.items() if not k.startswith("linear.")}})
    return module.eval(), kind


class _Pooled(nn.Module):
    """A network up to its pooled channels."""

    def __init__(self, module: ResNet) -> None:
        super().__init__()
        self.module = module

    def forward(self, signals: torch.Tensor) -> torch.Tensor:
        """(N, C, S) -> (N, P)."""
        return self.module.pooled(signals)


def _channels(
    module: ResNet, encoder: EncoderCheckpoint, store: Store, split: Split, seed: int
) -> npt.NDArray[np.float32]:
    """(N, P) of training recordings, all or as many as are enough."""
    records = np.flatnonzero(split.mask("train"))
    if len(records) > RECORDINGS:
        records = generator(seed, "principal components").choice(records, RECORDINGS, replace=False)
    chosen = np.zeros(len(split.mask("train")), np.bool_)
    chosen[records] = True
    policy = frames_for(encoder.about["input"], store, "encoder")
    return rows_of(_Pooled(module), store, policy, chosen).values


def _moments(values: npt.NDArray[np.float32]) -> tuple[Floats, Floats]:
    """(P,) mean and (P, P) mean of products."""
    exact = values.astype(np.float64)
    return exact.mean(0), exact.T @ exact / len(exact)


def components(moments: Sequence[tuple[Floats, Floats]], count: int) -> tuple[Floats, Floats, float]:
    """(E, P) and (E,): the layer that gives whitened principal components; and the share of the variance they keep.

    Of channels scaled to variance one, over all stores alike; signs so that each component's largest weight is above
    zero. A channel that never changes gets no weight.
    """
    mean = np.mean([first for first, _ in moments], axis=0)
    covariance = np.mean([second for _, second in moments], axis=0) - np.outer(mean, mean)
    variance = np.diag(covariance)
    scale = np.where(variance > 1e-10, 1 / np.sqrt(np.maximum(variance, 1e-10)), 0.0)
    values, vectors = np.linalg.eigh(covariance * np.outer(scale, scale))
    kept, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    if len(kept) < count or kept[-1] < 1e-8:
        raise ConfigError(f"{count} numbers were asked for, but what the blocks tell has fewer dimensions")
    largest = np.abs(vectors).argmax(0)
    vectors = vectors * np.sign(vectors[largest, np.arange(count)])
    weight = (vectors / np.sqrt(kept)).T * scale
    return weight, -weight @ mean, float(kept.sum() / values.sum())
