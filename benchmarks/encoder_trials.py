"""Trials in the search of an encoder: blocks of features and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from encoder_blocks import Block


@dataclass(frozen=True)
class Trial:
    """Weighted blocks of features."""

    name: str
    group: str
    """Table that the trial is in."""
    blocks: Mapping[Block, float]
    """Weight of each block; all weights are divided by their sum."""

    @property
    def about(self) -> list[dict[str, Any]]:
        """JSON description of the blocks."""
        return [{**asdict(block), "weight": weight} for block, weight in self.blocks.items()]


REFERENCE = "`clocs-small` as it is"
FOUR = ("mean", "std", "max", "min")
SHIPPED = Block("small", components="shipped")
KERNELS = Block("kernels-100-10000")
RAW = Block("small")
ROOTS = Block("small", root=True)
JOINT = Block("joint")
PCA = replace(RAW, components=128, whitening=1.0)
LEAD_MEAN = replace(RAW, leads="mean")


def _alone(group: str, blocks: Mapping[str, Block]) -> list[Trial]:
    return [Trial(name, group, {block: 1.0}) for name, block in blocks.items()]


TRIALS = [
    *_alone(
        "pooling",
        {
            REFERENCE: SHIPPED,
            "mean over frames alone": replace(SHIPPED, frames=("mean",)),
            "mean and maximum over frames": replace(SHIPPED, frames=("mean", "max")),
            "and standard deviation over frames": replace(SHIPPED, frames=("mean", "max", "min", "std")),
            "PCA of the target, 128, whitened": PCA,
            "PCA, 128, half whitened": replace(PCA, whitening=0.5),
            "PCA, 128, not whitened": replace(PCA, whitening=0.0),
            "PCA, 256, half whitened": replace(PCA, components=256, whitening=0.5),
            "PCA, 256, not whitened": replace(PCA, components=256, whitening=0.0),
            "activations, mean over time": replace(RAW, statistics=("mean",)),
            "activations, mean and maximum": RAW,
            "activations, mean and spread": replace(RAW, statistics=("mean", "std")),
            "activations, mean, spread and maximum": replace(RAW, statistics=("mean", "std", "max")),
            "activations, mean, spread, maximum and minimum": replace(RAW, statistics=FOUR),
            "PCA of all four, 256, half whitened": replace(PCA, statistics=FOUR, components=256, whitening=0.5),
            "roots of activations, mean and maximum": ROOTS,
            "roots of activations, mean, spread and maximum": replace(ROOTS, statistics=("mean", "std", "max")),
            "roots, PCA, 128, half whitened": replace(ROOTS, components=128, whitening=0.5),
            "mean over leads of the activations": LEAD_MEAN,
        },
    ),
    Trial("activations, with their mean over leads", "pooling", {RAW: 1.0, LEAD_MEAN: 1.0}),
    *_alone(
        "controls",
        {
            "random kernels, 100 Hz, 10,000": KERNELS,
            "random kernels, 250 Hz, 10,000": Block("kernels-250-10000"),
            "random kernels, 100 Hz, 20,000": Block("kernels-100-20000"),
            "untrained network": Block("untrained-24"),
            "untrained network, twice as wide": Block("untrained-48"),
        },
    ),
    Trial("untrained network and random kernels", "controls", {Block("untrained-24"): 1.0, KERNELS: 1.0}),
    Trial("`clocs-small` and random kernels", "joined", {SHIPPED: 1.0, KERNELS: 1.0}),
    Trial("the same, kernels weigh half", "joined", {SHIPPED: 1.0, KERNELS: 0.5}),
    Trial("the same, kernels weigh twice", "joined", {SHIPPED: 1.0, KERNELS: 2.0}),
    Trial("activations and random kernels", "joined", {RAW: 1.0, KERNELS: 1.0}),
    Trial("activations, their mean over leads, and kernels", "joined", {RAW: 1.0, LEAD_MEAN: 1.0, KERNELS: 1.0}),
    *_alone(
        "trained", {"joint network, activations": JOINT, "joint network, PCA, 128": replace(JOINT, components=128)}
    ),
    Trial("joint network and random kernels", "trained", {JOINT: 1.0, KERNELS: 1.0}),
    Trial("joint network and `clocs-small`", "trained", {JOINT: 1.0, SHIPPED: 1.0}),
    Trial("joint network, `clocs-small` and random kernels", "trained", {JOINT: 1.0, SHIPPED: 1.0, KERNELS: 1.0}),
    *_alone(
        "lead I",
        {
            "`clocs-small`, lead I": replace(SHIPPED, leads="I"),
            "activations, lead I": replace(RAW, leads="I"),
            "activations with spread, lead I": replace(RAW, statistics=("mean", "std", "max"), leads="I"),
        },
    ),
]
