"""Blocks of features in the search of an encoder: pooled activations of networks, and random kernels."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from encoder_features import STATISTICS
from torch import nn

from clocs.core.seeds import generator
from clocs.encoders import ResNet, resnet
from clocs.evaluation.benchmark.embedders import EncoderEmbedder, load_embedder
from clocs.evaluation.benchmark.feature_transforms import Standardization
from clocs.inference.frame_pooling import pool_frames

MAX_PCA_FRAMES = 1500
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Block:
    """Features of one source."""

    source: str
    """Folder of the cache: small, untrained-WIDTH, joint, kernels-RATE-NUMBER."""
    statistics: tuple[str, ...] = ("mean", "max")
    """Statistics over time of the activations of every block of the network."""
    components: int | Literal["shipped"] | None = None
    """Number of principal components of the activations of a lead, fitted on training recordings; ``shipped``: those of
    ``clocs-small``; None: the activations themselves."""
    whitening: float = 0.0
    """Power of the deviation that components are divided by. 1 gives all the same variance, 0 keeps it."""
    rotated: bool = False
    """Whether components are rotated at random, so that a standardization of features keeps what whitening left."""
    frames: tuple[str, ...] = ("mean", "max", "min")
    """Statistics over the frames of a recording."""
    root: bool = False
    """Whether the square root of each activation is taken first, which are positive and have a long tail."""
    leads: Literal["concatenated", "I"] = "concatenated"
    """What becomes of the leads: all, or lead I alone."""


def finished_parts(folder: Path) -> set[str]:
    """Return the names of the parts of a source that are in the cache."""
    return {file.name for file in folder.glob("*.npz")}


def core_seconds(folder: Path, parts: Collection[str]) -> float:
    """Return the seconds of one core that parts took."""
    return float(sum(np.load(folder / part)["seconds"] for part in parts))


@functools.lru_cache(maxsize=4)
def cached(folder: Path, parts: frozenset[str]) -> tuple[npt.NDArray[np.float16], Ints]:
    """Return the values of some parts, ordered by recording, and the recording of each."""
    loaded = [np.load(folder / part) for part in sorted(parts)]
    values, record = (np.concatenate([file[name] for file in loaded]) for name in ("values", "record"))
    order = np.argsort(record, kind="stable")
    return values[order], record[order]


def recording_values(cache: Path, parts: frozenset[str], block: Block, used: Ints, train: Mask) -> Floats:
    """Return the features of recordings, (recordings, D), NaN for those without a frame.

    Args:
        cache: Folder of the cached features of a store.
        parts: Names of the parts to read.
        block: The block.
        used: Indices of the recordings in the store, ascending.
        train: Training recordings among them, which the components are fitted on.
    """
    values, record = cached(cache / block.source, parts)
    record = np.searchsorted(used, record)
    if values.ndim == 2:  # of recordings already
        features = np.full((len(used), values.shape[1]), np.nan, np.float32)
        features[record] = values
        return features
    if block.leads == "I":
        values = values[:, :1]
    if block.root:
        values = np.sqrt(values)
    wanted = [STATISTICS.index(statistic) for statistic in block.statistics]
    if block.components is None:
        chosen = values[:, :, wanted].astype(np.float32).reshape(*values.shape[:2], -1)
    else:
        chosen = _components(values, wanted, train[record], block)
    return _pool(chosen.reshape(len(chosen), -1), record, len(used), block.frames)


def _pool(values: Floats, record: Ints, count: int, statistics: tuple[str, ...]) -> Floats:
    """Return statistics over the frames of each recording; those of the package, and the standard deviation."""
    found = []
    for statistic in statistics:
        if statistic == "std":
            mean, square = (pool_frames(each, record, count, ("mean",)) for each in (values, values**2))
            found.append(np.sqrt(np.maximum(square - mean**2, 0)))
        else:
            found.append(pool_frames(values, record, count, (statistic,)))  # type: ignore[arg-type]
    return np.concatenate(found, 1)


def _components(values: npt.NDArray[np.float16], wanted: list[int], train: Mask, block: Block) -> Floats:
    """Return principal components of the activations, shared by all leads, (frames, leads, components)."""
    if block.components == "shipped":
        weight, bias = _shipped_layer(wanted, values.shape[3])
    else:
        frames = np.flatnonzero(train)
        sample = generator(0, "pca").choice(frames, min(MAX_PCA_FRAMES, len(frames)), replace=False)
        rows = values[np.sort(sample)][:, :, wanted].astype(np.float32).reshape(-1, len(wanted) * values.shape[3])
        weight, bias = _fit(rows, int(block.components or 0), block.whitening)
        if block.rotated:
            rotation = np.linalg.qr(generator(0, "rotation").standard_normal((len(bias), len(bias))))[0]
            weight, bias = weight @ rotation.astype(np.float32), bias @ rotation.astype(np.float32)
    parts = []
    for part in np.array_split(values, -(-len(values) // 512)):
        flat = part[:, :, wanted].astype(np.float32).reshape(-1, len(weight))
        parts.append((flat @ weight + bias).reshape(len(part), values.shape[1], -1))
    return np.concatenate(parts)


def _fit(rows: Floats, count: int, whitening: float) -> tuple[Floats, Floats]:
    """Return weights (P, count) and biases of the principal components of standardized rows."""
    standardization = Standardization.fit(rows)
    scaled = standardization.transform(rows)
    variances, vectors = np.linalg.eigh((scaled.T @ scaled / len(scaled)).astype(np.float64))
    deviations = np.sqrt(np.maximum(variances[-count:], 1e-8))
    weight = (standardization.scale[:, None] * vectors[:, -count:] / deviations**whitening).astype(np.float32)
    return weight, -standardization.mean @ weight


def _shipped_layer(wanted: list[int], size: int) -> tuple[Floats, Floats]:
    """Return the last layer of clocs-small for activations ordered by statistic; it takes mean and maximum by block."""
    small = load_embedder("clocs-small")
    assert isinstance(small, EncoderEmbedder)
    assert isinstance(small.encoder, ResNet)
    assert [STATISTICS[index] for index in wanted] == ["mean", "max"]
    widths = np.array(
        [block.second.weight.shape[0] for block in small.encoder.blocks if isinstance(block, resnet.Block)]
    )
    starts = np.cumsum(widths) - widths
    by_block = [np.arange(2 * start, 2 * (start + width)) for start, width in zip(starts, widths, strict=True)]
    order = np.concatenate(
        [part[: len(part) // 2] for part in by_block] + [part[len(part) // 2 :] for part in by_block]
    )
    assert len(order) == 2 * size
    linear = small.encoder.linear
    assert isinstance(linear, nn.Linear)
    with torch.no_grad():
        return linear.weight.numpy()[:, order].T.copy(), linear.bias.numpy()
