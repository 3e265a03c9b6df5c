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
        """JSON description of the blocks: what differs from the defaults."""
        return [
            {"weight": weight, "source": block.source}
            | {key: value for key, value in asdict(block).items() if value != getattr(Block(block.source), key)}
            for block, weight in self.blocks.items()
        ]


REFERENCE = "`clocs-small` as it is"
SHIPPED = Block("small", components="shipped")
KERNELS = Block("kernels-100-10000")
RAW = Block("small")
ROOTS = Block("small", root=True)
JOINT = Block("joint")
HALF, JOINT_HALF, UNTRAINED_HALF = (
    replace(block, components=128, whitening=0.5) for block in (RAW, JOINT, Block("joint-untrained"))
)


def _alone(group: str, blocks: Mapping[str, Block]) -> list[Trial]:
    return [Trial(name, group, {block: 1.0}) for name, block in blocks.items()]


TRIALS = [
    Trial(REFERENCE, "pooling", {SHIPPED: 1.0}),
    Trial("random kernels, 100 Hz, 10,000", "controls", {KERNELS: 1.0}),
    Trial("`clocs-small` and random kernels", "joined", {SHIPPED: 1.0, KERNELS: 1.0}),
    Trial("the same, kernels weigh half", "joined", {SHIPPED: 1.0, KERNELS: 0.5}),
    *_alone(
        "pooling",
        {
            "mean over frames instead of mean, maximum and minimum": replace(SHIPPED, frames=("mean",)),
            "with the spread over frames": replace(SHIPPED, frames=("mean", "max", "min", "std")),
            "PCA on the target, 128, whitened": replace(RAW, components=128, whitening=1.0),
            "PCA on the target, 128, half whitened": HALF,
            "activations, mean over time": replace(RAW, statistics=("mean",)),
            "activations, mean and maximum": RAW,
            "activations, mean, spread and maximum": replace(RAW, statistics=("mean", "std", "max")),
            "roots of activations, mean and maximum": ROOTS,
        },
    ),
    Trial("roots of activations and random kernels", "joined", {ROOTS: 1.0, KERNELS: 1.0}),
    Trial("half whitened PCA and random kernels, which weigh half", "joined", {HALF: 1.0, KERNELS: 0.5}),
    *_alone("pooling", {"PCA on the target, half whitened, rotated, standardized": replace(HALF, rotated=True)}),
    *_alone(
        "lead I",
        {"lead I of `clocs-small`": replace(SHIPPED, leads="I"), "lead I, PCA half whitened": replace(HALF, leads="I")},
    ),
    *_alone("trained", {"joint network, activations": JOINT, "joint network, half whitened PCA, 128": JOINT_HALF}),
    Trial("half whitened joint network and random kernels", "trained", {JOINT_HALF: 1.0, KERNELS: 1.0}),
    Trial("half whitened joint network and `clocs-small`", "trained", {JOINT_HALF: 0.5, HALF: 1.0}),
    Trial("activations of the joint network and half whitened `clocs-small`", "trained", {JOINT: 1.0, HALF: 1.0}),
    Trial("the same, the joint network weighs half", "trained", {JOINT: 0.5, HALF: 1.0}),
    Trial(
        "half whitened joint network, `clocs-small` and random kernels",
        "trained",
        {JOINT_HALF: 0.5, HALF: 1.0, KERNELS: 0.5},
    ),
    Trial("untrained network", "controls", {Block("untrained-24"): 1.0}),
    Trial("untrained network and random kernels", "controls", {Block("untrained-24"): 1.0, KERNELS: 1.0}),
    Trial("untrained joint network", "controls", {Block("joint-untrained"): 1.0}),
    Trial("half whitened untrained joint network and `clocs-small`", "trained", {UNTRAINED_HALF: 0.5, HALF: 1.0}),
]
