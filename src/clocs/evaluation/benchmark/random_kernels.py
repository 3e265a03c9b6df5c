"""Random convolution kernels as an untrained control: MiniRocket (Dempster, Schmidt and Webb, KDD 2021).

A kernel has nine weights, three of them 2 and the others -1, and there are 84 of them. Each is dilated and convolved
with the sum of some leads. A feature is the proportion of the values over time that exceed a bias.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import conv1d

from clocs.core.errors import ConfigError
from clocs.core.seeds import generator
from clocs.evaluation.benchmark.embedders import Embedder, Mask
from clocs.signals.framing import FramePolicy
from clocs.signals.resampling import Floats
from clocs.store.frames import Frames
from clocs.store.store import Store

KERNEL_LENGTH, NUM_LARGE = 9, 3
"""Weights of a kernel, and how many of them are 2."""
MAX_DILATIONS = 32
"""Maximum number of dilations of a kernel."""
MAX_LEADS = 9
"""Maximum number of leads that a kernel adds."""
GOLDEN_RATIO = (5**0.5 + 1) / 2
MAX_SAMPLE_RECORDINGS = 1000
"""Maximum number of recordings that the biases are drawn from."""
FRAMES_PER_PASS = 4
"""Frames that are convolved at a time, so that the values stay in the processor's cache."""


@dataclass(frozen=True)
class DilatedKernels:
    """Kernels of one dilation, those with or those without padding."""

    dilation: int
    """Distance of neighboring weights in samples."""
    padded: bool
    """True: the signal is extended by zeros, so that all samples give a value."""
    weight: Tensor
    """Weights, (kernels, C, 9); zero for leads that a kernel leaves out."""
    bias: Tensor
    """Biases, (kernels, features)."""

    def convolve(self, signals: Tensor) -> Tensor:
        """Return the values of all kernels: (N, C, S) -> (N, kernels, S')."""
        return conv1d(signals, self.weight, padding=self._padding, dilation=self.dilation)

    @property
    def _padding(self) -> int:
        return self.dilation * (KERNEL_LENGTH // 2) if self.padded else 0

    def quantiles(self, signals: Tensor, levels: npt.NDArray[np.float64]) -> Tensor:
        """Return quantiles of each kernel's values on a frame of its own.

        Args:
            signals: One frame for each kernel, (kernels, C, S).
            levels: Levels of the quantiles, (kernels, features).

        Returns:
            Quantiles, (kernels, features).
        """
        count = len(self.weight)
        joined = signals.flatten(0, 1)[None]
        values = conv1d(joined, self.weight, padding=self._padding, dilation=self.dilation, groups=count)[0].numpy()
        found = [np.quantile(row, level) for row, level in zip(values, levels, strict=True)]
        return torch.from_numpy(np.array(found, np.float32))

    def proportions(self, signals: Tensor) -> Tensor:
        """Return the proportions of values above each bias: (N, C, S) -> (N, kernels * features)."""
        values = self.convolve(signals)
        above = torch.empty_like(values)
        counts = [torch.gt(values, bias[:, None], out=above).sum(2) for bias in self.bias.T]
        return torch.stack(counts, dim=2).flatten(1) / values.shape[2]


class MiniRocket:
    """MiniRocket for several leads.

    Args:
        num_features: Number of features, rounded down to a multiple of 84.
        seed: Seed of the leads of each kernel, and of the frames that the biases are drawn from.

    Example:
        >>> signals = np.random.default_rng(0).normal(size=(20, 12, 500)).astype(np.float32)
        >>> MiniRocket(num_features=840).fit(signals).transform(signals).shape
        (20, 840)
    """

    def __init__(self, num_features: int = 10_000, seed: int = 0) -> None:
        self.num_features = num_features // len(KERNELS) * len(KERNELS)
        if not self.num_features:
            raise ConfigError(f"Expected at least {len(KERNELS)} features, got {num_features}.")
        self.seed = seed
        self._kernels: list[DilatedKernels] = []

    def fit(self, signals: Floats) -> MiniRocket:
        """Draw the leads of each kernel, and its biases from quantiles of its values on one of the frames.

        Args:
            signals: Frames of training recordings, (N, C, S).

        Returns:
            The object itself.
        """
        _, channels, length = signals.shape
        random = generator(self.seed, "random kernels")
        dilations, counts = dilations_of(length, self.num_features // len(KERNELS))
        quantiles = iter(np.arange(1, self.num_features + 1) * GOLDEN_RATIO % 1)
        self._kernels = []
        for number, (dilation, count) in enumerate(zip(dilations.tolist(), counts.tolist(), strict=True)):
            levels = np.fromiter(quantiles, float, count * len(KERNELS)).reshape(len(KERNELS), count)
            leads = np.stack([_draw_leads(random, channels) for _ in KERNELS])
            frames = torch.from_numpy(signals[random.integers(len(signals), size=len(KERNELS))])
            weight = torch.from_numpy(leads[:, :, None] * KERNELS[:, None])
            for padded in (True, False):  # alternately over kernels and dilations
                rows = np.flatnonzero((np.arange(len(KERNELS)) + number) % 2 == (0 if padded else 1))
                kernels = DilatedKernels(dilation, padded, weight[rows], torch.empty(0))
                self._kernels.append(replace(kernels, bias=kernels.quantiles(frames[rows], levels[rows])))
        return self

    @torch.inference_mode()
    def transform(self, signals: Floats) -> Floats:
        """Return the features of frames: (N, C, S) -> (N, features)."""
        if not self._kernels:
            raise ConfigError("MiniRocket is not fitted. Call fit first.")
        frames = torch.from_numpy(np.ascontiguousarray(signals, np.float32))
        passes = [
            torch.cat([kernels.proportions(part) for kernels in self._kernels], dim=1)
            for part in torch.split(frames, FRAMES_PER_PASS)
        ]
        return np.asarray(torch.cat(passes).numpy())

    @property
    def identity(self) -> str:
        """Hash of all weights and biases."""
        digest = hashlib.sha256()
        for item in self._kernels:
            digest.update(np.int64(item.dilation).tobytes() + item.weight.numpy().tobytes())
            digest.update(item.bias.numpy().tobytes())
        return digest.hexdigest()


def _all_kernels() -> Floats:
    """Return the 84 kernels, (84, 9)."""
    kernels = np.full((84, KERNEL_LENGTH), -1, np.float32)
    for row, large in enumerate(combinations(range(KERNEL_LENGTH), NUM_LARGE)):
        kernels[row, list(large)] = 2
    return kernels


KERNELS = _all_kernels()
"""Weights of all kernels, (84, 9)."""


def dilations_of(length: int, features_per_kernel: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the dilations for frames of a length, and the number of features of a kernel with each of them.

    Dilations are spread exponentially, up to the one at which a kernel covers the frame.

    Args:
        length: Samples S of a frame.
        features_per_kernel: Number of features of a kernel with all dilations.
    """
    if length < KERNEL_LENGTH:
        raise ConfigError(f"Frames of {length} samples are too short for MiniRocket. Use at least {KERNEL_LENGTH}.")
    total = min(features_per_kernel, MAX_DILATIONS)
    largest = np.log2((length - 1) / (KERNEL_LENGTH - 1))
    dilations, repeats = np.unique(np.exp2(np.linspace(0, largest, total)).astype(np.int64), return_counts=True)
    counts = (repeats * (features_per_kernel / total)).astype(np.int64)
    rest = features_per_kernel - counts.sum()
    counts += rest // len(counts)
    counts[: rest % len(counts)] += 1
    return dilations, counts


def _draw_leads(random: np.random.Generator, channels: int) -> npt.NDArray[np.float32]:
    """Draw the leads that a kernel adds, (C,) of 0 and 1. Their number is distributed exponentially."""
    count = int(2 ** random.uniform(0, np.log2(min(channels, MAX_LEADS) + 1)))
    chosen = np.zeros(channels, np.float32)
    chosen[random.choice(channels, count, replace=False)] = 1
    return chosen


class RandomKernels(Embedder):
    """MiniRocket as an embedder. A recording's features are the means over its frames, which are proportions again.

    Args:
        rocket: A fitted MiniRocket.
        policy: Frames that it was fitted on.
    """

    def __init__(self, rocket: MiniRocket, policy: FramePolicy) -> None:
        self.rocket = rocket
        super().__init__(
            "random kernels", policy, identity={"mini_rocket": rocket.identity}, all_leads=True, pooling=("mean",)
        )

    def embed(self, frames: Floats, lead_mask: Mask) -> Floats:
        """Return the features (N, E) of frames (N, C, S)."""
        return self.rocket.transform(frames)


def random_kernels(
    store: Store,
    records: npt.NDArray[np.bool_],
    *,
    leads: Sequence[str] = (),
    num_features: int = 10_000,
    sampling_rate: float = 100.0,
    seconds: float = 10.0,
    seed: int = 0,
) -> RandomKernels:
    """Return random kernels over leads of a store, fitted without labels.

    Args:
        store: The store.
        records: Training recordings, a mask over the store.
        leads: Leads to use; empty for those that most recordings have.
        num_features: Number of features, rounded down to a multiple of 84.
        sampling_rate: Sampling rate in Hz to which recordings are resampled.
        seconds: Length of a frame; shorter if more than 1 % of the training recordings are shorter.
        seed: Seed of the kernels.

    Example:
        >>> store = clocs.ingest("synthetic", None, "store", options={"num_records": 4, "leads": 2})
        >>> random_kernels(store, np.ones(4, bool), num_features=840).policy.num_samples
        1000
    """
    table = store.table(["num_samples", "sampling_rate"])
    durations = (table.column(0).to_numpy() / table.column(1).to_numpy())[records]
    num_samples = int(min(seconds, np.quantile(durations, 0.01, method="lower")) * sampling_rate)
    policy = FramePolicy(
        num_samples=num_samples, sampling_rate=sampling_rate, leads=tuple(leads), allow_missing_leads=True
    )
    frames = Frames(store, policy, records=sample_records(records, MAX_SAMPLE_RECORDINGS, seed), all_leads=True)
    items = np.arange(len(frames))
    rocket = MiniRocket(num_features, seed).fit(frames.views(items)[:, 0])
    return RandomKernels(rocket, policy.model_copy(update={"leads": frames.leads}))


def sample_records(records: npt.NDArray[np.bool_], count: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of at most ``count`` of the recordings of a mask, drawn at random."""
    found = np.flatnonzero(records)
    if len(found) <= count:
        return records
    chosen = np.zeros(len(records), np.bool_)
    chosen[generator(seed, "sample recordings").choice(found, count, replace=False)] = True
    return chosen
